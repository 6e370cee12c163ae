/* Tokens that are summed early; see early.h. */
#include "combine/early.h"

#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "combine/reach.h"
#include "combine/tokens.h"
#include "exchange/step.h"

#define IS_SUMMED (-1)

/* Tokens that can be summed, in scratch.ready. */
struct batch {
	int32_t *tokens;
	int64_t num_tokens;
};

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

void early_begin(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	struct early *early = &step->early;

	early->is_on = shape_signals_done(shape);
	if (!early->is_on)
		return;
	early->has_looked = false;
	early->rows_read = 0;
	count_places(early, shape, step->route);
	list_tokens(exchange, step);
	for (int32_t i = 0; i < step->view->num_ranks; i++)
		list_awaited(step, i);
	reach_locate_fed(exchange, step);
}

/* ---- what has come -------------------------------------------------------- */

static void take_unit(struct early *early, int32_t unit, struct batch *batch)
{
	for (uint32_t i = early->first[unit]; i < early->first[unit + 1]; i++) {
		int32_t token = early->tokens[i];

		if (--early->missing[token] == 0)
			batch->tokens[batch->num_tokens++] = token;
	}
}

/* Takes the experts of rank i of the view whose rows have come. */
static void take_rank(struct shunt_exchange *exchange, struct step *step,
	int32_t i, struct batch *batch)
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
				placement->order[placement->first[i] + local],
				batch);
		else
			awaited[num++] = local;
	}
	early->num_awaited[i] = num;
}

/* Tokens that have no row anywhere, or, with `all`, all that are left. */
static void take_left(struct step *step, bool all, struct batch *batch)
{
	const struct early *early = &step->early;

	for (int64_t t = 0; t < step->route->num_tokens; t++)
		if (early->missing[t] == 0 ||
			(all && early->missing[t] != IS_SUMMED))
			batch->tokens[batch->num_tokens++] = (int32_t)t;
}

static void sum_batch(struct shunt_exchange *exchange, struct step *step,
	const struct batch *batch)
{
	struct early *early = &step->early;
	int64_t from = clock_now();

	early->rows_read += tokens_sum_some(
		exchange, step, batch->tokens, batch->num_tokens);
	for (int64_t i = 0; i < batch->num_tokens; i++)
		early->missing[batch->tokens[i]] = IS_SUMMED;
	exchange->work_ns += clock_now() - from;
}

void early_look(struct shunt_exchange *exchange, struct step *step)
{
	struct batch batch = {.tokens = exchange->scratch.ready};

	if (!step->early.has_looked)
		take_left(step, false, &batch);
	step->early.has_looked = true;
	for (int32_t i = 0; i < step->view->num_ranks; i++)
		if (step->early.num_awaited[i] > 0)
			take_rank(exchange, step, i, &batch);
	if (batch.num_tokens > 0)
		sum_batch(exchange, step, &batch);
}

void early_finish(struct shunt_exchange *exchange, struct step *step)
{
	struct batch batch = {.tokens = exchange->scratch.ready};

	take_left(step, true, &batch);
	if (batch.num_tokens > 0)
		sum_batch(exchange, step, &batch);
	tokens_count_rows(exchange, step->early.rows_read);
}
