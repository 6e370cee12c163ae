/* Sending rows; see send.h. */
#include "dispatch/send.h"

#include "base/clock.h"
#include "base/fpenv.h"
#include "dispatch/beside.h"
#include "quant/kernels.h"

struct sender {
	struct shunt_exchange *exchange;
	struct step *step;
	const struct route *route;
	const struct shape *shape;
	scatter_fn *scatter;
	bool streams; /* by streaming stores */
	bool indexed; /* rows stay here, receivers come for them */
};

/* One destination of a row: a row of a member's window. */
struct target {
	int32_t member;
	int64_t row;
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
	return exchange_share(
		       sender->exchange, sender->step, sender->exchange->rank) +
	       index * sender->shape->format.row_bytes;
}

/* Writes what goes with the row of place k of a token. */
static void write_beside(const struct sender *sender,
	const struct target *target, int64_t token, int64_t k,
	const struct token_scales *scales)
{
	static const float one = 1.0f; /* of shared experts */
	const struct route *route = sender->route;
	int64_t topk = sender->shape->topk;
	struct beside beside = {
		.source = route->view->rank,
		.token = (int32_t)token,
		.k = (int32_t)k,
		.scales = *scales,
	};

	if (route->has_weights)
		beside.weight =
			k < topk ? &route->weights[token * topk + k] : &one;
	beside_write(sender->exchange, sender->step, target->member,
		target->row, &beside);
}

/* ---- rows ------------------------------------------------------------- */

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
	const struct token_scales *scales)
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

/* A token whose row is the same for all its places. With one place in the
 * caches it is made there; else it is made here, and copied. */
static void send_token(const struct sender *sender, int64_t token)
{
	struct shunt_exchange *exchange = sender->exchange;
	struct scratch *scratch = &exchange->scratch;
	struct step *step = sender->step;
	struct ahead ahead = token_ahead(exchange, step, token);
	int64_t num_places = list_places(sender, token, scratch->places);
	const void *row = token_x(exchange, step, token);
	struct token_scales scales;

	if (num_places == 0)
		return;
	if (exchange->quantize && num_places == 1 && !sender->streams) {
		scales = token_quantize(exchange, step, token, 0,
			scratch->places[0], ahead.next);
		write_all_beside(sender, token, &scales);
		return;
	}
	if (exchange->quantize) {
		scales = token_quantize(
			exchange, step, token, 0, scratch->row, NULL);
		row = scratch->row;
	} else {
		scales = token_brought(exchange, step, token);
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
	struct token_scales scales = token_quantize(sender->exchange,
		sender->step, token, sender->route->view->scale_row[unit],
		place, token_ahead(sender->exchange, sender->step, token).next);

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
	const struct shape *shape = exchange_shape(exchange);
	const struct quant_kernels *kernels = quant_kernels();
	bool streams = rows_should_stream(exchange, step);

	return (struct sender){
		.exchange = exchange,
		.step = step,
		.route = step->route,
		.shape = shape,
		.scatter = streams ? kernels->scatter_stream : kernels->scatter,
		.streams = streams,
		.indexed = shape->layout == SHUNT_LAYOUT_INDEXED,
	};
}

/* Rows of a token that are written: one per place and TP rank, or with INDEXED
 * one per place, or one. */
static int64_t rows_written(
	const struct shape *shape, int64_t num_places, bool vary)
{
	if (shape->layout != SHUNT_LAYOUT_INDEXED)
		return num_places * shape->tp_size;
	return vary ? num_places : num_places > 0;
}

void send_count(struct shunt_exchange *exchange, const struct step *step)
{
	struct shunt_stats *now = &exchange->counters.now;
	const struct shape *shape = exchange_shape(exchange);
	const int32_t *unit = step->route->unit;
	bool vary = send_rows_vary(&step->dispatch);
	int64_t beside = shape_scale_bytes(shape) +
			 (shape->format.has_row_scale ? 4 : 0);
	int64_t sent = 0;
	int64_t written = 0;

	for (int64_t t = 0; t < step->route->num_tokens; t++) {
		int64_t places = 0;

		for (int64_t k = 0; k < shape->num_sends; k++)
			places += *unit++ >= 0;
		sent += places * shape->tp_size;
		written += rows_written(shape, places, vary);
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

	step->tally = (struct quant_tally){0}; /* rows may have been offered */
	for (int64_t t = 0; t < step->dispatch.num_tokens; t++)
		if (vary)
			send_places(&sender, t);
		else
			send_token(&sender, t);
	scatter_fence();
	fpenv_leave(&caller);
	send_count(exchange, step);
	exchange->work_ns += clock_now() - from;
}
