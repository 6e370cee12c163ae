/*
 * Calls of bootstrap_meet() by threads, one per rank, and what came of them.
 */
#ifndef SUPPORT_MEET_H
#define SUPPORT_MEET_H

#include <pthread.h>
#include <stdbool.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

#define MEET_MS         INT64_C(1000000)
#define MEET_LONG_NS    (60000 * MEET_MS) /* only if something is broken */
#define MEET_SHORT_NS   (50 * MEET_MS)
#define MEET_PAST_NS    (INT64_MIN / 2) /* a deadline before the clock began */
#define MEET_BLOB_BYTES 24
#define MEET_MAX_RANKS  64

struct meet_call {
	struct bootstrap bootstrap;
	struct wire_version version; /* TCP */
	size_t blob_bytes;
	int64_t span_ns; /* until the deadline */
	uint8_t blob[MEET_BLOB_BYTES];
	uint8_t blobs[MEET_MAX_RANKS * MEET_BLOB_BYTES];
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
	enum shunt_status status;
	int32_t ranks[MEET_MAX_RANKS]; /* of the error */
	size_t num_ranks;
	char message[1024];
	pthread_t thread;
};

/* A call of one rank at threads://NAME. */
void meet_prepare_threads(struct meet_call *call, const char *name,
	int32_t rank, int32_t num_ranks, int64_t span_ns);

/* A call of one rank at meet_address():PORT, with a key. */
void meet_prepare_tcp(struct meet_call *call, uint16_t port, int32_t rank,
	int32_t num_ranks, int64_t span_ns);

/* The same of ranks 0 .. num_ranks - 1, at a free port. */
void meet_prepare_all(
	struct meet_call *calls, int32_t num_ranks, int64_t span_ns);

/* Has them meet at another address. */
void meet_set_address(
	struct meet_call *calls, int32_t num_ranks, const char *address);

/* Makes the call in this thread. */
void meet_run(struct meet_call *call);

/* Makes it in a thread of its own; meet_finish() waits for it. */
void meet_start(struct meet_call *call);
void meet_finish(struct meet_call *call);

/* Starts num_ranks calls, and finishes them. */
void meet_run_all(struct meet_call *calls, int32_t num_ranks);

/* Fails the test unless all of them met. */
void meet_check(const struct meet_call *calls, int32_t num_ranks);

/* Finishes calls that were started; fails the test unless all of them met. */
void meet_finish_all(struct meet_call *calls, int32_t num_ranks);

/* Fails the test unless the call got `status`, with exactly these ranks
 * (up to the first negative one) and these words. */
void meet_check_error(const struct meet_call *call, enum shunt_status status,
	const int32_t *ranks, const char *words);

/* The same of num_ranks calls. */
void meet_check_errors(const struct meet_call *calls, int32_t num_ranks,
	enum shunt_status status, const int32_t *ranks, const char *words);

/* Lets others come, or not. */
void meet_sleep(int64_t span_ns);

/* A loopback address that other test programs do not use. */
const char *meet_address(void);

/* A port of it where nobody listens. */
uint16_t meet_free_port(void);

#endif
