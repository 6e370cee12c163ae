/*
 * The MPI program that `shunt bench` is held against: options, inputs, what
 * is timed, and the check. It draws the same ids as `shunt bench --routing
 * uniform`, cycles through as many inputs, and times the same two phases: both
 * begin for all ranks when the last of them is ready.
 */
#include <getopt.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "inputs.h"
#include "step.h"

static const char *const variants[] = {
	[VARIANT_ALLTOALLV] = "alltoallv",
	[VARIANT_PAIRWISE] = "pairwise",
	[VARIANT_ISEND] = "isend",
};

struct peer {
	struct shape shape;
	int64_t iterations, warmup;
	struct input inputs[INPUTS];
	struct step step;
	uint16_t *out;
};

/* ---- options ---------------------------------------------------------- */

static _Noreturn void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"Usage: mpirun -n N alltoallv [OPTION...]\n"
		"  --tokens T (128)  --hidden H (7168)  --topk K (8)\n"
		"  --experts E (256, a multiple of N)  --quant none|int8\n"
		"  --variant alltoallv|pairwise|isend  --seed S (1)\n"
		"  --iters N (50)  --warmup N (10)\n"
		"Times dispatch and combine of Mixture-of-Experts tokens by "
		"MPI,\nchecks one step, prints a line of JSON.\n"
		"Example: mpirun -n 2 alltoallv --tokens 8 --quant none\n");
	MPI_Finalize();
	exit(status);
}

static int64_t parse_number(const char *text, int64_t least, int64_t most)
{
	char *end;
	long long number = strtoll(text, &end, 10);

	if (end == text || *end || number < least || number > most)
		usage(2);
	return number;
}

static enum variant parse_variant(const char *text)
{
	for (int i = VARIANT_ALLTOALLV; i <= VARIANT_ISEND; i++)
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

static void parse_options(struct peer *peer, int argc, char **argv)
{
	static const struct option table[] = {
		{"tokens", required_argument, NULL, 't'},
		{"hidden", required_argument, NULL, 'h'},
		{"topk", required_argument, NULL, 'k'},
		{"experts", required_argument, NULL, 'e'},
		{"quant", required_argument, NULL, 'q'},
		{"variant", required_argument, NULL, 'v'},
		{"seed", required_argument, NULL, 's'},
		{"iters", required_argument, NULL, 'i'},
		{"warmup", required_argument, NULL, 'w'},
		{"help", no_argument, NULL, '?'},
		{0},
	};
	struct shape *shape = &peer->shape;
	int key;

	while ((key = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (key) {
		case 't':
			shape->tokens = parse_number(optarg, 1, 1 << 20);
			break;
		case 'h':
			shape->hidden = parse_number(optarg, 1, 1 << 20);
			break;
		case 'k':
			shape->topk = parse_number(optarg, 1, 1 << 10);
			break;
		case 'e':
			shape->experts = parse_number(optarg, 1, 1 << 20);
			break;
		case 'q':
			shape->int8 = parse_quant(optarg);
			break;
		case 'v':
			shape->variant = parse_variant(optarg);
			break;
		case 's':
			shape->seed =
				(uint64_t)parse_number(optarg, 0, INT64_MAX);
			break;
		case 'i':
			peer->iterations = parse_number(optarg, 1, 1 << 24);
			break;
		case 'w':
			peer->warmup = parse_number(optarg, 0, 1 << 24);
			break;
		default:
			usage(optopt || key != '?' ? 2 : 0);
		}
	}
	if (optind != argc || shape->experts % shape->num_ranks ||
		shape->topk > shape->experts)
		usage(2);
}

/* ---- measuring -------------------------------------------------------- */

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
	const struct input *input = &peer->inputs[number % INPUTS];
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

/* One step that is not timed; ends the job if its result is wrong. */
static void run_checked_step(struct peer *peer)
{
	int64_t ignored[2];

	run_step(peer, 0, &ignored[0], &ignored[1]);
	if (check_step(&peer->step, &peer->inputs[0], 0, peer->out))
		return;
	fprintf(stderr, "peers: rank %d: the result is wrong\n",
		peer->shape.rank);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_value(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left;
	int64_t b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static double percentile(const int64_t *sorted, int64_t num, int64_t percent)
{
	int64_t place = (num * percent + 99) / 100;

	return (double)sorted[place > 0 ? place - 1 : 0] / 1000;
}

static void print_times(const char *name, int64_t *times, int64_t num)
{
	qsort(times, (size_t)num, sizeof(times[0]), by_value);
	printf(", \"%s_us\": {\"best\": %.2f, \"p50\": %.2f, \"p99\": %.2f}",
		name, percentile(times, num, 0), percentile(times, num, 50),
		percentile(times, num, 99));
}

static void report(const struct peer *peer, int64_t *dispatch, int64_t *combine)
{
	const struct shape *shape = &peer->shape;

	printf("{\"variant\": \"%s\", \"ranks\": %d, \"tokens\": %lld, "
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
	int64_t *dispatch = step_memory(peer->iterations * 8);
	int64_t *combine = step_memory(peer->iterations * 8);

	run_checked_step(peer);
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
		.shape = {.tokens = 128,
			.hidden = 7168,
			.topk = 8,
			.experts = 256,
			.int8 = true,
			.seed = 1},
		.iterations = 50,
		.warmup = 10,
	};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &peer.shape.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &peer.shape.num_ranks);
	parse_options(&peer, argc, argv);
	pin(&peer.shape);
	inputs_make(peer.inputs, &peer.shape);
	step_init(&peer.step, &peer.shape, inputs_most_rows(&peer.shape));
	peer.out = step_memory(peer.shape.tokens * peer.shape.hidden * 2);
	measure(&peer);
	step_fini(&peer.step);
	inputs_free(peer.inputs);
	free(peer.out);
	MPI_Finalize();
	return 0;
}
