/* Rows of an indexed dispatch: pointers, and the references that they stand
 * for. */
#include <stdlib.h>
#include <string.h>

#include "support/trial_inputs.h"

/* Every pair of rows is compared up to here, then neighbours only. */
#define MOST_PAIRED 128

static bool varies(const struct reference_input *input)
{
	return input->smooth != NULL ||
	       (input->fixed != NULL &&
		       input->fixed_shape == SHUNT_STATIC_EXPERTS);
}

static const struct reference_input *sender_of(
	const struct trial *step, int64_t n)
{
	int32_t rank = step->expected.source[3 * n];

	if (step->rule.table != NULL)
		rank = step->rule.table[4 + step->rule.num_ranks + rank];
	return &step->inputs[step->expected.groups[n] * step->rule.num_ranks +
			     rank];
}

/* True if both rows are the same token's, of a sender who made it once. */
static bool lies_once(const struct trial *step, int64_t a, int64_t b)
{
	const struct reference_received *rows = &step->expected;

	return rows->kind[a] == REFERENCE_REAL &&
	       rows->kind[b] == REFERENCE_REAL &&
	       rows->groups[a] == rows->groups[b] &&
	       memcmp(rows->source + 3 * a, rows->source + 3 * b, 8) == 0 &&
	       !varies(sender_of(step, a));
}

static void check_reference(struct seat *seat, const struct trial *step,
	const struct shunt_reference *reference, int64_t n)
{
	struct shunt_reference due = {-1, -1, -1};

	if (step->expected.kind[n] == REFERENCE_REAL) {
		due.tp_rank = step->expected.groups[n];
		due.rank = step->expected.source[3 * n];
		due.row = reference->row < 0 ? 0 : reference->row;
	}
	SEAT_CHECK(seat,
		reference->tp_rank == due.tp_rank &&
			reference->rank == due.rank &&
			reference->row == due.row,
		"row %lld is said to be row %lld of rank %d of group %d",
		(long long)n, (long long)reference->row, reference->rank,
		reference->tp_rank);
}

static void check_pair(struct seat *seat, const struct trial *step,
	const struct shunt_reference *references, const void *const *rows,
	int64_t a, int64_t b)
{
	bool same = references[a].tp_rank == references[b].tp_rank &&
		    references[a].rank == references[b].rank &&
		    references[a].row == references[b].row;

	SEAT_CHECK(seat, same == (rows[a] == rows[b]),
		"references and pointers of rows %lld and %lld disagree",
		(long long)a, (long long)b);
	SEAT_CHECK(seat, same || !lies_once(step, a, b),
		"rows %lld and %lld are one token's, but lie apart",
		(long long)a, (long long)b);
}

static void check_references(struct seat *seat, const struct trial *step,
	const struct shunt_reference *references, const void *const *rows)
{
	int64_t count = step->expected.extent_rows, last;

	for (int64_t n = 0; n < count; n++)
		check_reference(seat, step, &references[n], n);
	for (int64_t a = 0; a < count; a++) {
		last = count <= MOST_PAIRED || a + 2 > count ? count : a + 2;
		for (int64_t b = a + 1; b < last; b++)
			check_pair(seat, step, references, rows, a, b);
	}
}

const void **trial_find_rows(struct seat *seat, struct trial *step)
{
	size_t count = (size_t)step->out.extent_rows + 1;
	struct shunt_reference *references;
	const void **rows;

	if (step->job.config.layout != SHUNT_LAYOUT_INDEXED)
		return NULL;
	rows = calloc(count, sizeof(*rows));
	references = calloc(count, sizeof(*references));
	SEAT_CHECK(seat, rows != NULL && references != NULL, "no memory");
	SEAT_OK(seat, shunt_dispatch_rows(step->handle, rows));
	SEAT_OK(seat, shunt_dispatch_references(step->handle, references));
	check_references(seat, step, references, rows);
	free(references);
	return rows;
}
