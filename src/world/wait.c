/* The wait loop; see wait.h. */
#include "world/wait.h"

#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/order.h"
#include "bootstrap/bootstrap.h"
#include "world/world.h"

#define SPIN_NS          1000000 /* longer than a step's usual skew */
#define CHECK_EVERY      64      /* spins between looks at the clock */
#define YIELDS           16      /* before the first sleep */
#define SLEEP_NS         5000000 /* bounds how late a death is noticed ... */
#define FEW_RANKS        64      /* ... up to so many ranks; see pace_ns() */
#define REPORT_BYTES     768
#define REPORT_MAX_RANKS 8

int64_t wait_spin_ns(int32_t num_ranks, int32_t num_cores)
{
	return num_ranks <= num_cores ? SPIN_NS : 0;
}

bool wait_is_crowd(const struct shunt_group *group)
{
	return group->size > FEW_RANKS;
}

/* Appends what `rank` last did, from its control page. */
static int report_rank(char *text, size_t capacity,
	const struct shunt_group *group, int32_t rank)
{
	const struct control *control = group->peers[rank]->control;
	const struct beat *beat = &control->beat;
	int64_t when = atomic_load_explicit(&beat->when, memory_order_relaxed);
	char name[48];

	return snprintf(text, capacity,
		"%s (last in %s, step %llu, %.3f s ago)",
		group_rank_text(group, rank, name),
		world_phase_name(order_peek(&beat->phase)),
		(unsigned long long)order_peek(&beat->epoch),
		(double)(clock_now() - when) * 1e-9);
}

/* Sets the error about the ranks for which about() holds now. */
static enum shunt_status report(struct waiter *waiter, enum shunt_status status,
	bool (*about)(struct waiter *, int32_t), const char *verb)
{
	const struct shunt_group *group = waiter->group;
	bool named[BOOTSTRAP_MAX_RANKS];
	char text[REPORT_BYTES] = "";
	size_t used = 0;
	int32_t num = 0;

	for (int32_t r = 0; r < group->size; r++) {
		named[r] = about(waiter, r);
		if (!named[r] || num++ >= REPORT_MAX_RANKS ||
			used + 160 > sizeof(text))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s",
			num > 1 ? ", " : "");
		used += (size_t)report_rank(
			text + used, sizeof(text) - used, group, r);
	}
	error_set(status, "rank %d, step %llu: %s for %s: %d rank%s: %s%s",
		group->rank, (unsigned long long)waiter->epoch, verb,
		waiter->what, num, num == 1 ? "" : "s", text,
		num > REPORT_MAX_RANKS ? ", ..." : "");
	for (int32_t r = 0; r < group->size; r++)
		if (named[r])
			error_add_rank(r);
	return status;
}

static bool is_gone(struct waiter *waiter, int32_t rank)
{
	struct peer *peer = waiter->group->peers[rank];

	return peer->ops->state(peer) != PEER_ALIVE ||
	       (waiter->closed && waiter->closed(waiter, rank));
}

static bool is_lost(struct waiter *waiter, int32_t rank)
{
	return is_gone(waiter, rank) && waiter->awaits(waiter, rank);
}

static bool any_is_lost(struct waiter *waiter)
{
	for (int32_t r = 0; r < waiter->group->size; r++)
		if (is_lost(waiter, r))
			return true;
	return false;
}

/* What has come from other hosts shows in counters only once this rank has
 * looked. */
static bool is_ready(struct waiter *waiter)
{
	struct far *far = waiter->group->world->far;

	if (far)
		far_progress(far);
	return waiter->ready(waiter);
}

/* The slow look: OK means go on waiting, unless *over. */
static enum shunt_status look(
	struct waiter *waiter, int64_t deadline, int64_t now, bool *over)
{
	/* ready() between two looks: what a rank sent before it was seen gone
	 * has arrived by then, so that a rank lost at the second look has
	 * really not sent it. */
	if (any_is_lost(waiter)) {
		*over = is_ready(waiter);
		if (*over)
			return SHUNT_OK;
		if (any_is_lost(waiter))
			return report(waiter, SHUNT_PEER_LOST, is_lost,
				"lost while waiting");
	}
	if (now >= deadline) {
		*over = is_ready(waiter);
		if (!*over)
			return report(waiter, SHUNT_TIMEOUT, waiter->awaits,
				"deadline passed while waiting");
	}
	return SHUNT_OK;
}

enum shunt_status wait_look(struct waiter *waiter)
{
	bool over;

	return look(waiter, INT64_MAX, INT64_MIN, &over);
}

/* Spins until ready or `until`; true when ready. */
static bool spin(struct waiter *waiter, int64_t until)
{
	do {
		for (int i = 0; i < CHECK_EVERY; i++) {
			if (is_ready(waiter))
				return true;
			clock_relax();
		}
	} while (clock_now() < until);
	return false;
}

/* Lets others run; with hundreds of ranks a turn of all takes too long. */
static bool yield(struct waiter *waiter)
{
	if (wait_is_crowd(waiter->group))
		return false;
	for (int i = 0; i < YIELDS; i++) {
		sched_yield();
		if (is_ready(waiter))
			return true;
	}
	return false;
}

/* The longest nap. A look costs as much as there are ranks, and all ranks
 * look: with hundreds of them on a few cores, looking often, or at every
 * wake-up, would leave no time for anything else. */
static int64_t pace_ns(const struct waiter *waiter)
{
	if (!wait_is_crowd(waiter->group))
		return SLEEP_NS;
	return (int64_t)SLEEP_NS * waiter->group->size / FEW_RANKS;
}

static bool nap(struct waiter *waiter, int64_t now, int64_t until)
{
	struct doorbell *bell = &waiter->group->world->control->doorbell;
	int64_t span = until - now;
	uint64_t token = waiter->token(waiter);
	uint32_t ticket = doorbell_arm(bell, token);
	bool over;

	if (waiter->group->world->far)
		far_arm(waiter->group->world->far);
	over = is_ready(waiter);

	/* Something came meanwhile and another thing is waited for: its ring
	 * would not wake this sleep. */
	if (!over && span > 0 && waiter->token(waiter) == token)
		doorbell_sleep(bell, ticket, span);
	doorbell_disarm(bell);
	return over || is_ready(waiter);
}

enum shunt_status wait_for(struct waiter *waiter, int64_t deadline)
{
	int64_t spin_ns = waiter->group->world->spin_ns;
	int64_t pace = pace_ns(waiter);
	int64_t next_look = INT64_MIN;
	enum shunt_status status = SHUNT_OK;
	bool over = is_ready(waiter);

	if (!over && spin_ns > 0)
		over = spin(waiter, clock_now() + spin_ns);
	if (!over)
		over = yield(waiter);
	while (!over && status == SHUNT_OK) {
		int64_t now = clock_now();

		if (now >= next_look || now >= deadline) {
			status = look(waiter, deadline, now, &over);
			next_look =
				wait_is_crowd(waiter->group) ? now + pace : now;
		}
		if (!over && status == SHUNT_OK)
			over = nap(waiter, now,
				deadline - now < pace ? deadline : now + pace);
	}
	return status;
}
