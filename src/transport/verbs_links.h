/* All links of a far side: what they need, from what the hellos say. */
#ifndef TRANSPORT_VERBS_LINKS_H
#define TRANSPORT_VERBS_LINKS_H

#include "transport/verbs.h"

/* Makes a link for each far rank, with its lanes, not connected; sizes the
 * devices' queues for them, takes images and buffers. Errors: PEER_FAULT,
 * UNSUPPORTED, NO_MEMORY, SYSTEM. links_close() is due in any case. */
enum shunt_status links_open(struct far *far, int32_t num_ranks,
	const struct peer_hello *hellos, const bool *is_far);

/* Buries what is left, and frees all. The thread has been stopped. */
void links_close(struct far *far);

#endif
