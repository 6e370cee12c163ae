/*
 * Running a test's function as N ranks, and getting told what went wrong.
 *
 * Everything runs in forked children of the (single-threaded) test program:
 * one child per rank, or one child with all ranks as threads, or something in
 * between. So a rank can be killed or stopped, a hang ends with a report and
 * not with the test program, and whatever ranks leave behind shows in the
 * parent.
 *
 * A rank's function gets a seat. It checks with the SEAT_ macros: the first
 * failure ends that rank at once and is what the test reports. cmocka's own
 * asserts are for the parent only.
 */
#ifndef SUPPORT_RANKS_H
#define SUPPORT_RANKS_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <shunt/shunt.h>

#define RANKS_MAX 1024

enum ranks_launch {
	RANKS_THREADS,   /* one child, threads:// */
	RANKS_PROCESSES, /* a child per rank, tcp:// with a key */
	RANKS_MIXED,     /* a child per two ranks, each a thread, tcp:// */
	RANKS_NUM_LAUNCHES
};

/* What is between hosts; see hosts.h. With real devices only what a world can
 * be told of it. */
enum ranks_wire {
	RANKS_ROCE,
	RANKS_IWARP,   /* no immediates */
	RANKS_STRIPED, /* two devices a host, three lanes */
	RANKS_NARROW,  /* queues of 4, nothing inline, bytes in any order */
	RANKS_NUM_WIRES
};

struct board;

/* What a rank's function knows about itself. */
struct seat {
	int32_t rank, num_ranks;
	enum ranks_launch launch;
	const int32_t *hosts;             /* ranks_plan's */
	int32_t host;                     /* by ranks_plan.hosts, or 0 */
	struct shunt_world_config config; /* how it joins the job */
	char host_id[24], rdma[64];       /* that the config names */
	struct shunt_world *world;        /* NULL with ranks_plan.no_world */
	const void *context;
	/* The same memory in all ranks and in the parent; ranks_plan's. */
	void *shared;
	struct board *board;
	char label[128]; /* what it is about, before the words of a failure */
	jmp_buf escape;
};

typedef void (*ranks_function)(struct seat *seat);

struct ranks_plan {
	enum ranks_launch launch;
	int32_t num_ranks;
	const void *context;
	size_t shared_bytes;    /* zeroed shared memory for the ranks */
	void *shared_copy;      /* where it is copied to at the end, or NULL */
	int seconds;            /* before a hang is called one; 0: 120 */
	bool no_world;          /* the function makes its own world */
	uint64_t may_die;       /* bit r: rank r may be killed by a signal */
	uint64_t absent;        /* bit r: rank r is not started */
	uint64_t segment_bytes; /* for the world; 0: its default */
	/* (num_ranks): the host of each rank, from 0 on; NULL: all are on one.
	 * Only where hosts_can(). */
	const int32_t *hosts;
	enum ranks_wire wire;
};

/*
 * Runs `function` as the plan says. Fails the running cmocka test, with the
 * words of the first rank that failed, if one failed, hung, crashed, or left
 * something behind.
 */
void ranks_run(const struct ranks_plan *plan, ranks_function function);

/* The same, but says what went wrong in words and returns false for it. */
bool ranks_try(const struct ranks_plan *plan, ranks_function function,
	char *text, size_t text_bytes);

/* The usual: `num_ranks` ranks by `launch`, with a context. */
void ranks_run_simple(enum ranks_launch launch, int32_t num_ranks,
	ranks_function function, const void *context);

/* The same by threads and then by processes. */
void ranks_run_both(
	int32_t num_ranks, ranks_function function, const void *context);

/* ---- for rank functions ----------------------------------------------- */

/* Ends this rank with words, unless `condition`. */
#define SEAT_CHECK(seat, condition, ...)                                  \
	do {                                                              \
		if (!(condition))                                         \
			seat_fail(seat, __FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* Ends this rank unless `call` returns the status `expected`. */
#define SEAT_STATUS(seat, expected, call) \
	seat_status(seat, expected, call, #call, __FILE__, __LINE__)

#define SEAT_OK(seat, call) SEAT_STATUS(seat, SHUNT_OK, call)

_Noreturn void seat_fail(struct seat *seat, const char *file, int line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
void seat_status(struct seat *seat, enum shunt_status expected,
	enum shunt_status got, const char *call, const char *file, int line);

/* Says what the following checks are about. */
void seat_label(struct seat *seat, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Ends this rank unless the last error's ranks are exactly those in `mask`. */
void seat_error_ranks(struct seat *seat, uint64_t mask);

/* Behind a TIMEOUT, which must name all ranks of `mask`: false if it names others,
 * too, who are on their way on a busy machine: then wait again. */
bool seat_only_late(struct seat *seat, uint64_t mask);

/* Ends this rank unless the last error's message contains `words`. */
void seat_message_has(struct seat *seat, const char *words);

/* Joins the job as the seat's config says. */
struct shunt_world *seat_join(struct seat *seat);

/* Waits, outside of the library, until all ranks that were started and have
 * not ended have come here equally often. */
void seat_barrier(struct seat *seat);

/* Tells others how far this rank is; they wait for it with seat_await(). */
void seat_mark(struct seat *seat, int32_t mark);
void seat_await(struct seat *seat, int32_t rank, int32_t mark);

/* Sends a signal to a rank's process. */
void seat_signal(struct seat *seat, int32_t rank, int number);

/* The rank's process is told apart by this. */
pid_t seat_pid(const struct seat *seat, int32_t rank);

#endif
