/* Sizes of this machine's caches, where a choice of kernel depends on them. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdint.h>

/* Bytes of a core's largest private cache (L2), 1 MiB where the machine does
 * not tell. Asks once per process; the first call is slow. */
int64_t cache_private_bytes(void);

#endif
