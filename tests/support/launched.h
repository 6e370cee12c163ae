/*
 * A seat for a rank that a launcher has started, on any host: it joins as the
 * environment says, and is alone in its process. It shares no board with the
 * others, so that barriers, marks and shared memory of ranks.h are not there.
 */
#ifndef SUPPORT_LAUNCHED_H
#define SUPPORT_LAUNCHED_H

#include "support/ranks.h"

/* Joins, runs the function, leaves. The exit status of the rank: 0, or 1 when
 * it has failed; why is on stderr. */
int launched_run(ranks_function function, const void *context);

/* The numbers of a list such as "2,3", each in 0 .. 62, as bits; false if it is
 * none. */
bool launched_parse_ranks(const char *list, uint64_t *mask);

#endif
