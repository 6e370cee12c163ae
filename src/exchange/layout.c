/* Offsets of a window; see layout.h for the picture. */
#include "exchange/layout.h"

#include "base/error.h"
#include "world/retire.h"

#define LINE_BYTES ((uint64_t)sizeof(struct line))
#define PAGE_BYTES UINT64_C(4096)
#define MAX_BYTES  (UINT64_C(1) << 46)

_Static_assert(sizeof(struct line) == 128, "layout_line(), layout_done()");

/* A cursor that places arrays one behind the other, and remembers overflow. */
struct cursor {
	uint64_t offset;
	bool overflow;
};

static uint64_t place_array(struct cursor *cursor, uint64_t count,
	uint64_t item_bytes, uint64_t align)
{
	uint64_t start = (cursor->offset + align - 1) / align * align;
	uint64_t bytes;

	if (cursor->overflow || start > MAX_BYTES ||
		__builtin_mul_overflow(count, item_bytes, &bytes) ||
		bytes > MAX_BYTES - start) {
		cursor->overflow = true;
		return 0;
	}
	cursor->offset = start + bytes;
	return start;
}

/* Rows of one EP group in the worst case; INT64_MAX: beyond counting. */
static int64_t worst_of_group(
	const struct shape *shape, int64_t num_local, int32_t rank)
{
	int64_t per_token = shape->topk;
	int64_t sources = shape->num_ranks;
	int64_t rows;

	if (rank < shape->num_shared_ranks) {
		int64_t replicas = shape->num_shared_ranks / shape->num_shared;

		/* After losses fewer replicas may serve all. */
		if (!shape->elastic)
			sources = (sources + replicas - 1) / replicas;
		per_token = 1;
	} else if (num_local == 0) {
		per_token = 0;
	} else if (shape->distinct && num_local < per_token) {
		per_token = num_local;
	}
	if (__builtin_mul_overflow(shape->max_tokens, per_token, &rows) ||
		__builtin_mul_overflow(rows, sources, &rows))
		return INT64_MAX;
	return rows;
}

static int64_t worst_rows(
	const struct shape *shape, int64_t num_local, int32_t rank)
{
	int64_t rows;

	if (shape->layout == SHUNT_LAYOUT_PADDED) {
		if (__builtin_mul_overflow(
			    num_local, shape->rows_per_expert, &rows))
			return INT64_MAX;
		return rows;
	}
	rows = worst_of_group(shape, num_local, rank);
	if (__builtin_mul_overflow(rows, shape->tp_size, &rows) ||
		__builtin_add_overflow(
			rows, num_local * (shape->alignment - 1), &rows))
		return INT64_MAX;
	return rows;
}

static enum shunt_status set_rows(struct layout *layout,
	const struct shape *shape, int64_t num_local, int32_t rank)
{
	int64_t rows = worst_rows(shape, num_local, rank);

	layout->num_local = num_local;
	layout->worst_rows = rows;
	layout->recv_rows = rows;
	if (shape->max_recv_rows > 0 && shape->max_recv_rows < rows)
		layout->recv_rows = shape->max_recv_rows;
	if (rows <= SHAPE_MAX_ROWS)
		return SHUNT_OK;
	if (shape->layout == SHUNT_LAYOUT_PADDED)
		return error_set(SHUNT_INVALID,
			"rows_per_expert %lld for %lld experts make %lld rows "
			"on a rank, at most %lld (rank %d)",
			(long long)shape->rows_per_expert, (long long)num_local,
			(long long)rows, (long long)SHAPE_MAX_ROWS, rank);
	return error_set(SHUNT_INVALID,
		"max_tokens %lld, topk %lld and %d ranks make %lld rows on a "
		"rank, at most %lld (rank %d)",
		(long long)shape->max_tokens, (long long)shape->topk,
		shape->num_members, (long long)rows, (long long)SHAPE_MAX_ROWS,
		rank);
}

