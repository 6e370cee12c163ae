/* Comparing outputs with the reference's. */
#include "reference/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool check_bytes(const char *name, const void *expected, const void *got,
	int64_t num_bytes, int64_t row_bytes, char why[CHECK_TEXT])
{
	const uint8_t *a = expected, *b = got;
	int64_t i = 0;

	if (num_bytes == 0)
		return true;
	if (got == NULL) {
		snprintf(why, CHECK_TEXT, "%s is NULL", name);
		return false;
	}
	if (memcmp(a, b, (size_t)num_bytes) == 0)
		return true;
	while (a[i] == b[i])
		i++;
	snprintf(why, CHECK_TEXT,
		"%s differs first in row %" PRId64 " byte %" PRId64
		": 0x%02x where 0x%02x is expected",
		name, i / row_bytes, i % row_bytes, b[i], a[i]);
	return false;
}

static bool check_number(
	const char *name, int64_t expected, int64_t got, char why[CHECK_TEXT])
{
	if (expected == got)
		return true;
	snprintf(why, CHECK_TEXT,
		"%s is %" PRId64 " where %" PRId64 " is expected", name, got,
		expected);
	return false;
}

/* An optional array: there exactly if it is due. */
static bool check_floats(const char *name, bool due, const float *expected,
	const float *got, int64_t count, char why[CHECK_TEXT])
{
	int64_t bytes = (int64_t)sizeof(float);

	if (due)
		return check_bytes(
			name, expected, got, count * bytes, bytes, why);
	if (got == NULL)
		return true;
	snprintf(why, CHECK_TEXT, "%s is not NULL", name);
	return false;
}

bool check_received(const struct reference_received *expected,
	const struct shunt_dispatch_out *out, int32_t num_ranks, bool weighted,
	bool prefix, bool quantized, char why[CHECK_TEXT])
{
	int64_t rows = expected->num_rows, experts = expected->num_experts;
	const int64_t *nums =
		prefix ? expected->token_prefix : expected->token_nums;

	return check_number("num_rows", rows, out->num_rows, why) &&
	       check_bytes("expert_token_nums", nums, out->expert_token_nums,
		       experts * 8, 8, why) &&
	       check_bytes("ep_recv_counts", expected->recv_counts,
		       out->ep_recv_counts, experts * num_ranks * 4, 4, why) &&
	       check_bytes("source", expected->source, out->source, rows * 12,
		       12, why) &&
	       check_bytes("expand_x", expected->expand_x, out->expand_x,
		       rows * expected->row_bytes, expected->row_bytes, why) &&
	       check_floats("dynamic_scales", quantized,
		       expected->dynamic_scales, out->dynamic_scales, rows,
		       why) &&
	       check_floats("expand_weights", weighted, expected->weights,
		       out->expand_weights, rows, why);
}

bool check_sent(const struct reference_sent *expected,
	const struct shunt_dispatch_out *out, char why[CHECK_TEXT])
{
	return check_number("dropped_choices", expected->dropped_choices,
		       out->dropped_choices, why) &&
	       check_number("nan_elements", expected->nan_elements,
		       out->nan_elements, why) &&
	       check_number("inf_elements", expected->inf_elements,
		       out->inf_elements, why);
}
