/* Ranks over the simulator of RDMA; see far_rig.h. */
#include "support/far_rig.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/order.h"
#include "support/child.h"
#include "support/fake_verbs.h"
#include "transport/health.h"

#define RESERVE_BYTES (UINT64_C(1) << 30)
#define PAGE_BYTES    4096
#define SPINS         200
#define NAP_NS        INT64_C(100000000)

static atomic_int num_hangs;

int rig_hangs(void)
{
	return num_hangs;
}

/* ---- threads ------------------------------------------------------------ */

static void *thread_main(void *argument)
{
	struct rig_rank *rank = argument;

	fake_verbs_host(rank->rank);
	rank->line = rank->function(rank);
	return NULL;
}

bool rig_run(struct rig *rig, int (*function)(struct rig_rank *rank))
{
	bool all = true;

	for (int r = 0; r < rig->num_ranks; r++) {
		struct rig_rank *rank = &rig->ranks[r];

		rank->function = function;
		rank->line = -1;
		if (pthread_create(&rank->thread, NULL, thread_main, rank))
			return false;
	}
	for (int r = 0; r < rig->num_ranks; r++) {
		pthread_join(rig->ranks[r].thread, NULL);
		if (rig->ranks[r].line)
			all = false;
	}
	return all;
}

/* ---- opening ------------------------------------------------------------ */

void rig_init(struct rig *rig, int num_ranks)
{
	memset(rig, 0, sizeof(*rig));
	num_hangs = 0;
	rig->num_ranks = num_ranks;
	rig->connect_ns = RIG_LONG_NS;
	for (int r = 0; r < num_ranks; r++) {
		rig->configs[r] = (struct far_config)FAR_CONFIG_INIT;
		rig->ranks[r].rig = rig;
		rig->ranks[r].rank = r;
		memset(rig->secrets[r], 7, sizeof(rig->secrets[r]));
	}
}

/* Notes the thread's error. */
static int note(struct rig_rank *rank, enum shunt_status status)
{
	rank->status = status;
	snprintf(rank->message, sizeof(rank->message), "%s",
		shunt_error_message());
	rank->num_lost = shunt_error_ranks(rank->lost, RIG_MAX_RANKS);
	if (rank->num_lost > RIG_MAX_RANKS)
		rank->num_lost = RIG_MAX_RANKS;
	return 1;
}

static int listen_one(struct rig_rank *rank)
{
	enum shunt_status status;

	CHILD_CHECK(guard_init() == SHUNT_OK);
	CHILD_CHECK(segment_create(SEGMENT_PRIVATE, RESERVE_BYTES,
			    &rank->segment) == SHUNT_OK);
	CHILD_CHECK(life_begin(rank->segment) == SHUNT_OK);
	CHILD_CHECK(segment_alloc(rank->segment, RIG_AREA_BYTES, PAGE_BYTES,
			    &rank->area_off) == SHUNT_OK);
	rank->area = (uint8_t *)segment_base(rank->segment) + rank->area_off;
	rank->hello.segment_bytes = segment_reserved_bytes(rank->segment);
	rank->hello.segment[0] = (uint8_t)(rank->rank + 1);
	status = far_open(&rank->rig->configs[rank->rank], rank->segment,
		rank->rank, &rank->far, &rank->hello.far);
	if (status != SHUNT_OK)
		return note(rank, status);
	return rank->far ? 0 : __LINE__; /* far_absence() */
}

bool rig_listen(struct rig *rig)
{
	return rig_run(rig, listen_one);
}

static enum shunt_status put_through(struct rig_rank *rank, int32_t to,
	uint64_t offset, const void *bytes, uint64_t num_bytes,
	uint64_t counter_offset, uint64_t add)
{
	struct peer *peer = rank->peers[to];
	int64_t deadline = clock_deadline(RIG_LONG_NS);
	bool again = true;

	while (again) {
		enum shunt_status status = peer->ops->put(peer, offset, bytes,
			num_bytes, counter_offset, add, &again);

		if (status != SHUNT_OK)
			return status;
		if (again)
			peer->ops->progress(peer);
		if (again && clock_now() > deadline) {
			num_hangs++;
			return SHUNT_TIMEOUT;
		}
	}
	return SHUNT_OK;
}

/* A word of a directory, in a rank's own page, or another's image of it. */
static uint64_t word_off(int32_t entry)
{
	return offsetof(struct control, directory) +
	       sizeof(struct directory_entry) * (size_t)entry;
}

/* That the own area is exposed is told by a put behind it. */
static int tell_all(struct rig_rank *rank)
{
	for (int r = 0; r < rank->rig->num_ranks; r++) {
		struct peer *peer = rank->peers[r];
		enum shunt_status status;

		if (r == rank->rank)
			continue;
		status = put_through(rank, r, 0, NULL, 0,
			far_image_off(peer) + word_off(0), 1);
		if (status != SHUNT_OK)
			return note(rank, status);
	}
	return 0;
}

static bool await_word(
	struct rig_rank *rank, int32_t from, const void *word, uint64_t value);

static int meet_all(struct rig_rank *rank)
{
	for (int r = 0; r < rank->rig->num_ranks; r++)
		if (r != rank->rank &&
			!await_word(rank, r,
				&rank->peers[r]->control->directory[0].key, 1))
			return __LINE__;
	return 0;
}

