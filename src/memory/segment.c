/*
 * Segments: reserving address space, taking memory for ranges, giving it back.
 *
 * The two kinds differ in how memory is taken and given back:
 *
 *		SEGMENT_SHARED			SEGMENT_PRIVATE
 *	reserve	sealed memfd, mmap		anonymous mmap
 *	take	fallocate			MADV_POPULATE_WRITE
 *	give	fallocate, PUNCH_HOLE		MADV_DONTNEED
 *
 * Both give zeroed memory again after it was given back.
 */
#include "memory/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "memory/available.h"
#include "memory/ranges.h"
#include "memory/watch.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; newer than glibc 2.31 */
#endif

/* Memory is taken in pieces: a signal undoes the piece, not the whole. */
#define HUGE_BYTES  (UINT64_C(2) << 20)
#define PIECE_BYTES (UINT64_C(2) << 20)
/* Wishes up to this are not asked about: it costs some file reads. */
#define CHECK_BYTES (UINT64_C(64) << 20)
#define SMALL_BYTES (UINT64_C(4) << 20)

struct segment {
	enum segment_kind kind;
	int fd;
	uint8_t *base;
	uint64_t bytes;
	_Atomic uint32_t references;
	pthread_mutex_t lock; /* of ranges */
	struct ranges ranges;
	struct watch watch;
};

static uint64_t page_bytes(void)
{
	long bytes = sysconf(_SC_PAGESIZE);

	return bytes > 4096 ? (uint64_t)bytes : 4096;
}

/* Rounds up to pages; 0 if that does not fit. */
static uint64_t round_to_pages(uint64_t bytes)
{
	uint64_t mask = page_bytes() - 1;

	return bytes > UINT64_MAX - mask ? 0 : (bytes + mask) & ~mask;
}

/* ---- reserving --------------------------------------------------------- */

