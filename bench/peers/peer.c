/*
 * The MPI program that `shunt bench --peers` runs beside our own steps: its
 * options, what is timed, and what it prints. It takes turns among as many
 * inputs, of the same routing, and times the same two phases by the same rules:
 * both begin for all ranks when the last of them is ready.
 */
#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "check.h"
#include "inputs.h"
#include "memory.h"
#include "stats.h"
#include "step.h"

static const char *const variants[] = {
	[VARIANT_ALLTOALLV] = "alltoallv",
	[VARIANT_PAIRWISE] = "pairwise",
	[VARIANT_ISEND] = "isend",
	[VARIANT_DIRECT] = "direct",
};

struct peer {
	struct shape shape;
	const char *ids_path;
	uint64_t seed;
	int64_t iterations, warmup;
	struct inputs inputs;
	struct step step;
	uint16_t *out;
};

/* ---- options ---------------------------------------------------------- */

static _Noreturn void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"Usage: mpirun -n N PEER --ids FILE [OPTION...]\n"
		"  --ids FILE   ranks, tokens, choices, experts, and the ids,\n"
		"               as `shunt bench --peers' writes it\n"
		"  --hidden H (7168)  --quant none|int8 (int8)  --seed S (1)\n"
		"  --variant alltoallv|pairwise|isend|direct (alltoallv)\n"
		"  --iters N (50)  --warmup N (10)\n"
		"Times dispatch and combine of Mixture-of-Experts tokens by "
		"MPI, checks\nsteps, prints a line of JSON. `shunt bench "
		"--peers' runs it.\n");
	MPI_Finalize();
	exit(status);
}

static int64_t parse_number(const char *text, int64_t least, int64_t most)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text || *end || number < least || number > most)
		usage(2);
	return number;
}

static enum variant parse_variant(const char *text)
{
	for (int i = VARIANT_ALLTOALLV; i <= VARIANT_DIRECT; i++)
		if (!strcmp(text, variants[i]))
			return (enum variant)i;
	usage(2);
}

static bool parse_quant(const char *text)
{
	if (strcmp(text, "int8") && strcmp(text, "none"))
		usage(2);
	return !strcmp(text, "int8");
}

static void parse_option(struct peer *peer, int key, const char *value)
{
	switch (key) {
	case 'f':
		peer->ids_path = value;
		return;
	case 'h':
		peer->shape.hidden = parse_number(value, 1, 1 << 24);
		return;
	case 'q':
		peer->shape.int8 = parse_quant(value);
		return;
	case 'v':
		peer->shape.variant = parse_variant(value);
		return;
	case 's':
		peer->seed = (uint64_t)parse_number(value, 0, INT64_MAX);
		return;
	case 'i':
		peer->iterations = parse_number(value, 1, 1000000);
		return;
	case 'w':
		peer->warmup = parse_number(value, 0, 1000000);
		return;
	default:
		usage(key == 'H' ? 0 : 2);
	}
}

static void parse_options(struct peer *peer, int argc, char **argv)
{
	static const struct option table[] = {
		{"ids", required_argument, NULL, 'f'},
		{"hidden", required_argument, NULL, 'h'},
		{"quant", required_argument, NULL, 'q'},
		{"variant", required_argument, NULL, 'v'},
		{"seed", required_argument, NULL, 's'},
		{"iters", required_argument, NULL, 'i'},
		{"warmup", required_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'H'},
		{0},
	};
	int key;

	while ((key = getopt_long(argc, argv, "", table, NULL)) != -1)
		parse_option(peer, key, optarg);
	if (optind != argc || !peer->ids_path)
		usage(2);
}

/* ---- preparing -------------------------------------------------------- */

