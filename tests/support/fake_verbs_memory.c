/* Protection domains, memory regions, and how bytes get into them. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- protection domains ------------------------------------------------- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct fake_pd *pd;

	if (fake_fails("alloc_pd")) {
		errno = ENOMEM;
		return NULL;
	}
	fake_lock();
	pd = fake_new(sizeof(*pd));
	pd->pd.context = context;
	((struct fake_context *)context)->children++;
	fake_unlock();
	return &pd->pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	struct fake_pd *mine = (struct fake_pd *)pd;
	bool failed = fake_fails("dealloc_pd");

	fake_lock();
	if (mine->children) {
		fake_misuse("dealloc_pd: %d objects are in it", mine->children);
		fake_unlock();
		return EBUSY;
	}
	((struct fake_context *)pd->context)->children--;
	fake_delete(mine);
	fake_unlock();
	return failed ? EIO : 0;
}

/* ---- memory regions ----------------------------------------------------- */

/* 0, or why the device does not take the region. */
static int refuse_mr(
	const struct fake_device *device, uint64_t bytes, int access)
{
	if (device->removed)
		return ENODEV;
	if (bytes == 0 || bytes > device->config.max_mr_bytes)
		return EINVAL;
	if ((access & IBV_ACCESS_REMOTE_WRITE) &&
		!(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (bytes > device->config.max_locked_bytes - device->locked_bytes)
		return ENOMEM;
	return 0;
}

static struct ibv_mr *reg_mr(
	struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	struct fake_device *device = fake_device_of(pd->context);
	struct fake_mr *mr = NULL;

	if (fake_fails("reg_mr")) {
		errno = ENOMEM;
		return NULL;
	}
	fake_lock();
	errno = refuse_mr(device, bytes, access);
	if (errno == 0) {
		mr = fake_new(sizeof(*mr));
		mr->mr.context = pd->context;
		mr->mr.pd = pd;
		mr->mr.addr = address;
		mr->mr.length = bytes;
		/* Different, so that mixing them up is noticed. */
		mr->mr.lkey = ++fake.last_number << 8;
		mr->mr.rkey = ++fake.last_number << 8;
		mr->access = access;
		device->locked_bytes += bytes;
		((struct fake_pd *)pd)->children++;
		TAILQ_INSERT_HEAD(&fake.mrs, mr, link);
	}
	fake_unlock();
	return mr ? &mr->mr : NULL;
}

static int dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *mine = (struct fake_mr *)mr;
	bool failed = fake_fails("dereg_mr");

	fake_lock();
	fake_place_range(mr->addr, mr->length);
	fake_device_of(mr->context)->locked_bytes -= mr->length;
	((struct fake_pd *)mr->pd)->children--;
	TAILQ_REMOVE(&fake.mrs, mine, link);
	fake_delete(mine);
	fake_unlock();
	return failed ? EIO : 0;
}

bool fake_reaches(const struct ibv_pd *pd, uint32_t key, bool remote,
	uint64_t address, uint64_t bytes, int access)
{
	struct fake_mr *mr;

	TAILQ_FOREACH(mr, &fake.mrs, link)
	{
		uint64_t start = (uintptr_t)mr->mr.addr;

		if (key != (remote ? mr->mr.rkey : mr->mr.lkey) ||
			pd != mr->mr.pd)
			continue;
		return address >= start && bytes <= mr->mr.length &&
		       address - start <= mr->mr.length - bytes &&
		       (mr->access & access) == access;
	}
	return false;
}

/* ---- placing ------------------------------------------------------------ */

/* A word from anywhere. */
static uint64_t load_word(const uint8_t *in)
{
	uint8_t bytes[8];
	uint64_t word;

	if ((uintptr_t)in % 8 == 0)
		return __atomic_load_n(
			(const uint64_t *)(const void *)in, __ATOMIC_RELAXED);
	for (int b = 0; b < 8; b++)
		bytes[b] = __atomic_load_n(in + b, __ATOMIC_RELAXED);
	memcpy(&word, bytes, sizeof(word));
	return word;
}

void fake_copy(void *to, const void *from, size_t bytes)
{
	uint8_t *out = to;
	const uint8_t *in = from;
	size_t step;

	for (; bytes > 0; out += step, in += step, bytes -= step) {
		step = (uintptr_t)out % 8 == 0 && bytes >= 8 ? 8 : 1;
		if (step == 8)
			__atomic_store_n((uint64_t *)(void *)out, load_word(in),
				__ATOMIC_RELEASE);
		else
			__atomic_store_n(out,
				__atomic_load_n(in, __ATOMIC_RELAXED),
				__ATOMIC_RELAXED);
	}
}

static void place_chunk(struct chunk *chunk)
{
	TAILQ_REMOVE(&fake.chunks, chunk, link);
	fake_copy(chunk->to, chunk->data, chunk->bytes);
	free(chunk);
}

static bool overlap(
	const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

void fake_place_range(const uint8_t *start, size_t bytes)
{
	struct chunk *chunk = TAILQ_FIRST(&fake.chunks);
	struct chunk *next;

	for (; chunk; chunk = next) {
		next = TAILQ_NEXT(chunk, link);
		if (overlap(chunk->to, chunk->bytes, start, bytes))
			place_chunk(chunk);
	}
}

void fake_place_all(const struct fake_qp *qp)
{
	struct chunk *chunk = TAILQ_FIRST(&fake.chunks);
	struct chunk *next;

	for (; chunk; chunk = next) {
		next = TAILQ_NEXT(chunk, link);
		if (chunk->qp == qp)
			place_chunk(chunk);
	}
}

bool fake_place_any(void)
{
	struct chunk *chunk = TAILQ_FIRST(&fake.chunks);
	uint64_t skip = fake_random(16);

	if (!chunk)
		return false;
	for (; skip > 0 && TAILQ_NEXT(chunk, link); skip--)
		chunk = TAILQ_NEXT(chunk, link);
	place_chunk(chunk);
	return true;
}

/* Cuts at words of the target, as those are never torn. */
static void place_in_chunks(
	struct fake_qp *qp, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	fake_place_range(to, bytes);
	while (bytes > 0) {
		struct chunk *chunk = malloc(sizeof(*chunk));
		uint64_t most = sizeof(chunk->data) - (uintptr_t)to % 8;

		if (!chunk)
			abort();
		chunk->qp = qp;
		chunk->to = to;
		chunk->bytes = (uint32_t)(bytes < most ? bytes : most);
		memcpy(chunk->data, from, chunk->bytes);
		if (fake_random(2))
			TAILQ_INSERT_HEAD(&fake.chunks, chunk, link);
		else
			TAILQ_INSERT_TAIL(&fake.chunks, chunk, link);
		to += chunk->bytes;
		from += chunk->bytes;
		bytes -= chunk->bytes;
	}
}

void fake_place(
	struct fake_qp *qp, uint64_t to, const uint8_t *from, uint64_t bytes)
{
	/* Addresses were checked by fake_reaches(). */
	uint8_t *target = (uint8_t *)(uintptr_t)to;

	if (qp->device->config.relaxed)
		place_in_chunks(qp, target, from, bytes);
	else
		fake_copy(target, from, bytes);
}

void fake_memory_init(struct verbs_api *api)
{
	api->alloc_pd = alloc_pd;
	api->dealloc_pd = dealloc_pd;
	api->reg_mr = reg_mr;
	api->dereg_mr = dereg_mr;
}
