/*
 * The hot path: a step allocates nothing, takes no lock, and makes no system
 * call but those that wait for a peer who is not there yet.
 *
 * Two ranks, threads of a child process, run steps. Allocations and locks are
 * counted by functions of those names in this program, which the library's
 * calls find first; system calls by tracing the child. A getppid() at the
 * beginning and the end of a step tells the tracer what belongs to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shunt/shunt.h>

#define RANKS   2
#define STEPS   2000
#define WARM_UP 20 /* steps before anything is counted */
#define TOKENS  16
#define HIDDEN  256
#define TOPK    4
#define EXPERTS 8

/* ---- allocations and locks -------------------------------------------- */

static _Thread_local bool is_counting;
static _Thread_local int64_t num_allocations, num_locks;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* A sanitizer has functions of these names itself. */
#define CAN_COUNT false
#else
#define CAN_COUNT true

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

void *malloc(size_t bytes)
{
	num_allocations += is_counting;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	num_allocations += is_counting;
	return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	num_allocations += is_counting;
	return __libc_realloc(memory, bytes);
}

void free(void *memory)
{
	num_allocations += is_counting;
	__libc_free(memory);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*lock)(pthread_mutex_t *);

	if (!lock)
		*(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	num_locks += is_counting;
	return lock(mutex);
}
#endif

/* ---- the ranks --------------------------------------------------------- */

struct rank {
	int32_t number, num_ranks;
	struct shunt_world *world;
	struct shunt_exchange *exchange;
	float x[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
	float weights[TOKENS * TOPK];
	int32_t ids[TOKENS * TOPK];
	int64_t allocations, locks;
	bool is_well;
};

/* Tells the tracer; one that is not there does not hear it. */
static void mark(void)
{
	syscall(SYS_getppid);
}

static bool join(struct rank *rank)
{
	struct shunt_world_config world = SHUNT_WORLD_CONFIG_INIT;
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	world.rendezvous = "threads://hot path";
	world.rank = rank->number;
	world.num_ranks = rank->num_ranks;
	config.max_tokens = TOKENS;
	config.hidden = HIDDEN;
	config.topk = TOPK;
	config.num_experts = EXPERTS;
	config.num_copy_experts = 1;
	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	config.quant = SHUNT_QUANT_INT8;
	return shunt_world_create(&world, &rank->world) == SHUNT_OK &&
	       shunt_exchange_create(
		       rank->world, NULL, &config, &rank->exchange) == SHUNT_OK;
}

/* From start to finish, expert by expert. */
static bool combine_by_parts(struct rank *rank, struct shunt_handle handle,
	struct shunt_combine_args *args, int64_t num_experts)
{
	args->y = NULL;
	args->feed = true;
	if (shunt_combine_start(handle, args) != SHUNT_OK)
		return false;
	for (int64_t l = 0; l < num_experts; l++)
		if (shunt_combine_feed(handle, l, NULL, 0) != SHUNT_OK ||
			shunt_exchange_progress(rank->exchange, NULL) !=
				SHUNT_OK)
			return false;
	return shunt_combine_finish(handle, 0) == SHUNT_OK;
}

static bool step(struct rank *rank, bool by_parts)
{
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_handle handle;

	args.x = rank->x;
	args.num_tokens = TOKENS;
	args.expert_ids = rank->ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = rank->weights;
	if (shunt_dispatch(rank->exchange, &args, &out, &handle) != SHUNT_OK)
		return false;
	combine.y = out.expert_rows;
	combine.ori_x = rank->x;
	combine.out = rank->out;
	if (by_parts)
		return combine_by_parts(
			rank, handle, &combine, out.num_local_experts);
	return shunt_combine(handle, &combine) == SHUNT_OK;
}

static void *run_rank(void *context)
{
	struct rank *rank = context;

	for (int i = 0; i < TOKENS * TOPK; i++)
		rank->ids[i] = (i * 5 + rank->number) % (EXPERTS + 1);
	if (!join(rank))
		return NULL;
	rank->is_well = true;
	for (int i = 0; i < WARM_UP + STEPS && rank->is_well; i++) {
		if (i >= WARM_UP)
			mark();
		is_counting = i >= WARM_UP;
		rank->is_well = step(rank, i % 2);
		is_counting = false;
		if (i >= WARM_UP)
			mark();
	}
	rank->allocations = num_allocations;
	rank->locks = num_locks;
	shunt_exchange_destroy(rank->exchange);
	shunt_world_destroy(rank->world);
	return NULL;
}

/* True if all is well. */
static bool run_ranks(struct rank *ranks, int32_t num_ranks)
{
	pthread_t threads[RANKS];
	bool is_well = true;

	for (int32_t r = 0; r < num_ranks; r++) {
		ranks[r].number = r;
		ranks[r].num_ranks = num_ranks;
		pthread_create(&threads[r], NULL, run_rank, &ranks[r]);
	}
	for (int32_t r = 0; r < num_ranks; r++) {
		pthread_join(threads[r], NULL);
		is_well = is_well && ranks[r].is_well;
	}
	return is_well;
}

static void a_step_allocates_nothing_and_takes_no_lock(void **state)
{
	struct rank *ranks;

	(void)state;
	if (!CAN_COUNT)
		skip();
	ranks = calloc(RANKS, sizeof(*ranks));
	assert_non_null(ranks);
	assert_true(run_ranks(ranks, RANKS));
	for (int32_t r = 0; r < RANKS; r++) {
		assert_int_equal(ranks[r].allocations, 0);
		assert_int_equal(ranks[r].locks, 0);
	}
	free(ranks);
}

/* ---- the tracer --------------------------------------------------------- */

#define MAX_THREADS 64

/* A thread of the child, and the step that it is in. */
struct thread {
	pid_t id;
	bool is_in_step;
	int64_t calls; /* in this step */
};

struct trace {
	struct thread threads[MAX_THREADS];
	int num_threads;
	int64_t steps;
	int64_t free_steps; /* without any system call */
	int64_t waits;      /* futex, sched_yield */
	int64_t others;
	int64_t last_other; /* its number */
};

static struct thread *thread_of(struct trace *trace, pid_t id)
{
	for (int i = 0; i < trace->num_threads; i++)
		if (trace->threads[i].id == id)
			return &trace->threads[i];
	if (trace->num_threads == MAX_THREADS)
		return NULL;
	trace->threads[trace->num_threads].id = id;
	return &trace->threads[trace->num_threads++];
}

static void take_mark(struct trace *trace, struct thread *thread)
{
	if (thread->is_in_step) {
		trace->steps++;
		trace->free_steps += thread->calls == 0;
	}
	thread->is_in_step = !thread->is_in_step;
	thread->calls = 0;
}

static void take_call(struct trace *trace, pid_t id)
{
	struct __ptrace_syscall_info info;
	struct thread *thread = thread_of(trace, id);

	if (!thread ||
		ptrace(PTRACE_GET_SYSCALL_INFO, id, sizeof(info), &info) <= 0)
		return;
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr == SYS_getppid) {
		take_mark(trace, thread);
	} else if (thread->is_in_step) {
		thread->calls++;
		if (info.entry.nr == SYS_futex ||
			info.entry.nr == SYS_sched_yield) {
			trace->waits++;
		} else {
			trace->others++;
			trace->last_other = (int64_t)info.entry.nr;
		}
	}
}