/* As `shunt bench` does it: rank i on the i-th processor there is. */
static void pin(const struct shape *shape)
{
	cpu_set_t allowed, one;
	int left = shape->rank;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) ||
		shape->num_ranks > CPU_COUNT(&allowed))
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && left-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void prepare(struct peer *peer)
{
	struct shape *shape = &peer->shape;
	const struct ids_head *head = &peer->inputs.head;

	pin(shape);
	if (!inputs_read(&peer->inputs, peer->ids_path))
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (head->ranks != shape->num_ranks) {
		fprintf(stderr, "%s: is for %lld ranks, not %d\n",
			peer->ids_path, (long long)head->ranks,
			shape->num_ranks);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	shape->tokens = head->tokens;
	shape->topk = head->topk;
	shape->experts = head->experts;
	shape->local_experts = head->experts / head->ranks;
	shape->row_bytes = shape->hidden * (shape->int8 ? 1 : 2);
	inputs_draw(&peer->inputs, shape, peer->seed);
	step_init(&peer->step, shape, inputs_most_rows(&peer->inputs, shape));
	peer->out = memory_take(shape->tokens * shape->hidden * 2);
}

static void clear_up(struct peer *peer)
{
	step_fini(&peer->step);
	inputs_free(&peer->inputs);
	free(peer->out);
}

/* ---- measuring -------------------------------------------------------- */

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* From when the last rank began to when the last one was done; the ranks are
 * on one host, whose clock they share. */
static int64_t slowest(int64_t begun)
{
	int64_t own[2] = {begun, now()};
	int64_t last[2];

	MPI_Allreduce(own, last, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	return last[1] - last[0];
}

static void run_step(
	struct peer *peer, int64_t number, int64_t *dispatch, int64_t *combine)
{
	const struct input *input =
		&peer->inputs.steps[number % peer->inputs.head.steps];
	int64_t begun;

	MPI_Barrier(MPI_COMM_WORLD);
	begun = now();
	step_dispatch(&peer->step, input);
	*dispatch = slowest(begun);
	check_run_experts(&peer->step);
	MPI_Barrier(MPI_COMM_WORLD);
	begun = now();
	step_combine(&peer->step, input, peer->out);
	*combine = slowest(begun);
}

/* A step of each input that is not timed; ends the job if a result is wrong. */
static void run_checked_steps(struct peer *peer)
{
	int64_t ignored[2];

	for (int64_t i = 0; i < peer->inputs.head.steps; i++) {
		run_step(peer, i, &ignored[0], &ignored[1]);
		if (check_step(&peer->step, &peer->inputs, i, peer->out))
			continue;
		fprintf(stderr, "rank %d: the result of step %lld is wrong\n",
			peer->shape.rank, (long long)i);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* ---- the result ------------------------------------------------------- */

static void print_times(const char *name, int64_t *times, int64_t num)
{
	struct stats stats = stats_of(times, num);

	printf(", \"%s_us\": {\"best\": %.3f, \"p50\": %.3f, \"p99\": %.3f}",
		name, stats.best, stats.p50, stats.p99);
}

/* The library's name and version: the first line, without what JSON or a
 * reader would stumble over. */
static void print_library(void)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;

	MPI_Get_library_version(text, &length);
	text[strcspn(text, "\n,")] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\t' || *at == '"' || *at == '\\')
			*at = ' ';
	printf("\"library\": \"%s\"", text);
}

static void report(const struct peer *peer, int64_t *dispatch, int64_t *combine)
{
	const struct shape *shape = &peer->shape;

	printf("{");
	print_library();
	printf(", \"variant\": \"%s\", \"ranks\": %d, \"tokens\": %lld, "
	       "\"hidden\": %lld, \"topk\": %lld, \"experts\": %lld, "
	       "\"quant\": \"%s\", \"iters\": %lld, \"ok\": true",
		variants[shape->variant], shape->num_ranks,
		(long long)shape->tokens, (long long)shape->hidden,
		(long long)shape->topk, (long long)shape->experts,
		shape->int8 ? "int8" : "none", (long long)peer->iterations);
	print_times("dispatch", dispatch, peer->iterations);
	print_times("combine", combine, peer->iterations);
	printf("}\n");
}

static void measure(struct peer *peer)
{
	int64_t *dispatch = memory_take(peer->iterations * 8);
	int64_t *combine = memory_take(peer->iterations * 8);

	run_checked_steps(peer);
	for (int64_t i = 0; i < peer->warmup; i++)
		run_step(peer, i, &dispatch[0], &combine[0]);
	for (int64_t i = 0; i < peer->iterations; i++)
		run_step(peer, i, &dispatch[i], &combine[i]);
	if (peer->shape.rank == 0)
		report(peer, dispatch, combine);
	free(dispatch);
	free(combine);
}

int main(int argc, char **argv)
{
	struct peer peer = {
		.shape = {.hidden = 7168, .int8 = true},
		.seed = 1,
		.iterations = 50,
		.warmup = 10,
	};

	/* Whatever becomes of the launcher, no rank stays behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &peer.shape.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &peer.shape.num_ranks);
	parse_options(&peer, argc, argv);
	prepare(&peer);
	measure(&peer);
	clear_up(&peer);
	MPI_Finalize();
	return 0;
}
