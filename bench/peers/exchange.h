/* What MPI is asked to move, and how. */
#ifndef PEERS_EXCHANGE_H
#define PEERS_EXCHANGE_H

#include "step.h"

/* Brings each rank's send_sizes to recv_sizes. */
void exchange_sizes(struct step *step);

/* Brings what lies in `from` for each rank to `to` there; the bytes of both
 * are known. Not for VARIANT_DIRECT. */
void exchange_bytes(const struct step *step, const struct side *from,
	const struct side *to);

/* VARIANT_DIRECT. Blocks of unknown size: expect them, pack, send. */
void exchange_expect_blocks(struct step *step);
void exchange_send_blocks(struct step *step);

/* VARIANT_DIRECT. Each expert's rows for a rank are a message of their own,
 * from y to where that rank's sum reads them. */
void exchange_answers(struct step *step);

#endif
