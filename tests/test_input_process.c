/*
 * What an application does around the library: creating and destroying over
 * and over, forking, running out of descriptors or memory, and other jobs on
 * the same host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/leftovers.h"
#include "support/plain.h"
#include "support/scale.h"
#include "support/stand.h"

#define RANKS 3

static struct shunt_exchange_config small_config(void)
{
	return trial_config(8, 33, 3, 10);
}

/* ---- create and destroy ----------------------------------------------- */

/* A sanitizer's allocator keeps freed memory for a while, and its shadow falls
 * into more and more mappings. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#define MEMORY_SLACK  (IS_SANITIZED ? 256 << 20 : 4 << 20)
#define MAPPING_SLACK (IS_SANITIZED ? 1000 : 50)

struct use {
	int descriptors, mappings;
	long resident;
};

/* Counting opens descriptors of its own, so of ranks that are threads only one
 * does it. */
static bool counts_use(const struct seat *seat)
{
	return seat->launch == RANKS_PROCESSES || seat->rank == 0;
}

/* What this process uses while all its ranks rest. */
static struct use use_now(struct seat *seat)
{
	struct use use = {0};

	seat_barrier(seat);
	if (counts_use(seat))
		use = (struct use){leftovers_descriptors(),
			leftovers_mappings(), leftovers_resident()};
	seat_barrier(seat);
	return use;
}

/* Descriptors are exact. Some mappings come and go with malloc's arenas and
 * thread stacks; a leak of one per cycle is far beyond that. */
static void check_use(struct seat *seat, const struct use *before)
{
	struct use now = use_now(seat);

	SEAT_CHECK(seat, now.descriptors <= before->descriptors,
		"descriptors grew from %d to %d", before->descriptors,
		now.descriptors);
	SEAT_CHECK(seat, now.mappings <= before->mappings + MAPPING_SLACK,
		"mappings grew from %d to %d", before->mappings, now.mappings);
	SEAT_CHECK(seat, now.resident <= before->resident + MEMORY_SLACK,
		"memory grew from %ld to %ld", before->resident, now.resident);
}

static void cycle_exchanges(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	int cycles = scale_of(1000);
	struct use before = {0};
	struct stand stand;

	for (int i = 0; i < cycles; i++) {
		if (i == cycles / 10)
			before = use_now(seat);
		stand_init(&stand, seat, &config);
		stand_step(&stand);
		stand_fini(&stand);
	}
	check_use(seat, &before);
}

static void thousand_create_destroy_cycles_of_an_exchange_do_not_grow(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, cycle_exchanges, NULL);
}

/* With a TP group an exchange makes a group of its own; now and then one rank
 * has a wrong config, and none is made. World rank p * 2 + r is rank r of EP
 * group p. */
static void cycle_tp(struct seat *seat)
{
	static const int32_t ids[] = {0, 1};
	int32_t ep[] = {seat->rank & 2, (seat->rank & 2) + 1};
	int32_t tp[] = {seat->rank & 1, (seat->rank & 1) + 2};
	struct shunt_group *ep_group, *tp_group;
	struct shunt_exchange *exchange;
	int cycles = scale_of(500);
	struct use before = {0};
	struct plain plain;

	SEAT_OK(seat,
		shunt_group_create(seat->world, ep, 2, "ep", 0, &ep_group));
	SEAT_OK(seat,
		shunt_group_create(seat->world, tp, 2, "tp", 0, &tp_group));
	for (int i = 0; i < cycles; i++) {
		struct shunt_exchange_config config = plain_config(1, 2, 2);

		if (i == cycles / 10)
			before = use_now(seat);
		config.tp_group = tp_group;
		plain_init(&plain, seat, ep_group, &config);
		plain_bring(&plain, 1, ids);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1}));
		plain_expect_sums(&plain, (const float[]){4});
		plain_fini(&plain);
		config.hidden = seat->rank == 3 ? 0 : config.hidden;
		SEAT_STATUS(seat,
			seat->rank == 3 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			shunt_exchange_create(
				seat->world, ep_group, &config, &exchange));
	}
	check_use(seat, &before);
	shunt_group_destroy(ep_group);
	shunt_group_destroy(tp_group);
}

/* All that a plain exchange has not: views, kept routes and rows, replicas. */
static void cycle_features(struct seat *seat)
{
	static const int32_t ids[] = {0, 1, 2};
	static const int32_t table[] = {1, 3, 1, 2, 0, 1, 2, 0, 1, 2};
	int cycles = scale_of(500);
	struct use before = {0};
	struct plain plain;

	for (int i = 0; i < cycles; i++) {
		struct shunt_exchange_config config = plain_config(1, 3, 2);

		if (i == cycles / 10)
			before = use_now(seat);
		config.num_shared_experts = 1;
		config.num_shared_ranks = 1;
		config.num_copy_experts = 1;
		config.elastic = true;
		config.kept_routes = 20;
		config.expert_alignment = 4;
		config.layout = (enum shunt_layout)(i % 3);
		plain_init(&plain, seat, NULL, &config);
		plain_bring(&plain, 1, ids);
		plain.args.elastic_info = table;
		plain_pass(&plain);
		plain_bring(&plain, 1, NULL);
		plain.args.elastic_info = table;
		plain.args.cached = plain.handle;
		plain_dispatch(&plain);
		plain.combine.ori_x = plain.x;
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1}));
		plain_expect_sums(&plain, (const float[]){4});
		plain_fini(&plain);
	}
	check_use(seat, &before);
}

