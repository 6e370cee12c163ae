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

static bool phase_exists(const struct shape *shape, int phase)
{
	if (phase == PHASE_LANDED)
		return shape->rows_by_host;
	return phase != PHASE_SUMS || shape->sums_by_host;
}

static void place_control(
	struct layout *layout, const struct shape *shape, struct cursor *cursor)
{
	uint64_t members = (uint64_t)shape->num_members;
	uint64_t depth = (uint64_t)shape->depth;

	for (int phase = 0; phase < NUM_PHASES; phase++)
		layout->lines_off[phase] = place_array(cursor,
			phase_exists(shape, phase) ? members * depth : 0,
			LINE_BYTES, LINE_BYTES);
	layout->closed_off =
		place_array(cursor, members, LINE_BYTES, LINE_BYTES);
	layout->lost_off = place_array(cursor, members, LINE_BYTES, LINE_BYTES);
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

/* ---- shares --------------------------------------------------------------- */

/* In small steps of one host no row varies. */
static bool rows_may_vary(const struct shape *shape)
{
	return shape_varies_by_expert(shape) &&
	       (shape->hosts || shape->layout == SHUNT_LAYOUT_INDEXED);
}

/* Rows that are read where their sender keeps them need nothing beside. */
static bool has_offer(const struct shape *shape)
{
	return shape->hosts || shape->layout != SHUNT_LAYOUT_INDEXED;
}

struct layout_share layout_share(const struct shape *shape)
{
	uint64_t tokens = (uint64_t)shape->offer_tokens;
	uint64_t offered = has_offer(shape) ? tokens : 0;
	struct cursor cursor = {0};
	struct layout_share share = {.num_rows = tokens};
	uint64_t scaled;

	if (rows_may_vary(shape))
		share.num_rows *= (uint64_t)shape->num_sends;
	scaled = offered ? share.num_rows : 0;
	place_array(
		&cursor, share.num_rows, (uint64_t)shape->format.row_bytes, 1);
	share.places = place_array(
		&cursor, offered * (uint64_t)shape->num_sends, 4, LINE_BYTES);
	share.weights =
		place_array(&cursor, offered * (uint64_t)shape->topk, 4, 4);
	share.row_scales = place_array(&cursor, scaled, 4, 4);
	share.scales = place_array(
		&cursor, scaled, (uint64_t)shape_scale_bytes(shape), 4);
	/* What is too much for an array is too much for a window. */
	share.bytes = cursor.overflow ? 2 * MAX_BYTES : cursor.offset;
	return share;
}

/* Every member of another host lands; or with rows_by_host those with the same
 * number in theirs, unless ranks that a table leaves out may shift them. */
static bool lands(const struct shape *shape, int32_t at, int32_t from)
{
	const struct hosts *hosts = shape->hosts;

	if (!hosts || hosts_share(hosts, at, from))
		return false;
	return !shape->rows_by_host || shape->elastic ||
	       hosts->number[from] % hosts->size[hosts->host[at]] ==
		       hosts->number[at];
}

static int32_t num_landings(const struct shape *shape, int32_t at)
{
	int32_t num = 0;

	for (int32_t m = 0; shape->hosts && m < shape->num_members; m++)
		num += lands(shape, at, m);
	return num;
}

int32_t layout_landing(const struct shape *shape, int32_t at, int32_t from)
{
	int32_t before = 0;

	if (!lands(shape, at, from))
		return -1;
	for (int32_t m = 0; m < from; m++)
		before += lands(shape, at, m);
	return before;
}

static void place_shares(
	struct layout *layout, const struct shape *shape, struct cursor *cursor)
{
	uint64_t landings = (uint64_t)layout->num_landings;

	/* INDEXED over hosts: docs/protocol.md, "Reuse". */
	layout->share_slots = (uint64_t)shape->depth;
	if (shape->hosts && shape->layout == SHUNT_LAYOUT_INDEXED)
		layout->share_slots *= 2;
	layout->share_stride = layout_share(shape).bytes;
	layout->share_stride = (layout->share_stride + PAGE_BYTES - 1) /
			       PAGE_BYTES * PAGE_BYTES;
	layout->share_off = place_array(
		cursor, layout->share_slots, layout->share_stride, PAGE_BYTES);
	layout->landed_off = place_array(cursor, landings * layout->share_slots,
		layout->share_stride, PAGE_BYTES);
}

/* ---- other hosts ---------------------------------------------------------- */

/* What ranks of other hosts write, but for shares and slots. */
static void place_far(
	struct layout *layout, const struct shape *shape, struct cursor *cursor)
{
	uint64_t depth = (uint64_t)shape->depth;
	uint64_t heads = depth * (uint64_t)shape->num_members;
	uint64_t landings = (uint64_t)layout->num_landings;

	if (!shape->hosts)
		return;
	layout->far_head_off =
		place_array(cursor, heads, layout->head_stride, LINE_BYTES);
	layout->far_note_off = place_array(
		cursor, heads, sizeof(struct step_head), LINE_BYTES);
	if (!shape->sums_by_host)
		return;
	layout->told_stride = (uint64_t)shape->max_tokens *
			      (uint64_t)shape->topk * sizeof(float);
	layout->told_off =
		place_array(cursor, depth, layout->told_stride, LINE_BYTES);
	layout->told_landed_off = place_array(
		cursor, landings * depth, layout->told_stride, LINE_BYTES);
	layout->partial_off = place_array(
		cursor, PARTIAL_ROWS, (uint64_t)shape->back_bytes, PAGE_BYTES);
}

/* ---- slots ---------------------------------------------------------------- */

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
	layout->results_off = place_array(
		cursor, rows, (uint64_t)shape->result_bytes, PAGE_BYTES);
	layout->travel_off = place_array(
		cursor, rows, (uint64_t)shape->travel_bytes, PAGE_BYTES);
	layout->back_off = place_array(cursor,
		(uint64_t)(shape->max_tokens * shape->num_sends),
		(uint64_t)shape->back_bytes, PAGE_BYTES);
	layout->tp_back_off = place_array(cursor,
		shape->tp_spans ? rows * (uint64_t)shape->tp_size : 0,
		(uint64_t)shape->result_bytes, PAGE_BYTES);
	place_array(cursor, 0, 1, PAGE_BYTES);
	layout->slot_stride = cursor->offset - first;
	more = (uint64_t)shape->depth - 1;
	place_array(cursor, more, layout->slot_stride, PAGE_BYTES);
}

enum shunt_status layout_init(struct layout *layout, const struct shape *shape,
	int64_t num_local, int32_t member)
{
	int32_t rank = member % shape->num_ranks;
	struct cursor cursor = {0};
	enum shunt_status status;

	*layout = (struct layout){0};
	status = set_rows(layout, shape, num_local, rank);
	if (status != SHUNT_OK)
		return status;
	layout->num_landings = num_landings(shape, member);
	place_control(layout, shape, &cursor);
	place_data(layout, shape, &cursor);
	place_shares(layout, shape, &cursor);
	place_far(layout, shape, &cursor);
	if (cursor.overflow)
		return error_set(SHUNT_INVALID,
			"hidden %lld, %lld rows and depth %d make a window of "
			"more than %llu bytes (rank %d)",
			(long long)shape->hidden, (long long)layout->recv_rows,
			shape->depth, (unsigned long long)MAX_BYTES, rank);
	layout->total_bytes = cursor.offset;
	return SHUNT_OK;
}
