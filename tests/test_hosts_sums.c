/*
 * Sums over hosts (docs/numerics.md): the hierarchical combine adds in an order
 * of its own, always the same; exact_sums and FULLMESH give the bits of one
 * host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "reference/convert.h"
#include "support/hosts.h"
#include "support/stand.h"
#include "support/ways.h"

#define RANKS  4
#define TOKENS 6
#define HIDDEN 96
#define TOPK   8
#define STEPS  5

#define FULLMESH  SHUNT_ALGORITHM_FULLMESH
#define HIERARCHY SHUNT_ALGORITHM_HIERARCHY

/* All in f32, so that no last bit is rounded away. */
static struct shunt_exchange_config sums_config(void)
{
	struct shunt_exchange_config config =
		trial_config(TOKENS, HIDDEN, TOPK, 16);

	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	return config;
}

/* ---- the order -------------------------------------------------------- */

/* True if the step's sums have other bits than those in the plain order. */
static bool differs_from_plain_order(
	struct stand *stand, const struct trial_rule *rule)
{
	struct trial_rule plain = *rule;
	struct trial *step, *other;
	bool differs;

	plain.adds_partial_sums = false;
	step = stand_prepare_rule(stand, rule);
	other = stand_prepare_rule(stand, &plain);
	differs = memcmp(step->wanted[0].block, other->wanted[0].block,
			  (size_t)step->wanted[0].bytes) != 0;
	stand_drop(step);
	stand_drop(other);
	return differs;
}

/* What experts give, and in what their sums travel. */
struct form {
	enum shunt_dtype expert_dtype;
	bool f32_partial_sums;
};

static const struct form in_f32 = {SHUNT_DTYPE_F32, false};
static const struct form rounded = {SHUNT_DTYPE_BF16, false};
static const struct form kept = {SHUNT_DTYPE_F16, true};

static void sum_by_hosts(struct seat *seat)
{
	const struct form *form = way_of(seat)->context;
	struct shunt_exchange_config config = sums_config();
	struct trial_rule rule;
	struct stand stand;
	int differ = 0;

	config.algorithm = way_of(seat)->algorithm;
	config.expert_dtype = form->expert_dtype;
	config.f32_partial_sums = form->f32_partial_sums;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_copy_experts = 1;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < STEPS; i++) {
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		rule.percent_none = 20;
		rule.percent_special = 10;
		rule.shared_x = true;
		rule.out_dtype = SHUNT_DTYPE_F32;
		rule.weights_at_dispatch = i % 2 == 0;
		differ += differs_from_plain_order(&stand, &rule);
		trial_run(seat, stand.exchange, &rule);
	}
	SEAT_CHECK(seat, (differ > 0) == stand.info.adds_partial_sums,
		"%d steps differ from the plain order", differ);
	SEAT_CHECK(seat,
		stand.info.adds_partial_sums ==
			(config.algorithm == SHUNT_ALGORITHM_HIERARCHY),
		"adds_partial_sums is %d", stand.info.adds_partial_sums);
	stand_fini(&stand);
}

static void rows_are_added_up_host_by_host(void **state)
{
	(void)state;
	ways_run("0011 1010 0111 0121", sum_by_hosts, &in_f32);
	ways_run("0101 0121", sum_by_hosts, &rounded);
	ways_run("0011 0112", sum_by_hosts, &kept);
}

/* ---- by hand ---------------------------------------------------------- */

/* Rank 0 has the shared expert, ranks 1 .. 3 have two experts each, id 6 is a
 * copy expert. All tokens have the same choices. */
struct example {
	enum shunt_combine_quant combine_quant;
	bool f32_partial_sums, exact_sums;
	float shared; /* the row of the shared expert */
	float sum;
};

/*
 * Hosts 0 and 1 have 256 + 1 and 1 + 256, which bf16 rounds to 256; a copy of 1
 * comes twice behind them, and last 2^24, next to which there are even numbers
 * only: 514 + 2^24. In f32 they are 257; and one by one it is 516 in all.
 * Quantized, 256 is 127 times 256 / 127 in bf16, 2 + 2^-6.
 */
static const struct example examples[] = {
	{.shared = 0x1p24f, .sum = 0x1p24f + 514},
	{.f32_partial_sums = true, .shared = 0x1p24f, .sum = 0x1p24f + 516},
	{.exact_sums = true, .shared = 0x1p24f, .sum = 0x1p24f + 516},
	{.combine_quant = SHUNT_COMBINE_QUANT_INT8_8,
		.shared = 0,
		.sum = 2 * 127 * (2 + 0x1p-6f) + 2},
};

#define NUM_EXAMPLES (sizeof(examples) / sizeof(examples[0]))

static const int32_t example_ids[6] = {6, 5, 0, 2, 1, 6};
static const float example_values[6] = {256, 1, 256, 0, 0, 1};

static void give_example_rows(const struct seat *seat,
	const struct example *example, const struct shunt_dispatch_out *out)
{
	uint8_t *y = out->expert_rows;

	for (int64_t n = 0; n < out->num_rows; n++) {
		int64_t local = out->num_local_experts == 2 &&
				n >= out->expert_first_row[1];
		float value =
			seat->rank == 0
				? example->shared
				: example_values[2 * seat->rank - 2 + local];

		convert_store(SHUNT_DTYPE_BF16, &value, 1, y + 2 * n);
	}
}