static void cycles_of_exchanges_with_tp_and_other_features_do_not_grow(
	void **state)
{
	(void)state;
	ranks_run_both(4, cycle_tp, NULL);
	ranks_run_both(RANKS, cycle_features, NULL);
}

/* One after the other at the same address: leftovers would be in the way. */
static void cycle_worlds(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	int cycles = scale_of(seat->launch == RANKS_THREADS ? 1000 : 300);
	struct use before = {0};
	struct stand stand;

	for (int i = 0; i < cycles; i++) {
		if (i == cycles / 10)
			before = use_now(seat);
		seat->world = seat_join(seat);
		if (i % 10 == 0) {
			stand_init(&stand, seat, &config);
			stand_step(&stand);
			stand_fini(&stand);
		}
		shunt_world_destroy(seat->world);
		seat_barrier(seat);
	}
	check_use(seat, &before);
}

static void thousand_create_destroy_cycles_of_a_world_do_not_grow(void **state)
{
	struct ranks_plan plan = {.num_ranks = RANKS, .no_world = true};

	(void)state;
	plan.launch = RANKS_THREADS;
	ranks_run(&plan, cycle_worlds);
	plan.launch = RANKS_PROCESSES;
	ranks_run(&plan, cycle_worlds);
}

/* ---- fork ------------------------------------------------------------- */

/* What a forked child gets from what its parent made; 0 if all is well. */
static int try_in_child(struct stand *stand, struct trial *step)
{
	struct shunt_exchange *exchange = NULL;

	if (shunt_dispatch(stand->exchange, &step->args, &step->out,
		    &step->handle) != SHUNT_STATE)
		return 1;
	if (strstr(shunt_error_message(), "fork") == NULL)
		return 2;
	if (shunt_combine(step->handle, &step->combine) != SHUNT_STATE)
		return 3;
	if (shunt_exchange_create(stand->seat->world, NULL, &stand->config,
		    &exchange) != SHUNT_STATE)
		return 4;
	if (shunt_alloc(stand->seat->world, 64) != NULL)
		return 5;
	shunt_handle_destroy(step->handle);
	shunt_exchange_destroy(stand->exchange);
	shunt_world_destroy(stand->seat->world);
	return 0;
}

