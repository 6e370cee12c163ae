/* The step of two ranks; see pair.h. */
#include "support/pair.h"

const int32_t pair_ids[PAIR_RANKS][6] = {{0, 1, 0, 2, 1, 0}, {2, 0, 0, 0}};
const int64_t pair_tokens[PAIR_RANKS] = {3, 2};
const float pair_weights[PAIR_RANKS][6] = {
	{0.5f, 1, 1.5f, 2, 2.5f, 3}, {10, 20, 30, 40}};
const float pair_factors[PAIR_RANKS][2] = {{1, 2}, {4, 8}};
const float pair_sums[PAIR_RANKS][3] = {{3, 5, 3}, {5, 2}};

struct shunt_exchange_config pair_config(enum shunt_layout layout)
{
	struct shunt_exchange_config config = plain_config(3, 2, 4);

	config.layout = layout;
	return config;
}

void pair_dispatch(struct plain *plain, struct seat *seat,
	const struct shunt_exchange_config *config)
{
	plain_init(plain, seat, NULL, config);
	plain_bring(plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	plain->args.weights = pair_weights[seat->rank];
	plain_dispatch(plain);
}

void pair_combine(struct plain *plain)
{
	static const float ones[6] = {1, 1, 1, 1, 1, 1};
	int32_t rank = plain->seat->rank;

	plain->combine.weights = ones;
	SEAT_OK(plain->seat, plain_try_combine(plain, pair_factors[rank]));
	plain_expect_sums(plain, pair_sums[rank]);
	plain_fini(plain);
}

void pair_expect_counts(struct plain *plain)
{
	static const int32_t blocks[PAIR_RANKS][4] = {
		{3, 6, 8, 8}, {1, 2, 2, 2}};
	static const int64_t nums[PAIR_RANKS][2] = {{6, 2}, {2, 0}};
	static const int64_t rows[PAIR_RANKS] = {8, 2};
	struct seat *seat = plain->seat;
	const struct shunt_dispatch_out *out = &plain->out;

	plain_expect_i32(seat, "ep_recv_counts", out->ep_recv_counts, 4,
		blocks[seat->rank]);
	plain_expect_i64(seat, "expert_token_nums", out->expert_token_nums, 2,
		nums[seat->rank]);
	plain_expect_i64(
		seat, "num_rows", &out->num_rows, 1, rows + seat->rank);
	SEAT_CHECK(seat, out->num_local_experts == 2, "%d local experts",
		(int)out->num_local_experts);
	SEAT_CHECK(seat, !out->tp_recv_counts, "tp_recv_counts without TP");
	SEAT_CHECK(seat, !out->dynamic_scales && !out->row_scales,
		"scales without quantization");
}
