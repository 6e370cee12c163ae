/*
 * The rendezvous: every rank brings one blob, and leaves with all of them.
 * Everything after that runs over windows.
 *
 * Two back-ends do the same: bootstrap_tcp.c (rank 0 listens) and
 * bootstrap_threads.c (a meeting inside the process). bootstrap_env.c turns
 * the environment into a struct bootstrap.
 */
#ifndef BOOTSTRAP_BOOTSTRAP_H
#define BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/shunt.h>
#include <shunt/status.h>

#define BOOTSTRAP_MAX_RANKS 4096
#define BOOTSTRAP_MAX_BLOB  1024

enum bootstrap_kind {
	BOOTSTRAP_SINGLE, /* a world of one rank */
	BOOTSTRAP_THREADS,
	BOOTSTRAP_TCP
};

/* Where and as whom to meet. Fixed-size: nothing to free. */
struct bootstrap {
	enum bootstrap_kind kind;
	int32_t rank;
	int32_t num_ranks;
	char address[256];    /* host (TCP) or name (threads) */
	uint16_t port;	      /* TCP */
	char job[128];
	char key[256];	      /* secret text, "" for none */
	char origin[64];      /* what it was taken from, for messages */
};

/*
 * Fills `bootstrap` from the config, and where that gives no rendezvous from
 * the environment; see shunt_world_create() for the rules. `config` has been
 * read by config_read() and is complete. Errors: INVALID (names variable or
 * field, value and range).
 */
enum shunt_status bootstrap_resolve(const struct shunt_world_config *config,
	struct bootstrap *bootstrap);

/*
 * Meets the other ranks: sends `blob` (blob_bytes <= BOOTSTRAP_MAX_BLOB, the
 * same number on all ranks) and fills blobs[num_ranks * blob_bytes] in rank
 * order, and `secret`, 32 random bytes that the same meeting gives to each of
 * its ranks and to nobody else.
 * Blocks until all are there, at most until `deadline` (clock_now() units).
 * Errors: TIMEOUT (error ranks: those missing), VERSION, MISMATCH (num_ranks
 * or blob_bytes differ, or a rank came twice), INVALID, SYSTEM, NO_MEMORY.
 */
enum shunt_status bootstrap_meet(const struct bootstrap *bootstrap,
	const void *blob, size_t blob_bytes, int64_t deadline, void *blobs,
	uint8_t secret[32]);

#endif
