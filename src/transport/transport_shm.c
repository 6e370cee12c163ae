/*
 * Transport shm: the memfd of a rank of another process, mapped here.
 *
 * What arrives is looked at before it is used: a file that its owner could
 * shrink would be a SIGBUS in our copy loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/error.h"
#include "transport/attach.h"
#include "transport/mapped.h"

static void shm_close(struct peer *peer)
{
	struct mapped *mapped = (void *)peer;

	munmap(mapped->base, mapped->bytes);
	free(mapped);
}

static const struct transport_ops shm_ops = {
	.name = "shm",
	.map = mapped_map,
	.put = mapped_put,
	.progress = mapped_progress,
	.flushed = mapped_flushed,
	.state = mapped_state,
	.close = shm_close,
};

static enum shunt_status shm_fault(int32_t rank, const char *what)
{
	error_set(
		SHUNT_PEER_FAULT, "what rank %d handed over is %s", rank, what);
	error_add_rank(rank);
	return SHUNT_PEER_FAULT;
}

static enum shunt_status file_check(int fd, uint64_t bytes, int32_t rank)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return shm_fault(rank, "no memfd sealed against shrinking");
	if (fstat(fd, &file) != 0)
		return error_set_errno(
			SHUNT_SYSTEM, "fstat of the segment of rank %d", rank);
	if (file.st_size < 0 || (uint64_t)file.st_size < bytes)
		return shm_fault(rank, "smaller than the segment it announced");
	return SHUNT_OK;
}

static enum shunt_status file_map(
	int fd, uint64_t bytes, int32_t rank, void **base)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, fd, 0);
	int error = errno;

	if (mapping == MAP_FAILED) {
		getrlimit(RLIMIT_AS, &limit);
		errno = error;
		return error_set_errno(SHUNT_NO_MEMORY,
			"mapping %llu bytes of rank %d (RLIMIT_AS is %lld, -1 "
			"for none); raise it (ulimit -v) or lower "
			"SHUNT_SEGMENT_BYTES",
			(unsigned long long)bytes, rank,
			(long long)limit.rlim_cur);
	}
	/* Hints; without them all works, but core dumps and forks are slow. */
	madvise(mapping, bytes, MADV_DONTDUMP);
	madvise(mapping, bytes, MADV_DONTFORK);
	*base = mapping;
	return SHUNT_OK;
}

enum shunt_status transport_shm_attach(const struct peer_hello *hello,
	int32_t rank, int fd, struct peer **peer)
{
	uint64_t bytes = hello->segment_bytes;
	enum shunt_status status = file_check(fd, bytes, rank);
	struct mapped *mapped;
	void *base = NULL;

	if (status != SHUNT_OK)
		return status;
	status = file_map(fd, bytes, rank, &base);
	if (status != SHUNT_OK)
		return status;
	if (((struct control *)base)->magic != CONTROL_MAGIC) {
		status = shm_fault(rank, "no segment of this version");
		goto unmap;
	}
	mapped = calloc(1, sizeof(*mapped));
	if (!mapped) {
		status = error_set(
			SHUNT_NO_MEMORY, "no memory to attach rank %d", rank);
		goto unmap;
	}
	mapped_init(mapped, &shm_ops, rank, base, bytes);
	*peer = &mapped->peer;
	return SHUNT_OK;

unmap:
	munmap(base, bytes);
	return status;
}
