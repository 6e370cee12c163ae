/*
 * What a world, an exchange and its statistics tell about hosts: who is where
 * and how it is reached, which algorithm is used and why, and the bytes that
 * went to other hosts beside the least that could.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#include "support/stand.h"
#include "support/ways.h"

/* ---- the world -------------------------------------------------------- */

/* The list of hosts that each way has, as the library numbers them. */
static int32_t numbered(const struct seat *seat, int32_t rank)
{
	int32_t numbers[16], next = 0;

	for (int32_t r = 0; r <= rank; r++) {
		numbers[r] = -1;
		for (int32_t s = 0; s < r && numbers[r] < 0; s++)
			if (seat->hosts[s] == seat->hosts[r])
				numbers[r] = numbers[s];
		if (numbers[r] < 0)
			numbers[r] = next++;
	}
	return numbers[rank];
}

static const char *transport_to(const struct seat *seat, int32_t rank)
{
	if (rank == seat->rank)
		return "self";
	if (seat->hosts[rank] != seat->host)
		return "verbs";
	return seat->launch == RANKS_PROCESSES ? "shm" : "threads";
}

static void look_around(struct seat *seat)
{
	for (int32_t r = 0; r < seat->num_ranks; r++) {
		const char *name = shunt_world_transport(seat->world, r);

		SEAT_CHECK(seat,
			shunt_world_host(seat->world, r) == numbered(seat, r),
			"rank %d is on host %d, not %d", r,
			shunt_world_host(seat->world, r), numbered(seat, r));
		/* Of two ranks in a process of several the pairs differ. */
		SEAT_CHECK(seat,
			seat->launch == RANKS_MIXED ||
				strcmp(name, transport_to(seat, r)) == 0,
			"rank %d is reached by %s", r, name);
	}
	SEAT_CHECK(seat,
		shunt_world_host(seat->world, -1) == -1 &&
			shunt_world_host(seat->world, seat->num_ranks) == -1 &&
			shunt_world_host(NULL, 0) == -1,
		"no rank is on a host");
	SEAT_CHECK(seat,
		shunt_world_transport(seat->world, seat->num_ranks) == NULL &&
			shunt_world_transport(NULL, 0) == NULL,
		"no rank is reached");
}

static void hosts_are_numbered_by_first_ranks_and_reached_by_verbs(void **state)
{
	(void)state;
	ways_run("01 0011 1010 2101", look_around, NULL);
}

/* ---- the exchange's info ---------------------------------------------- */

static void ask_for_info(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(4, 64, 2, 8);
	struct shunt_exchange_info info = SHUNT_EXCHANGE_INFO_INIT;
	struct shunt_exchange *exchange;
	enum shunt_algorithm asked = way_of(seat)->algorithm;

	for (int i = 0; i < 3; i++) {
		config.algorithm = i == 2 ? SHUNT_ALGORITHM_AUTO : asked;
		config.exact_sums = i == 1;
		SEAT_OK(seat, shunt_exchange_create(
				      seat->world, NULL, &config, &exchange));
		SEAT_OK(seat, shunt_exchange_info_get(exchange, &info));
		SEAT_CHECK(seat,
			info.num_hosts == 2 &&
				info.host == numbered(seat, seat->rank),
			"host %d of %d", info.host, info.num_hosts);
		SEAT_CHECK(seat, i == 2 || info.dispatch == asked,
			"dispatch by %d", info.dispatch);
		SEAT_CHECK(seat,
			info.dispatch != SHUNT_ALGORITHM_AUTO &&
				info.combine != SHUNT_ALGORITHM_AUTO,
			"AUTO is no answer");
		SEAT_CHECK(seat,
			i == 2 || info.adds_partial_sums ==
					  (asked == SHUNT_ALGORITHM_HIERARCHY &&
						  !config.exact_sums),
			"adds_partial_sums is %d", info.adds_partial_sums);
		SEAT_CHECK(seat,
			info.why[0] != '\0' &&
				memchr(info.why, '\0', sizeof(info.why)),
			"no words why");
		shunt_exchange_destroy(exchange);
	}
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_info_get(NULL, &info));
}

static void an_exchange_tells_which_algorithm_is_used_and_why(void **state)
{
	(void)state;
	ways_run("0011 1101", ask_for_info, NULL);
}

/* ---- bytes ------------------------------------------------------------ */

#define RANKS      4
#define HIDDEN     256
#define TOPK       4
#define TOKENS     3
#define ROW_BYTES  (HIDDEN + 4) /* int8 with a scale */
#define BACK_BYTES (HIDDEN * 2) /* of bf16 */

/* Two experts on each of four ranks. With hosts 0011 a rank's tokens go to two,
 * one and no ranks of the other host. */
static const int32_t ids_of_host[2][TOKENS * TOPK] = {
	{4, 6, 0, -1, 5, 1, 2, 3, 0, 1, 2, -1},
	{0, 2, 4, -1, 1, 5, 6, 7, 4, 5, 6, -1}};

static void run_step(struct seat *seat, struct shunt_exchange *exchange)
{
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	uint16_t x[TOKENS * HIDDEN] = {0}, sum[TOKENS * HIDDEN];
	struct shunt_handle handle;

	args.x = x;
	args.num_tokens = TOKENS;
	args.expert_ids = ids_of_host[seat->rank / 2];
	args.ids_type = SHUNT_INDEX_I32;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	memset(out.expert_rows, 0, (size_t)out.num_rows * BACK_BYTES);
	combine.y = out.expert_rows;
	combine.out = sum;
	SEAT_OK(seat, shunt_combine(handle, &combine));
}

