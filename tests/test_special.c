/*
 * Constant experts: their dot products, the softmax between them, and the
 * term. Every instruction set of this machine against plain code, to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "combine/acc.h"
#include "support/levels.h"
#include "support/operand.h"

#define MAX_HIDDEN 7169
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const int64_t shapes[] = {
	1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 64, 100, 353, 7168, 7169};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

struct bench {
	struct levels levels;
	struct operand a, b;
	struct moat out;
	uint64_t random;
	float first[MAX_HIDDEN];
	float want[MAX_HIDDEN];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	levels_init(&bench->levels);
	operand_init(&bench->a, MAX_HIDDEN);
	operand_init(&bench->b, MAX_HIDDEN);
	moat_init(&bench->out, MAX_HIDDEN * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	operand_fini(&bench->a);
	operand_fini(&bench->b);
	moat_fini(&bench->out);
	free(bench);
	return 0;
}

/* To the bit, but that any NaN is as good as another. */
static void check_same(float got, float want, const char *level,
	const char *what, int64_t hidden)
{
	if (isnan(got) && isnan(want))
		return;
	if (operand_to_bits(got) != operand_to_bits(want))
		fail_msg("%s: %s, H %lld: %a, not %a", level, what,
			(long long)hidden, (double)got, (double)want);
}

/* ---- dot products ------------------------------------------------------- */

static void check_dot(
	struct bench *bench, enum shunt_dtype dtype, int64_t hidden)
{
	float want = operand_dot(bench->a.values, bench->b.values, hidden);

	for (int i = 0; i < bench->levels.num; i++)
		check_same(bench->levels.tables[i]->dot[dtype](
				   bench->a.row, bench->b.row, hidden),
			want, bench->levels.tables[i]->name, "dot", hidden);
}

static void a_dot_product_is_summed_in_16_lanes(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			operand_draw(&bench->a, dtypes[j % 3], j / 3, shapes[i],
				&bench->random);
			operand_draw(&bench->b, dtypes[j % 3],
				j % 2 ? OPERAND_PLAIN : j / 3, shapes[i],
				&bench->random);
			check_dot(bench, dtypes[j % 3], shapes[i]);
		}
}

/* Each element alone, so that its lane and its place in the tree show. */
static void every_lane_has_its_place_in_the_tree(void **state)
{
	struct bench *bench = *state;

	for (int64_t huge = 0; huge < 40; huge++)
		for (int64_t tiny = 0; tiny < 40; tiny++) {
			for (int64_t h = 0; h < 40; h++) {
				bench->a.values[h] = 1.0f;
				bench->b.values[h] = 0x1p-24f;
			}
			bench->b.values[tiny] = 0x1p-23f;
			bench->b.values[huge] = 1.0f;
			operand_put(&bench->a, SHUNT_DTYPE_F32, 40, 0);
			operand_put(&bench->b, SHUNT_DTYPE_F32, 40, 0);
			check_dot(bench, SHUNT_DTYPE_F32, 40);
		}
}

static void a_dot_product_of_negative_zeros_is_zero(void **state)
{
	struct bench *bench = *state;
	const float one = 1.0f, zero = -0.0f;

	for (int i = 0; i < bench->levels.num; i++)
		check_same(bench->levels.tables[i]->dot[SHUNT_DTYPE_F32](
				   &one, &zero, 1),
			0.0f, bench->levels.tables[i]->name, "dot", 1);
}

/* ---- softmax ------------------------------------------------------------ */

static void check_softmax(float a1, float a2, float p1, float p2)
{
	float got1, got2;

	acc_softmax(a1, a2, &got1, &got2);
	check_same(got1, p1, "p1", "softmax", 0);
	check_same(got2, p2, "p2", "softmax", 0);
}

