/* Puts: cut into writes, spread over lanes, with the record behind them. Under
 * the lock. */
#ifndef TRANSPORT_VERBS_PUT_H
#define TRANSPORT_VERBS_PUT_H

#include "transport/verbs.h"

/* As struct transport_ops has it. */
enum shunt_status put_start(struct verbs_link *link, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
	uint64_t add, bool *again);

/* Moves the put under way along. True if there is none any more. */
bool put_continue(struct verbs_link *link);

#endif
