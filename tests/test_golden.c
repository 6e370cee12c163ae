/*
 * Golden values of the formats of a byte or less, written out from their
 * definitions (OCP 8-bit floating point, revision 1.0; OCP microscaling
 * formats, version 1.0): every code, every tie, every border. The reference
 * is measured by them, and the library by the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "reference/codes.h"
#include "support/operand.h"

/* The finite values that are not negative, in the order of their codes. */
static const float e4m3fn[127] = {0, 0x1p-9, 0x1p-8, 0x1.8p-8, 0x1p-7, 0x1.4p-7,
	0x1.8p-7, 0x1.cp-7, 0x1p-6, 0x1.2p-6, 0x1.4p-6, 0x1.6p-6, 0x1.8p-6,
	0x1.ap-6, 0x1.cp-6, 0x1.ep-6, 0x1p-5, 0x1.2p-5, 0x1.4p-5, 0x1.6p-5,
	0x1.8p-5, 0x1.ap-5, 0x1.cp-5, 0x1.ep-5, 0x1p-4, 0x1.2p-4, 0x1.4p-4,
	0x1.6p-4, 0x1.8p-4, 0x1.ap-4, 0x1.cp-4, 0x1.ep-4, 0x1p-3, 0x1.2p-3,
	0x1.4p-3, 0x1.6p-3, 0x1.8p-3, 0x1.ap-3, 0x1.cp-3, 0x1.ep-3, 0x1p-2,
	0x1.2p-2, 0x1.4p-2, 0x1.6p-2, 0x1.8p-2, 0x1.ap-2, 0x1.cp-2, 0x1.ep-2,
	0x1p-1, 0x1.2p-1, 0x1.4p-1, 0x1.6p-1, 0x1.8p-1, 0x1.ap-1, 0x1.cp-1,
	0x1.ep-1, 0x1p0, 0x1.2p0, 0x1.4p0, 0x1.6p0, 0x1.8p0, 0x1.ap0, 0x1.cp0,
	0x1.ep0, 0x1p1, 0x1.2p1, 0x1.4p1, 0x1.6p1, 0x1.8p1, 0x1.ap1, 0x1.cp1,
	0x1.ep1, 0x1p2, 0x1.2p2, 0x1.4p2, 0x1.6p2, 0x1.8p2, 0x1.ap2, 0x1.cp2,
	0x1.ep2, 0x1p3, 0x1.2p3, 0x1.4p3, 0x1.6p3, 0x1.8p3, 0x1.ap3, 0x1.cp3,
	0x1.ep3, 0x1p4, 0x1.2p4, 0x1.4p4, 0x1.6p4, 0x1.8p4, 0x1.ap4, 0x1.cp4,
	0x1.ep4, 0x1p5, 0x1.2p5, 0x1.4p5, 0x1.6p5, 0x1.8p5, 0x1.ap5, 0x1.cp5,
	0x1.ep5, 0x1p6, 0x1.2p6, 0x1.4p6, 0x1.6p6, 0x1.8p6, 0x1.ap6, 0x1.cp6,
	0x1.ep6, 0x1p7, 0x1.2p7, 0x1.4p7, 0x1.6p7, 0x1.8p7, 0x1.ap7, 0x1.cp7,
	0x1.ep7, 0x1p8, 0x1.2p8, 0x1.4p8, 0x1.6p8, 0x1.8p8, 0x1.ap8, 0x1.cp8};

