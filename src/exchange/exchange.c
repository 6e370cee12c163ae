/* Exchanges: query, creation, destruction, and the bracket of every call. */
#include "exchange/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/log.h"
#include "exchange/algorithm.h"
#include "exchange/create.h"
#include "exchange/loss.h"
#include "exchange/registry.h"
#include "exchange/step.h"

/* ---- creation --------------------------------------------------------- */

static void exchange_free(struct shunt_exchange *exchange)
{
	if (exchange->owns_group)
		shunt_group_destroy(exchange->group);
	accepted_fini(&exchange->accepted);
	free(exchange->layouts);
	tables_fini(exchange);
	free(exchange->lost_ranks);
	free(exchange->windows);
	free(exchange->window_off);
	free(exchange);
}

static enum shunt_status exchange_alloc(struct shunt_world *world,
	struct shunt_group *group, struct shunt_exchange **out)
{
	struct shunt_exchange *exchange = calloc(1, sizeof(*exchange));

	if (!exchange)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for an exchange", group->rank);
	exchange->world = world;
	exchange->group = group;
	exchange->rank = group->rank;
	exchange->ep_rank = group->rank;
	exchange->stream_bytes = cache_private_bytes() / 4 * 3;
	atomic_flag_clear(&exchange->busy);
	*out = exchange;
	return SHUNT_OK;
}

/* A tp_group that cannot be is forgotten, so that nobody locks it. */
static enum shunt_status check_tp_group(struct shunt_exchange *exchange)
{
	struct shunt_exchange_config *config = &exchange->accepted.config;

	if (!config->tp_group ||
		(config->tp_group != exchange->group &&
			config->tp_group->world == exchange->world))
		return SHUNT_OK;
	config->tp_group = NULL;
	return error_set(SHUNT_INVALID,
		"tp_group must be another group than the exchange's, of the "
		"same world (rank %d)",
		exchange->rank);
}

/* All members are known: what they need. */
static enum shunt_status exchange_reserve(struct shunt_exchange *exchange)
{
	size_t members = (size_t)exchange_shape(exchange)->num_members;
	enum shunt_status status;

	exchange->window_off = calloc(members, sizeof(uint64_t));
	exchange->windows = calloc(members, sizeof(uint8_t *));
	exchange->lost_ranks = calloc(members, sizeof(int32_t));
	if (!exchange->window_off || !exchange->windows ||
		!exchange->lost_ranks)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for an exchange of %zu ranks",
			exchange->rank, members);
	status = hosts_of_group(&exchange->accepted.hosts, exchange->group);
	if (status != SHUNT_OK)
		return status;
	accepted_spread(&exchange->accepted);
	return layouts_init(
		&exchange->accepted, exchange->rank, &exchange->layouts);
}

/* This rank's own part: everything that can be checked alone. */
static enum shunt_status exchange_accept(struct shunt_exchange *exchange,
	const struct shunt_exchange_config *given)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	enum shunt_status status, group_status;
	char message[STEP_REASON_BYTES];

	status = accepted_init(&exchange->accepted, given, exchange->rank,
		exchange->group->size);
	snprintf(message, sizeof(message), "%s", shunt_error_message());
	group_status = check_tp_group(exchange);
	if (status != SHUNT_OK)
		return error_set(status, "%s", message);
	if (group_status != SHUNT_OK)
		return group_status;
	exchange->quantize = quant_row_kernel(
		config->quant, config->scale_form, config->dtype);
	/* As on one host: what is wrong alone is found before comparing. */
	return layouts_check(&exchange->accepted);
}

static uint64_t window_bytes(const struct shunt_exchange *exchange)
{
	return exchange->layouts[exchange->rank].total_bytes;
}

/* Nobody knows the window. */
static void window_free(struct shunt_exchange *exchange)
{
	uint64_t offset = exchange->window_off[exchange->rank];

	if (exchange->world->far)
		far_hide(exchange->world->far, offset);
	segment_free(exchange->world->segment, offset, window_bytes(exchange));
}

/* This rank's window, tables and name. */
static enum shunt_status exchange_provide(struct shunt_exchange *exchange)
{
	struct segment *segment = exchange->world->segment;
	uint64_t *window_off;
	enum shunt_status status;

	retire_sweep(exchange->world);
	status = exchange_reserve(exchange);
	if (status == SHUNT_OK)
		status = tables_init(exchange);
	if (status != SHUNT_OK)
		return status;
	counters_reset(exchange);
	window_off = &exchange->window_off[exchange->rank];
	status = segment_alloc(
		segment, window_bytes(exchange), 4096, window_off);
	if (status != SHUNT_OK)
		return status;
	if (exchange_shape(exchange)->hosts)
		status = far_expose(exchange->world->far, *window_off,
			window_bytes(exchange));
	if (status == SHUNT_OK)
		status = registry_add(exchange, &exchange->id);
	if (status != SHUNT_OK)
		window_free(exchange);
	return status;
}

