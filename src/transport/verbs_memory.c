/* Registers ranges as the segment takes and frees them; see verbs_memory.h. */
#include "transport/verbs_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"

#define ACCESS           (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ACCESS_OF_ECHOES IBV_ACCESS_REMOTE_READ /* of beats */

static enum shunt_status register_refused(const struct far *far,
	const struct verbs_device *device, uint64_t bytes, int error)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	enum shunt_status status = error == ENOMEM || error == EAGAIN
					   ? SHUNT_NO_MEMORY
					   : SHUNT_SYSTEM;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	errno = error;
	if (status == SHUNT_SYSTEM || limit.rlim_cur == RLIM_INFINITY)
		return error_set_errno(status,
			"rank %d: registering %llu bytes with %s", far->rank,
			(unsigned long long)bytes, device->name);
	return error_set_errno(status,
		"rank %d: registering %llu bytes with %s, %llu are there "
		"already; locked memory is limited to %llu (RLIMIT_MEMLOCK): "
		"raise it (`ulimit -l unlimited', LimitMEMLOCK=infinity in a "
		"systemd unit, or CAP_IPC_LOCK)",
		far->rank, (unsigned long long)bytes, device->name,
		(unsigned long long)segment_used_bytes(far->segment) - bytes,
		(unsigned long long)limit.rlim_cur);
}

static enum shunt_status register_one(const struct far *far,
	const struct verbs_device *device, uint64_t offset, uint64_t bytes,
	struct ibv_mr **mr)
{
	if (bytes > device->limits.max_mr_size)
		return error_set(SHUNT_UNSUPPORTED,
			"rank %d: a range of %llu bytes, %s registers %llu at "
			"most (max_mr_size)",
			far->rank, (unsigned long long)bytes, device->name,
			(unsigned long long)device->limits.max_mr_size);
	errno = 0;
	*mr = verbs_api()->reg_mr(device->pd, far->base + offset, bytes,
		ACCESS | (device->needs_echo ? ACCESS_OF_ECHOES : 0));
	return *mr ? SHUNT_OK
		   : register_refused(
			     far, device, bytes, errno ? errno : ENOMEM);
}

static void deregister(struct verbs_range *range)
{
	for (int d = 0; d < FAR_MAX_DEVICES; d++)
		if (range->mrs[d])
			verbs_api()->dereg_mr(range->mrs[d]);
}

/* ---- what the segment tells -------------------------------------------- */

static enum shunt_status on_alloc(
	void *context, uint64_t offset, uint64_t bytes)
{
	struct far *far = context;
	struct verbs_range range = {.offset = offset, .bytes = bytes};
	enum shunt_status status = SHUNT_OK;
	bool added = false, full;

	/* Takes its time, so not under the lock. */
	for (int d = 0; d < far->num_devices && status == SHUNT_OK; d++)
		status = register_one(
			far, &far->devices[d], offset, bytes, &range.mrs[d]);
	if (status == SHUNT_OK) {
		far_lock(far);
		added = verbs_ranges_add(&far->local, &range, &full);
		far_unlock(far);
		if (!added)
			status = error_set(SHUNT_NO_MEMORY,
				"rank %d: no memory to note a registration",
				far->rank);
	}
	if (status != SHUNT_OK)
		deregister(&range);
	return status;
}

static void on_free(void *context, uint64_t offset, uint64_t bytes)
{
	struct far *far = context;
	struct verbs_range *found;
	struct verbs_range range;

	(void)bytes;
	far_lock(far);
	found = verbs_ranges_at(&far->local, offset);
	if (found) {
		range = *found;
		verbs_ranges_remove(&far->local, found);
	}
	far_unlock(far);
	if (found)
		deregister(&range);
}

enum shunt_status memory_open(struct far *far)
{
	const struct segment_watcher watcher = {
		.context = far,
		.on_alloc = on_alloc,
		.on_free = on_free,
	};
	enum shunt_status status = segment_watch(far->segment, &watcher);

	if (status != SHUNT_OK)
		verbs_ranges_fini(&far->local);
	return status;
}

void memory_close(struct far *far)
{
	segment_unwatch(far->segment);
	for (uint32_t r = 0; r < far->local.num; r++)
		deregister(&far->local.ranges[r]);
	verbs_ranges_fini(&far->local);
	verbs_ranges_fini(&far->exposed);
}

/* ---- questions --------------------------------------------------------- */

struct ibv_mr *memory_find(const struct far *far,
	const struct verbs_device *device, const void *memory, uint64_t bytes)
{
	/* Wraps far beyond the segment if the memory lies before it. */
	uint64_t offset = (uintptr_t)memory - (uintptr_t)far->base;
	const struct verbs_range *range =
		verbs_ranges_find(&far->local, offset, bytes);

	return range ? range->mrs[device->number] : NULL;
}

bool memory_is_exposed(const struct far *far, uint64_t offset, uint64_t bytes)
{
	return verbs_ranges_find(&far->exposed, offset, bytes) != NULL;
}
