/*
 * The rank harness: forks the children that hold the ranks, watches them, and
 * turns what they say into the outcome of the running cmocka test.
 */
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/board.h"
#include "support/hosts.h"
#include "support/leftovers.h"

#if defined(__SANITIZE_THREAD__)
#define SANITIZES_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZES_THREADS 1
#endif
#endif
#ifndef SANITIZES_THREADS
#define SANITIZES_THREADS 0
#endif

#define DEFAULT_SECONDS 120
/* After the first failure the others get so long to fail on their own. */
#define GRACE_SECONDS 10
#define STACK_BYTES   (512 * 1024)

/* One run: the plan, and where its ranks meet. */
struct run {
	const struct ranks_plan *plan;
	ranks_function function;
	struct board *board;
	char rendezvous[64];
	char key[33];
	int32_t ranks_per_child;
	int32_t num_children;
	pid_t children[RANKS_MAX];
};

/* A thread's argument. */
struct post {
	struct run *run;
	int32_t rank;
	pthread_t thread;
};

/* jemalloc holds its mutexes over a fork and makes them anew in the child;
 * ThreadSanitizer takes them for locked still. */
#if SANITIZES_THREADS
const char *__tsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__tsan_default_suppressions(
	void)
{
	return "mutex:malloc_mutex_trylock_final\n";
}
#endif

/* ---- in the children -------------------------------------------------- */

static void take_seat(struct seat *seat, struct run *run, int32_t rank)
{
	const struct ranks_plan *plan = run->plan;

	*seat = (struct seat){
		.rank = rank,
		.num_ranks = plan->num_ranks,
		.launch = plan->launch,
		.config = SHUNT_WORLD_CONFIG_INIT,
		.context = plan->context,
		.shared = run->board->shared,
		.board = run->board,
	};
	seat->config.rendezvous = run->rendezvous;
	seat->config.rank = rank;
	seat->config.num_ranks = plan->num_ranks;
	seat->config.key = run->key;
	seat->config.segment_bytes = plan->segment_bytes;
}

static void sit(struct run *run, int32_t rank)
{
	struct board_rank *own = &run->board->ranks[rank];
	struct seat *seat = malloc(sizeof(*seat));

	if (seat == NULL) {
		board_fail(run->board, rank, "no memory for a seat");
		return;
	}
	take_seat(seat, run, rank);
	hosts_take(run->plan, seat);
	if (setjmp(seat->escape) == 0) {
		if (!run->plan->no_world)
			seat->world = seat_join(seat);
		run->function(seat);
		if (!run->plan->no_world)
			shunt_world_destroy(seat->world);
	}
	atomic_store(&own->ended, true);
	free(seat);
}

static void *sit_as_thread(void *argument)
{
	struct post *post = argument;

	sit(post->run, post->rank);
	return NULL;
}

/* Runs ranks [first, first + count) as threads, joins them. */
static void run_threads(struct run *run, int32_t first, int32_t count)
{
	struct post *posts = calloc((size_t)count, sizeof(*posts));
	pthread_attr_t attributes;

	if (posts == NULL)
		_exit(99);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int32_t i = 0; i < count; i++) {
		posts[i].run = run;
		posts[i].rank = first + i;
		if (pthread_create(&posts[i].thread, &attributes, sit_as_thread,
			    &posts[i]) != 0) {
			board_fail(run->board, first + i, "pthread_create");
			_exit(99);
		}
	}
	for (int32_t i = 0; i < count; i++)
		pthread_join(posts[i].thread, NULL);
	pthread_attr_destroy(&attributes);
	free(posts);
}

/* A failed rank has left its world as it was: then leak checks at exit would
 * only drown its words, and destructors may hang. */
static _Noreturn void leave(const struct run *run, int32_t first, int32_t count)
{
	for (int32_t r = first; r < first + count; r++)
		if (atomic_load(&run->board->ranks[r].failure) != 0)
			_exit(1);
	fflush(NULL);
	exit(0);
}

