/* Tokens that are summed early; see early.h. */
#include "combine/early.h"

#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "combine/reach.h"
#include "combine/tokens.h"
#include "exchange/step.h"

/* While experts are still to be fed, no call sums for much longer: the next
 * expert's rows are not to wait for it. */
#define FEEDING_NS 10000

/* ---- what tokens wait for ------------------------------------------------ */

/* Counts the places of each unit, and those of each token. */
static void count_places(struct early *early, const struct shape *shape,
	const struct route *route)
{
	memset(early->first, 0,
		(size_t)(shape->num_units + 1) * sizeof(*early->first));
	for (int64_t t = 0; t < route->num_tokens; t++) {
		const int32_t *unit = route->unit + t * shape->num_sends;

		early->missing[t] = 0;
		for (int64_t k = 0; k < shape->num_sends; k++) {
			if (unit[k] < 0)
				continue;
			early->first[unit[k] + 1]++;
			early->missing[t]++;
		}
	}
	for (int64_t u = 0; u < shape->num_units; u++)
		early->first[u + 1] += early->first[u];
}

static void list_tokens(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;
	struct early *early = &step->early;
	uint32_t *next = exchange->scratch.counts;

	memcpy(next, early->first, (size_t)shape->num_units * sizeof(*next));
	for (int64_t t = 0; t < route->num_tokens; t++)
		for (int64_t k = 0; k < shape->num_sends; k++) {
			int32_t unit = route->unit[t * shape->num_sends + k];

			if (unit >= 0)
				early->tokens[next[unit]++] = (int32_t)t;
		}
}

/* The local experts of rank i of the view that own tokens have rows at. */
static void list_awaited(struct step *step, int32_t i)
{
	const struct placement *placement = &step->view->placement;
	struct early *early = &step->early;
	const int32_t *units = placement->order + placement->first[i];
	int32_t *awaited = early->awaited + placement->first[i];
	int32_t num = 0;

	for (int64_t l = 0; l < placement_num_local(placement, i); l++)
		if (early->first[units[l] + 1] > early->first[units[l]])
			awaited[num++] = (int32_t)l;
	early->num_awaited[i] = num;
}

/* Tokens that have no row anywhere. */
static void list_ready(struct early *early, const struct route *route)
{
	for (int64_t t = 0; t < route->num_tokens; t++)
		if (early->missing[t] == 0)
			early->ready[early->num_ready++] = (int32_t)t;
}

void early_begin(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	struct early *early = &step->early;

	early->is_on = shape_signals_done(shape);
	if (!early->is_on)
		return;
	early->bytes_read = 0;
	early->num_ready = 0;
	early->num_summed = 0;
	count_places(early, shape, step->route);
	list_tokens(exchange, step);
	list_ready(early, step->route);
	for (int32_t i = 0; i < step->view->num_ranks; i++)
		list_awaited(step, i);
	reach_locate_fed(exchange, step);
}

/* ---- what has come -------------------------------------------------------- */

static void take_token(struct early *early, int32_t token)
{
	early->ready[early->num_ready++] = token;
}

static void take_unit(struct early *early, int32_t unit)
{
	for (uint32_t i = early->first[unit]; i < early->first[unit + 1]; i++)
		if (--early->missing[early->tokens[i]] == 0)
			take_token(early, early->tokens[i]);
}

/* Takes the experts of rank i of the view whose rows have come. */
static void take_rank(
	struct shunt_exchange *exchange, struct step *step, int32_t i)
{
	const struct placement *placement = &step->view->placement;
	struct early *early = &step->early;
	int32_t rank = step->view->members[i];
	const _Atomic uint64_t *done = step_done_words(exchange, step, rank);
	int32_t *awaited = early->awaited + placement->first[i];
	bool all = step_has_signal(exchange, step, rank) &&
		   reach_locate_announced(exchange, step, i);
	int32_t num = 0;

	for (int32_t n = 0; n < early->num_awaited[i]; n++) {
		int32_t local = awaited[n];

		if (all || order_acquire(&done[local]) == step->epoch)
			take_unit(early,
				placement->order[placement->first[i] + local]);
		else
			awaited[num++] = local;
	}
	early->num_awaited[i] = num;
}

/* Sums the tokens that are ready; with a span, as many as that takes. */
static void sum_ready(
	struct shunt_exchange *exchange, struct step *step, int64_t span_ns)
{
	struct early *early = &step->early;
	int64_t from = clock_now();

	early->num_summed += tokens_sum_some(exchange, step,
		early->ready + early->num_summed,
		early->num_ready - early->num_summed,
		span_ns ? from + span_ns : INT64_MAX, &early->bytes_read);
	exchange->work_ns += clock_now() - from;
}

void early_look(struct shunt_exchange *exchange, struct step *step)
{
	const struct early *early = &step->early;

	for (int32_t i = 0; i < step->view->num_ranks; i++)
		if (early->num_awaited[i] > 0)
			take_rank(exchange, step, i);
	if (early->num_summed < early->num_ready)
		sum_ready(exchange, step,
			step->state == STEP_FEEDING ? FEEDING_NS : 0);
}

void early_finish(struct shunt_exchange *exchange, struct step *step)
{
	struct early *early = &step->early;

	for (int64_t t = 0; t < step->route->num_tokens; t++)
		if (early->missing[t] > 0)
			take_token(early, (int32_t)t);
	sum_ready(exchange, step, 0);
	tokens_count_bytes(exchange, early->bytes_read);
}