static void window_retire(struct shunt_exchange *exchange)
{
	uint64_t offset = exchange->window_off[exchange->rank];

	retire_range(exchange->world, offset, window_bytes(exchange),
		offset + exchange->layouts[exchange->rank].closed_off,
		exchange->group->members, exchange->group->size);
}

/* From an EP group to the group of all members, if there is TP. */
static enum shunt_status exchange_widen(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline)
{
	struct shunt_group *tp_group = exchange->accepted.config.tp_group;
	struct shunt_group *grid;
	enum shunt_status status = own;

	if (!tp_group)
		return own;
	/* Also after an error, so that the other EP groups hear of it. */
	status = agree_tp(exchange, tp_group, own, deadline);
	if (status == SHUNT_OK)
		status =
			grid_create(exchange->group, tp_group, deadline, &grid);
	if (status != SHUNT_OK)
		return status;
	exchange->group = grid;
	exchange->owns_group = true;
	exchange->rank = grid->rank;
	exchange->tp_rank = tp_group->rank;
	return SHUNT_OK;
}

static void log_plan(const struct shunt_exchange *exchange)
{
	char why[256];

	if (!exchange_shape(exchange)->hosts)
		return;
	algorithm_explain(exchange_shape(exchange), &exchange->accepted.config,
		why, sizeof(why));
	log_note(LOG_INFO, "exchange over %d hosts, %s",
		exchange->accepted.hosts.num_hosts, why);
}

static enum shunt_status exchange_meet(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline)
{
	enum shunt_status status = agree_config(exchange, own, deadline);
	bool published;

	status = exchange_widen(exchange, status, deadline);
	if (status != SHUNT_OK)
		return status;
	own = exchange_provide(exchange);
	status = agree_windows(exchange, own, deadline, &published);
	if (status == SHUNT_OK)
		log_plan(exchange);
	if (status == SHUNT_OK || own != SHUNT_OK)
		return status;
	registry_remove(exchange->id);
	if (published)
		window_retire(exchange);
	else
		window_free(exchange);
	return status;
}

/* Creations take turns on each of their groups, always in the same order. */
static void lock_groups(struct shunt_group *a, struct shunt_group *b)
{
	if (b && (uintptr_t)b < (uintptr_t)a) {
		pthread_mutex_lock(&b->lock);
		b = NULL;
	}
	pthread_mutex_lock(&a->lock);
	if (b)
		pthread_mutex_lock(&b->lock);
}

static void unlock_groups(struct shunt_group *a, struct shunt_group *b)
{
	pthread_mutex_unlock(&a->lock);
	if (b)
		pthread_mutex_unlock(&b->lock);
}

/* The deadline that the caller asked for, also if the rest is wrong. */
static int64_t creation_deadline(const struct shunt_exchange *exchange)
{
	int64_t span_ns = exchange->accepted.config.deadline_ns;

	return clock_deadline(span_ns > 0 ? span_ns : EXCHANGE_DEADLINE_NS);
}

static enum shunt_status check_owner(struct shunt_world *world,
	struct shunt_group *group, struct shunt_exchange **exchange)
{
	if (!world || !exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "%s is NULL",
			world ? "exchange" : "world");
	if (group && group->world != world)
		return error_set(SHUNT_INVALID,
			"group is of another world (rank %d)", world->rank);
	return guard_check(world->generation);
}

enum shunt_status shunt_exchange_create(struct shunt_world *world,
	struct shunt_group *group, const struct shunt_exchange_config *config,
	struct shunt_exchange **out)
{
	struct shunt_exchange *exchange = NULL;
	struct shunt_group *tp_group;
	enum shunt_status status;

	status = check_owner(world, group, out);
	if (status != SHUNT_OK)
		return status;
	if (!group)
		group = world->group;
	status = exchange_alloc(world, group, &exchange);
	if (status != SHUNT_OK)
		return status;
	status = exchange_accept(exchange, config);
	tp_group = exchange->accepted.config.tp_group;
	lock_groups(group, tp_group);
	status = exchange_meet(exchange, status, creation_deadline(exchange));
	unlock_groups(group, tp_group);
	if (status != SHUNT_OK) {
		exchange_free(exchange);
		return status;
	}
	*out = exchange;
	return SHUNT_OK;
}

/* ---- destruction ------------------------------------------------------ */