static int connect_one(struct rig_rank *rank)
{
	struct rig *rig = rank->rig;
	struct peer_hello hellos[RIG_MAX_RANKS];
	bool is_far[RIG_MAX_RANKS];
	enum shunt_status status;

	if (!rank->far)
		return 0; /* closed before */
	for (int r = 0; r < rig->num_ranks; r++) {
		hellos[r] = rig->ranks[r].hello;
		is_far[r] = r != rank->rank;
	}
	status = far_connect(rank->far, rig->num_ranks, hellos, is_far,
		rig->secrets[rank->rank], clock_deadline(rig->connect_ns),
		rank->peers);
	if (status != SHUNT_OK)
		return note(rank, status);
	status = far_expose(rank->far, rank->area_off, RIG_AREA_BYTES);
	if (status != SHUNT_OK)
		return note(rank, status);
	rank->exposed = true;
	return 0;
}

/* Who could not connect goes, as a world would, or the others would wait for
 * it. Not before all have tried: else it is what they would complain of. */
static int meet_one(struct rig_rank *rank)
{
	if (!rank->far)
		return 0;
	if (rank->status != SHUNT_OK) {
		far_close(rank->far);
		rank->far = NULL;
		rank->exposed = false;
		return __LINE__;
	}
	return tell_all(rank) ? __LINE__ : meet_all(rank);
}

bool rig_connect(struct rig *rig)
{
	bool connected = rig_run(rig, connect_one);

	return rig_run(rig, meet_one) && connected;
}

bool rig_open(struct rig *rig)
{
	return rig_listen(rig) && rig_connect(rig);
}

/* ---- closing ------------------------------------------------------------ */

bool rig_close_rank(struct rig_rank *rank)
{
	bool empty;

	if (!rank->segment)
		return true;
	for (int r = 0; r < rank->rig->num_ranks; r++)
		if (rank->peers[r])
			rank->peers[r]->ops->close(rank->peers[r]);
	if (rank->exposed)
		far_hide(rank->far, rank->area_off);
	far_close(rank->far);
	rank->far = NULL;
	segment_free(rank->segment, rank->area_off, RIG_AREA_BYTES);
	empty = segment_used_bytes(rank->segment) == CONTROL_BYTES;
	life_end(rank->segment);
	segment_put(rank->segment);
	rank->segment = NULL;
	return empty;
}

static int close_one(struct rig_rank *rank)
{
	return rig_close_rank(rank) ? 0 : __LINE__;
}

bool rig_close(struct rig *rig)
{
	return rig_run(rig, close_one);
}

/* ---- functions of ranks ------------------------------------------------- */

enum shunt_status rig_put(struct rig_rank *rank, int32_t to, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter, uint64_t add)
{
	uint64_t area = rank->rig->ranks[to].area_off;

	return put_through(rank, to, area + offset, bytes, num_bytes,
		counter == PUT_NO_COUNTER ? counter : area + counter, add);
}

enum peer_state rig_state(const struct rig_rank *rank, int32_t peer)
{
	return rank->peers[peer]->ops->state(rank->peers[peer]);
}

/* As the world's wait loop does: look, arm, look again, sleep. */
static void look_and_sleep(struct rig_rank *rank, int32_t from,
	const _Atomic uint64_t *counter, uint64_t value)
{
	struct doorbell *doorbell = &segment_control(rank->segment)->doorbell;
	uint32_t ticket = doorbell_arm(doorbell, DOORBELL_ANY);

	far_arm(rank->far);
	far_progress(rank->far);
	if (order_acquire(counter) < value &&
		rig_state(rank, from) == PEER_ALIVE)
		doorbell_sleep(doorbell, ticket, NAP_NS);
	doorbell_disarm(doorbell);
}

static bool await_word(
	struct rig_rank *rank, int32_t from, const void *word, uint64_t value)
{
	const _Atomic uint64_t *counter = word;
	int64_t deadline = clock_deadline(RIG_LONG_NS);

	for (int i = 0; i < SPINS && order_acquire(counter) < value; i++)
		far_progress(rank->far);
	while (order_acquire(counter) < value) {
		look_and_sleep(rank, from, counter, value);
		if (rig_state(rank, from) != PEER_ALIVE)
			return order_acquire(counter) >= value;
		if (clock_now() > deadline) {
			num_hangs++;
			return false;
		}
	}
	return true;
}

bool rig_await(
	struct rig_rank *rank, int32_t from, uint64_t counter, uint64_t value)
{
	return await_word(rank, from, rank->area + counter, value);
}

bool rig_await_state(struct rig_rank *rank, int32_t peer, enum peer_state state)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int64_t deadline = clock_deadline(RIG_LONG_NS);

	while (rig_state(rank, peer) != state) {
		nanosleep(&nap, NULL);
		far_progress(rank->far);
		if (clock_now() > deadline) {
			num_hangs++;
			return false;
		}
	}
	return true;
}

bool rig_await_quiet(struct rig_rank *rank)
{
	int64_t deadline = clock_deadline(RIG_LONG_NS);

	while (!far_is_quiet(rank->far)) {
		far_progress(rank->far);
		if (clock_now() > deadline) {
			num_hangs++;
			return false;
		}
	}
	return true;
}
