/*
 * The rendezvous: every rank brings one blob, and leaves with all of them.
 * Everything after that runs over windows.
 *
 * Two back-ends do the same: tcp.c (rank 0 listens) and threads.c (a meeting
 * inside the process). environment.c turns the environment into a struct
 * bootstrap.
 */
#ifndef BOOTSTRAP_BOOTSTRAP_H
#define BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/shunt.h>
#include <shunt/status.h>

#define BOOTSTRAP_MAX_RANKS    4096
#define BOOTSTRAP_MAX_BLOB     1024
#define BOOTSTRAP_SECRET_BYTES 32

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
	char address[256]; /* host (TCP) or name (threads) */
	uint16_t port;     /* TCP */
	char job[128];
	char key[256];   /* secret text, "" for none (loopback only) */
	char origin[64]; /* what it was taken from, for messages */
};

/*
 * Fills `bootstrap` from the config, and where that gives no rendezvous from
 * the environment; see shunt_world_create() for the rules. `config` has been
 * read by config_read() and is complete. Errors: INVALID (names variable or
 * field, value and range).
 */
enum shunt_status bootstrap_resolve(
	const struct shunt_world_config *config, struct bootstrap *bootstrap);

/*
 * The address from which this rank reaches the meeting place, as text: by the
 * routes of this moment, nothing is sent. "" if there is none, as with threads.
 */
#define BOOTSTRAP_ADDRESS_BYTES 64
void bootstrap_own_address(
	const struct bootstrap *bootstrap, char text[BOOTSTRAP_ADDRESS_BYTES]);

/*
 * Meets the other ranks: sends `blob` (blob_bytes 1 .. BOOTSTRAP_MAX_BLOB, the
 * same number on all ranks) and fills blobs[num_ranks * blob_bytes] in rank
 * order, and `secret`, 32 random bytes that the same meeting gives to each of
 * its ranks and to nobody else. A world of one rank meets at once, whatever
 * its kind.
 *
 * Blocks until all are there, at most until `deadline` (clock_now() units) and
 * a moment more for rank 0 to say who is missing. Writes its outputs only on
 * success. Nothing stays behind: no socket, no thread, no memory.
 *
 * Errors, with the ranks they are about:
 *	TIMEOUT	  the ranks that never came; rank 0 if it was not reached. Where
 *		  all came but some gave up before, those that gave up. A rank
 *		  that dies while it waits counts as one that never came, until
 *		  it comes again.
 *	VERSION	  on every rank: library or blob_bytes differ from rank 0's
 *		  (TCP).
 *	MISMATCH  num_ranks differs from rank 0's (TCP, on every rank), or
 *		  num_ranks or blob_bytes from those who are in already
 *		  (threads, on them and on the one who comes). A rank that comes
 *		  twice: on every rank (TCP), on the second comer alone, while
 *		  the meeting goes on (threads).
 *	INVALID	  blob_bytes; a host off loopback without a key.
 *	SYSTEM	  rank 0 cannot listen at the address, or is out of descriptors
		  (told to those that reached it); this rank is out of them.
 *	NO_MEMORY
 * After a TIMEOUT the rank may meet again: it takes its place.
 */
enum shunt_status bootstrap_meet(const struct bootstrap *bootstrap,
	const void *blob, size_t blob_bytes, int64_t deadline, void *blobs,
	uint8_t secret[BOOTSTRAP_SECRET_BYTES]);

#endif
