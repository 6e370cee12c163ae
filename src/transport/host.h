/* Which ranks can hand descriptors to each other. */
#ifndef TRANSPORT_HOST_H
#define TRANSPORT_HOST_H

#include <stdint.h>

/*
 * Fills `id` with what is the same for all processes that see the same
 * abstract sockets: one boot of one kernel, one network namespace. Random
 * where the machine does not tell.
 */
void host_id(uint8_t id[16]);

#endif
