/* An exchange to test on. */
#include "support/stand.h"

#include <stdlib.h>

void stand_init(struct stand *stand, struct seat *seat,
	const struct shunt_exchange_config *config)
{
	struct stand_part all = {
		.num_ranks = seat->num_ranks,
		.hosts = seat->hosts,
	};

	stand_init_part(stand, seat, &all, config);
}

void stand_init_part(struct stand *stand, struct seat *seat,
	const struct stand_part *part,
	const struct shunt_exchange_config *config)
{
	*stand = (struct stand){.seat = seat, .part = *part, .config = *config};
	stand->expert_rank =
		malloc((size_t)config->num_experts * sizeof(int32_t));
	SEAT_CHECK(seat, stand->expert_rank != NULL, "no memory");
	reference_place_experts(config, part->num_ranks, stand->expert_rank);
	SEAT_OK(seat, shunt_exchange_create(seat->world, part->group, config,
			      &stand->exchange));
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
		.num_ranks = stand->part.num_ranks,
		.members = stand->part.members,
		.config = &stand->config,
		.expert_rank = stand->expert_rank,
		.hosts = stand->part.hosts,
		.adds_partial_sums = stand->info.adds_partial_sums,
		.weights_at_dispatch = true,
		.plain = true,
	};
}

struct trial_rule stand_draw(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);
	struct input_key key = {99, rule.step, 0};

	rule.style = (enum input_style)input_range(
		&key, 1, 0, 0, INPUT_NUM_STYLES - 1);
	rule.routing = (enum input_routing)input_range(
		&key, 2, 0, 0, INPUT_NUM_ROUTINGS - 1);
	if (input_range(&key, 3, 0, 0, 3) == 0)
		rule.tokens = (enum trial_tokens)input_range(
			&key, 4, 0, 0, TRIAL_TOKENS_NUM - 1);
	rule.mask =
		(enum shunt_mask)input_range(&key, 5, 0, 0, SHUNT_MASK_CHOICES);
	rule.percent_masked = (int)input_range(&key, 6, 0, 0, 60);
	rule.percent_none = (int)input_range(&key, 7, 0, 0, 30);
	rule.weights_at_dispatch = input_range(&key, 8, 0, 0, 1);
	rule.weights_at_combine = input_range(&key, 9, 0, 0, 2) == 0;
	rule.smooth = input_range(&key, 10, 0, 0, 3) == 0;
	rule.plain = false;
	return rule;
}

void stand_step(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);

	trial_run(stand->seat, stand->exchange, &rule);
}

void stand_steps_of(
	struct stand *stand, const int64_t *tokens, size_t num_steps)
{
	for (size_t i = 0; i < num_steps; i++) {
		struct trial_rule rule = stand_rule(stand);

		rule.token_list = tokens + i * (size_t)stand->seat->num_ranks;
		trial_run(stand->seat, stand->exchange, &rule);
	}
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
