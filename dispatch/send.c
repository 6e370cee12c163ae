/* Sending rows; see send.h. */
#include "dispatch/send.h"

#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/fpenv.h"
#include "quant/scatter.h"

struct sender {
	struct shunt_exchange *exchange;
	struct step *step;
	const struct route *route;
	const struct shape *shape;
	scatter_fn *scatter;
	const uint8_t *x;
	int64_t x_pitch; /* bytes from row to row of x */
	const uint8_t *x_scales;
	int64_t scale_bytes; /* of a row */
	bool indexed;        /* rows stay here, receivers come for them */
};

/* One destination of a row: a row of a member's window. */
struct target {
	int32_t member;
	int64_t row;
};

/* A row's scales, as the kernels leave them. */
struct row_scales {
	const uint8_t *scales;
	float row_scale;
};

static void *array_of(
	const struct sender *sender, int32_t member, uint64_t array_off)
{
	return exchange_array(
		sender->exchange, member, array_off, sender->step);
}

/* Place `at` at TP rank q. */
static struct target target_of(
	const struct sender *sender, int64_t at, int32_t q)
{
	const struct view *view = sender->route->view;
	int32_t rank = view->placement.rank[sender->route->unit[at]];

	return (struct target){
		.member = view->members[q * view->num_ranks + rank],
		.row = route_row(sender->route, sender->shape->num_units, at,
			sender->exchange->tp_rank, q),
	};
}

static uint8_t *target_place(
	const struct sender *sender, const struct target *target)
{
	return (uint8_t *)array_of(sender, target->member,
		       sender->exchange->layouts[target->member].rows_off) +
	       target->row * sender->shape->format.row_bytes;
}

/* Where a row lies that receivers come for. */
static uint8_t *kept_place(const struct sender *sender, int64_t index)
{
	int32_t me = sender->exchange->rank;

	return (uint8_t *)array_of(
		       sender, me, sender->exchange->layouts[me].kept_off) +
	       index * sender->shape->format.row_bytes;
}

/* ---- what goes with a row --------------------------------------------- */

/* Column-major: scale i of all rows lies together. */
static void write_column(const struct sender *sender,
	const struct target *target, const uint8_t *scales)
{
	const struct layout *layout =
		&sender->exchange->layouts[target->member];
	int64_t bytes = sender->shape->format.scale_bytes;
	uint8_t *to = (uint8_t *)array_of(
			      sender, target->member, layout->scales_off) +
		      target->row * bytes;

	for (int64_t i = 0; i < sender->shape->format.num_scales; i++)
		memcpy(to + i * layout->recv_rows * bytes, scales + i * bytes,
			(size_t)bytes);
}

static void write_scales(const struct sender *sender,
	const struct target *target, const struct row_scales *scales)
{
	const struct layout *layout =
		&sender->exchange->layouts[target->member];
	int64_t bytes = sender->scale_bytes;
	uint8_t *to;

	if (sender->shape->column_major) {
		write_column(sender, target, scales->scales);
	} else {
		to = (uint8_t *)array_of(
			     sender, target->member, layout->scales_off) +
		     target->row * bytes;
		if (bytes == sizeof(float)) /* the usual one */
			memcpy(to, scales->scales, sizeof(float));
		else
			memcpy(to, scales->scales, (size_t)bytes);
	}
	if (sender->shape->format.has_row_scale)
		((float *)array_of(sender, target->member,
			layout->row_scales_off))[target->row] =
			scales->row_scale;
}

/* Writes all but the row itself. */
static void write_beside(const struct sender *sender,
	const struct target *target, int64_t token, int64_t k,
	const struct row_scales *scales)
{
	const struct layout *layout =
		&sender->exchange->layouts[target->member];
	const struct route *route = sender->route;
	int64_t topk = sender->shape->topk;
	int32_t *source = (int32_t *)array_of(
				  sender, target->member, layout->source_off) +
			  3 * target->row;

	source[0] = route->view->rank;
	source[1] = (int32_t)token;
	source[2] = (int32_t)k;
	if (route->has_weights)
		((float *)array_of(sender, target->member,
			layout->weights_off))[target->row] =
			k < topk ? route->weights[token * topk + k] : 1.0f;
	if (scales->scales)
		write_scales(sender, target, scales);
}

/* ---- rows ------------------------------------------------------------- */

