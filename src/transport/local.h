/*
 * Segments that ranks of this process offer to each other, by their random
 * names. A name from the wire can be looked up here and no more: no pointer
 * ever comes from there. A forked child starts without any.
 */
#ifndef TRANSPORT_LOCAL_H
#define TRANSPORT_LOCAL_H

#include <stdint.h>

#include "memory/segment.h"

#define LOCAL_NAME_BYTES 16

/* Random bytes that name this process; a forked child has others. Errors:
 * NO_MEMORY, SYSTEM. */
enum shunt_status local_process(uint8_t process[LOCAL_NAME_BYTES]);

/* Offers the segment under the name until local_withdraw(). Holds a reference.
 * After local_process(). Errors: NO_MEMORY. */
enum shunt_status local_offer(
	const uint8_t name[LOCAL_NAME_BYTES], struct segment *segment);

/* Ends an offer; does nothing if there is none. */
void local_withdraw(const uint8_t name[LOCAL_NAME_BYTES]);

/* The segment under the name, with a reference for the caller; NULL if it is
 * not on offer. */
struct segment *local_find(const uint8_t name[LOCAL_NAME_BYTES]);

#endif
