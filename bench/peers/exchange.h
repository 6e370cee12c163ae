/* What MPI is asked to move. */
#ifndef PEERS_EXCHANGE_H
#define PEERS_EXCHANGE_H

#include "step.h"

/* Brings what lies in `from` for each rank to `to` there, in the way that
 * the shape's variant says. Byte counts of the own rank are 0. */
void exchange_bytes(const struct step *step, const struct side *from,
	const struct side *to);

#endif