/* Tells every rank that this one will not touch its window again. */
static void windows_close(struct shunt_exchange *exchange)
{
	struct shunt_group *group = exchange->group;

	for (int32_t r = 0; r < group->size; r++)
		peer_signal(group->peers[r],
			exchange->window_off[r] +
				exchange->layouts[r].closed_off +
				(uint64_t)exchange->rank * sizeof(struct line),
			1);
}

void shunt_exchange_destroy(struct shunt_exchange *exchange)
{
	if (!exchange || guard_check(exchange->world->generation) != SHUNT_OK)
		return;
	registry_remove(exchange->id);
	loss_tell_dead(exchange, exchange_present(exchange));
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++) {
		struct step *step = &exchange->steps[i];

		if (step->state != STEP_FREE)
			step_give_up(exchange, step);
		/* If all have announced it, they can be told. */
		if (step->advance)
			step->advance(exchange, step);
	}
	windows_close(exchange);
	window_retire(exchange);
	exchange_free(exchange);
}

/* ---- the bracket of every call ---------------------------------------- */

enum shunt_status exchange_refuse(const struct shunt_exchange *exchange,
	const char *name, int64_t value, const char *legal)
{
	return error_set(SHUNT_INVALID, "%s is %lld, must be %s (rank %d)",
		name, (long long)value, legal, exchange->rank);
}

static enum shunt_status report_broken(struct shunt_exchange *exchange)
{
	error_set(SHUNT_PEER_LOST,
		"rank %d: a rank of this exchange was lost before; the "
		"exchange can only be destroyed",
		exchange->rank);
	for (size_t i = 0; i < exchange->num_lost; i++)
		error_add_rank(exchange->lost_ranks[i]);
	return SHUNT_PEER_LOST;
}

/* What may be asked before the exchange is looked at. */
static enum shunt_status check_entry(const struct shunt_exchange *exchange)
{
	if (!exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "exchange is NULL");
	return guard_check(exchange->world->generation);
}

static enum shunt_status take(struct shunt_exchange *exchange)
{
	if (atomic_flag_test_and_set_explicit(
		    &exchange->busy, memory_order_acquire))
		return error_set(SHUNT_STATE,
			"another thread is in a call on this exchange "
			"(rank %d)",
			exchange->rank);
	/* Also calls that do not wait see what has come from other hosts. */
	if (exchange->world->far)
		far_progress(exchange->world->far);
	return SHUNT_OK;
}

enum shunt_status exchange_enter(struct shunt_exchange *exchange)
{
	enum shunt_status status = check_entry(exchange);

	if (status == SHUNT_OK && exchange->broken)
		status = report_broken(exchange);
	return status ? status : take(exchange);
}

enum shunt_status exchange_enter_any(struct shunt_exchange *exchange)
{
	enum shunt_status status = check_entry(exchange);

	return status ? status : take(exchange);
}

void exchange_leave(struct shunt_exchange *exchange)
{
	atomic_flag_clear_explicit(&exchange->busy, memory_order_release);
}

static enum shunt_status find_step(
	struct shunt_exchange *exchange, uint64_t epoch, struct step **out)
{
	uint64_t depth = (uint64_t)exchange_shape(exchange)->depth;
	struct step *step = &exchange->steps[epoch % depth];

	if (epoch == 0 || epoch > exchange->epoch)
		return error_set(SHUNT_STATE,
			"handle names step %llu, which was not begun (rank %d)",
			(unsigned long long)epoch, exchange->rank);
	if (step->epoch != epoch || step_is_over(step))
		return error_set(SHUNT_STATE,
			"step %llu of this handle is over: a handle is "
			"combined or destroyed once (rank %d)",
			(unsigned long long)epoch, exchange->rank);
	*out = step;
	return SHUNT_OK;
}

enum shunt_status exchange_enter_handle(struct shunt_handle handle,
	struct shunt_exchange **out, struct step **step)
{
	struct shunt_exchange *exchange = registry_find(handle.exchange);
	enum shunt_status status;

	if (!exchange)
		return error_set(SHUNT_STATE,
			"the exchange of this handle is destroyed, or it is no "
			"handle");
	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	status = find_step(exchange, handle.epoch, step);
	if (status != SHUNT_OK) {
		exchange_leave(exchange);
		return status;
	}
	*out = exchange;
	return SHUNT_OK;
}

void shunt_handle_destroy(struct shunt_handle handle)
{
	struct shunt_exchange *exchange;
	struct step *step;

	if (exchange_enter_handle(handle, &exchange, &step) != SHUNT_OK)
		return;
	loss_tell_dead(exchange, step->view);
	step_give_up(exchange, step);
	exchange_leave(exchange);
}
