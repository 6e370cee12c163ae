/* Rows for other hosts; see cross.h. */
#include "dispatch/cross.h"

#include <string.h>

#include "base/clock.h"
#include "dispatch/send.h"
#include "dispatch/share.h"
#include "exchange/span.h"

/* Rows are made in pieces, so that the first ones are on the wire while the next
 * are made. */
#define PIECE_TOKENS 16

struct cross {
	struct shunt_exchange *exchange;
	struct step *step;
	struct share share;
	bool vary;
};

/* A member of another host who gets a copy. */
struct target {
	int32_t member;
	uint64_t share_off; /* in its window */
};

/* ---- who needs what ------------------------------------------------------ */

/* True if `member` or, with rows by host, its host has the unit's expert. */
static bool unit_is_there(
	const struct cross *cross, const struct target *target, int32_t unit)
{
	const struct view *view = cross->step->view;
	const struct shape *shape = exchange_shape(cross->exchange);

	for (int32_t q = 0; q < shape->tp_size; q++) {
		int32_t member = view->members[q * view->num_ranks +
					       view->placement.rank[unit]];

		if (member == target->member ||
			(shape->rows_by_host &&
				hosts_share(
					shape->hosts, member, target->member)))
			return true;
	}
	return false;
}

static bool place_is_there(
	const struct cross *cross, const struct target *target, int64_t at)
{
	int32_t unit = cross->step->route->unit[at];

	return unit >= 0 && unit_is_there(cross, target, unit);
}

static bool token_goes_there(
	const struct cross *cross, const struct target *target, int64_t token)
{
	int64_t num_sends = exchange_shape(cross->exchange)->num_sends;

	for (int64_t k = 0; k < num_sends; k++)
		if (place_is_there(cross, target, token * num_sends + k))
			return true;
	return false;
}

/* ---- sending ------------------------------------------------------------- */

static void put_part(struct cross *cross, const struct target *target,
	const void *from, int64_t bytes)
{
	const uint8_t *base = cross->share.rows; /* they come first */
	uint64_t at = (uint64_t)((const uint8_t *)from - base);

	span_put(cross->exchange, PHASE_COUNTS, target->member,
		target->share_off + at, from, (uint64_t)bytes);
}

/* Rows first .. end - 1 of the share that the target needs, neighbours in one
 * piece. */
static void send_rows_of(struct cross *cross, const struct target *target,
	int64_t first, int64_t end,
	bool (*is_needed)(const struct cross *, const struct target *, int64_t))
{
	int64_t row_bytes = exchange_shape(cross->exchange)->format.row_bytes;
	int64_t run = first;

	for (int64_t i = first; i < end; i++) {
		if (is_needed(cross, target, i))
			continue;
		put_part(cross, target, cross->share.rows + run * row_bytes,
			(i - run) * row_bytes);
		run = i + 1;
	}
	put_part(cross, target, cross->share.rows + run * row_bytes,
		(end - run) * row_bytes);
}

static void send_piece(struct cross *cross, const struct target *target,
	int64_t first, int64_t end)
{
	int64_t num_sends = exchange_shape(cross->exchange)->num_sends;

	if (cross->vary)
		send_rows_of(cross, target, first * num_sends, end * num_sends,
			place_is_there);
	else
		send_rows_of(cross, target, first, end, token_goes_there);
}

static void send_offer(struct cross *cross, const struct target *target)
{
	const struct shape *shape = exchange_shape(cross->exchange);
	const struct share *share = &cross->share;
	int64_t tokens = cross->step->route->num_tokens;
	int64_t rows = cross->vary ? tokens * shape->num_sends : tokens;

	put_part(cross, target, share->places, tokens * shape->num_sends * 4);
	if (share_has_weights(cross->step))
		put_part(cross, target, share->weights,
			tokens * shape->topk * 4);
	if (shape->format.has_row_scale)
		put_part(cross, target, share->row_scales, rows * 4);
	put_part(cross, target, share->scales, rows * shape_scale_bytes(shape));
}

/* ---- targets ------------------------------------------------------------- */

/* The i-th target of this rank in the step, if there is one. */
static bool get_target(
	const struct cross *cross, int32_t i, struct target *target)
{
	const struct shunt_exchange *exchange = cross->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = cross->step->view;
	int32_t member;

	if (shape->rows_by_host)
		member = view_rail(view, exchange->rank, i);
	else
		member = view->members[i];
	if (member < 0 || !exchange_is_far(exchange, member))
		return false;
	target->member = member;
	target->share_off = layout_landed_share(&exchange->layouts[member],
		exchange->landing_there[member], cross->step->epoch);
	return true;
}

static int32_t num_candidates(const struct cross *cross)
{
	const struct view *view = cross->step->view;

	return exchange_shape(cross->exchange)->rows_by_host
		       ? view->num_hosts
		       : view->num_members;
}

static void send_piece_to_all(struct cross *cross, int64_t first, int64_t end)
{
	struct target target;

	share_rows(cross->exchange, cross->step, first, end);
	for (int32_t i = 0; i < num_candidates(cross); i++)
		if (get_target(cross, i, &target))
			send_piece(cross, &target, first, end);
}

/* ---- what it had to be ---------------------------------------------------- */

/* A row and its scales for each other host that a token goes to. */
static int64_t ideal_bytes(const struct cross *cross)
{
	const struct shunt_exchange *exchange = cross->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = cross->step->view;
	const struct route *route = cross->step->route;
	uint32_t *stamp = exchange->scratch.host_stamp;
	int64_t rows = 0;

	memset(stamp, 0, (size_t)view->num_hosts * sizeof(*stamp));
	for (int64_t at = 0; at < route->num_tokens * shape->num_sends; at++) {
		uint32_t token = (uint32_t)(at / shape->num_sends) + 1;
		int32_t unit = route->unit[at];

		for (int32_t q = 0; unit >= 0 && q < shape->tp_size; q++) {
			int32_t member =
				view->members[q * view->num_ranks +
					      view->placement.rank[unit]];
			int32_t host = shape->hosts->host[member];

			if (!exchange_is_far(exchange, member) ||
				stamp[host] == token)
				continue;
			stamp[host] = token;
			rows++;
		}
	}
	return rows * (shape->format.row_bytes + shape_scale_bytes(shape) +
			      (shape->format.has_row_scale ? 4 : 0));
}

void cross_send(struct shunt_exchange *exchange, struct step *step)
{
	int64_t tokens = step->route->num_tokens;
	int64_t from = clock_now();
	struct cross cross = {
		.exchange = exchange,
		.step = step,
		.share = share_of(exchange, step, exchange->rank),
		.vary = send_rows_vary(&step->dispatch),
	};
	struct target target;

	for (int64_t t = 0; t < tokens; t += PIECE_TOKENS)
		send_piece_to_all(&cross, t,
			tokens - t < PIECE_TOKENS ? tokens : t + PIECE_TOKENS);
	share_places(exchange, step);
	for (int32_t i = 0; i < num_candidates(&cross); i++)
		if (get_target(&cross, i, &target))
			send_offer(&cross, &target);
	exchange->counters.now.ideal_wire_bytes += ideal_bytes(&cross);
	exchange->work_ns += clock_now() - from;
}