static const uint8_t *row_of(const struct sender *sender, int64_t token)
{
	return sender->x + token * sender->x_pitch;
}

/* The x that is read after that of `token`: asked for while this is written. */
static struct ahead ahead_of(const struct sender *sender, int64_t token)
{
	if (token + 1 >= sender->route->num_tokens)
		return (struct ahead){NULL, 0};
	return (struct ahead){(const char *)row_of(sender, token + 1),
		sender->shape->x_row_bytes};
}

/* Quantizes a token for the expert with row `scale_row` of scales. */
static struct row_scales quantize(const struct sender *sender, int64_t token,
	int64_t scale_row, void *q, const void *next)
{
	struct scratch *scratch = &sender->exchange->scratch;
	const struct shunt_dispatch_args *args = &sender->step->dispatch;
	struct row_scales scales = {
		.scales = sender->scale_bytes ? scratch->row_scales : NULL,
	};
	int64_t offset = scale_row * sender->shape->hidden;
	struct quant_row row = {
		.q = q,
		.scales = scratch->row_scales,
		.row_scale = &scales.row_scale,
		.x = row_of(sender, token),
		.fixed = args->static_scales,
		.fixed_is_one = args->static_shape == SHUNT_STATIC_ONE,
		.hidden = sender->shape->hidden,
		.tally = &sender->step->tally,
		.next = next,
	};

	if (args->smooth_scales)
		row.smooth = args->smooth_scales + offset;
	if (args->static_scales && args->static_shape == SHUNT_STATIC_EXPERTS)
		row.fixed += offset;
	sender->exchange->quantize(&row);
	return scales;
}

/* The scales that x brings along. */
static struct row_scales brought_scales(
	const struct sender *sender, int64_t token)
{
	if (!sender->x_scales)
		return (struct row_scales){NULL, 0.0f};
	return (struct row_scales){
		sender->x_scales + token * sender->scale_bytes, 0.0f};
}

/* Where the one row of a token goes; returns to how many places. */
static int64_t list_places(
	const struct sender *sender, int64_t token, void **places)
{
	const struct shape *shape = sender->shape;
	int64_t at = token * shape->num_sends;
	const int32_t *unit = sender->route->unit + at;
	int64_t num_places = 0;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		for (int32_t q = 0; unit[k] >= 0 && q < shape->tp_size; q++) {
			struct target target;

			if (sender->indexed) {
				places[0] = kept_place(sender, token);
				return 1;
			}
			target = target_of(sender, at + k, q);
			places[num_places++] = target_place(sender, &target);
		}
	}
	return num_places;
}

/* Writes what goes with each row of a token. */
static void write_all_beside(const struct sender *sender, int64_t token,
	const struct row_scales *scales)
{
	const struct shape *shape = sender->shape;
	int64_t at = token * shape->num_sends;
	const int32_t *unit = sender->route->unit + at;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		for (int32_t q = 0; unit[k] >= 0 && q < shape->tp_size; q++) {
			struct target target = target_of(sender, at + k, q);

			write_beside(sender, &target, token, k, scales);
		}
	}
}

/* A token whose row is the same for all its places. With one place it is made
 * there; else it is made in the cache, and copied. */
static void send_token(const struct sender *sender, int64_t token)
{
	struct scratch *scratch = &sender->exchange->scratch;
	struct ahead ahead = ahead_of(sender, token);
	int64_t num_places = list_places(sender, token, scratch->places);
	const void *row = row_of(sender, token);
	struct row_scales scales;

	if (num_places == 0)
		return;
	if (sender->exchange->quantize && num_places == 1) {
		scales = quantize(
			sender, token, 0, scratch->places[0], ahead.next);
		write_all_beside(sender, token, &scales);
		return;
	}
	if (sender->exchange->quantize) {
		scales = quantize(sender, token, 0, scratch->row, NULL);
		row = scratch->row;
	} else {
		scales = brought_scales(sender, token);
	}
	write_all_beside(sender, token, &scales);
	sender->scatter(scratch->places, num_places, row,
		sender->shape->format.row_bytes, ahead);
}