static void run_ranks(struct run *run, int32_t first, int32_t count)
{
	const char *wrong;

	hosts_start(run->plan);
	if (count == 1)
		sit(run, first);
	else
		run_threads(run, first, count);
	/* A failed rank leaves things behind. */
	if (board_first_failure(run->board) >= 0)
		return;
	wrong = hosts_finish(run->plan);
	if (wrong != NULL)
		board_fail(run->board, first, wrong);
}

static _Noreturn void run_child(struct run *run, int32_t child)
{
	int32_t first = child * run->ranks_per_child;
	int32_t count = run->plan->num_ranks - first;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (count > run->ranks_per_child)
		count = run->ranks_per_child;
	for (int32_t r = first; r < first + count; r++)
		atomic_store(&run->board->ranks[r].pid, getpid());
	run_ranks(run, first, count);
	leave(run, first, count);
}

/* ---- in the parent ---------------------------------------------------- */

static int free_port(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr = {htonl(INADDR_LOOPBACK)},
	};
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
		getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
		address.sin_port = 0;
	close(fd);
	return ntohs(address.sin_port);
}

static bool meet_somewhere(struct run *run)
{
	uint64_t noise[2];

	if (getrandom(noise, sizeof(noise), 0) != sizeof(noise))
		return false;
	snprintf(run->key, sizeof(run->key), "%016llx%016llx",
		(unsigned long long)noise[0], (unsigned long long)noise[1]);
	if (run->plan->launch == RANKS_THREADS)
		snprintf(run->rendezvous, sizeof(run->rendezvous),
			"threads://%s", run->key);
	else
		snprintf(run->rendezvous, sizeof(run->rendezvous),
			"tcp://127.0.0.1:%d", free_port());
	return true;
}

static void split_ranks(struct run *run)
{
	int32_t ranks = run->plan->num_ranks;

	run->ranks_per_child = 1;
	if (run->plan->launch == RANKS_THREADS)
		run->ranks_per_child = ranks;
	if (run->plan->launch == RANKS_MIXED)
		run->ranks_per_child = 2;
	run->num_children =
		(ranks + run->ranks_per_child - 1) / run->ranks_per_child;
}

static void start_children(struct run *run)
{
	fflush(NULL);
	for (int32_t c = 0; c < run->num_children; c++) {
		if (board_is_absent(run->board, c))
			continue;
		run->children[c] = fork();
		if (run->children[c] == 0)
			run_child(run, c);
		if (run->children[c] < 0)
			board_fail(run->board, c, "fork");
	}
}

static void kill_children(struct run *run)
{
	for (int32_t c = 0; c < run->num_children; c++)
		if (run->children[c] > 0)
			kill(run->children[c], SIGKILL);
}