/* Words of all units; each rank begins a line. */
static uint64_t done_bytes(const struct shape *shape)
{
	uint64_t words = (uint64_t)shape->num_units * sizeof(uint64_t);

	return (words + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES +
	       (uint64_t)shape->num_ranks * LINE_BYTES;
}

static void place_control(
	struct layout *layout, const struct shape *shape, struct cursor *cursor)
{
	uint64_t members = (uint64_t)shape->num_members;
	uint64_t depth = (uint64_t)shape->depth;

	for (int phase = 0; phase < NUM_PHASES; phase++)
		layout->lines_off[phase] = place_array(
			cursor, members * depth, LINE_BYTES, LINE_BYTES);
	layout->closed_off =
		place_array(cursor, members, LINE_BYTES, LINE_BYTES);
	layout->revoked_off = place_array(
		cursor, shape->elastic ? members : 0, LINE_BYTES, LINE_BYTES);
	if (shape_signals_done(shape))
		layout->done_stride = done_bytes(shape);
	layout->done_off =
		place_array(cursor, depth, layout->done_stride, LINE_BYTES);
	layout->head_stride = sizeof(struct step_head) +
			      (uint64_t)shape->num_units * sizeof(uint32_t);
	layout->head_stride = (layout->head_stride + LINE_BYTES - 1) /
			      LINE_BYTES * LINE_BYTES;
	layout->head_off =
		place_array(cursor, depth, layout->head_stride, LINE_BYTES);
	layout->note_off = place_array(
		cursor, depth, sizeof(struct step_head), LINE_BYTES);
}

/* Rows that a sender keeps. INDEXED: one per token, or per place that a token
 * goes to where each may have scales of its own. */
static uint64_t kept_rows(const struct shape *shape)
{
	if (shape->layout != SHUNT_LAYOUT_INDEXED)
		return (uint64_t)shape->fetch_tokens;
	return (uint64_t)shape->max_tokens *
	       (shape_varies_by_expert(shape) ? (uint64_t)shape->num_sends : 1);
}

static void place_data(
	struct layout *layout, const struct shape *shape, struct cursor *cursor)
{
	bool indexed = shape->layout == SHUNT_LAYOUT_INDEXED;
	uint64_t row_bytes = (uint64_t)shape->format.row_bytes;
	uint64_t rows = (uint64_t)layout->recv_rows;
	uint64_t first = place_array(cursor, 0, 1, PAGE_BYTES);
	uint64_t more;

	layout->scales_off = place_array(
		cursor, rows, (uint64_t)shape_scale_bytes(shape), LINE_BYTES);
	layout->row_scales_off =
		place_array(cursor, shape->format.has_row_scale ? rows : 0,
			sizeof(float), LINE_BYTES);
	layout->weights_off =
		place_array(cursor, rows, sizeof(float), LINE_BYTES);
	layout->source_off =
		place_array(cursor, rows, 3 * sizeof(int32_t), LINE_BYTES);
	layout->rows_off =
		place_array(cursor, indexed ? 0 : rows, row_bytes, PAGE_BYTES);
	layout->kept_off =
		place_array(cursor, kept_rows(shape), row_bytes, PAGE_BYTES);
	layout->offer_off =
		place_array(cursor, 1, layout_offer(shape).bytes, LINE_BYTES);
	layout->results_off = place_array(
		cursor, rows, (uint64_t)shape->result_bytes, PAGE_BYTES);
	layout->travel_off = place_array(
		cursor, rows, (uint64_t)shape->travel_bytes, PAGE_BYTES);
	place_array(cursor, 0, 1, PAGE_BYTES);
	layout->slot_stride = cursor->offset - first;
	more = (uint64_t)shape->depth - 1;
	place_array(cursor, more, layout->slot_stride, PAGE_BYTES);
}

enum shunt_status layout_init(struct layout *layout, const struct shape *shape,
	int64_t num_local, int32_t rank)
{
	struct cursor cursor = {0};
	enum shunt_status status;

	*layout = (struct layout){0};
	status = set_rows(layout, shape, num_local, rank);
	if (status != SHUNT_OK)
		return status;
	place_control(layout, shape, &cursor);
	place_data(layout, shape, &cursor);
	if (cursor.overflow)
		return error_set(SHUNT_INVALID,
			"hidden %lld, %lld rows and depth %d make a window of "
			"more than %llu bytes (rank %d)",
			(long long)shape->hidden, (long long)layout->recv_rows,
			shape->depth, (unsigned long long)MAX_BYTES, rank);
	layout->total_bytes = cursor.offset;
	return SHUNT_OK;
}
