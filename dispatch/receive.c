/* Padding and outputs; see receive.h. */
#include "dispatch/receive.h"

#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "exchange/step.h"

static void *own_array(const struct shunt_exchange *exchange,
	const struct step *step, uint64_t array_off)
{
	return exchange_array(exchange, exchange->rank, array_off, step);
}

static const struct layout *own_layout(const struct shunt_exchange *exchange)
{
	return &exchange->layouts[exchange->rank];
}

/* ---- padding ---------------------------------------------------------- */

static void blank_scales(struct shunt_exchange *exchange, struct step *step,
	int64_t first, int64_t count)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = own_layout(exchange);
	uint8_t *scales = own_array(exchange, step, layout->scales_off);
	int64_t bytes = shape->format.scale_bytes;
	int64_t per_row = shape->format.num_scales;

	if (!shape->column_major) {
		memset(scales + first * per_row * bytes, 0,
			(size_t)(count * per_row * bytes));
		return;
	}
	for (int64_t i = 0; i < per_row; i++)
		memset(scales + (i * layout->recv_rows + first) * bytes, 0,
			(size_t)(count * bytes));
}

/* Rows first .. first + count - 1 become x 0, scale 0, weight 0, source -1. */
static void blank_rows(struct shunt_exchange *exchange, struct step *step,
	int64_t first, int64_t count)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = own_layout(exchange);
	int64_t row_bytes = shape->format.row_bytes;

	if (count == 0)
		return;
	if (shape->layout != SHUNT_LAYOUT_INDEXED)
		memset((uint8_t *)own_array(exchange, step, layout->rows_off) +
				first * row_bytes,
			0, (size_t)(count * row_bytes));
	blank_scales(exchange, step, first, count);
	if (shape->format.has_row_scale)
		memset((float *)own_array(
			       exchange, step, layout->row_scales_off) +
				first,
			0, (size_t)count * sizeof(float));
	memset((float *)own_array(exchange, step, layout->weights_off) + first,
		0, (size_t)count * sizeof(float));
	memset((int32_t *)own_array(exchange, step, layout->source_off) +
			3 * first,
		-1, (size_t)(3 * count) * sizeof(int32_t));
}

void receive_padding(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = own_layout(exchange);
	const struct route *route = step->route;
	bool tails = exchange->accepted.config.zero_tail;

	if (!tails && shape->alignment == 1)
		return;
	for (int64_t l = 0; l < layout->num_local; l++) {
		int64_t rows = route->expert_rows[l];
		int64_t padded = shape_align(shape, rows);

		if (tails && shape->layout == SHUNT_LAYOUT_PADDED)
			padded = shape->rows_per_expert;
		blank_rows(exchange, step, route->expert_first_row[l] + rows,
			padded - rows);
	}
	if (tails)
		blank_rows(exchange, step, route->extent_rows,
			layout->recv_rows - route->extent_rows);
}

/* ---- outputs ---------------------------------------------------------- */

static void fill_experts(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;
	bool prefix = step->dispatch.prefix_token_nums;
	int64_t real = 0;
	int64_t padded = 0;

	for (int64_t l = 0; l < own_layout(exchange)->num_local; l++) {
		int64_t rows = route->expert_rows[l];

		real = prefix ? real + rows : rows;
		padded = (prefix ? padded : 0) + shape_align(shape, rows);
		step->token_nums[l] = real;
		step->padded_nums[l] = padded;
		step->first_row[l] = route->expert_first_row[l];
	}
}

/* Running totals of each EP group by itself, in the order of the rows. */
static void fill_counts(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;
	int64_t blocks =
		own_layout(exchange)->num_local * route->view->num_ranks;
	bool rank_order = exchange->accepted.config.tp_rank_order;

	for (int32_t order = 0; order < shape->tp_size; order++) {
		int32_t p =
			route_group_at(order, exchange->tp_rank, rank_order);
		int32_t *to = step->recv_counts + order * blocks;
		int32_t total = 0;

		for (int64_t b = 0; b < blocks; b++) {
			total += route->blocks[p * blocks + b];
			to[b] = total;
		}
		step->tp_counts[p] = total;
	}
}