static void fork_in_flight(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;
	pid_t child;
	int status = 0;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	stand_dispatch(&stand, step);
	child = fork();
	if (child == 0)
		_exit(try_in_child(&stand, step));
	SEAT_CHECK(seat, child > 0, "fork");
	SEAT_CHECK(seat, waitpid(child, &status, 0) == child, "waitpid");
	SEAT_CHECK(seat, WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"the child ended with 0x%x", (unsigned)status);
	stand_combine(&stand, step);
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

/* Processes only: a forked child of many threads may do little in it, and a
 * rank as a thread would be no other case for the library. */
static void fork_child_gets_a_clean_error_and_parent_is_unharmed(void **state)
{
	(void)state;
	ranks_run_simple(RANKS_PROCESSES, RANKS, fork_in_flight, NULL);
}

/* The child joins a job of its own, while the parent's goes on. */
static void fork_and_join(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_world_config alone = SHUNT_WORLD_CONFIG_INIT;
	struct shunt_world *world;
	struct stand stand;
	pid_t child;
	int status = 0;

	stand_init(&stand, seat, &config);
	child = fork();
	if (child == 0) {
		alone.rendezvous = "threads://child";
		alone.num_ranks = 1;
		if (shunt_world_create(&alone, &world) != SHUNT_OK)
			_exit(1);
		shunt_world_destroy(world);
		_exit(0);
	}
	stand_step(&stand);
	SEAT_CHECK(seat, waitpid(child, &status, 0) == child, "waitpid");
	SEAT_CHECK(seat, WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"the child ended with 0x%x", (unsigned)status);
	stand_step(&stand);
	stand_fini(&stand);
}

static void a_forked_child_may_build_a_world_of_its_own(void **state)
{
	(void)state;
	ranks_run_simple(RANKS_PROCESSES, 2, fork_and_join, NULL);
}

/* ---- what must not be used -------------------------------------------- */

/* True if any mapping or descriptor of this process is a file in /dev/shm. */
static bool uses_dev_shm(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	char line[512], target[512];
	bool used = maps == NULL || folder == NULL;
	ssize_t length;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		used = used || strstr(line, "/dev/shm") != NULL;
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		length = readlinkat(dirfd(folder), entry->d_name, target,
			sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		used = used || strstr(target, "/dev/shm") != NULL;
	}
	if (maps != NULL)
		fclose(maps);
	if (folder != NULL)
		closedir(folder);
	return used;
}

static void look_for_dev_shm(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	SEAT_CHECK(seat, !uses_dev_shm(), "/dev/shm is used");
	stand_fini(&stand);
}

static void dev_shm_is_not_used(void **state)
{
	(void)state;
	ranks_run_both(RANKS, look_for_dev_shm, NULL);
}

/* ---- limits ----------------------------------------------------------- */

/* One try at a limit of `extra` more descriptors than are open. True if the
 * world could be made. */
static bool join_with(struct seat *seat, int extra)
{
	int before = leftovers_descriptors();
	struct shunt_world *world = NULL;
	struct rlimit old, limit;
	enum shunt_status status;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	/* Counting had one open itself. */
	limit.rlim_cur = (rlim_t)(before - 1 + extra);
	seat_barrier(seat);
	setrlimit(RLIMIT_NOFILE, &limit);
	status = shunt_world_create(&seat->config, &world);
	setrlimit(RLIMIT_NOFILE, &old);
	SEAT_CHECK(seat, (status == SHUNT_OK) == (world != NULL),
		"world and status disagree");
	SEAT_CHECK(seat, status == SHUNT_OK || shunt_error_message()[0] != '\0',
		"no message");
	seat_barrier(seat);
	shunt_world_destroy(world);
	SEAT_CHECK(seat, leftovers_descriptors() == before,
		"%d descriptors where there were %d, with room for %d",
		leftovers_descriptors(), before, extra);
	return status == SHUNT_OK;
}

static void run_short_of_descriptors(struct seat *seat)
{
	int failures = 0;

	seat->config.deadline_ns = 500000000;
	for (int extra = 0; extra < 12; extra++)
		failures += !join_with(seat, extra);
	SEAT_CHECK(seat, failures > 0, "no limit was low enough");
	seat->config.deadline_ns = 0;
	SEAT_CHECK(seat, join_with(seat, 100), "%s", shunt_error_message());
}

static void a_descriptor_limit_is_an_error_and_leaks_nothing(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = 2,
		.no_world = true,
	};

	(void)state;
	ranks_run(&plan, run_short_of_descriptors);
}

/* A window that the segment has no room for, on all ranks. */
static void run_short_of_memory(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(4096, 7168, 8, 32);
	struct shunt_exchange *exchange;
	struct stand stand;
	enum shunt_status status;

	status = shunt_exchange_create(seat->world, NULL, &config, &exchange);
	SEAT_CHECK(seat,
		status == SHUNT_NO_MEMORY || status == SHUNT_PEER_REFUSED,
		"%s: %s", shunt_status_name(status), shunt_error_message());
	config = small_config();
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	stand_fini(&stand);
}

static void a_segment_too_small_is_no_memory_and_the_world_goes_on(void **state)
{
	struct ranks_plan plan = {
		.num_ranks = RANKS,
		.segment_bytes = 64 << 20,
	};

	(void)state;
	plan.launch = RANKS_THREADS;
	ranks_run(&plan, run_short_of_memory);
	plan.launch = RANKS_PROCESSES;
	ranks_run(&plan, run_short_of_memory);
}

static void alloc_some(struct seat *seat)
{
	uint8_t *block = shunt_alloc(seat->world, 1000);

	SEAT_CHECK(seat, block != NULL, "%s", shunt_error_message());
	SEAT_CHECK(seat, (uintptr_t)block % 64 == 0, "alignment");
	memset(block, 1, 1000);
	SEAT_CHECK(seat, shunt_alloc(seat->world, SIZE_MAX / 2) == NULL,
		"half of all memory was given");
	shunt_free(seat->world, block);
	shunt_free(seat->world, NULL);
}

static void alloc_gives_aligned_memory_or_null(void **state)
{
	(void)state;
	ranks_run_both(2, alloc_some, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			thousand_create_destroy_cycles_of_an_exchange_do_not_grow),
		cmocka_unit_test(
			cycles_of_exchanges_with_tp_and_other_features_do_not_grow),
		cmocka_unit_test(
			thousand_create_destroy_cycles_of_a_world_do_not_grow),
		cmocka_unit_test(
			fork_child_gets_a_clean_error_and_parent_is_unharmed),
		cmocka_unit_test(a_forked_child_may_build_a_world_of_its_own),
		cmocka_unit_test(dev_shm_is_not_used),
		cmocka_unit_test(
			a_descriptor_limit_is_an_error_and_leaks_nothing),
		cmocka_unit_test(
			a_segment_too_small_is_no_memory_and_the_world_goes_on),
		cmocka_unit_test(alloc_gives_aligned_memory_or_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
