/* Exchanges that ranks are left out of; see elastic.h. */
#include "support/elastic.h"

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