static void fill_scales(struct shunt_exchange *exchange, struct step *step,
	struct shunt_dispatch_out *out)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = own_layout(exchange);
	bool brought = exchange->accepted.config.x_scales_per_row > 0;

	if (shape->format.num_scales == 0 || (brought && !step->has_x_scales))
		return;
	out->dynamic_scales = own_array(exchange, step, layout->scales_off);
	out->scale_row_stride =
		shape->column_major ? 1 : shape->format.num_scales;
	out->scale_group_stride = shape->column_major ? layout->recv_rows : 1;
	if (shape->format.has_row_scale)
		out->row_scales =
			own_array(exchange, step, layout->row_scales_off);
}

void receive_fill(struct shunt_exchange *exchange, struct step *step,
	struct shunt_dispatch_out *given)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = own_layout(exchange);
	struct shunt_dispatch_out out = {
		.num_rows = step->route->num_rows,
		.expert_token_nums = step->token_nums,
		.ep_recv_counts = step->recv_counts,
		.source = own_array(exchange, step, layout->source_off),
		.expert_rows = own_array(exchange, step, layout->results_off),
		.dropped_choices = step->dropped,
		.nan_elements = (int64_t)step->tally.nan_elements,
		.inf_elements = (int64_t)step->tally.inf_elements,
		.extent_rows = step->route->extent_rows,
		.num_local_experts = layout->num_local,
		.expert_first_row = step->first_row,
		.expert_padded_nums = step->padded_nums,
		.tp_recv_counts = shape->tp_size > 1 ? step->tp_counts : NULL,
	};

	fill_experts(exchange, step);
	fill_counts(exchange, step);
	if (shape->layout != SHUNT_LAYOUT_INDEXED)
		out.expand_x = own_array(exchange, step, layout->rows_off);
	if (step->route->has_weights)
		out.expand_weights =
			own_array(exchange, step, layout->weights_off);
	fill_scales(exchange, step, &out);
	config_write(given, &out, sizeof(out));
}

/* ---- rows by reference ------------------------------------------------ */

static enum shunt_status fail_reference(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member, int64_t row)
{
	char name[48];

	error_set(SHUNT_PEER_FAULT,
		"%s describes row %lld of step %llu as one that it cannot have "
		"sent (rank %d)",
		group_rank_text(exchange->group, member, name), (long long)row,
		(unsigned long long)step->epoch, exchange->rank);
	error_add_rank(member);
	return SHUNT_PEER_FAULT;
}

/* A block of rows that its sender keeps. */
struct kept_block {
	const struct row_cursor *block;
	int32_t member; /* the sender */
	bool vary;      /* it keeps a row per place, else per token */
	const volatile int32_t *source; /* of row 0; a peer's: read once */
};

static struct kept_block kept_block_of(const struct shunt_exchange *exchange,
	const struct step *step, const struct row_cursor *block)
{
	const struct view *view = step->route->view;
	int32_t index = block->tp * view->num_ranks + block->rank;

	return (struct kept_block){
		.block = block,
		.member = view->members[index],
		.vary = shape_varies_by_expert(exchange_shape(exchange)) &&
			step->vary[index],
		.source = own_array(
			exchange, step, own_layout(exchange)->source_off),
	};
}

/* Which of the sender's rows row i is, by the source that it wrote. Errors:
 * PEER_FAULT, if it has no such row. */
static enum shunt_status kept_index(const struct shunt_exchange *exchange,
	const struct step *step, const struct kept_block *kept, int64_t i,
	int64_t *index)
{
	const struct shape *shape = exchange_shape(exchange);
	int32_t from = kept->source[3 * i];
	int32_t token = kept->source[3 * i + 1];
	int32_t k = kept->source[3 * i + 2];

	if (from != kept->block->rank || token < 0 ||
		token >= shape->max_tokens || k < 0 || k >= shape->num_sends)
		return fail_reference(exchange, step, kept->member, i);
	*index = kept->vary ? token * shape->num_sends + k : token;
	return SHUNT_OK;
}

/* Fills in one block of references. */
static enum shunt_status refer_block(const struct shunt_exchange *exchange,
	const struct step *step, const struct row_cursor *block,
	struct shunt_reference *references)
{
	struct kept_block kept = kept_block_of(exchange, step, block);
	enum shunt_status status = SHUNT_OK;

	for (int64_t i = block->row; i < block->row + block->rows && !status;
		i++) {
		references[i].tp_rank = block->tp;
		references[i].rank = block->rank;
		status = kept_index(
			exchange, step, &kept, i, &references[i].row);
	}
	return status;
}

