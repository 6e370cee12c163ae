/* Memory that the launcher reserves and that all ranks share. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "machine.h"
#include "shared.h"

#define PAGE 4096

size_t shared_reserve(struct shared_layout *layout, size_t count, size_t bytes)
{
	size_t offset = layout->bytes;
	size_t total;

	if (__builtin_mul_overflow(count, bytes, &total) ||
		__builtin_add_overflow(total, PAGE - 1, &total) ||
		__builtin_add_overflow(
			layout->bytes, total / PAGE * PAGE, &layout->bytes))
		layout->too_big = true;
	return offset;
}

void *shared_map(const struct shared_layout *layout)
{
	void *memory;

	if (layout->too_big ||
		layout->bytes > (uint64_t)machine_available_bytes()) {
		errno = ENOMEM;
		return NULL;
	}
	memory = mmap(NULL, layout->bytes ? layout->bytes : PAGE,
		PROT_READ | PROT_WRITE,
		MAP_ANONYMOUS | MAP_NORESERVE |
			(layout->one_process ? MAP_PRIVATE : MAP_SHARED),
		-1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	/* A wish; where the kernel does not grant it small pages do. */
	madvise(memory, layout->bytes, MADV_HUGEPAGE);
	return memory;
}

void shared_unmap(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes ? bytes : PAGE);
}

void *shared_at(void *memory, size_t offset)
{
	return (char *)memory + offset;
}