static const float e5m2[124] = {0, 0x1p-16, 0x1p-15, 0x1.8p-15, 0x1p-14,
	0x1.4p-14, 0x1.8p-14, 0x1.cp-14, 0x1p-13, 0x1.4p-13, 0x1.8p-13,
	0x1.cp-13, 0x1p-12, 0x1.4p-12, 0x1.8p-12, 0x1.cp-12, 0x1p-11, 0x1.4p-11,
	0x1.8p-11, 0x1.cp-11, 0x1p-10, 0x1.4p-10, 0x1.8p-10, 0x1.cp-10, 0x1p-9,
	0x1.4p-9, 0x1.8p-9, 0x1.cp-9, 0x1p-8, 0x1.4p-8, 0x1.8p-8, 0x1.cp-8,
	0x1p-7, 0x1.4p-7, 0x1.8p-7, 0x1.cp-7, 0x1p-6, 0x1.4p-6, 0x1.8p-6,
	0x1.cp-6, 0x1p-5, 0x1.4p-5, 0x1.8p-5, 0x1.cp-5, 0x1p-4, 0x1.4p-4,
	0x1.8p-4, 0x1.cp-4, 0x1p-3, 0x1.4p-3, 0x1.8p-3, 0x1.cp-3, 0x1p-2,
	0x1.4p-2, 0x1.8p-2, 0x1.cp-2, 0x1p-1, 0x1.4p-1, 0x1.8p-1, 0x1.cp-1,
	0x1p0, 0x1.4p0, 0x1.8p0, 0x1.cp0, 0x1p1, 0x1.4p1, 0x1.8p1, 0x1.cp1,
	0x1p2, 0x1.4p2, 0x1.8p2, 0x1.cp2, 0x1p3, 0x1.4p3, 0x1.8p3, 0x1.cp3,
	0x1p4, 0x1.4p4, 0x1.8p4, 0x1.cp4, 0x1p5, 0x1.4p5, 0x1.8p5, 0x1.cp5,
	0x1p6, 0x1.4p6, 0x1.8p6, 0x1.cp6, 0x1p7, 0x1.4p7, 0x1.8p7, 0x1.cp7,
	0x1p8, 0x1.4p8, 0x1.8p8, 0x1.cp8, 0x1p9, 0x1.4p9, 0x1.8p9, 0x1.cp9,
	0x1p10, 0x1.4p10, 0x1.8p10, 0x1.cp10, 0x1p11, 0x1.4p11, 0x1.8p11,
	0x1.cp11, 0x1p12, 0x1.4p12, 0x1.8p12, 0x1.cp12, 0x1p13, 0x1.4p13,
	0x1.8p13, 0x1.cp13, 0x1p14, 0x1.4p14, 0x1.8p14, 0x1.cp14, 0x1p15,
	0x1.4p15, 0x1.8p15, 0x1.cp15};

static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

static const struct format {
	enum shunt_dtype dtype;
	const float *values;
	int num_values;
	uint8_t sign;
} formats[] = {
	{SHUNT_DTYPE_E4M3FN, e4m3fn, 127, 0x80},
	{SHUNT_DTYPE_E5M2, e5m2, 124, 0x80},
	{SHUNT_DTYPE_E2M1, e2m1, 8, 0x8},
};

#define NUM_FORMATS (sizeof(formats) / sizeof(formats[0]))

static void check_decoded(enum shunt_dtype dtype, uint8_t code, float expected)
{
	assert_int_equal(operand_to_bits(codes_decode(dtype, code)),
		operand_to_bits(expected));
}

static void finite_codes_are_the_values_of_the_table(void **state)
{
	const struct format *format;

	(void)state;
	for (size_t f = 0; f < NUM_FORMATS; f++) {
		format = &formats[f];
		for (int code = 0; code < format->num_values; code++) {
			check_decoded(format->dtype, (uint8_t)code,
				format->values[code]);
			check_decoded(format->dtype,
				(uint8_t)(format->sign | code),
				-format->values[code]);
		}
	}
}

static void other_codes_are_nan_and_inf(void **state)
{
	(void)state;
	assert_true(isnan(codes_decode(SHUNT_DTYPE_E4M3FN, 0x7f)));
	assert_true(isnan(codes_decode(SHUNT_DTYPE_E4M3FN, 0xff)));
	check_decoded(SHUNT_DTYPE_E5M2, 0x7c, INFINITY);
	check_decoded(SHUNT_DTYPE_E5M2, 0xfc, -INFINITY);
	for (uint8_t code = 0x7d; code <= 0x7f; code++) {
		assert_true(isnan(codes_decode(SHUNT_DTYPE_E5M2, code)));
		assert_true(isnan(codes_decode(
			SHUNT_DTYPE_E5M2, (uint8_t)(0x80 | code))));
	}
	assert_true(isnan(codes_decode(SHUNT_DTYPE_E8M0, 255)));
}

static void e8m0_is_every_power_of_two_from_minus_127_on(void **state)
{
	double value = 0x1p-127;

	(void)state;
	for (int code = 0; code < 255; code++, value *= 2)
		check_decoded(SHUNT_DTYPE_E8M0, (uint8_t)code, (float)value);
}

static void int8_is_two_s_complement(void **state)
{
	(void)state;
	for (int value = -128; value < 128; value++)
		check_decoded(SHUNT_DTYPE_I8, (uint8_t)value, (float)value);
}

static void check_encoded(const struct format *format, float value, int code)
{
	assert_int_equal(codes_encode(format->dtype, value), code);
	assert_int_equal(
		codes_encode(format->dtype, -value), format->sign | code);
}

