/* Records: applying those that came, in order, and keeping those that have to
 * go out until there is room. Under the lock. */
#ifndef TRANSPORT_VERBS_RECORD_H
#define TRANSPORT_VERBS_RECORD_H

#include "transport/verbs.h"

/* A receive completed: one more record of the lane is there. */
void record_arrived(struct verbs_lane *lane, const struct ibv_wc *completion);

/* Makes sure that `num` records can be kept, besides those owed. Errors:
 * NO_MEMORY. */
enum shunt_status outbox_reserve(struct verbs_link *link, uint32_t num);

/* Keeps a record that outbox_reserve() made room for, to go out as soon as
 * it can, before any later addition. */
void outbox_add(struct verbs_link *link, const struct record *record);

/* Sends what is kept. True if all is out. */
bool outbox_send(struct verbs_link *link);

#endif
