/*
 * What the ranks of a bench say to each other beside the library, when a
 * launcher has started them one by one and they have no memory in common: that
 * a phase begins, that one has failed, and in the end what each has measured.
 *
 * A star of TCP connections to rank 0. It meets where the library's ranks will
 * meet afterwards: rank 0 has stopped listening before channel_open() returns,
 * so one port serves both. Who does not know SHUNT_KEY is turned away.
 *
 * One clock: rank 0 tells each rank the moment of a start in that rank's own
 * time, which it knows from the way there and back of what they say anyway.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_ERROR 512

/* How a rank's clock differs from rank 0's. */
struct channel_clock {
	int64_t offset_ns; /* its time less rank 0's */
	int64_t error_ns;  /* at most so far off, when measured; 0: never was */
	int64_t measured_ns;
	int64_t asked_ns; /* when it was last told to go on */
};

struct channel {
	int32_t rank, num_ranks;
	bool crowded; /* more ranks than cores on this host: nobody spins */
	/* Rank 0: of each rank, its own -1; others: of rank 0, one. */
	int *sockets;
	struct channel_clock *clocks; /* rank 0: of each rank */
	bool broken;
	char error[CHANNEL_ERROR]; /* why */
};

struct channel_config {
	int32_t rank, num_ranks;
	const char *host; /* of rank 0 */
	uint16_t port;
	const char *key;  /* never NULL */
	uint64_t purpose; /* must be the same on all ranks: their options */
	bool crowded;
	int64_t deadline_ns; /* for all to come, from now on */
};

/* Returns when all ranks are there. False with `error`. Owes channel_close(),
 * also then. */
bool channel_open(struct channel *channel, const struct channel_config *config,
	char error[CHANNEL_ERROR]);
void channel_close(struct channel *channel);

/* Waits for all ranks. With `start_ns` all go on at one moment, *start_ns in
 * this rank's CLOCK_MONOTONIC. False if the channel is broken. */
bool channel_wait(struct channel *channel, int64_t *start_ns);

/* Breaks the channel: this rank has failed, and says why. */
void channel_fail(struct channel *channel, const char *why);

/* Sends to rank 0; there, receives the `num_bytes` bytes that `rank` sends
 * next, *got of them if they are at most that. */
bool channel_send(struct channel *channel, const void *bytes, size_t num_bytes);
bool channel_receive(struct channel *channel, int32_t rank, void *bytes,
	size_t num_bytes, size_t *got);

#endif