/* Growing a file past RLIMIT_FSIZE would be a deadly signal, so ask first. */
static enum shunt_status file_limit_check(uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
		limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"a segment of %llu bytes is over RLIMIT_FSIZE, %llu bytes; "
		"raise it (ulimit -f) or lower SHUNT_SEGMENT_BYTES",
		(unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
}

static enum shunt_status file_create(uint64_t bytes, int *fd)
{
	enum shunt_status status = file_limit_check(bytes);

	if (status != SHUNT_OK)
		return status;
	*fd = memfd_create("shunt-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return error_set_errno(SHUNT_SYSTEM,
			"memfd_create for a segment (ulimit -n too low?)");
	if (ftruncate(*fd, (off_t)bytes) != 0)
		status = error_set_errno(SHUNT_NO_MEMORY,
			"a file of %llu bytes for a segment; lower "
			"SHUNT_SEGMENT_BYTES",
			(unsigned long long)bytes);
	else if (fcntl(*fd, F_ADD_SEALS,
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		status = error_set_errno(
			SHUNT_SYSTEM, "sealing the file of a segment");
	if (status != SHUNT_OK)
		close(*fd);
	return status;
}

static enum shunt_status address_error(uint64_t bytes)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	int error = errno;

	getrlimit(RLIMIT_AS, &limit);
	errno = error;
	if (limit.rlim_cur != RLIM_INFINITY)
		return error_set_errno(SHUNT_NO_MEMORY,
			"a segment needs %llu bytes of address space, "
			"RLIMIT_AS is %llu; raise it (ulimit -v) or lower "
			"SHUNT_SEGMENT_BYTES",
			(unsigned long long)bytes,
			(unsigned long long)limit.rlim_cur);
	return error_set_errno(SHUNT_NO_MEMORY,
		"a segment needs %llu bytes of address space (RLIMIT_AS is "
		"unlimited, vm.overcommit_memory may be 2); lower "
		"SHUNT_SEGMENT_BYTES",
		(unsigned long long)bytes);
}

static enum shunt_status segment_map(struct segment *segment)
{
	int flags =
		MAP_NORESERVE |
		(segment->kind == SEGMENT_SHARED ? MAP_SHARED
						 : MAP_PRIVATE | MAP_ANONYMOUS);
	void *base = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, flags,
		segment->fd, 0);

	if (base == MAP_FAILED)
		return address_error(segment->bytes);
	/* Hints; without them all works, but core dumps and forks are slow. */
	madvise(base, segment->bytes, MADV_DONTDUMP);
	madvise(base, segment->bytes, MADV_DONTFORK);
	segment->base = base;
	return SHUNT_OK;
}

/* ---- taking and giving back -------------------------------------------- */

/*
 * Large ranges of plain memory lie in huge pages where the machine has them: a
 * step writes rows all over its windows, and with small pages most of them cost
 * a walk of the page tables. Only whole huge pages inside the range, so that it
 * takes no more memory than it says. Shared segments have what the machine's
 * shmem_enabled says. Hints; without them all works.
 */
static void advise_huge(const struct segment *segment, uint64_t offset,
	uint64_t bytes, int advice)
{
	uintptr_t start = (uintptr_t)segment->base + offset;
	uintptr_t end = (start + bytes) / HUGE_BYTES * HUGE_BYTES;

	start = (start + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
	if (segment->kind == SEGMENT_SHARED || start >= end)
		return;
	madvise(segment->base + (start - (uintptr_t)segment->base), end - start,
		advice);
}

static int take_piece(
	const struct segment *segment, uint64_t offset, uint64_t bytes)
{
	uint8_t *start = segment->base + offset;

	if (segment->kind == SEGMENT_SHARED)
		return fallocate(segment->fd, 0, (off_t)offset, (off_t)bytes);
	if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	/* A kernel that is too old for it: touch. */
	for (uint64_t at = 0; at < bytes; at += 4096)
		*(volatile uint8_t *)(start + at) = 0;
	return 0;
}

static void give_memory(
	const struct segment *segment, uint64_t offset, uint64_t bytes)
{
	int done;

	/* A small range that comes here later shall not take a huge page. */
	advise_huge(segment, offset, bytes, MADV_NOHUGEPAGE);
	do {
		done = segment->kind == SEGMENT_SHARED
			       ? fallocate(segment->fd,
					 FALLOC_FL_PUNCH_HOLE |
						 FALLOC_FL_KEEP_SIZE,
					 (off_t)offset, (off_t)bytes)
			       : madvise(segment->base + offset, bytes,
					 MADV_DONTNEED);
	} while (done != 0 && errno == EINTR);
}

/* Refuses what would wake the OOM killer. Errors: NO_MEMORY. */
static enum shunt_status memory_check(uint64_t bytes)
{
	uint64_t available;

	if (bytes <= SMALL_BYTES)
		return SHUNT_OK;
	available = available_bytes();
	if (bytes <= available)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"%llu bytes of memory needed, %llu available to this process "
		"(the machine's MemAvailable, or what its cgroup leaves)",
		(unsigned long long)bytes, (unsigned long long)available);
}

static enum shunt_status take_memory(
	const struct segment *segment, uint64_t offset, uint64_t bytes)
{
	enum shunt_status status = SHUNT_OK;
	uint64_t done = 0;

	advise_huge(segment, offset, bytes, MADV_HUGEPAGE);
	while (done < bytes) {
		uint64_t left = bytes - done;
		uint64_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;

		/* Asked again and again: other ranks take at the same time. */
		if (done % CHECK_BYTES == 0)
			status = memory_check(left);
		if (status != SHUNT_OK) {
			give_memory(segment, offset, bytes);
			return status;
		}

		if (take_piece(segment, offset + done, piece) == 0) {
			done += piece;
			continue;
		}
		if (errno == EINTR || errno == EAGAIN)
			continue;
		status = error_set_errno(SHUNT_NO_MEMORY,
			"%llu bytes of memory needed, %llu taken, %llu more "
			"available",
			(unsigned long long)bytes, (unsigned long long)done,
			(unsigned long long)available_bytes());
		give_memory(segment, offset, bytes);
		return status;
	}
	return SHUNT_OK;
}

static enum shunt_status take_range(struct segment *segment, uint64_t bytes,
	uint64_t align, uint64_t *offset)
{
	uint64_t used, largest;
	bool found;

	pthread_mutex_lock(&segment->lock);
	found = ranges_take(&segment->ranges, bytes, align, offset);
	used = segment->ranges.used_bytes;
	largest = ranges_largest(&segment->ranges);
	pthread_mutex_unlock(&segment->lock);
	if (found)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"a range of %llu bytes (aligned to %llu) needed in a segment "
		"of %llu bytes, %llu of them used, %llu available in one "
		"piece; raise SHUNT_SEGMENT_BYTES",
		(unsigned long long)bytes, (unsigned long long)align,
		(unsigned long long)segment->bytes, (unsigned long long)used,
		(unsigned long long)largest);
}

static void give_range(struct segment *segment, uint64_t offset, uint64_t bytes)
{
	pthread_mutex_lock(&segment->lock);
	ranges_give(&segment->ranges, offset, bytes);
	pthread_mutex_unlock(&segment->lock);
}

/* ---- the watcher ------------------------------------------------------- */

/* Tells the watcher that all ranges before `end` go. */
static void tell_free_before(struct segment *segment, uint64_t end)
{
	uint64_t offset = 0, bytes;

	while (ranges_next(&segment->ranges, offset, &offset, &bytes) &&
		offset < end) {
		watch_free(&segment->watch, offset, bytes);
		offset += bytes;
	}
}

enum shunt_status segment_watch(
	struct segment *segment, const struct segment_watcher *watcher)
{
	uint64_t offset = 0, bytes;

	watch_set(&segment->watch, watcher);
	while (ranges_next(&segment->ranges, offset, &offset, &bytes)) {
		enum shunt_status status =
			watch_alloc(&segment->watch, offset, bytes);

		if (status != SHUNT_OK) {
			tell_free_before(segment, offset);
			segment_unwatch(segment);
			return status;
		}
		offset += bytes;
	}
	return SHUNT_OK;
}

void segment_unwatch(struct segment *segment)
{
	static const struct segment_watcher nobody;

	watch_set(&segment->watch, &nobody);
}

