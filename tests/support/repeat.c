/* The step of two ranks that is repeated; see repeat.h. */
#include "support/repeat.h"

const int32_t repeat_ids[REPEAT_RANKS][4] = {{0, 2, 1, 0}, {3, 0}};
const int64_t repeat_tokens[REPEAT_RANKS] = {2, 1};
const float repeat_weights[REPEAT_RANKS][4] = {{1, 2, 3, 4}, {5, 6}};
const float repeat_factors[REPEAT_RANKS][2] = {{1, 2}, {4, 8}};
const float repeat_plain_sums[REPEAT_RANKS][2] = {{1 + 4, 2 + 1}, {8 + 1}};

struct shunt_exchange_config repeat_config(void)
{
	return plain_config(2, 2, 4);
}

struct shunt_handle repeat_begin(struct plain *plain, struct seat *seat,
	const struct shunt_exchange_config *config)
{
	plain_init(plain, seat, NULL, config);
	repeat_bring_first(plain);
	plain_pass(plain);
	return plain->handle;
}

void repeat_bring_first(struct plain *plain)
{
	int32_t me = plain->seat->rank;

	plain_bring(plain, repeat_tokens[me], repeat_ids[me]);
	plain->args.weights = repeat_weights[me];
}

void repeat_bring_cached(struct plain *plain, struct shunt_handle handle)
{
	plain_bring(plain, repeat_tokens[plain->seat->rank], NULL);
	plain->args.ids_type = SHUNT_INDEX_NONE;
	plain->args.cached = handle;
}

void repeat_expect_rows(struct plain *plain)
{
	static const int32_t blocks[REPEAT_RANKS][4] = {
		{2, 3, 4, 4}, {1, 1, 1, 2}};
	static const int64_t nums[REPEAT_RANKS][2] = {{3, 1}, {1, 1}};
	int32_t me = plain->seat->rank;

	if (me == 0)
		plain_expect_rows(plain, ROWS_LIST({0, 0, 0, 0}, {0, 0, 1, 1},
						 {1, 1, 0, 1}, {0, 0, 1, 0}));
	else
		plain_expect_rows(plain, ROWS_LIST({0, 0, 0, 1}, {1, 1, 0, 0}));
	plain_expect_i32(plain->seat, "ep_recv_counts",
		plain->out.ep_recv_counts, 4, blocks[me]);
	plain_expect_i64(plain->seat, "expert_token_nums",
		plain->out.expert_token_nums, 2, nums[me]);
}

void repeat_expect_weights(struct plain *plain)
{
	if (plain->seat->rank == 0)
		plain_expect_f32(plain->seat, "expand_weights",
			plain->out.expand_weights, F32_LIST(1, 4, 6, 3));
	else
		plain_expect_f32(plain->seat, "expand_weights",
			plain->out.expand_weights, F32_LIST(2, 5));
}

void repeat_combine(struct plain *plain)
{
	static const float sums[REPEAT_RANKS][2] = {
		{1 * 1 + 2 * 4, 3 * 2 + 4 * 1}, {5 * 8 + 6 * 1}};
	int32_t me = plain->seat->rank;

	SEAT_OK(plain->seat, plain_try_combine(plain, repeat_factors[me]));
	plain_expect_sums(plain, sums[me]);
}

void repeat_step(struct plain *plain, struct shunt_handle handle)
{
	repeat_bring_cached(plain, handle);
	plain_dispatch(plain);
	repeat_expect_rows(plain);
	repeat_expect_weights(plain);
	repeat_combine(plain);
}
