/* The world: creation in the order segment, life, rendezvous, attachment,
 * first group; and the same backwards. */
#include "world/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/simd.h"
#include "bootstrap/bootstrap.h"
#include "transport/health.h"
#include "transport/select.h"
#include "world/cores.h"
#include "world/group.h"
#include "world/rdma.h"
#include "world/retire.h"
#include "world/wait.h"

#define DEFAULT_DEADLINE_NS INT64_C(60000000000)
#define MIN_SEGMENT_BYTES   (UINT64_C(1) << 20)
/* All segments together, as every process maps each of them: a share of the
 * 128 TiB that a process can address. */
#define TOTAL_SEGMENT_BYTES (UINT64_C(1) << 44)

static const char *const phase_names[BEAT_NUM_PHASES] = {
	[BEAT_STARTED] = "start-up",
	[BEAT_GROUP] = "collective creation",
	[BEAT_DISPATCH_START] = "dispatch start",
	[BEAT_DISPATCH_WRITE] = "dispatch write",
	[BEAT_DISPATCH_DONE] = "dispatch done",
	[BEAT_COMBINE_START] = "combine start",
	[BEAT_COMBINE_DONE] = "combine done",
	[BEAT_LEFT] = "leaving",
};

const char *world_phase_name(uint64_t phase)
{
	return phase < BEAT_NUM_PHASES ? phase_names[phase] : "unknown phase";
}

void world_beat(
	struct shunt_world *world, enum beat_phase phase, uint64_t epoch)
{
	struct beat *beat = &world->control->beat;

	atomic_store_explicit(&beat->epoch, epoch, memory_order_relaxed);
	atomic_store_explicit(&beat->phase, phase, memory_order_relaxed);
	atomic_store_explicit(&beat->when, clock_now(), memory_order_relaxed);
}

/* ---- size of the segment ---------------------------------------------- */

static uint64_t default_segment_bytes(int32_t num_ranks)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t share = TOTAL_SEGMENT_BYTES / (uint64_t)num_ranks;

	return memory < share ? memory : share;
}

static enum shunt_status segment_bytes_resolve(
	const struct shunt_world_config *config,
	const struct bootstrap *bootstrap, uint64_t *bytes)
{
	const char *text = getenv("SHUNT_SEGMENT_BYTES");
	const char *name = "segment_bytes";
	char *end = NULL;

	*bytes = config->segment_bytes;
	if (*bytes == 0 && text && *text) {
		name = "SHUNT_SEGMENT_BYTES";
		*bytes = strtoull(text, &end, 10);
		if (*end || *text < '0' || *text > '9')
			return error_set(SHUNT_INVALID,
				"SHUNT_SEGMENT_BYTES is \"%.64s\", must be a "
				"number of bytes (rank %d)",
				text, bootstrap->rank);
	} else if (*bytes == 0) {
		*bytes = default_segment_bytes(bootstrap->num_ranks);
	}
	if (*bytes < MIN_SEGMENT_BYTES || *bytes > TOTAL_SEGMENT_BYTES)
		return error_set(SHUNT_INVALID,
			"%s is %llu, must be %llu .. %llu (rank %d)", name,
			(unsigned long long)*bytes,
			(unsigned long long)MIN_SEGMENT_BYTES,
			(unsigned long long)TOTAL_SEGMENT_BYTES,
			bootstrap->rank);
	return SHUNT_OK;
}

/* ---- creation --------------------------------------------------------- */

/* Which host this rank is on, if it shall not be asked of the kernel. */
static const char *host_text(const struct shunt_world_config *config)
{
	const char *text =
		config->host_id ? config->host_id : getenv("SHUNT_HOST_ID");

	return text && *text ? text : NULL;
}

/* What this rank brings to the rendezvous. Threads of one process can only be
 * on several hosts if they say so. */
static enum shunt_status world_open_far(struct shunt_world *world,
	const struct shunt_world_config *config,
	const struct bootstrap *bootstrap, struct peer_hello *mine,
	struct attachment **attachment)
{
	char own_address[BOOTSTRAP_ADDRESS_BYTES];
	struct far_config far;
	struct attach_terms terms = {
		.segment = world->segment,
		.rank = world->rank,
		.host_text = host_text(config),
	};
	enum shunt_status status = rdma_config_read(config, world->rank, &far);

