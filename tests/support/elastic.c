/* Exchanges that ranks are left out of; see elastic.h. */
#include "support/elastic.h"

#include "support/ways.h"

const int32_t elastic_example[12] = {1, 3, 0, 24, 0, -1, 1, 2, 0, 2, 3, -1};
const int32_t elastic_without_1[12] = {1, 3, 0, 6, 0, -1, 1, 2, 0, 2, 3, -1};
const int32_t elastic_only_0_and_2[12] = {
	1, 2, 0, 4, 0, -1, 1, -1, 0, 2, -1, -1};

struct shunt_exchange_config elastic_config(int64_t experts_per_rank)
{
	struct shunt_exchange_config config =
		plain_config(2, 2, ELASTIC_RANKS * experts_per_rank);

	config.elastic = true;
	return config;
}

struct shunt_exchange_config elastic_shared_config(void)
{
	struct shunt_exchange_config config = plain_config(1, 1, 2);

	config.num_shared_experts = 2;
	config.num_shared_ranks = 4;
	config.elastic = true;
	return config;
}

void elastic_bring(struct plain *plain, int64_t num_tokens, const int32_t *ids,
	const int32_t *table)
{
	plain_bring(plain, num_tokens, ids);
	plain->args.elastic_info = table;
	plain->combine.elastic_info = table;
}

/* Without the last rank, the last two, the last three. */
static const int32_t without_last[ELASTIC_RANKS - 1][12] = {
	{1, 3, 0, 6, 0, 1, 2, -1, 0, 1, 2, -1},
	{1, 2, 0, 4, 0, 1, -1, -1, 0, 1, -1, -1},
	{1, 1, 0, 2, 0, -1, -1, -1, 0, -1, -1, -1},
};

struct shunt_exchange_config elastic_trial_config(
	const struct seat *seat, int32_t depth)
{
	struct shunt_exchange_config config = trial_config(6, 96, 3, 8);

	config.elastic = true;
	config.depth = depth;
	config.algorithm = way_of(seat)->algorithm;
	config.deadline_ns = INT64_C(60000000000);
	return config;
}

struct trial *elastic_prepare(struct stand *stand, int32_t end)
{
	struct trial_rule rule = stand_rule(stand);

	if (end < ELASTIC_RANKS)
		rule.table = without_last[ELASTIC_RANKS - 1 - end];
	return stand_prepare_rule(stand, &rule);
}

void elastic_run(struct stand *stand, int32_t end, int32_t count)
{
	for (int32_t i = 0; i < count; i++) {
		struct trial *step = elastic_prepare(stand, end);

		stand_dispatch(stand, step);
		stand_combine(stand, step);
		stand_drop(step);
	}
}
