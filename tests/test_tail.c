/*
 * The fused tail: residual, root mean square, gamma. Every instruction set of
 * this machine against plain code, to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "combine/acc.h"
#include "reference/convert.h"
#include "support/levels.h"
#include "support/operand.h"

#define MAX_HIDDEN 7169
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const int64_t shapes[] = {
	1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 64, 100, 353, 7168, 7169};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* One token's tail, plain: the inputs, and what becomes of them. */
struct bench {
	struct levels levels;
	struct operand residual, gamma;
	struct moat out;
	uint64_t random;
	enum shunt_dtype dtype, gamma_dtype;
	int64_t hidden;
	float acc[MAX_HIDDEN];
	float z[MAX_HIDDEN];
	float squares;
	float rstd;
	uint8_t want_out[MAX_HIDDEN * sizeof(float)];
	uint8_t want_norm[MAX_HIDDEN * sizeof(float)];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	levels_init(&bench->levels);
	operand_init(&bench->residual, MAX_HIDDEN);
	operand_init(&bench->gamma, MAX_HIDDEN);
	moat_init(&bench->out, MAX_HIDDEN * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	operand_fini(&bench->residual);
	operand_fini(&bench->gamma);
	moat_fini(&bench->out);
	free(bench);
	return 0;
}

static float canonical(float value)
{
	return isnan(value) ? operand_from_bits(0x7fc00000) : value;
}

/* ---- the plain tail ----------------------------------------------------- */

static void plain_add(struct bench *bench, bool has_residual)
{
	static float out[MAX_HIDDEN];

	for (int64_t h = 0; h < bench->hidden; h++) {
		float z = bench->acc[h];

		if (has_residual)
			z = operand_plus(z, bench->residual.values[h]);
		bench->z[h] = z;
		out[h] = canonical(z);
	}
	bench->squares = operand_dot(bench->z, bench->z, bench->hidden);
	convert_store(bench->dtype, out, bench->hidden, bench->want_out);
}

static void plain_norm(struct bench *bench)
{
	static float norm[MAX_HIDDEN];

	for (int64_t h = 0; h < bench->hidden; h++)
		norm[h] = canonical(operand_times(bench->z[h], bench->rstd));
	convert_store(bench->dtype, norm, bench->hidden, bench->want_norm);
	convert_load(bench->dtype, bench->want_norm, bench->hidden, norm);
	for (int64_t h = 0; h < bench->hidden; h++)
		norm[h] = canonical(
			operand_times(norm[h], bench->gamma.values[h]));
	convert_store(bench->dtype, norm, bench->hidden, bench->want_norm);
}

/* ---- comparing ---------------------------------------------------------- */

static void *open_out(struct bench *bench)
{
	return moat_open(&bench->out,
		(size_t)bench->hidden * convert_bytes(bench->dtype),
		operand_random(&bench->random) & 63);
}

static void check_out(const struct bench *bench, const void *got,
	const void *want, const char *level, const char *what)
{
	size_t bytes = (size_t)bench->hidden * convert_bytes(bench->dtype);

	moat_check(&bench->out);
	if (memcmp(got, want, bytes) != 0)
		fail_msg("%s: %s differs, types %d and %d, H %lld", level, what,
			(int)bench->dtype, (int)bench->gamma_dtype,
			(long long)bench->hidden);
}

static void check_same(
	const struct bench *bench, float got, float want, const char *level)
{
	if (operand_to_bits(canonical(got)) != operand_to_bits(canonical(want)))
		fail_msg("%s: %a, not %a, type %d, H %lld", level, (double)got,
			(double)want, (int)bench->dtype,
			(long long)bench->hidden);
}

static void check_level(struct bench *bench, const struct acc_kernels *kernels,
	bool has_residual)
{
	static float z[MAX_HIDDEN];
	void *out = open_out(bench);
	float squares;

	memcpy(z, bench->acc, sizeof(z));
	squares = kernels->tail_add[bench->dtype](out, z,
		has_residual ? bench->residual.row : NULL, bench->hidden);
	check_out(bench, out, bench->want_out, kernels->name, "out");
	check_same(bench, squares, bench->squares, kernels->name);
	for (int64_t h = 0; h < bench->hidden; h++)
		check_same(bench, z[h], bench->z[h], kernels->name);
	out = open_out(bench);
	kernels->tail_norm[bench->dtype][bench->gamma_dtype](
		out, z, bench->rstd, bench->gamma.row, bench->hidden);
	check_out(bench, out, bench->want_norm, kernels->name, "norm_out");
}

static void check_tail(struct bench *bench, bool has_residual)
{
	plain_add(bench, has_residual);
	bench->rstd = acc_rstd(bench->squares, bench->hidden, 1e-6f);
	plain_norm(bench);
	for (int i = 0; i < bench->levels.num; i++)
		check_level(bench, bench->levels.tables[i], has_residual);
}

/* ---- tails -------------------------------------------------------------- */

static void draw_tail(struct bench *bench, enum operand_kind kind)
{
	uint64_t *random = &bench->random;

	for (int64_t h = 0; h < bench->hidden; h++)
		bench->acc[h] = operand_value(kind, random);
	operand_draw(
		&bench->residual, bench->dtype, kind, bench->hidden, random);
	operand_draw(&bench->gamma, bench->gamma_dtype,
		kind == OPERAND_BITS ? kind : OPERAND_PLAIN, bench->hidden,
		random);
}

static void tails_of_every_kind_and_length_have_the_plain_bits(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 6 * OPERAND_NUM_KINDS; j++) {
			bench->hidden = shapes[i];
			bench->dtype = dtypes[j % 3];
			bench->gamma_dtype =
				j / 3 % 2 ? bench->dtype : SHUNT_DTYPE_F32;
			draw_tail(bench, j / 6);
			check_tail(bench, true);
			check_tail(bench, false);
		}
}