/* Pointers for one block of rows. */
static enum shunt_status point_block(const struct shunt_exchange *exchange,
	const struct step *step, const struct row_cursor *block,
	const void **rows)
{
	struct kept_block kept = kept_block_of(exchange, step, block);
	const uint8_t *base = exchange_share(exchange, step, kept.member);
	enum shunt_status status = SHUNT_OK;
	int64_t index = 0;

	for (int64_t i = block->row; i < block->row + block->rows && !status;
		i++) {
		status = kept_index(exchange, step, &kept, i, &index);
		rows[i] = base +
			  index * exchange_shape(exchange)->format.row_bytes;
	}
	return status;
}

static enum shunt_status fill_references(const struct shunt_exchange *exchange,
	const struct step *step, struct shunt_reference *references)
{
	bool rank_order = exchange->accepted.config.tp_rank_order;
	struct row_cursor block = {0};
	enum shunt_status status = SHUNT_OK;

	for (int64_t i = 0; i < step->route->extent_rows; i++)
		references[i] = (struct shunt_reference){-1, -1, -1};
	while (status == SHUNT_OK &&
		route_next_block(step->route, exchange_shape(exchange),
			rank_order, exchange->tp_rank, &block))
		status = refer_block(exchange, step, &block, references);
	return status;
}

static enum shunt_status fill_pointers(const struct shunt_exchange *exchange,
	const struct step *step, const void **rows)
{
	const struct shape *shape = exchange_shape(exchange);
	bool rank_order = exchange->accepted.config.tp_rank_order;
	const uint8_t *own =
		own_array(exchange, step, own_layout(exchange)->rows_off);
	struct row_cursor block = {0};
	enum shunt_status status = SHUNT_OK;

	for (int64_t i = 0; i < step->route->extent_rows; i++)
		rows[i] = shape->layout == SHUNT_LAYOUT_INDEXED
				  ? exchange->blank_row
				  : own + i * shape->format.row_bytes;
	while (shape->layout == SHUNT_LAYOUT_INDEXED && status == SHUNT_OK &&
		route_next_block(step->route, shape, rank_order,
			exchange->tp_rank, &block))
		status = point_block(exchange, step, &block, rows);
	return status;
}

/* ---- public ----------------------------------------------------------- */

static enum shunt_status enter_dispatched(struct shunt_handle handle,
	struct shunt_exchange **exchange, struct step **step)
{
	enum shunt_status status =
		exchange_enter_handle(handle, exchange, step);

	if (status != SHUNT_OK)
		return status;
	if ((*step)->state == STEP_DISPATCHED || (*step)->state == STEP_FEEDING)
		return SHUNT_OK;
	status = error_set(SHUNT_STATE,
		"the rows of step %llu are not there: its dispatch is not "
		"finished, or its combine has begun (rank %d)",
		(unsigned long long)(*step)->epoch, (*exchange)->rank);
	exchange_leave(*exchange);
	return status;
}

enum shunt_status shunt_dispatch_rows(
	struct shunt_handle handle, const void **rows)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status = enter_dispatched(handle, &exchange, &step);

	if (status != SHUNT_OK)
		return status;
	if (!rows && step->route->extent_rows > 0)
		status = error_set(SHUNT_NULL_ARGUMENT,
			"rows is NULL with %lld rows (rank %d)",
			(long long)step->route->extent_rows, exchange->rank);
	else
		status = fill_pointers(exchange, step, rows);
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_dispatch_references(
	struct shunt_handle handle, struct shunt_reference *references)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status = enter_dispatched(handle, &exchange, &step);

	if (status != SHUNT_OK)
		return status;
	if (exchange_shape(exchange)->layout != SHUNT_LAYOUT_INDEXED)
		status = error_set(SHUNT_UNSUPPORTED,
			"references are of layout INDEXED; this exchange has "
			"layout %d (rank %d)",
			(int)exchange_shape(exchange)->layout, exchange->rank);
	else if (!references && step->route->extent_rows > 0)
		status = error_set(SHUNT_NULL_ARGUMENT,
			"references is NULL with %lld rows (rank %d)",
			(long long)step->route->extent_rows, exchange->rank);
	else
		status = fill_references(exchange, step, references);
	exchange_leave(exchange);
	return status;
}
