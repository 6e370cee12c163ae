/*
 * Tables of an elastic case: from one group of steps to the next more ranks
 * are gone. Of each shared expert as many replicas go as of the others, and at
 * least one stays; so does a MoE rank.
 */
#include "support/sweep.h"

/* Which ranks are gone for table `number`, those of earlier ones included. */
static void draw_losses(
	const struct sweep_case *sweep, int64_t number, bool *gone)
{
	const struct shunt_exchange_config *config = &sweep->config;
	int32_t shared = config->num_shared_ranks, left, replicas, lost;
	int32_t moe = sweep->num_ranks - shared;

	lost = (int32_t)sweep_draw(sweep, DRAW_TABLE, 100 * number, 0, moe - 1);
	left = moe;
	for (int32_t r = shared; r < sweep->num_ranks; r++)
		left -= gone[r];
	for (int32_t i = 0; i < lost; i++) {
		int32_t r = shared + (int32_t)sweep_draw(sweep, DRAW_TABLE,
					     100 * number + 1 + i, 0, moe - 1);

		if (!gone[r] && left > 1) {
			gone[r] = true;
			left--;
		}
	}
	if (shared == 0)
		return;
	/* The replica of the same number of each shared expert. */
	replicas = shared / (int32_t)config->num_shared_experts;
	left = 0;
	for (int32_t i = 0; i < replicas; i++)
		left += !gone[i];
	for (int32_t i = 0; i < replicas; i++) {
		if (gone[i] || left == 1 ||
			!sweep_chance(
				sweep, DRAW_TABLE, 100 * number + 90 + i, 30))
			continue;
		left--;
		for (int32_t r = i; r < shared; r += replicas)
			gone[r] = true;
	}
}

static void write_table(
	const struct sweep_case *sweep, const bool *gone, int32_t *table)
{
	const struct shunt_exchange_config *config = &sweep->config;
	int32_t ranks = sweep->num_ranks, count = 0, shared = 0;
	int64_t share =
		config->num_experts / (ranks - config->num_shared_ranks);

	for (int32_t r = 0; r < ranks; r++)
		table[4 + ranks + r] = -1;
	for (int32_t r = 0; r < ranks; r++) {
		table[4 + r] = gone[r] ? -1 : count;
		if (gone[r])
			continue;
		table[4 + ranks + count] = r;
		shared += r < config->num_shared_ranks;
		count++;
	}
	table[0] = 1;
	table[1] = count;
	table[2] = shared;
	table[3] = (int32_t)(share * (count - shared));
}

void sweep_draw_tables(struct sweep_case *sweep)
{
	bool gone[SWEEP_MAX_SEATS] = {false};

	sweep->first_table = sweep_draw(sweep, DRAW_TABLE, 90000, 0, 1);
	sweep->num_tables =
		sweep_draw(sweep, DRAW_TABLE, 90001, 1, SWEEP_MAX_TABLES);
	for (int64_t i = 0; i < sweep->num_tables; i++) {
		draw_losses(sweep, i, gone);
		write_table(sweep, gone, sweep->tables[i]);
	}
}

const int32_t *sweep_table(const struct sweep_case *sweep, int64_t group)
{
	int64_t i = group - sweep->first_table;

	if (sweep->num_tables == 0 || i < 0)
		return NULL;
	return sweep->tables[i < sweep->num_tables ? i : sweep->num_tables - 1];
}