	if (status != SHUNT_OK)
		return status;
	bootstrap_own_address(bootstrap, own_address);
	far.fallback_address = *own_address ? own_address : NULL;
	if (bootstrap->num_ranks > 1 &&
		(bootstrap->kind == BOOTSTRAP_TCP || terms.host_text))
		terms.far_config = &far;
	return attach_start(&terms, mine, attachment);
}

/* Rendezvous, then attachment to every rank. */
static enum shunt_status world_join(struct shunt_world *world,
	const struct shunt_world_config *config,
	const struct bootstrap *bootstrap, int64_t deadline)
{
	struct attachment *attachment;
	struct peer_hello mine;
	struct peer_hello *all;
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
	enum shunt_status status;

	memset(&mine, 0, sizeof(mine));
	status = world_open_far(world, config, bootstrap, &mine, &attachment);
	if (status != SHUNT_OK)
		return status;
	all = calloc((size_t)world->num_ranks, sizeof(*all));
	if (!all) {
		attach_abandon(attachment);
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory to meet %d ranks", world->rank,
			world->num_ranks);
	}
	status = bootstrap_meet(
		bootstrap, &mine, sizeof(mine), deadline, all, secret);
	if (status == SHUNT_OK)
		status = attach_finish(attachment, world->num_ranks, all,
			secret, deadline, world->peers, &world->far);
	else
		attach_abandon(attachment);
	sodium_memzero(secret, sizeof(secret));
	free(all);
	return status;
}

static void peers_close(struct shunt_world *world)
{
	for (int32_t r = 0; r < world->num_ranks; r++)
		if (world->peers[r])
			world->peers[r]->ops->close(world->peers[r]);
	far_close(world->far);
}

/* Everything local: what exists before another rank is met. */
static enum shunt_status world_open(struct shunt_world *world,
	const struct bootstrap *bootstrap, uint64_t segment_bytes)
{
	enum segment_kind kind = bootstrap->kind == BOOTSTRAP_TCP
					 ? SEGMENT_SHARED
					 : SEGMENT_PRIVATE;
	enum shunt_status status;

	world->peers = calloc((size_t)world->num_ranks, sizeof(struct peer *));
	if (!world->peers)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %d ranks", world->rank,
			world->num_ranks);
	status = segment_create(kind, segment_bytes, &world->segment);
	if (status != SHUNT_OK)
		goto free_peers;
	world->control = segment_control(world->segment);
	status = heap_create(world->segment, &world->heap);
	if (status != SHUNT_OK)
		goto put_segment;
	status = life_begin(world->segment);
	if (status != SHUNT_OK)
		goto destroy_heap;
	cores_publish(world->control);
	world_beat(world, BEAT_STARTED, 0);
	return SHUNT_OK;

destroy_heap:
	heap_destroy(world->heap);
put_segment:
	segment_put(world->segment);
free_peers:
	free(world->peers);
	return status;
}

/* Undoes world_open(); closes the peers that are attached. */
static void world_close(struct shunt_world *world)
{
	world_beat(world, BEAT_LEFT, 0);
	life_end(world->segment);
	for (int32_t r = 0; r < world->num_ranks; r++)
		if (world->peers[r] && !world->peers[r]->is_far)
			doorbell_ring(&world->peers[r]->control->doorbell,
				DOORBELL_ANY);
	peers_close(world);
	retire_drop(world);
	group_counts_drop(world);
	heap_destroy(world->heap);
	segment_put(world->segment);
	free(world->peers);
}

/* Ranks of this host, which share its processors. */
static int32_t world_ranks_here(const struct shunt_world *world)
{
	int32_t num = 0;

	for (int32_t r = 0; r < world->num_ranks; r++)
		num += world->peers[r] && !world->peers[r]->is_far;
	return num;
}

static enum shunt_status world_make(struct shunt_world *world,
	const struct shunt_world_config *config,
	const struct bootstrap *bootstrap)
{
	int64_t deadline =
		clock_deadline(config->deadline_ns ? config->deadline_ns
						   : DEFAULT_DEADLINE_NS);
	uint64_t segment_bytes;
	enum shunt_status status;

	world->rank = bootstrap->rank;
	world->num_ranks = bootstrap->num_ranks;
	world->generation = guard_generation();
	log_set_rank(world->rank);
	status = segment_bytes_resolve(config, bootstrap, &segment_bytes);
	if (status != SHUNT_OK)
		return status;
	status = world_open(world, bootstrap, segment_bytes);
	if (status != SHUNT_OK)
		return status;
	status = world_join(world, config, bootstrap, deadline);
	world->spin_ns =
		wait_spin_ns(world_ranks_here(world), cores_of_all(world));
	if (status == SHUNT_OK)
		status = group_create_world(world, deadline, &world->group);
	if (status != SHUNT_OK) {
		world_close(world);
		return status;
	}
	log_note(LOG_INFO, "world of %d ranks, met by %s", world->num_ranks,
		bootstrap->origin);
	return SHUNT_OK;
}