/* ---- ranges ------------------------------------------------------------ */

enum shunt_status segment_alloc(struct segment *segment, uint64_t bytes,
	uint64_t align, uint64_t *offset)
{
	uint64_t rounded = round_to_pages(bytes);
	enum shunt_status status;
	uint64_t found;

	if (rounded == 0)
		return error_set(SHUNT_NO_MEMORY,
			"%llu bytes needed, a segment has %llu at most",
			(unsigned long long)bytes,
			(unsigned long long)segment->bytes);
	if (align < page_bytes())
		align = page_bytes();
	status = take_range(segment, rounded, align, &found);
	if (status != SHUNT_OK)
		return status;
	status = take_memory(segment, found, rounded);
	if (status != SHUNT_OK)
		goto give_range;
	status = watch_alloc(&segment->watch, found, rounded);
	if (status != SHUNT_OK) {
		give_memory(segment, found, rounded);
		goto give_range;
	}
	*offset = found;
	return SHUNT_OK;

give_range:
	give_range(segment, found, rounded);
	return status;
}

void segment_free(struct segment *segment, uint64_t offset, uint64_t bytes)
{
	uint64_t rounded = round_to_pages(bytes);
	bool taken;

	pthread_mutex_lock(&segment->lock);
	taken = ranges_taken(&segment->ranges, offset, rounded);
	pthread_mutex_unlock(&segment->lock);
	if (!taken)
		return;
	watch_free(&segment->watch, offset, rounded);
	/* The memory first: once the range is free another thread has it. */
	give_memory(segment, offset, rounded);
	give_range(segment, offset, rounded);
}

/* ---- life -------------------------------------------------------------- */

static enum shunt_status control_make(struct segment *segment)
{
	enum shunt_status status;
	uint64_t offset;

	if (!ranges_init(&segment->ranges, segment->bytes))
		return error_set(
			SHUNT_NO_MEMORY, "no memory for a list of ranges");
	status = segment_alloc(segment, CONTROL_BYTES, 1, &offset);
	if (status != SHUNT_OK) {
		ranges_fini(&segment->ranges);
		return status;
	}
	segment_control(segment)->magic = CONTROL_MAGIC; /* offset is 0 */
	return SHUNT_OK;
}

static enum shunt_status segment_open(struct segment *segment)
{
	enum shunt_status status;

	if (segment->kind == SEGMENT_SHARED) {
		status = file_create(segment->bytes, &segment->fd);
		if (status != SHUNT_OK)
			return status;
	}
	status = segment_map(segment);
	if (status != SHUNT_OK)
		goto close_file;
	status = control_make(segment);
	if (status != SHUNT_OK)
		goto unmap;
	return SHUNT_OK;

unmap:
	munmap(segment->base, segment->bytes);
close_file:
	if (segment->fd >= 0)
		close(segment->fd);
	return status;
}

enum shunt_status segment_create(enum segment_kind kind, uint64_t reserve_bytes,
	struct segment **segment)
{
	uint64_t bytes = round_to_pages(reserve_bytes);
	enum shunt_status status;
	struct segment *made;

	if (bytes < CONTROL_BYTES || bytes > INT64_MAX)
		return error_set(SHUNT_INVALID,
			"the reserve of a segment is %llu bytes, must be "
			"%d .. 2^63 - 1",
			(unsigned long long)reserve_bytes, CONTROL_BYTES);
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_set(SHUNT_NO_MEMORY, "no memory for a segment");
	made->kind = kind;
	made->fd = -1;
	made->bytes = bytes;
	atomic_init(&made->references, 1);
	pthread_mutex_init(&made->lock, NULL);
	watch_init(&made->watch);
	status = segment_open(made);
	if (status != SHUNT_OK) {
		pthread_mutex_destroy(&made->lock);
		watch_fini(&made->watch);
		free(made);
		return status;
	}
	*segment = made;
	return SHUNT_OK;
}

struct segment *segment_get(struct segment *segment)
{
	atomic_fetch_add(&segment->references, 1);
	return segment;
}

void segment_put(struct segment *segment)
{
	if (!segment || atomic_fetch_sub(&segment->references, 1) != 1)
		return;
	munmap(segment->base, segment->bytes);
	if (segment->fd >= 0)
		close(segment->fd);
	ranges_fini(&segment->ranges);
	pthread_mutex_destroy(&segment->lock);
	watch_fini(&segment->watch);
	free(segment);
}

/* ---- questions --------------------------------------------------------- */

int segment_fd(const struct segment *segment)
{
	return segment->fd;
}

uint8_t *segment_base(const struct segment *segment)
{
	return segment->base;
}

uint64_t segment_reserved_bytes(const struct segment *segment)
{
	return segment->bytes;
}

struct control *segment_control(const struct segment *segment)
{
	return (void *)segment->base;
}

uint64_t segment_used_bytes(struct segment *segment)
{
	uint64_t used;

	pthread_mutex_lock(&segment->lock);
	used = segment->ranges.used_bytes;
	pthread_mutex_unlock(&segment->lock);
	return used;
}