static void note_end(struct run *run, int32_t child, int status)
{
	int32_t rank = child * run->ranks_per_child;
	bool may_die = rank < 64 && (run->plan->may_die >> rank & 1);
	char text[128];

	run->children[child] = 0;
	for (int32_t r = rank; r < rank + run->ranks_per_child; r++)
		if (r < run->plan->num_ranks)
			atomic_store(&run->board->ranks[r].ended, true);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (may_die && WIFSIGNALED(status))
		return;
	/* A rank that found a failure itself has said so already. */
	for (int32_t r = rank; r < rank + run->ranks_per_child; r++)
		if (r < run->plan->num_ranks &&
			atomic_load(&run->board->ranks[r].failure) != 0)
			return;
	snprintf(text, sizeof(text), "its process ended with %s %d",
		WIFSIGNALED(status) ? "signal" : "exit status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	board_fail(run->board, rank, text);
}

/* Reaps what has ended; returns how many children are still there. */
static int32_t reap(struct run *run)
{
	int32_t left = 0;
	int status;

	for (int32_t c = 0; c < run->num_children; c++) {
		if (run->children[c] <= 0)
			continue;
		if (waitpid(run->children[c], &status, WNOHANG) > 0)
			note_end(run, c, status);
		else
			left++;
	}
	return left;
}

static void note_hang(struct run *run, int seconds)
{
	struct board_rank *rank;
	char text[128];

	for (int32_t r = 0; r < run->plan->num_ranks; r++) {
		rank = &run->board->ranks[r];
		if (board_is_absent(run->board, r) || atomic_load(&rank->ended))
			continue;
		snprintf(text, sizeof(text),
			"hangs: not done after %d s, at mark %d", seconds,
			atomic_load(&rank->mark));
		board_fail(run->board, r, text);
	}
}

static void watch(struct run *run)
{
	int seconds = run->plan->seconds ? run->plan->seconds : DEFAULT_SECONDS;
	time_t now = time(NULL), end = now + seconds, grace_end = 0;

	while (reap(run) > 0) {
		usleep(1000);
		now = time(NULL);
		if (grace_end == 0 && board_first_failure(run->board) >= 0)
			grace_end = now + GRACE_SECONDS;
		if (now > end)
			note_hang(run, seconds);
		if (now > end || (grace_end != 0 && now > grace_end))
			kill_children(run);
	}
}

static void check_left(struct run *run, const struct leftovers *before)
{
	char why[256];

	if (!leftovers_check(before, why, sizeof(why)))
		board_fail(run->board, 0, why);
	/* Grandchildren come to this process, a subreaper. */
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		board_fail(run->board, 0, "a child process is left");
}

static const char *launch_name(enum ranks_launch launch)
{
	static const char *const names[] = {
		[RANKS_THREADS] = "threads",
		[RANKS_PROCESSES] = "processes",
		[RANKS_MIXED] = "threads in processes",
	};

	return names[launch];
}

/* The words of the first failure, and behind them those of the others. */
static bool gather_words(struct run *run, char *text, size_t text_bytes)
{
	const struct board *board = run->board;
	int32_t first = board_first_failure(board);
	size_t used;

	if (first < 0)
		return true;
	snprintf(text, text_bytes, "rank %d of %d (%s): %s", first,
		run->plan->num_ranks, launch_name(run->plan->launch),
		board->ranks[first].text);
	for (int32_t r = 0; r < run->plan->num_ranks; r++) {
		used = strlen(text);
		if (r != first && atomic_load(&board->ranks[r].failure) != 0)
			snprintf(text + used, text_bytes - used,
				"\n  then rank %d: %s", r,
				board->ranks[r].text);
	}
	return false;
}

bool ranks_try(const struct ranks_plan *plan, ranks_function function,
	char *text, size_t text_bytes)
{
	struct run run = {.plan = plan, .function = function};
	struct leftovers before;
	bool good;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	leftovers_count(&before);
	run.board = board_create(plan);
	if (run.board == NULL || !meet_somewhere(&run)) {
		snprintf(text, text_bytes, "no memory, or no randomness");
		return false;
	}
	split_ranks(&run);
	start_children(&run);
	watch(&run);
	check_left(&run, &before);
	good = gather_words(&run, text, text_bytes);
	if (plan->shared_copy != NULL)
		memcpy(plan->shared_copy, run.board->shared,
			plan->shared_bytes);
	board_destroy(run.board);
	return good;
}

void ranks_run(const struct ranks_plan *plan, ranks_function function)
{
	char text[8192] = "";

	assert_in_range(plan->num_ranks, 1, RANKS_MAX);
	if (!ranks_try(plan, function, text, sizeof(text)))
		fail_msg("%s", text);
}

void ranks_run_simple(enum ranks_launch launch, int32_t num_ranks,
	ranks_function function, const void *context)
{
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = num_ranks,
		.context = context,
	};

	ranks_run(&plan, function);
}

void ranks_run_both(
	int32_t num_ranks, ranks_function function, const void *context)
{
	ranks_run_simple(RANKS_THREADS, num_ranks, function, context);
	ranks_run_simple(RANKS_PROCESSES, num_ranks, function, context);
}
