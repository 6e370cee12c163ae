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

bool check_number(
	const char *name, int64_t expected, int64_t got, char why[CHECK_TEXT])
{
	if (expected == got)
		return true;
	snprintf(why, CHECK_TEXT,
		"%s is %" PRId64 " where %" PRId64 " is expected", name, got,
		expected);
	return false;
}

/* An array that is there exactly if it is due. */
static bool check_presence(const char *name, bool due, const void *got,
	int64_t count, char why[CHECK_TEXT])
{
	if (due && (got != NULL || count == 0))
		return true;
	if (!due && got == NULL)
		return true;
	snprintf(why, CHECK_TEXT, "%s is %s NULL", name, due ? "" : "not");
	return false;
}

/* One row's `size` bytes. */
static bool check_row(const char *name, int64_t row, const void *expected,
	const void *got, int64_t size, char why[CHECK_TEXT])
{
	char words[64];

	if (size == 0 ||
		(got != NULL && memcmp(expected, got, (size_t)size) == 0))
		return true;
	snprintf(words, sizeof(words), "%s of row %" PRId64, name, row);
	return check_bytes(words, expected, got, size, size, why);
}

/* ---- counts ----------------------------------------------------------- */

static bool check_counts(const struct reference_job *job,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out, bool prefix, char why[CHECK_TEXT])
{
	int64_t experts = expected->num_experts;
	int32_t tp = job->num_tp > 1 ? job->num_tp : 1;
	const int64_t *nums =
		prefix ? expected->token_prefix : expected->token_nums;
	const int64_t *padded =
		prefix ? expected->padded_prefix : expected->padded_nums;

	return check_number(
		       "num_rows", expected->num_rows, out->num_rows, why) &&
	       check_number("extent_rows", expected->extent_rows,
		       out->extent_rows, why) &&
	       check_number("num_local_experts", experts,
		       out->num_local_experts, why) &&
	       check_bytes("expert_token_nums", nums, out->expert_token_nums,
		       experts * 8, 8, why) &&
	       check_bytes("expert_padded_nums", padded,
		       out->expert_padded_nums, experts * 8, 8, why) &&
	       check_bytes("expert_first_row", expected->first_row,
		       out->expert_first_row, experts * 8, 8, why) &&
	       check_bytes("ep_recv_counts", expected->recv_counts,
		       out->ep_recv_counts,
		       experts * expected->num_ranks * tp * 4, 4, why) &&
	       check_presence("tp_recv_counts", tp > 1, out->tp_recv_counts, tp,
		       why) &&
	       check_bytes("tp_recv_counts", expected->tp_counts,
		       out->tp_recv_counts, tp > 1 ? tp * 4 : 0, 4, why);
}

/* ---- rows ------------------------------------------------------------- */

static bool check_scales(const struct reference_received *expected,
	const struct shunt_dispatch_out *out, int64_t n, char why[CHECK_TEXT])
{
	int64_t bytes = expected->scale_bytes, at;
	const uint8_t *scales = out->dynamic_scales;

	for (int64_t i = 0; i < expected->num_scales; i++) {
		at = n * out->scale_row_stride + i * out->scale_group_stride;
		if (!check_row("dynamic_scales", n,
			    expected->scales +
				    (n * expected->num_scales + i) * bytes,
			    scales + at * bytes, bytes, why))
			return false;
	}
	return true;
}

static const void *row_of(const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows,
	int64_t n)
{
	if (rows != NULL)
		return rows[n];
	return (const uint8_t *)out->expand_x + n * expected->row_bytes;
}

/* The tail of indexed rows is nowhere. */
static bool has_row(const struct reference_received *expected,
	const void *const *rows, int64_t n)
{
	return rows == NULL || n < expected->extent_rows;
}

static bool check_place(const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows,
	int64_t n, char why[CHECK_TEXT])
{
	if (expected->kind[n] == REFERENCE_LEFT)
		return true;
	if (!check_row("source", n, expected->source + 3 * n,
		    out->source + 3 * n, 12, why))
		return false;
	if (has_row(expected, rows, n) &&
		!check_row("expand_x", n,
			expected->expand_x + n * expected->row_bytes,
			row_of(expected, out, rows, n), expected->row_bytes,
			why))
		return false;
	if (out->expand_weights != NULL &&
		!check_row("expand_weights", n, &expected->weights[n],
			&out->expand_weights[n], 4, why))
		return false;
	if (out->row_scales != NULL &&
		!check_row("row_scales", n, &expected->row_scales[n],
			&out->row_scales[n], 4, why))
		return false;
	return check_scales(expected, out, n, why);
}

bool check_received(const struct reference_job *job,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows,
	bool prefix, char why[CHECK_TEXT])
{
	int64_t count = expected->num_rows;
	bool nvfp4 = job->config.quant == SHUNT_QUANT_NVFP4_E2M1;

	if (!check_counts(job, expected, out, prefix, why) ||
		!check_presence(
			"expand_x", rows == NULL, out->expand_x, count, why) ||
		!check_presence("dynamic_scales", expected->num_scales > 0,
			out->dynamic_scales, count, why) ||
		!check_presence("expand_weights", expected->weights != NULL,
			out->expand_weights, count, why) ||
		!check_presence(
			"row_scales", nvfp4, out->row_scales, count, why) ||
		!check_presence("source", true, out->source, count, why))
		return false;
	for (int64_t n = 0; n < expected->num_places; n++)
		if (!check_place(expected, out, rows, n, why))
			return false;
	return true;
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
