/*
 * What every step does whatever it carries: signals, waits, refusals.
 *
 * A signal is a counted put of length 0 to a line of each rank's window (or, to
 * another host, of what is read here by others: span.h). A
 * line's value is epoch * 256 + code; as each line has one writer, adding the
 * difference to the value before makes the sum the new value. A done word, of an
 * expert's rows on their way home, has the epoch alone.
 */
#ifndef EXCHANGE_STEP_H
#define EXCHANGE_STEP_H

#include "exchange/exchange.h"

/* Tells every rank, this one included, that a phase of the step is done. */
void step_signal(struct shunt_exchange *exchange, struct step *step,
	enum phase phase, enum signal_code code);

/* With rows by host, unless it was told before: what landed in this rank's window is
 * there, since all have announced the step; or with another code, nobody of this host
 * shall wait for it. */
void step_signal_landed(struct shunt_exchange *exchange, struct step *step,
	enum signal_code code);

/* Tells the ranks that have rows at this rank's local expert that these can be
 * read. Needs shape_signals_done(). */
void step_signal_done(
	struct shunt_exchange *exchange, struct step *step, int64_t local);

/* [L of `rank`]: those of its local experts whose rows can be read have the
 * step's epoch here. */
const _Atomic uint64_t *step_done_words(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* Does the step wait for the awaited phase of `rank` at all? */
bool step_expects(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* True if `rank` has signalled the phase that the step waits for. */
bool step_has_signal(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* Over several hosts: true once the members of other hosts have fetched their rows
 * of this step. Until then what is put to `back` there could meet rows of an earlier
 * step that are on their way (docs/protocol.md). */
bool step_far_have_fetched(
	const struct shunt_exchange *exchange, const struct step *step);

/* True if `rank` has said that it will not come to this exchange again. */
bool step_has_closed(const struct shunt_exchange *exchange, int32_t rank);

/* True while member `rank`, which the step's table has left out, is writing rows
 * of an earlier step to the slot; a rank that is gone is not. */
bool step_is_writing(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* The code of a signal that is there. */
enum signal_code step_signal_code(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* Begins to wait for a phase of all ranks. */
void step_await(struct step *step, enum phase phase,
	void (*advance)(struct shunt_exchange *, struct step *));

/*
 * Drives all steps in flight until this one waits for nothing more. `what`
 * goes into messages. Adds the time waited for each rank to performance_info
 * (may be NULL), and that for all to *waited_ns. Errors: TIMEOUT (the step goes
 * on), PEER_LOST (all steps are over and the exchange is broken), and what the
 * step failed with (it is over).
 */
enum shunt_status step_wait(struct shunt_exchange *exchange, struct step *step,
	const char *what, int64_t span_ns, int64_t *performance_info,
	int64_t *waited_ns);

/* True if no handle refers to the step. */
static inline bool step_is_over(const struct step *step)
{
	return step->state == STEP_FREE || step->state == STEP_DRAINING;
}

/* True once the combine of the step has begun. */
static inline bool step_is_combining(const struct step *step)
{
	return step->state == STEP_FEEDING || step->state == STEP_COMBINING ||
	       step->state == STEP_COMBINED ||
	       (step->state == STEP_FAILED && step->awaited >= PHASE_RESULTS);
}

/* Can the next step begin? Errors: STATE (depth steps are in flight). */
enum shunt_status step_check_free(struct shunt_exchange *exchange);

/*
 * Claims the slot of the next epoch, which is free, for the ranks of `view`.
 * Errors: TIMEOUT and PEER_LOST (after a refused step, whose end the others have not
 * yet reached; over several hosts, while what earlier steps have sent is on its way).
 */
enum shunt_status step_claim(struct shunt_exchange *exchange,
	const struct view *view, int64_t span_ns, struct step **step);

/*
 * Ends a step that this rank's own arguments spoil: tells the others why
 * (head at dispatch, note at combine), keeping the current error of the
 * thread. Returns `status`.
 */
enum shunt_status step_refuse(struct shunt_exchange *exchange,
	struct step *step, enum phase phase, enum shunt_status status);

/* Notes why the step fails: `rank` (-1: none), and a printf message. */
void step_fail(struct step *step, enum shunt_status status, int32_t rank,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Notes that it fails by what `rank` signalled in the awaited phase; `head` is
 * where that rank gave its reason. */
void step_fail_refused(struct shunt_exchange *exchange, struct step *step,
	int32_t rank, const struct step_head *head);

/*
 * Takes in the awaited signals in order of ranks. True when all are there and
 * good; a rank that refused or gave up fails the step. `head_of` says where a
 * rank gives its reason.
 */
bool step_collect(struct shunt_exchange *exchange, struct step *step,
	struct step_head *(*head_of)(const struct shunt_exchange *exchange,
		int32_t rank, const struct step *step));

/* Ends the waiting of a step that failed, but for the way of its y to other hosts;
 * its finish will tell. */
void step_end_failed(struct shunt_exchange *exchange, struct step *step);

/* The same before all have announced the step: its finish tells at once, and
 * its slot drains then. */
void step_end_early(struct step *step);

/* Ends a step; its slot is free. */
void step_end(struct step *step);

/* Ends a step that this rank does not want any more, whatever its state, and
 * tells the others what they will not get. */
void step_give_up(struct shunt_exchange *exchange, struct step *step);

#endif
