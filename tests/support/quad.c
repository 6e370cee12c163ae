/* The step of two by two ranks; see quad.h. */
#include "support/quad.h"

static struct shunt_group *quad_group(struct seat *seat, const char *name,
	int32_t first, int32_t step, int32_t count)
{
	struct shunt_group *group = NULL;
	int32_t ranks[8];

	for (int32_t i = 0; i < count; i++)
		ranks[i] = first + i * step;
	SEAT_OK(seat,
		shunt_group_create(seat->world, ranks, count, name, 0, &group));
	return group;
}

struct quad_groups quad_make_groups(struct seat *seat, int32_t num_ranks)
{
	int32_t tp_size = seat->num_ranks / num_ranks;
	int32_t r = seat->rank % num_ranks;

	return (struct quad_groups){
		.ep = quad_group(seat, "ep", seat->rank - r, 1, num_ranks),
		.tp = quad_group(seat, "tp", r, num_ranks, tp_size),
	};
}

void quad_drop_groups(struct quad_groups *groups)
{
	shunt_group_destroy(groups->ep);
	shunt_group_destroy(groups->tp);
}

const int32_t quad_ids[4][4] = {{0, 2}, {0, 1}, {1, 0, 2, 2}, {3, 0}};
const int64_t quad_tokens[4] = {1, 1, 2, 1};

const float quad_factors[4][2] = {{1, 2}, {4, 8}, {16, 32}, {64, 128}};

const struct plain_row quad_own_first[4][6] = {
	{{0, 0, 0, 0}, {1, 1, 0, 0}, {2, 0, 0, 1}, {3, 1, 0, 1}, {1, 1, 0, 1},
		{2, 0, 0, 0}},
	{{0, 0, 0, 1}, {2, 0, 1, 0}, {2, 0, 1, 1}, {3, 1, 0, 0}},
	{{2, 0, 0, 1}, {3, 1, 0, 1}, {0, 0, 0, 0}, {1, 1, 0, 0}, {2, 0, 0, 0},
		{1, 1, 0, 1}},
	{{2, 0, 1, 0}, {2, 0, 1, 1}, {0, 0, 0, 1}, {3, 1, 0, 0}}};
static const int32_t quad_own_counts_first[4][8] = {{1, 2, 2, 3, 1, 2, 3, 3},
	{1, 1, 1, 1, 2, 2, 2, 3}, {1, 2, 3, 3, 1, 2, 2, 3},
	{2, 2, 2, 3, 1, 1, 1, 1}};

void quad_bring(struct plain *plain)
{
	int32_t rank = plain->seat->rank;

	plain_bring(plain, quad_tokens[rank], quad_ids[rank]);
}

void quad_dispatch(struct plain *plain, struct seat *seat,
	const struct quad_groups *groups,
	const struct shunt_exchange_config *config)
{
	plain_init(plain, seat, groups->ep, config);
	quad_bring(plain);
	plain_dispatch(plain);
}

struct shunt_exchange_config quad_config(const struct quad_groups *groups)
{
	struct shunt_exchange_config config = plain_config(2, 2, 4);

	config.tp_group = groups->tp;
	return config;
}

void quad_combine(struct plain *plain)
{
	static const float sums[4][2] = {
		{17 * 5}, {17 * 3}, {17 * 3, 17 * 8}, {17 * 9}};
	int32_t rank = plain->seat->rank;

	SEAT_OK(plain->seat, plain_try_combine(plain, quad_factors[rank]));
	plain_expect_sums(plain, sums[rank]);
}

void quad_expect_step(struct plain *plain, bool rank_order)
{
	static const int32_t tp_counts[2][2] = {{3, 3}, {1, 3}};
	static const int64_t nums[2][2] = {{4, 2}, {3, 1}};
	struct seat *seat = plain->seat;
	int32_t r = seat->rank % 2;
	int32_t as = rank_order ? r : seat->rank;

	plain_expect_rows(plain, r == 0 ? 6 : 4, quad_own_first[as]);
	plain_expect_i32(seat, "ep_recv_counts", plain->out.ep_recv_counts, 8,
		quad_own_counts_first[as]);
	plain_expect_i32(seat, "tp_recv_counts", plain->out.tp_recv_counts, 2,
		tp_counts[r]);
	plain_expect_i64(seat, "expert_token_nums",
		plain->out.expert_token_nums, 2, nums[r]);
	quad_combine(plain);
}
