/*
 * Leaving ranks out, safely. A rank that an elastic_info table leaves out may be
 * alive: it may be writing rows of a step that the others have given up, or be
 * about to. Rows of the slot must not be written again until that is over.
 *
 * Two ranks, s that has the table and l that it leaves out, do this:
 *
 *	s: signals l that it is left out,	l: says in its head that it writes,
 *	   then looks into the head of l	   then looks for the signal of s
 *
 * by read-modify-writes, so that this order holds. Either l sees that it is left
 * out and writes nothing, or s sees that l writes and waits until it says that it
 * has written all. l writes to nobody before it has looked, so what s writes
 * afterwards is safe everywhere.
 *
 * Over several hosts nobody writes to another's rows in dispatch; what experts' rows
 * need there is in exchange/absent.h.
 */
#ifndef DISPATCH_REVOKE_H
#define DISPATCH_REVOKE_H

#include "exchange/exchange.h"

/* All ranks of the step's view agree to it: tells those whom its table newly
 * leaves out, and remembers the table. */
void revoke_left_out(
	struct shunt_exchange *exchange, const struct route *route);

/* True while a rank that is left out may still be writing rows of the step's
 * slot. */
bool revoke_is_pending(
	const struct shunt_exchange *exchange, const struct step *step);

/*
 * Before and after writing rows. False if a table has left this rank out: the
 * step has failed with MISMATCH, and nothing may be written.
 */
bool revoke_begin_writing(struct shunt_exchange *exchange, struct step *step);
void revoke_end_writing(struct shunt_exchange *exchange, struct step *step);

#endif