static void check_bytes(struct seat *seat, const struct shunt_stats *stats)
{
	bool hierarchy = way_of(seat)->algorithm == SHUNT_ALGORITHM_HIERARCHY;
	/* Tokens 0 and 1 go to the other host, to three ranks in all. */
	int64_t rows = hierarchy ? 2 : 3, back;

	SEAT_CHECK(seat, stats->ideal_wire_bytes == 2 * ROW_BYTES,
		"the ideal is %" PRId64 " bytes", stats->ideal_wire_bytes);
	SEAT_CHECK(seat, stats->dispatch_wire_bytes >= rows * ROW_BYTES,
		"dispatch sent %" PRId64 " bytes", stats->dispatch_wire_bytes);
	/* Of the two ranks there it has four of the tokens' rows, or two; or
	 * the sums of the two tokens of one of them. */
	back = hierarchy ? 2 * BACK_BYTES
			 : (seat->rank % 2 == 0 ? 4 : 2) * BACK_BYTES;
	SEAT_CHECK(seat, stats->combine_wire_bytes >= back,
		"combine sent %" PRId64 " bytes, at least %" PRId64 " are due",
		stats->combine_wire_bytes, back);
	SEAT_CHECK(seat,
		stats->dispatch_wire_requests > 0 &&
			stats->combine_wire_requests > 0,
		"no requests");
}

static struct shunt_exchange_config bytes_config(enum shunt_algorithm algorithm)
{
	struct shunt_exchange_config config =
		trial_config(TOKENS, HIDDEN, TOPK, 2 * RANKS);

	config.quant = SHUNT_QUANT_INT8;
	config.algorithm = algorithm;
	return config;
}

static void count_bytes(struct seat *seat)
{
	struct shunt_exchange_config config =
		bytes_config(way_of(seat)->algorithm);
	struct shunt_stats stats = SHUNT_STATS_INIT;
	struct shunt_exchange *exchange;

	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	SEAT_OK(seat, shunt_stats_reset(exchange));
	run_step(seat, exchange);
	SEAT_OK(seat, shunt_stats_get(exchange, &stats));
	check_bytes(seat, &stats);
	shunt_exchange_destroy(exchange);
}

static void bytes_to_other_hosts_are_counted_beside_the_least_possible(
	void **state)
{
	(void)state;
	ways_run("0011", count_bytes, NULL);
}

static void count_no_bytes(struct seat *seat)
{
	struct shunt_exchange_config config =
		bytes_config(SHUNT_ALGORITHM_HIERARCHY);
	struct shunt_exchange_info info = SHUNT_EXCHANGE_INFO_INIT;
	struct shunt_stats stats = SHUNT_STATS_INIT;
	struct shunt_exchange *exchange;

	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	run_step(seat, exchange);
	SEAT_OK(seat, shunt_stats_get(exchange, &stats));
	SEAT_CHECK(seat,
		stats.ideal_wire_bytes == 0 && stats.dispatch_wire_bytes == 0 &&
			stats.combine_wire_bytes == 0 &&
			stats.dispatch_wire_requests == 0 &&
			stats.combine_wire_requests == 0,
		"bytes went to other hosts");
	SEAT_OK(seat, shunt_exchange_info_get(exchange, &info));
	SEAT_CHECK(seat,
		info.num_hosts == 1 && info.host == 0 &&
			!info.adds_partial_sums,
		"host %d of %d", info.host, info.num_hosts);
	shunt_exchange_destroy(exchange);
}

static void on_one_host_nothing_is_sent_to_others(void **state)
{
	(void)state;
	ranks_run_both(RANKS, count_no_bytes, NULL);
}

/* ---- sizes ------------------------------------------------------------ */

static void sizes_are_told_for_any_spread_over_hosts(void **state)
{
	struct shunt_exchange_config config =
		bytes_config(SHUNT_ALGORITHM_HIERARCHY);
	struct shunt_exchange_sizes near = SHUNT_EXCHANGE_SIZES_INIT;
	struct shunt_exchange_sizes all = SHUNT_EXCHANGE_SIZES_INIT;
	struct shunt_exchange_sizes far = SHUNT_EXCHANGE_SIZES_INIT;

	(void)state;
	all.ranks_per_host = RANKS;
	far.ranks_per_host = 2;
	assert_int_equal(
		shunt_exchange_query(&config, 0, RANKS, &near), SHUNT_OK);
	assert_int_equal(
		shunt_exchange_query(&config, 0, RANKS, &all), SHUNT_OK);
	assert_int_equal(
		shunt_exchange_query(&config, 0, RANKS, &far), SHUNT_OK);
	assert_true(near.window_bytes == all.window_bytes);
	assert_true(near.private_bytes == all.private_bytes);
	assert_true(far.worst_rows == near.worst_rows);
	assert_true(far.recv_rows == near.recv_rows);
	assert_true(far.window_bytes + far.private_bytes >
		    near.window_bytes + near.private_bytes);
	far.ranks_per_host = -1;
	assert_int_equal(
		shunt_exchange_query(&config, 0, RANKS, &far), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "ranks_per_host"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			hosts_are_numbered_by_first_ranks_and_reached_by_verbs),
		cmocka_unit_test(
			an_exchange_tells_which_algorithm_is_used_and_why),
		cmocka_unit_test(
			bytes_to_other_hosts_are_counted_beside_the_least_possible),
		cmocka_unit_test(on_one_host_nothing_is_sent_to_others),
		cmocka_unit_test(sizes_are_told_for_any_spread_over_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
