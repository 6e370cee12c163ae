/* Owns pages that may not be read, and canaries. */
#include "support/fence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CANARY   0xa5
#define MOAT     128 /* canaries on each side, at least */
#define MOAT_MAX 64  /* misalignments */

void fence_init(struct fence *fence, size_t max_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	fence->bytes = (max_bytes + 1 + page - 1) / page * page;
	fence->base = mmap(NULL, fence->bytes + page, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(fence->base, MAP_FAILED);
	assert_int_equal(
		mprotect(fence->base + fence->bytes, page, PROT_NONE), 0);
}

void fence_fini(struct fence *fence)
{
	munmap(fence->base, fence->bytes + (size_t)sysconf(_SC_PAGESIZE));
}

void *fence_put(struct fence *fence, const void *data, size_t bytes, size_t gap)
{
	uint8_t *copy = fence->base + fence->bytes - bytes - gap;

	assert_true(bytes + gap <= fence->bytes);
	return memcpy(copy, data, bytes);
}

void moat_init(struct moat *moat, size_t max_bytes)
{
	moat->max_bytes = max_bytes;
	moat->base = aligned_alloc(
		64, (max_bytes + 2 * MOAT + MOAT_MAX + 63) / 64 * 64);
	assert_non_null(moat->base);
}

void moat_fini(struct moat *moat)
{
	free(moat->base);
}

void *moat_open(struct moat *moat, size_t bytes, size_t misalign)
{
	assert_true(bytes <= moat->max_bytes);
	moat->offset = MOAT + misalign;
	moat->bytes = bytes;
	memset(moat->base, CANARY, moat->offset + bytes + MOAT);
	return moat->base + moat->offset;
}

void moat_check(const struct moat *moat)
{
	const uint8_t *after = moat->base + moat->offset + moat->bytes;

	for (size_t i = 0; i < moat->offset; i++)
		assert_int_equal(moat->base[i], CANARY);
	for (size_t i = 0; i < MOAT; i++)
		assert_int_equal(after[i], CANARY);
}