/* Place k of a token whose row differs from expert to expert. */
static void send_place(const struct sender *sender, int64_t token, int64_t k)
{
	const struct shape *shape = sender->shape;
	int64_t at = token * shape->num_sends + k;
	int32_t unit = sender->route->unit[at];
	struct target target = target_of(sender, at, 0);
	uint8_t *place = sender->indexed ? kept_place(sender, at)
					 : target_place(sender, &target);
	struct ahead none = {NULL, 0};
	struct row_scales scales =
		quantize(sender, token, sender->route->view->scale_row[unit],
			place, ahead_of(sender, token).next);

	write_beside(sender, &target, token, k, &scales);
	for (int32_t q = 1; q < shape->tp_size; q++) {
		void *other;

		target = target_of(sender, at, q);
		write_beside(sender, &target, token, k, &scales);
		other = target_place(sender, &target);
		if (!sender->indexed)
			sender->scatter(&other, 1, place,
				shape->format.row_bytes, none);
	}
}

static void send_places(const struct sender *sender, int64_t token)
{
	const struct shape *shape = sender->shape;
	const int32_t *unit = sender->route->unit + token * shape->num_sends;

	for (int64_t k = 0; k < shape->num_sends; k++)
		if (unit[k] >= 0)
			send_place(sender, token, k);
}

bool send_rows_vary(const struct shunt_dispatch_args *args)
{
	return args->smooth_scales ||
	       (args->static_scales &&
		       args->static_shape == SHUNT_STATIC_EXPERTS);
}

/*
 * Rows that the sender's own cache would not hold go past it by streaming
 * stores: a regular store would first read the line that it overwrites.
 * With an expert working in between, the two kinds meet at about 3/4 of L2:
 * docs/performance.md has the figures.
 */
static bool rows_should_stream(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t places = shape->layout == SHUNT_LAYOUT_INDEXED
				 ? 1
				 : shape->num_sends * shape->tp_size;

	return step->dispatch.num_tokens * places * shape->format.row_bytes >
	       exchange->stream_bytes;
}

static struct sender sender_of(
	struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct shape *shape = exchange_shape(exchange);
	const struct quant_kernels *kernels = quant_kernels();
	int64_t stride = step->dispatch.x_stride;

	return (struct sender){
		.exchange = exchange,
		.step = step,
		.route = step->route,
		.shape = shape,
		.scatter = rows_should_stream(exchange, step)
				   ? kernels->scatter_stream
				   : kernels->scatter,
		.x = step->dispatch.x,
		.x_pitch = stride ? dtype_row_bytes(config->dtype, stride)
				  : shape->x_row_bytes,
		.x_scales = step->dispatch.x_scales,
		.scale_bytes = shape_scale_bytes(shape),
		.indexed = shape->layout == SHUNT_LAYOUT_INDEXED,
	};
}

/* Rows of a token that are written: one per place and TP rank, or with INDEXED
 * one per place, or one. */
static int64_t rows_written(
	const struct sender *sender, int64_t num_places, bool vary)
{
	if (!sender->indexed)
		return num_places * sender->shape->tp_size;
	return vary ? num_places : num_places > 0;
}

static void count_sent(const struct sender *sender, bool vary)
{
	struct shunt_stats *now = &sender->exchange->counters.now;
	const struct shape *shape = sender->shape;
	const int32_t *unit = sender->route->unit;
	int64_t beside =
		sender->scale_bytes + (shape->format.has_row_scale ? 4 : 0);
	int64_t sent = 0;
	int64_t written = 0;

	for (int64_t t = 0; t < sender->route->num_tokens; t++) {
		int64_t places = 0;

		for (int64_t k = 0; k < shape->num_sends; k++)
			places += *unit++ >= 0;
		sent += places * shape->tp_size;
		written += rows_written(sender, places, vary);
	}
	now->sent_rows += sent;
	now->dispatch_bytes +=
		sent * beside + written * shape->format.row_bytes;
}

void send_rows(struct shunt_exchange *exchange, struct step *step)
{
	int64_t from = clock_now();
	struct sender sender = sender_of(exchange, step);
	bool vary = send_rows_vary(&step->dispatch);
	struct fpenv caller = fpenv_enter();

	for (int64_t t = 0; t < step->dispatch.num_tokens; t++)
		if (vary)
			send_places(&sender, t);
		else
			send_token(&sender, t);
	scatter_fence();
	fpenv_leave(&caller);
	count_sent(&sender, vary);
	exchange->work_ns += clock_now() - from;
}
