/* An exchange to test on. */
#include "support/stand.h"

#include <stdlib.h>

void stand_init(struct stand *stand, struct seat *seat,
	const struct shunt_exchange_config *config)
{
	*stand = (struct stand){.seat = seat, .config = *config};
	stand->expert_rank =
		malloc((size_t)config->num_experts * sizeof(int32_t));
	SEAT_CHECK(seat, stand->expert_rank != NULL, "no memory");
	reference_place_experts(config, seat->num_ranks, stand->expert_rank);
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, NULL, config, &stand->exchange));
	stand->info = (struct shunt_exchange_info)SHUNT_EXCHANGE_INFO_INIT;
	SEAT_OK(seat, shunt_exchange_info_get(stand->exchange, &stand->info));
}

void stand_fini(struct stand *stand)
{
	shunt_exchange_destroy(stand->exchange);
	free(stand->expert_rank);
}

struct trial_rule stand_rule(struct stand *stand)
{
	return (struct trial_rule){
		.seed = 7,
		.step = stand->next_step++,
		.num_ranks = stand->seat->num_ranks,
		.config = &stand->config,
		.expert_rank = stand->expert_rank,
		.hosts = stand->seat->hosts,
		.adds_partial_sums = stand->info.adds_partial_sums,
		.weights_at_dispatch = true,
		.plain = true,
	};
}

void stand_step(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);

	trial_run(stand->seat, stand->exchange, &rule);
}

struct trial *stand_prepare_rule(
	struct stand *stand, const struct trial_rule *rule)
{
	struct trial *step = malloc(sizeof(*step));

	SEAT_CHECK(stand->seat, step != NULL, "no memory");
	trial_create(stand->seat, step, rule);
	return step;
}

struct trial *stand_prepare(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);

	return stand_prepare_rule(stand, &rule);
}

void stand_drop(struct trial *step)
{
	trial_destroy(step);
	free(step);
}

void stand_dispatch(struct stand *stand, struct trial *step)
{
	SEAT_OK(stand->seat, shunt_dispatch(stand->exchange, &step->args,
				     &step->out, &step->handle));
	trial_check_dispatch(stand->seat, step);
	trial_make_rows(stand->seat, step);
}

void stand_combine(struct stand *stand, struct trial *step)
{
	SEAT_OK(stand->seat, shunt_combine(step->handle, &step->combine));
	trial_check_combine(stand->seat, step);
}
