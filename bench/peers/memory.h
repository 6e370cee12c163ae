/* Memory as it serves MPI best. */
#ifndef PEERS_MEMORY_H
#define PEERS_MEMORY_H

#include <stdint.h>

/* From a multiple of 64 on, zero and touched; large ranges in huge pages if
 * the machine gives any. Freed by free(). Ends the job if there is none. */
void *memory_take(int64_t bytes);

#endif
