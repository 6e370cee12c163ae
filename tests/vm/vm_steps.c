/*
 * Steps of a rank that a launcher has started, each compared with the reference:
 *
 *	vm_steps steps N [MS]	N steps, with a rest of MS ms before each. Behind
 *				them nothing may be left: no descriptors, no memory
 *	vm_steps lose RANKS	steps until these ranks ("2,3") are lost: exactly
 *				they must be named, and no others; then steps of
 *				the rest, as a group of its own
 *
 * Each step is of another exchange than the one before: rows go by FULLMESH and
 * by HIERARCHY in turn. "step N" is written now and then, and what was lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/launched.h"
#include "support/leftovers.h"
#include "support/stand.h"

#define NUM_STANDS 2
#define TELL_EVERY 20
#define REST_STEPS 20
/* What the pages of a heap may differ by. */
#define MAX_GROWTH (1 << 20)

struct plan {
	bool lose;
	int64_t num_steps, rest_ms;
	uint64_t lost; /* ranks, as bits */
};

/* Ranks that are left, behind a loss. */
struct rest {
	int32_t ranks[64], members[64], hosts[64];
	struct stand_part part;
};

/* What the process has. */
struct holdings {
	int descriptors, mappings;
	long resident;
};

static struct holdings holdings_now(void)
{
	return (struct holdings){leftovers_descriptors(), leftovers_mappings(),
		leftovers_resident()};
}

static void check_growth(struct seat *seat, const struct holdings *before)
{
	struct holdings now = holdings_now();

	printf("descriptors %d -> %d, mappings %d -> %d, resident %ld -> %ld\n",
		before->descriptors, now.descriptors, before->mappings,
		now.mappings, before->resident, now.resident);
	SEAT_CHECK(seat, now.descriptors <= before->descriptors,
		"descriptors %d -> %d", before->descriptors, now.descriptors);
	SEAT_CHECK(seat, now.mappings <= before->mappings, "mappings %d -> %d",
		before->mappings, now.mappings);
	SEAT_CHECK(seat, now.resident <= before->resident + MAX_GROWTH,
		"resident memory %ld -> %ld", before->resident, now.resident);
}

/* ---- steps ------------------------------------------------------------- */

static struct shunt_exchange_config config_of(int index)
{
	struct shunt_exchange_config config = trial_config(8, 48, 4, 10);

	config.quant = SHUNT_QUANT_INT8;
	config.expert_dtype = SHUNT_DTYPE_F16;
	config.algorithm = index == 0 ? SHUNT_ALGORITHM_FULLMESH
				      : SHUNT_ALGORITHM_HIERARCHY;
	return config;
}

static void open_stands(struct seat *seat, struct stand *stands)
{
	struct shunt_exchange_config config;

	for (int i = 0; i < NUM_STANDS; i++) {
		config = config_of(i);
		stand_init(&stands[i], seat, &config);
	}
}

static void close_stands(struct stand *stands)
{
	for (int i = 0; i < NUM_STANDS; i++)
		stand_fini(&stands[i]);
}

/* A step that may fail. */
static enum shunt_status try_step(struct stand *stand)
{
	struct trial_rule rule = stand_draw(stand);
	struct trial *step = stand_prepare_rule(stand, &rule);
	enum shunt_status status = shunt_dispatch(
		stand->exchange, &step->args, &step->out, &step->handle);

	if (status == SHUNT_OK) {
		trial_check_dispatch(stand->seat, step);
		trial_make_rows(stand->seat, step);
		status = shunt_combine(step->handle, &step->combine);
	}
	if (status == SHUNT_OK)
		trial_check_combine(stand->seat, step);
	stand_drop(step);
	return status;
}

static enum shunt_status try_step_of_all(struct stand *stands, int64_t number)
{
	enum shunt_status status = try_step(&stands[number % NUM_STANDS]);

	if (status == SHUNT_OK && (number + 1) % TELL_EVERY == 0)
		printf("step %" PRId64 "\n", number + 1);
	return status;
}

static void run_steps(struct seat *seat)
{
	const struct plan *plan = seat->context;
	struct stand stands[NUM_STANDS];
	struct holdings before;

	open_stands(seat, stands);
	for (int64_t n = 0; n < plan->num_steps; n++) {
		if (plan->rest_ms > 0)
			usleep((useconds_t)plan->rest_ms * 1000);
		/* By then everything has been used. */
		if (n == plan->num_steps / 5)
			before = holdings_now();
		SEAT_OK(seat, try_step_of_all(stands, n));
	}
	if (plan->num_steps > 0)
		check_growth(seat, &before);
	close_stands(stands);
}

