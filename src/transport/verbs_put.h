/* Puts: cut into writes, spread over lanes, with the record behind them. Under
 * the lock. */
#ifndef TRANSPORT_VERBS_PUT_H
#define TRANSPORT_VERBS_PUT_H

#include "transport/verbs.h"

/* As struct transport_ops has it. */
enum shunt_status put_start(
	struct verbs_link *link, const struct verbs_put *put, bool *again);

/* Moves the put under way along, and those that wait. True if there is none any
 * more. */
bool put_continue(struct verbs_link *link);

#endif