/* Follows the child to its end; its exit status. */
static int follow(struct trace *trace, pid_t child)
{
	int status = 0;
	pid_t id;

	while ((id = waitpid(-1, &status, __WALL)) > 0) {
		int64_t signal = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (id == child)
				return status;
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			take_call(trace, id);
		else if (WSTOPSIG(status) != SIGTRAP &&
			 WSTOPSIG(status) != SIGSTOP)
			signal = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, id, 0, (void *)signal);
	}
	return -1;
}

static void run_traced(int32_t num_ranks)
{
	struct rank *ranks = calloc(RANKS, sizeof(*ranks));

	if (!ranks || ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
		_exit(2);
	raise(SIGSTOP);
	_exit(run_ranks(ranks, num_ranks) ? 0 : 1);
}

static void trace_ranks(struct trace *trace, int32_t num_ranks)
{
	int status;
	pid_t child = fork();

	*trace = (struct trace){0};
	if (child == 0)
		run_traced(num_ranks);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip(); /* a container that forbids tracing */
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, 0,
				 PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
					 PTRACE_O_EXITKILL),
		0);
	ptrace(PTRACE_SYSCALL, child, 0, 0);
	status = follow(trace, child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	print_message("%d ranks: %lld steps, %lld without a system call, %lld "
		      "calls to wait\n",
		num_ranks, (long long)trace->steps,
		(long long)trace->free_steps, (long long)trace->waits);
	assert_int_equal(trace->steps, num_ranks * STEPS);
	if (trace->others > 0)
		print_error("the last other system call was number %lld\n",
			(long long)trace->last_other);
}

/* A rank by itself never waits. */
static void a_step_that_need_not_wait_makes_no_system_call(void **state)
{
	struct trace trace;

	(void)state;
	trace_ranks(&trace, 1);
	assert_int_equal(trace.free_steps, trace.steps);
}

static void a_step_makes_no_system_call_but_to_wait(void **state)
{
	struct trace trace;

	(void)state;
	trace_ranks(&trace, RANKS);
	assert_int_equal(trace.others, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_allocates_nothing_and_takes_no_lock),
		cmocka_unit_test(
			a_step_that_need_not_wait_makes_no_system_call),
		cmocka_unit_test(a_step_makes_no_system_call_but_to_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
