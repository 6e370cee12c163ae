/* How much memory this process may still take. */
#ifndef MEMORY_AVAILABLE_H
#define MEMORY_AVAILABLE_H

#include <stdint.h>

/*
 * The least of what the machine has available and what the limits of this
 * process's cgroups leave, in bytes; UINT64_MAX where neither can be read.
 * An estimate, asked before large allocations, so that they fail with an
 * error instead of waking the OOM killer.
 */
uint64_t available_bytes(void);

#endif
