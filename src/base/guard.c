/*
 * The fork guard: one page that holds this process's generation, and that the
 * kernel makes zero in a forked child. Zero therefore means: not initialised
 * in this process. No lock, because a lock may be held by a thread of the
 * parent that the child does not have.
 */
#include "base/guard.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

typedef _Atomic unsigned long guard_word;

/* Points to the page; made once, and kept by children, wiped. */
static _Atomic(guard_word *) guard_page;

/* How many generations this process and its forebears made. */
static _Atomic unsigned long num_generations;

static enum shunt_status map_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	guard_word *none = NULL;
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return error_set_errno(
			SHUNT_NO_MEMORY, "mapping the fork guard's page");
	if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
		enum shunt_status status = error_set_errno(SHUNT_SYSTEM,
			"madvise(MADV_WIPEONFORK), which needs Linux 4.14");

		munmap(page, bytes);
		return status;
	}
	if (!atomic_compare_exchange_strong(&guard_page, &none, page))
		munmap(page, bytes); /* another thread was faster */
	return SHUNT_OK;
}

enum shunt_status guard_init(void)
{
	unsigned long wiped = 0;

	if (!atomic_load(&guard_page)) {
		enum shunt_status status = map_page();

		if (status != SHUNT_OK)
			return status;
	}
	if (atomic_load(atomic_load(&guard_page)) == 0) {
		/* The count sets it apart from forebears, the pid from
		 * brothers. */
		unsigned long count = atomic_fetch_add(&num_generations, 1) + 1;
		unsigned long fresh = count << 32 | (unsigned long)getpid();

		atomic_compare_exchange_strong(
			atomic_load(&guard_page), &wiped, fresh);
	}
	return SHUNT_OK;
}

unsigned long guard_generation(void)
{
	guard_word *page =
		atomic_load_explicit(&guard_page, memory_order_acquire);

	return page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
}

enum shunt_status guard_check(unsigned long generation)
{
	if (generation != 0 && generation == guard_generation())
		return SHUNT_OK;
	return error_set(SHUNT_STATE,
		"this object was made before fork() by another process; a "
		"forked child must make its own world");
}
