/* Memory wiped on fork; see wiped.h. */
#include "transport/wiped.h"

#include <sys/mman.h>

#include "base/error.h"

enum shunt_status wiped_map(_Atomic(void *) *slot, size_t bytes)
{
	void *none = NULL;
	void *memory;

	if (atomic_load(slot))
		return SHUNT_OK;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return error_set_errno(SHUNT_NO_MEMORY,
			"mapping %zu bytes of the process's state", bytes);
	if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
		enum shunt_status status = error_set_errno(SHUNT_SYSTEM,
			"madvise(MADV_WIPEONFORK), which needs Linux 4.14");

		munmap(memory, bytes);
		return status;
	}
	if (!atomic_compare_exchange_strong(slot, &none, memory))
		munmap(memory, bytes); /* another thread was faster */
	return SHUNT_OK;
}
