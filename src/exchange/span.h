/*
 * Exchanges over several hosts: what members of other hosts get by puts, since
 * they cannot look into this rank's window, nor it into theirs. docs/protocol.md
 * has the order of it all.
 */
#ifndef EXCHANGE_SPAN_H
#define EXCHANGE_SPAN_H

#include "exchange/exchange.h"

/* Puts bytes of this rank's segment to an offset of a member's window. They can
 * be read there behind the next signal to that member. `phase` says what they are
 * part of, for the statistics. */
void span_put(struct shunt_exchange *exchange, enum phase phase, int32_t member,
	uint64_t to, const void *bytes, uint64_t num_bytes);

/*
 * The signal of a phase to a member of another host: adds to its line, and
 * brings along what members of this host would read here: head and counts with
 * COUNTS, the note with RESULTS.
 */
void span_signal(struct shunt_exchange *exchange, const struct step *step,
	int32_t member, enum phase phase, uint64_t line, uint64_t add);

/* True once the sources of all puts of this rank may be overwritten: they have
 * gone, or whom they were for is lost. */
bool span_is_flushed(const struct shunt_exchange *exchange);

/* The same of those to one member. */
bool span_is_flushed_to(const struct shunt_exchange *exchange, int32_t member);

/* Waits for that, as long as wires move what is on its way, or the transport needs to
 * find a peer dead. */
void span_flush(struct shunt_exchange *exchange);

/* Lets a step wait for that (drive.h): what earlier steps have sent is not read
 * any more where it lies, so that it may write there. */
void span_await_flush(struct step *step);

#endif
