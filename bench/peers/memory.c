/* Memory as it serves MPI best. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

#define HUGE_PAGE (INT64_C(2) << 20)

void *memory_take(int64_t bytes)
{
	int64_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
	size_t size = (size_t)((bytes / unit + 1) * unit);
	void *memory = aligned_alloc((size_t)unit, size);

	if (!memory) {
		fprintf(stderr, "no memory for %lld bytes\n", (long long)bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
		exit(1);
	}
	/* The kernel copies from rank to rank; it looks up fewer pages. */
	if (unit == HUGE_PAGE)
		madvise(memory, size, MADV_HUGEPAGE);
	memset(memory, 0, size);
	return memory;
}