/* Both values of each pair, and just below, at and just above their middle. */
static void values_round_to_the_nearest_and_ties_to_the_even_code(void **state)
{
	const struct format *format;
	float low, high, middle;

	(void)state;
	for (size_t f = 0; f < NUM_FORMATS; f++) {
		format = &formats[f];
		for (int code = 0; code + 1 < format->num_values; code++) {
			low = format->values[code];
			high = format->values[code + 1];
			middle = low + (high - low) / 2;
			check_encoded(format, low, code);
			check_encoded(format, nextafterf(middle, low), code);
			check_encoded(format, middle, code + (code & 1));
			check_encoded(
				format, nextafterf(middle, high), code + 1);
			check_encoded(format, high, code + 1);
		}
	}
}

/* 464, 61440 and 7 are where a further value would begin, 480 is what E4M3
 * with an infinity would end at. */
static void too_large_values_become_the_largest(void **state)
{
	const float beyond[NUM_FORMATS][6] = {
		{449, 463.99997f, 464, 464.00003f, 480, 512},
		{57345, 61439, 61440, 61441, 65536, 1e6f},
		{6.0000005f, 6.5f, 7, 7.5f, 8, 100},
	};

	(void)state;
	for (size_t f = 0; f < NUM_FORMATS; f++) {
		for (int i = 0; i < 6; i++)
			check_encoded(&formats[f], beyond[f][i],
				formats[f].num_values - 1);
		check_encoded(&formats[f], 0x1.fffffep127f,
			formats[f].num_values - 1);
		check_encoded(&formats[f], INFINITY, formats[f].num_values - 1);
	}
}

static void what_is_too_small_keeps_its_sign(void **state)
{
	(void)state;
	for (size_t f = 0; f < NUM_FORMATS; f++) {
		check_encoded(&formats[f], 0, 0);
		check_encoded(&formats[f], 0x1p-149f, 0);
		check_encoded(&formats[f], 0x1p-126f, 0);
	}
}

static void nan_has_one_code(void **state)
{
	(void)state;
	for (int negative = 0; negative < 2; negative++) {
		float nan = negative ? -NAN : NAN;

		assert_int_equal(codes_encode(SHUNT_DTYPE_E4M3FN, nan), 0x7f);
		assert_int_equal(codes_encode(SHUNT_DTYPE_E5M2, nan), 0x7e);
		assert_int_equal(codes_encode(SHUNT_DTYPE_E2M1, nan), 0);
		assert_int_equal(codes_encode_int8(nan, -127, 127), 0);
	}
}

static void int8_rounds_to_even_and_saturates(void **state)
{
	const struct {
		float value;
		int code;
	} cases[] = {{0.5f, 0}, {1.5f, 2}, {2.5f, 2}, {-0.5f, 0}, {-1.5f, -2},
		{-2.5f, -2}, {126.5f, 126}, {127.49f, 127}, {127.5f, 127},
		{1e30f, 127}, {INFINITY, 127}, {0.49999997f, 0}, {-1e30f, -128},
		{-127.5f, -128}, {-127.49f, -127}, {-INFINITY, -128}};
	int held;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(codes_encode_int8(cases[i].value, -128, 127),
			cases[i].code);
		held = cases[i].code < -127 ? -127 : cases[i].code;
		assert_int_equal(
			codes_encode_int8(cases[i].value, -127, 127), held);
	}
}

static void nibbles_lie_low_first(void **state)
{
	uint8_t row[2] = {0xff, 0xff};

	(void)state;
	for (int i = 0; i < 3; i++)
		codes_put(SHUNT_DTYPE_E2M1, row, i, (uint8_t)(i + 1));
	assert_int_equal(row[0], 0x21);
	assert_int_equal(row[1], 0x03);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			codes_get(SHUNT_DTYPE_E2M1, row, i), (uint8_t)(i + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finite_codes_are_the_values_of_the_table),
		cmocka_unit_test(other_codes_are_nan_and_inf),
		cmocka_unit_test(e8m0_is_every_power_of_two_from_minus_127_on),
		cmocka_unit_test(int8_is_two_s_complement),
		cmocka_unit_test(
			values_round_to_the_nearest_and_ties_to_the_even_code),
		cmocka_unit_test(too_large_values_become_the_largest),
		cmocka_unit_test(what_is_too_small_keeps_its_sign),
		cmocka_unit_test(nan_has_one_code),
		cmocka_unit_test(int8_rounds_to_even_and_saturates),
		cmocka_unit_test(nibbles_lie_low_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
