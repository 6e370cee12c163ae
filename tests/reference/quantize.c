/*
 * The reference's dynamic int8, element by element:
 *
 *	y = f32(x) [* smooth]		amax = max |y| over the finite y
 *	f = 127 / amax			q = round half to even(y * f)
 *	scale = 1 / f			0, and q = 0, if amax is 0 or f infinite
 *
 * NaN gives 0 and Inf gives +-127; both are counted and left out of amax.
 */
#include "reference/quantize.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "reference/convert.h"

/* Rows are done in pieces, so that no memory is needed. */
#define PIECE 256

struct row {
	enum shunt_dtype dtype;
	const uint8_t *x;
	const float *smooth;
	int64_t count;
};

/* y of elements [first, first + PIECE) or up to the end; how many. */
static int64_t load_piece(const struct row *row, int64_t first, float *y)
{
	int64_t count = row->count - first;
	size_t offset = (size_t)first * convert_bytes(row->dtype);

	if (count > PIECE)
		count = PIECE;
	convert_load(row->dtype, row->x + offset, count, y);
	if (row->smooth != NULL)
		for (int64_t i = 0; i < count; i++)
			y[i] = y[i] * row->smooth[first + i];
	return count;
}

static float find_amax(
	const struct row *row, int64_t *nan_elements, int64_t *inf_elements)
{
	float y[PIECE], amax = 0;
	int64_t count;

	for (int64_t first = 0; first < row->count; first += PIECE) {
		count = load_piece(row, first, y);
		for (int64_t i = 0; i < count; i++) {
			if (isnan(y[i]))
				++*nan_elements;
			else if (isinf(y[i]))
				++*inf_elements;
			else if (fabsf(y[i]) > amax)
				amax = fabsf(y[i]);
		}
	}
	return amax;
}

static int8_t quantize(float y, float factor)
{
	float q;

	if (isnan(y))
		return 0;
	if (isinf(y))
		return y > 0 ? 127 : -127;
	q = y * factor;
	if (q >= 127)
		return 127;
	if (q <= -127)
		return -127;
	/* Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to
	 * the nearest whole number, ties to even. */
	return (int8_t)((q + 0x1.8p23f) - 0x1.8p23f);
}

float quantize_int8_row(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t count, int8_t *q, int64_t *nan_elements,
	int64_t *inf_elements)
{
	struct row row = {dtype, x, smooth, count};
	float amax = find_amax(&row, nan_elements, inf_elements);
	float factor = 127.0f / amax, scale = 1.0f / factor, y[PIECE];
	int64_t piece;

	if (amax == 0 || isinf(factor)) {
		factor = 0;
		scale = 0;
	}
	for (int64_t first = 0; first < count; first += PIECE) {
		piece = load_piece(&row, first, y);
		for (int64_t i = 0; i < piece; i++)
			q[first + i] = quantize(y[i], factor);
	}
	return scale;
}