static void a_softmax_takes_the_larger_one_off(void **state)
{
	struct bench *bench = *state;

	check_softmax(0.0f, 0.0f, 0.5f, 0.5f);
	check_softmax(3e38f, 3e38f, 0.5f, 0.5f);
	check_softmax(3e38f, -3e38f, 1.0f, 0.0f);
	check_softmax(-200.0f, 0.0f, 0.0f, 1.0f);
	for (int i = 0; i < 100000; i++) {
		float a1 = operand_value(OPERAND_PLAIN, &bench->random);
		float a2 = operand_value(OPERAND_PLAIN, &bench->random);
		float max = a1 < a2 ? a2 : a1;
		volatile float e1 = (float)exp((double)operand_plus(a1, -max));
		volatile float e2 = (float)exp((double)operand_plus(a2, -max));
		volatile float sum = e1 + e2;
		volatile float p1 = e1 / sum, p2 = e2 / sum;

		check_softmax(a1, a2, p1, p2);
	}
}

static void a_softmax_of_no_numbers_is_no_number(void **state)
{
	(void)state;
	check_softmax(NAN, 1.0f, NAN, NAN);
	check_softmax(1.0f, NAN, NAN, NAN);
	check_softmax(INFINITY, 1.0f, NAN, NAN);
	check_softmax(1.0f, INFINITY, NAN, NAN);
	check_softmax(-INFINITY, -INFINITY, NAN, NAN);
	check_softmax(-INFINITY, 1.0f, 0.0f, 1.0f);
	check_softmax(1.0f, -INFINITY, 1.0f, 0.0f);
}

/* ---- the term ----------------------------------------------------------- */

static void check_constant(struct bench *bench, enum shunt_dtype dtype,
	const struct acc_constant *constant, const float *weight,
	int64_t hidden)
{
	size_t bytes = (size_t)hidden * sizeof(float);

	for (int64_t h = 0; h < hidden; h++) {
		float m1 = operand_times(constant->p1, bench->a.values[h]);
		float m2 = operand_times(constant->p2, bench->b.values[h]);
		float term = operand_plus(m1, m2);

		bench->want[h] = operand_plus(bench->first[h],
			weight ? operand_times(*weight, term) : term);
	}
	for (int i = 0; i < bench->levels.num; i++) {
		const struct acc_kernels *kernels = bench->levels.tables[i];
		float *acc = moat_open(&bench->out, bytes,
			operand_random(&bench->random) & 60);

		memcpy(acc, bench->first, bytes);
		kernels->add_constant[dtype](acc, constant, weight, hidden);
		moat_check(&bench->out);
		for (int64_t h = 0; h < hidden; h++)
			check_same(acc[h], bench->want[h], kernels->name,
				"add_constant", hidden);
	}
}

static void a_constant_expert_mixes_the_token_and_its_value(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			enum shunt_dtype dtype = dtypes[j % 3];
			uint64_t *random = &bench->random;
			enum operand_kind kind = j / 3;
			float weight = operand_value(kind, random);
			struct acc_constant constant = {
				.p1 = operand_value(OPERAND_PLAIN, random),
				.p2 = operand_value(kind, random),
			};

			for (int64_t h = 0; h < shapes[i]; h++)
				bench->first[h] = operand_value(kind, random);
			operand_draw(&bench->a, dtype, kind, shapes[i], random);
			operand_draw(&bench->b, dtype, kind, shapes[i], random);
			constant.x = bench->a.row;
			constant.v = bench->b.row;
			check_constant(
				bench, dtype, &constant, &weight, shapes[i]);
			check_constant(
				bench, dtype, &constant, NULL, shapes[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dot_product_is_summed_in_16_lanes),
		cmocka_unit_test(every_lane_has_its_place_in_the_tree),
		cmocka_unit_test(a_dot_product_of_negative_zeros_is_zero),
		cmocka_unit_test(a_softmax_takes_the_larger_one_off),
		cmocka_unit_test(a_softmax_of_no_numbers_is_no_number),
		cmocka_unit_test(
			a_constant_expert_mixes_the_token_and_its_value),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
