/* Which ranks can hand descriptors to each other. */
#ifndef TRANSPORT_HOST_H
#define TRANSPORT_HOST_H

#include <stdint.h>

/*
 * Fills `id` with what is the same for all processes that see the same
 * abstract sockets: one boot of one kernel, one network namespace; where the
 * machine does not tell, for all ranks of the process named `process`. Ranks
 * with another `text` (NULL: "") are on another host.
 */
void host_id(uint8_t id[16], const uint8_t process[16], const char *text);

#endif