static enum shunt_status config_resolve(const struct shunt_world_config *given,
	struct shunt_world_config *config, struct bootstrap *bootstrap)
{
	static const struct shunt_world_config none = SHUNT_WORLD_CONFIG_INIT;
	enum shunt_status status;

	status = config_read(config, sizeof(*config), given ? given : &none,
		"shunt_world_config");
	if (status != SHUNT_OK)
		return status;
	if (config->deadline_ns < 0)
		return error_set(SHUNT_INVALID,
			"deadline_ns is %lld, must be >= 0 (rank %d)",
			(long long)config->deadline_ns, config->rank);
	status = simd_check();
	if (status != SHUNT_OK)
		return status;
	return bootstrap_resolve(config, bootstrap);
}

enum shunt_status shunt_world_create(
	const struct shunt_world_config *given, struct shunt_world **out)
{
	struct shunt_world_config config;
	struct bootstrap bootstrap;
	struct shunt_world *world;
	enum shunt_status status;

	if (!out)
		return error_set(SHUNT_NULL_ARGUMENT, "world is NULL");
	if (sodium_init() < 0)
		return error_set(SHUNT_SYSTEM, "libsodium does not start");
	status = guard_init();
	if (status == SHUNT_OK)
		status = config_resolve(given, &config, &bootstrap);
	if (status != SHUNT_OK)
		return status;
	world = calloc(1, sizeof(*world));
	if (!world)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for a world", bootstrap.rank);
	pthread_mutex_init(&world->lock, NULL);
	status = world_make(world, &config, &bootstrap);
	sodium_memzero(&bootstrap, sizeof(bootstrap));
	if (status != SHUNT_OK) {
		pthread_mutex_destroy(&world->lock);
		free(world);
		return status;
	}
	*out = world;
	return SHUNT_OK;
}

void shunt_world_destroy(struct shunt_world *world)
{
	if (!world || guard_check(world->generation) != SHUNT_OK)
		return;
	shunt_group_destroy(world->group);
	world_close(world);
	pthread_mutex_destroy(&world->lock);
	free(world);
}

/* ---- questions -------------------------------------------------------- */

int32_t shunt_world_rank(const struct shunt_world *world)
{
	return world ? world->rank : -1;
}

int32_t shunt_world_size(const struct shunt_world *world)
{
	return world ? world->num_ranks : -1;
}

int32_t shunt_world_host(const struct shunt_world *world, int32_t rank)
{
	if (!world || rank < 0 || rank >= world->num_ranks)
		return -1;
	return world->peers[rank]->host;
}

const char *shunt_world_transport(const struct shunt_world *world, int32_t rank)
{
	if (!world || rank < 0 || rank >= world->num_ranks)
		return NULL;
	return world->peers[rank]->ops->name;
}

int32_t shunt_world_lost(const struct shunt_world *world, uint8_t *lost)
{
	int32_t num_lost = 0;

	if (!world || guard_check(world->generation) != SHUNT_OK)
		return 0;
	for (int32_t r = 0; r < world->num_ranks; r++) {
		struct peer *peer = world->peers[r];
		bool gone = peer->ops->state(peer) != PEER_ALIVE;

		num_lost += gone;
		if (lost)
			lost[r] = gone;
	}
	return num_lost;
}

void *shunt_alloc(struct shunt_world *world, size_t bytes)
{
	if (!world) {
		error_set(SHUNT_NULL_ARGUMENT, "world is NULL");
		return NULL;
	}
	if (guard_check(world->generation) != SHUNT_OK)
		return NULL;
	return heap_alloc(world->heap, bytes);
}

void shunt_free(struct shunt_world *world, void *memory)
{
	if (!world || !memory || guard_check(world->generation) != SHUNT_OK)
		return;
	heap_free(world->heap, memory);
}