/* ---- loss -------------------------------------------------------------- */

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Those that are known now, which may not be all yet. */
static void check_loss(
	struct seat *seat, enum shunt_status status, uint64_t lost)
{
	int32_t ranks[64];
	size_t count = shunt_error_ranks(ranks, 64);

	SEAT_CHECK(seat, status == SHUNT_PEER_LOST, "%s where PEER_LOST is due",
		shunt_status_name(status));
	SEAT_CHECK(seat, count >= 1 && count <= 64, "%zu ranks named", count);
	for (size_t i = 0; i < count; i++)
		SEAT_CHECK(seat, lost >> ranks[i] & 1,
			"rank %d is named as lost", ranks[i]);
}

/* Until the world has lost these ranks; never others. */
static void await_losses(struct seat *seat, uint64_t lost)
{
	int64_t end = milliseconds() + 30000;
	uint8_t flags[64] = {0};
	uint64_t seen = 0;

	while (seen != lost) {
		SEAT_CHECK(seat, milliseconds() < end,
			"0x%" PRIx64 " are lost after 30 s, not 0x%" PRIx64,
			seen, lost);
		shunt_world_lost(seat->world, flags);
		seen = 0;
		for (int32_t r = 0; r < seat->num_ranks; r++)
			seen |= (uint64_t)(flags[r] != 0) << r;
		SEAT_CHECK(seat, (seen & ~lost) == 0,
			"0x%" PRIx64 " are lost, beyond 0x%" PRIx64, seen,
			lost);
		usleep(1000);
	}
}

/* Those that are left, as a group. */
static void part_of_rest(struct seat *seat, uint64_t lost, struct rest *rest)
{
	int32_t count = 0;

	for (int32_t r = 0; r < seat->num_ranks; r++) {
		if (lost >> r & 1)
			continue;
		rest->ranks[count] = r;
		rest->hosts[count] = seat->hosts[r];
		rest->members[r] = count++;
	}
	rest->part.num_ranks = count;
	rest->part.members = rest->members;
	rest->part.hosts = rest->hosts;
	SEAT_OK(seat, shunt_group_create(seat->world, rest->ranks, count,
			      "the rest", 0, &rest->part.group));
}

static void go_on(struct seat *seat, uint64_t lost)
{
	struct shunt_exchange_config config = config_of(1);
	struct rest rest = {0};
	struct stand stand;

	part_of_rest(seat, lost, &rest);
	stand_init_part(&stand, seat, &rest.part, &config);
	for (int n = 0; n < REST_STEPS; n++)
		SEAT_OK(seat, try_step(&stand));
	printf("%d steps of the %d that are left\n", REST_STEPS,
		rest.part.num_ranks);
	stand_fini(&stand);
	shunt_group_destroy(rest.part.group);
}

static void run_until_loss(struct seat *seat)
{
	const struct plan *plan = seat->context;
	struct stand stands[NUM_STANDS];
	enum shunt_status status;
	int64_t began, n = 0;

	open_stands(seat, stands);
	do {
		began = milliseconds();
		status = try_step_of_all(stands, n++);
	} while (status == SHUNT_OK);
	printf("%s in step %" PRId64 " of %" PRId64 " ms: %s\n",
		shunt_status_name(status), n, milliseconds() - began,
		shunt_error_message());
	check_loss(seat, status, plan->lost);
	await_losses(seat, plan->lost);
	go_on(seat, plan->lost);
	/* Not before all that are left are there: to those who still wait for a
	 * step, who destroys its exchange is lost, too. */
	close_stands(stands);
}

/* ------------------------------------------------------------------------ */

static bool parse(int argc, char **argv, struct plan *plan)
{
	if (argc < 3)
		return false;
	plan->lose = strcmp(argv[1], "lose") == 0;
	if (plan->lose)
		return argc == 3 && launched_parse_ranks(argv[2], &plan->lost);
	plan->num_steps = strtoll(argv[2], NULL, 0);
	plan->rest_ms = argc > 3 ? strtoll(argv[3], NULL, 0) : 0;
	return strcmp(argv[1], "steps") == 0 && argc <= 4;
}

int main(int argc, char **argv)
{
	struct plan plan = {0};

	if (!parse(argc, argv, &plan)) {
		fprintf(stderr, "vm_steps steps N [MS] | lose RANKS\n");
		return 2;
	}
	/* Whoever waits for a line is to see it at once. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	return launched_run(plan.lose ? run_until_loss : run_steps, &plan);
}
