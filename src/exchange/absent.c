/* Left-out ranks of other hosts; see absent.h. */
#include "exchange/absent.h"

#include "base/clock.h"
#include "base/log.h"
#include "exchange/lines.h"
#include "exchange/step.h"

/* What an absent rank has said may still be on its way, though others have told the
 * application of it already. */
#define GRACE_NS INT64_C(500000000)

/* ---- what was announced to whom ------------------------------------------ */

/* In the view the rank, of another host, adds up what goes back to this one. */
static bool adds_up(const struct shunt_exchange *exchange,
	const struct view *view, int32_t rank)
{
	const struct shape *shape = exchange_shape(exchange);

	return shape->sums_by_host && view_rail(view, exchange->rank,
					      shape->hosts->host[rank]) == rank;
}

void absent_note(const struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	if (!view->table) {
		step->met_all = step->epoch;
		return;
	}
	for (int32_t i = 0;
		exchange_shape(exchange)->hosts && i < view->num_members; i++) {
		int32_t rank = view->members[i];

		if (exchange_is_far(exchange, rank))
			step->met[rank] = (struct met){
				step->epoch, adds_up(exchange, view, rank)};
	}
}

/* The slot's last step that was announced to the rank as one of its own. */
static struct met last_met(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	if (step->met_all < step->met[rank].epoch)
		return step->met[rank];
	return (struct met){
		step->met_all, adds_up(exchange, &exchange->whole, rank)};
}

/* ---- what they have said ------------------------------------------------- */

/* The rank has said a phase of this step, and that it goes no further in it. */
static bool has_dropped(const struct shunt_exchange *exchange,
	const struct step *step, uint64_t epoch, enum phase phase, int32_t rank)
{
	uint64_t said = line_of(exchange, step, phase, rank);

	return line_epoch(said) == epoch && line_code(said) != SIGNAL_OK;
}

/* The rank puts nothing more of the step that it met this one in, nor of any
 * before. A rank that begins a step of the slot has ended the one before. */
static bool is_through(const struct shunt_exchange *exchange,
	const struct step *step, const struct met *met, int32_t rank)
{
	uint64_t begun =
		line_epoch(line_of(exchange, step, PHASE_COUNTS, rank));

	if (begun != met->epoch)
		return begun > met->epoch;
	if (has_dropped(exchange, step, met->epoch, PHASE_COUNTS, rank) ||
		has_dropped(exchange, step, met->epoch, PHASE_ROWS, rank) ||
		has_dropped(exchange, step, met->epoch, PHASE_RESULTS, rank))
		return true;
	return line_epoch(line_of(exchange, step,
		       met->adds_up ? PHASE_SUMS : PHASE_RESULTS, rank)) ==
	       met->epoch;
}

bool absent_can_write(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	struct peer *peer = exchange->group->peers[rank];
	struct met met;

	if (!step->view->table || !exchange_is_far(exchange, rank) ||
		step->view->number[rank] >= 0 ||
		peer->ops->state(peer) != PEER_ALIVE ||
		step_has_closed(exchange, rank))
		return false;
	met = last_met(exchange, step, rank);
	return met.epoch > 0 && !is_through(exchange, step, &met, rank);
}

static void cut(const struct shunt_exchange *exchange, const struct step *step,
	int32_t rank)
{
	char name[48];

	if (far_cut(exchange->group->peers[rank]))
		log_note(LOG_WARN,
			"step %llu: elastic_info leaves out %s, which may "
			"still write rows of step %llu: it is lost to rank %d "
			"from now on",
			(unsigned long long)step->epoch,
			group_rank_text(exchange->group, rank, name),
			(unsigned long long)last_met(exchange, step, rank)
				.epoch,
			exchange->rank);
}

bool absent_are_out(
	const struct shunt_exchange *exchange, const struct step *step)
{
	int64_t now = clock_now();
	bool out = true;

	if (!step->view->table)
		return true;
	for (int32_t r = 0; r < exchange_shape(exchange)->num_members; r++) {
		int64_t *since = &exchange->absent_since[r];

		if (!absent_can_write(exchange, step, r))
			continue;
		out = false;
		/* From the first look on, whatever becomes of the step: who is
		 * left out stays so, and says nothing new. */
		if (*since == 0)
			*since = now;
		if (now - *since > GRACE_NS)
			cut(exchange, step, r);
	}
	return out;
}