static struct shunt_exchange_config example_config(
	const struct example *example)
{
	struct shunt_exchange_config config = trial_config(1, 1, 6, 6);

	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_BF16;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_copy_experts = 1;
	config.algorithm = SHUNT_ALGORITHM_HIERARCHY;
	config.combine_quant = example->combine_quant;
	config.f32_partial_sums = example->f32_partial_sums;
	config.exact_sums = example->exact_sums;
	return config;
}

static void work_out_example(struct seat *seat, const struct example *example)
{
	static const uint16_t one = 0x3f80;
	static const float x[1] = {0};
	struct shunt_exchange_config config = example_config(example);
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_exchange *exchange;
	struct shunt_handle handle;
	float sum = NAN;

	args.x = x;
	args.num_tokens = 1;
	args.expert_ids = example_ids;
	args.ids_type = SHUNT_INDEX_I32;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	give_example_rows(seat, example, &out);
	combine.y = out.expert_rows;
	combine.ori_x = &one;
	combine.out_dtype = SHUNT_DTYPE_F32;
	combine.out = &sum;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	SEAT_CHECK(seat, sum == example->sum, "example %d: %.9g, not %.9g",
		(int)(example - examples), (double)sum, (double)example->sum);
	shunt_exchange_destroy(exchange);
}

static void work_out_examples(struct seat *seat)
{
	for (size_t i = 0; i < NUM_EXAMPLES; i++)
		work_out_example(seat, &examples[i]);
}

static void sums_are_as_worked_out_by_hand(void **state)
{
	(void)state;
	ways_run("0011", work_out_examples, NULL);
}

/* ---- the same bits ---------------------------------------------------- */

struct job {
	const char *hosts; /* NULL: one host */
	enum shunt_algorithm algorithm;
	bool exact_sums;
	enum ranks_wire wire;
};

typedef float sums[RANKS][STEPS][TOKENS * HIDDEN];

/* Ranks start their parts of a step in ever another order. */
static void dawdle(const struct seat *seat, int step)
{
	usleep((useconds_t)((seat->rank * 7 + step * 3) % RANKS * 500));
}

static void sum_for_job(struct seat *seat)
{
	const struct job *job = seat->context;
	struct shunt_exchange_config config = sums_config();
	sums *all = seat->shared;
	struct trial_rule rule;
	struct trial *step;
	struct stand stand;

	config.algorithm = job->algorithm;
	config.exact_sums = job->exact_sums;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < STEPS; i++) {
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		step = stand_prepare_rule(&stand, &rule);
		dawdle(seat, i);
		stand_dispatch(&stand, step);
		dawdle(seat, 2 * i);
		stand_combine(&stand, step);
		memcpy((*all)[seat->rank][i], step->combine.out,
			sizeof((*all)[0][0]));
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void run_job(const struct job *job, sums *results)
{
	int32_t hosts[RANKS];
	struct ranks_plan plan = {
		.launch = RANKS_THREADS,
		.num_ranks = RANKS,
		.context = job,
		.shared_bytes = sizeof(*results),
		.shared_copy = results,
		.wire = job->wire,
	};

	if (job->hosts != NULL) {
		assert_true(hosts_parse(job->hosts, RANKS, hosts));
		plan.hosts = hosts;
	}
	ranks_run(&plan, sum_for_job);
}

static void exact_sums_and_fullmesh_give_the_bits_of_one_host(void **state)
{
	static const struct job jobs[] = {
		{"0011", FULLMESH, false, RANKS_ROCE},
		{"0011", HIERARCHY, true, RANKS_STRIPED},
		{"0101", HIERARCHY, true, RANKS_IWARP},
		{"0111", SHUNT_ALGORITHM_AUTO, true, RANKS_NARROW},
		{"0123", FULLMESH, true, RANKS_ROCE},
	};
	static const struct job one = {NULL, HIERARCHY, false, RANKS_ROCE};
	static sums expected, got;

	(void)state;
	if (!hosts_can(RANKS_THREADS, 4))
		skip();
	run_job(&one, &expected);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		run_job(&jobs[i], &got);
		assert_memory_equal(expected, got, sizeof(got));
	}
}

static void partial_sums_have_the_same_bits_in_every_run(void **state)
{
	static const struct job first = {"0101", HIERARCHY, false, RANKS_ROCE};
	static const struct job other = {"0011", HIERARCHY, false, RANKS_ROCE};
	static sums expected, got;
	struct job again = first;

	(void)state;
	if (!hosts_can(RANKS_THREADS, 2))
		skip();
	run_job(&first, &expected);
	for (int w = 0; w < RANKS_NUM_WIRES; w++) {
		again.wire = (enum ranks_wire)w;
		run_job(&again, &got);
		assert_memory_equal(expected, got, sizeof(got));
	}
	/* Of the ranks otherwise spread over hosts the bits are others. */
	run_job(&other, &got);
	assert_memory_not_equal(expected, got, sizeof(got));
}