static void rstd_is_one_over_the_root_of_the_mean(void **state)
{
	struct bench *bench = *state;

	assert_true(acc_rstd(64.0f, 16, 0.0f) == 0.5f);
	assert_true(acc_rstd(0.0f, 16, 0.25f) == 2.0f);
	assert_true(acc_rstd(0.0f, 16, 0.0f) == INFINITY);
	assert_true(acc_rstd(INFINITY, 16, 1.0f) == 0.0f);
	assert_true(isnan(acc_rstd(NAN, 16, 1.0f)));
	for (int64_t i = 1; i < 20000; i++) {
		float squares =
			fabsf(operand_value(OPERAND_PLAIN, &bench->random));
		volatile float mean = squares / (float)i;
		volatile float sum = mean + 1e-5f;
		volatile float root = sqrtf(sum);
		volatile float want = 1.0f / root;

		assert_true(acc_rstd(squares, i, 1e-5f) == want);
	}
}

/* z * rstd is rounded to the type of out before gamma multiplies it, and z
 * itself is not: 1 + 2^-9 is no bf16, its rstd is about 1 - 2^-9. */
static void the_norm_is_taken_from_the_unrounded_sum(void **state)
{
	struct bench *bench = *state;

	bench->hidden = 1;
	bench->dtype = SHUNT_DTYPE_BF16;
	bench->gamma_dtype = SHUNT_DTYPE_F32;
	bench->acc[0] = 1.0f;
	bench->residual.values[0] = 0x1p-9f;
	bench->gamma.values[0] = 1.5f;
	operand_put(&bench->residual, SHUNT_DTYPE_BF16, 1, 0);
	operand_put(&bench->gamma, SHUNT_DTYPE_F32, 1, 0);
	for (int i = 0; i < bench->levels.num; i++) {
		const struct acc_kernels *kernels = bench->levels.tables[i];
		uint16_t out;
		float z = 1.0f;
		float squares = kernels->tail_add[SHUNT_DTYPE_BF16](
			&out, &z, bench->residual.row, 1);

		assert_int_equal(out, 0x3f80);
		assert_true(z == 1.0f + 0x1p-9f);
		assert_true(squares == operand_times(z, z));
		kernels->tail_norm[SHUNT_DTYPE_BF16][SHUNT_DTYPE_F32](
			&out, &z, 1.0f, bench->gamma.row, 1);
		assert_int_equal(out, 0x3fc0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			tails_of_every_kind_and_length_have_the_plain_bits),
		cmocka_unit_test(rstd_is_one_over_the_root_of_the_mean),
		cmocka_unit_test(the_norm_is_taken_from_the_unrounded_sum),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
