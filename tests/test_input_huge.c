/*
 * More than 2 GiB from one rank to another in a step, at offsets beyond 4 GiB:
 * every size and offset has to be 64 bits wide. Needs 14 GiB of free memory,
 * and is skipped where there is less.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scale.h"
#include "support/stand.h"

#define HIDDEN (INT64_C(1) << 20)
#define TOKENS INT64_C(513) /* of 4 MiB each: 2052 MiB */
#define DEPTH  2
#define GIB    (INT64_C(1) << 30)

static int64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	long long kib = 0;
	char line[128];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
			break;
	if (file != NULL)
		fclose(file);
	return kib * 1024;
}

static float element(int64_t step, int64_t t, int64_t h)
{
	return (float)((step * 31 + t * 7919 + h) & 0xffffff);
}

static void fill_x(float *x, int64_t step)
{
	for (int64_t t = 0; t < TOKENS; t++)
		for (int64_t h = 0; h < HIDDEN; h++)
			x[t * HIDDEN + h] = element(step, t, h);
}

static void check_x(struct seat *seat, const float *x, int64_t step)
{
	for (int64_t t = 0; t < TOKENS; t++)
		for (int64_t h = 0; h < HIDDEN; h++)
			SEAT_CHECK(seat,
				x[t * HIDDEN + h] == element(step, t, h),
				"step %d row %d element %d is wrong", (int)step,
				(int)t, (int)h);
}

/* The experts' rows: bf16 whose bits name the step and the row. */
static uint16_t answer(int64_t step, int64_t t)
{
	return (uint16_t)(0x3f80 + step * 1024 + t);
}

static void fill_rows(uint16_t *rows, int64_t step)
{
	for (int64_t t = 0; t < TOKENS; t++)
		for (int64_t h = 0; h < HIDDEN; h++)
			rows[t * HIDDEN + h] = answer(step, t);
}

static void check_out(struct seat *seat, const uint16_t *out, int64_t step)
{
	for (int64_t t = 0; t < TOKENS; t++)
		for (int64_t h = 0; h < HIDDEN; h++)
			SEAT_CHECK(seat, out[t * HIDDEN + h] == answer(step, t),
				"step %d token %d element %d is wrong",
				(int)step, (int)t, (int)h);
}

struct huge {
	struct seat *seat;
	struct shunt_exchange *exchange;
	float *x;
	uint16_t *out;
	struct shunt_handle handles[DEPTH];
	struct shunt_dispatch_out received[DEPTH];
};

/* Rank 0 has the tokens, rank 1 the expert. */
static void send(struct huge *huge, int64_t step)
{
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	static const int32_t ids[TOKENS] = {0};

	args.ids_type = SHUNT_INDEX_I32;
	if (huge->seat->rank == 0) {
		fill_x(huge->x, step);
		args.num_tokens = TOKENS;
		args.x = huge->x;
		args.expert_ids = ids;
	}
	huge->received[step] =
		(struct shunt_dispatch_out)SHUNT_DISPATCH_OUT_INIT;
	SEAT_OK(huge->seat,
		shunt_dispatch(huge->exchange, &args, &huge->received[step],
			&huge->handles[step]));
	if (huge->seat->rank == 0)
		return;
	SEAT_CHECK(huge->seat, huge->received[step].num_rows == TOKENS, "rows");
	check_x(huge->seat, huge->received[step].expand_x, step);
}

static void bring_home(struct huge *huge, int64_t step)
{
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;

	if (huge->seat->rank == 1)
		fill_rows(huge->received[step].expert_rows, step);
	combine.y = huge->received[step].expert_rows;
	combine.out = huge->out;
	SEAT_OK(huge->seat, shunt_combine(huge->handles[step], &combine));
	if (huge->seat->rank == 0)
		check_out(huge->seat, huge->out, step);
}

static void exchange_much(struct seat *seat)
{
	static const int32_t placement[1] = {1};
	struct shunt_exchange_config config =
		trial_config(TOKENS, HIDDEN, 1, 1);
	struct huge huge = {.seat = seat};

	config.dtype = SHUNT_DTYPE_F32;
	config.expert_rank = placement;
	config.max_recv_rows = TOKENS;
	config.depth = DEPTH;
	config.deadline_ns = INT64_C(300) * 1000000000;
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, NULL, &config, &huge.exchange));
	if (seat->rank == 0) {
		huge.x = malloc((size_t)(TOKENS * HIDDEN) * sizeof(float));
		huge.out = malloc((size_t)(TOKENS * HIDDEN) * 2);
		SEAT_CHECK(seat, huge.x != NULL && huge.out != NULL, "memory");
	}
	for (int64_t step = 0; step < DEPTH; step++)
		send(&huge, step);
	for (int64_t step = 0; step < DEPTH; step++)
		bring_home(&huge, step);
	free(huge.x);
	free(huge.out);
	shunt_exchange_destroy(huge.exchange);
}

static void run_huge(enum ranks_launch launch)
{
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = 2,
		.seconds = 600,
	};

	if (scale_is_small() || available_bytes() < 14 * GIB)
		skip();
	ranks_run(&plan, exchange_much);
}

static void payloads_over_2_gib_and_offsets_over_4_gib_are_exact_for_threads(
	void **state)
{
	(void)state;
	run_huge(RANKS_THREADS);
}

static void payloads_over_2_gib_and_offsets_over_4_gib_are_exact_for_processes(
	void **state)
{
	(void)state;
	run_huge(RANKS_PROCESSES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			payloads_over_2_gib_and_offsets_over_4_gib_are_exact_for_threads),
		cmocka_unit_test(
			payloads_over_2_gib_and_offsets_over_4_gib_are_exact_for_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