/* ---- the bound -------------------------------------------------------- */

/* Of f32, and of the rows' type, bf16, to which each host's sum is rounded. */
#define UNIT     0x1p-24
#define ROW_UNIT 0x1p-8

/* x of (rank, t, h), and expert e's factor: signs and magnitudes of all kinds,
 * so that much cancels. */
static float x_at(int32_t rank, int64_t t, int64_t h)
{
	return sinf((float)(rank * 1009 + t * 131 + h * 17)) *
	       ldexpf(1, (int)((h * 5 + t) % 9));
}

static float factor_of(int64_t e)
{
	return cosf((float)(e * 71)) * ldexpf(1, (int)(e * 3 % 7));
}

/* The row of expert e at an element. */
static float row_at(enum shunt_dtype dtype, int64_t e, float x)
{
	float row = factor_of(e) * x;
	uint8_t bytes[4];

	convert_store(dtype, &row, 1, bytes);
	convert_load(dtype, bytes, 1, &row);
	return row;
}

static void fill_rows(const struct shunt_dispatch_out *out,
	enum shunt_dtype dtype, int64_t first)
{
	const float *x = out->expand_x;
	uint8_t *y = out->expert_rows;
	int64_t local = 0;

	for (int64_t n = 0; n < out->num_rows; n++) {
		while (local + 1 < out->num_local_experts &&
			n >= out->expert_first_row[local + 1])
			local++;
		for (int64_t i = n * HIDDEN; i < (n + 1) * HIDDEN; i++) {
			float row = row_at(dtype, first + local, x[i]);

			convert_store(dtype, &row, 1,
				y + i * (int64_t)convert_bytes(dtype));
		}
	}
}

/* Ends the rank unless each sum is within the bound of what the terms add up
 * In double, that sum has an error too: n units of it. */
static void check_bound(struct seat *seat, const struct form *form,
	const int32_t *ids, const float *weights, const float *sum)
{
	const double n = TOPK, gamma = (n - 1) * UNIT / (1 - (n - 1) * UNIT);
	const double row_unit =
		way_of(seat)->algorithm == FULLMESH || form->f32_partial_sums ||
				form->expert_dtype == SHUNT_DTYPE_F32
			? 0
			: ROW_UNIT;

	for (int64_t i = 0; i < TOKENS * HIDDEN; i++) {
		int64_t t = i / HIDDEN;
		double exact = 0, size = 0, bound;

		for (int64_t k = t * TOPK; k < (t + 1) * TOPK; k++) {
			float row = row_at(form->expert_dtype, ids[k],
				x_at(seat->rank, t, i % HIDDEN));
			float term = weights[k] * row;

			exact += (double)term;
			size += fabs((double)term);
		}
		bound = (gamma + row_unit * (1 + gamma) + n * 0x1p-53) * size;
		SEAT_CHECK(seat, fabs((double)sum[i] - exact) <= bound,
			"token %d has %.9g at %d, not %.9g within %g", (int)t,
			(double)sum[i], (int)(i % HIDDEN), exact, bound);
	}
}

static void sum_within_the_bound(struct seat *seat)
{
	const struct form *form = way_of(seat)->context;
	struct shunt_exchange_config config = sums_config();
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_exchange *exchange;
	struct shunt_handle handle;
	int32_t ids[TOKENS * TOPK];
	float x[TOKENS * HIDDEN], sum[TOKENS * HIDDEN], weights[TOKENS * TOPK];

	config.algorithm = way_of(seat)->algorithm;
	config.expert_dtype = form->expert_dtype;
	config.f32_partial_sums = form->f32_partial_sums;
	for (int i = 0; i < TOKENS * HIDDEN; i++)
		x[i] = x_at(seat->rank, i / HIDDEN, i % HIDDEN);
	for (int i = 0; i < TOKENS * TOPK; i++) {
		ids[i] = (i * 5 + seat->rank * 3) % 16;
		weights[i] = 0.1f + (float)(i % 7) / 7;
	}
	args.x = x;
	args.num_tokens = TOKENS;
	args.expert_ids = ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = weights;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	fill_rows(&out, form->expert_dtype, seat->rank * 16 / RANKS);
	combine.y = out.expert_rows;
	combine.out_dtype = SHUNT_DTYPE_F32;
	combine.out = sum;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	check_bound(seat, form, ids, weights, sum);
	shunt_exchange_destroy(exchange);
}

static void sums_are_within_the_documented_bound(void **state)
{
	(void)state;
	ways_run("0011 0101 0123", sum_within_the_bound, &in_f32);
	ways_run("0011 0123", sum_within_the_bound, &rounded);
	ways_run("0011 0123", sum_within_the_bound, &kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_added_up_host_by_host),
		cmocka_unit_test(sums_are_as_worked_out_by_hand),
		cmocka_unit_test(
			exact_sums_and_fullmesh_give_the_bits_of_one_host),
		cmocka_unit_test(partial_sums_have_the_same_bits_in_every_run),
		cmocka_unit_test(sums_are_within_the_documented_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
