/*
 * The root's connections: all that came to its door, strangers and ranks.
 *
 * Strangers must not stall or stop the job, whatever they do. So nothing here
 * blocks; a guest has a few seconds to prove itself; those who have not are
 * limited in number, and the oldest of them makes room for the next. It has its
 * chance first, or ranks that come all at once would drive each other out for
 * ever: until then the next ones wait before the door.
 */
#ifndef BOOTSTRAP_GUESTS_H
#define BOOTSTRAP_GUESTS_H

#include <poll.h>

#include "bootstrap/visitor.h"

struct guest {
	struct visitor visitor;
	int64_t arrived; /* clock_now(); a proof is due soon after */
	size_t sent;     /* bytes of its verdict and the table */
	uint8_t verdict[WIRE_VERDICT_BYTES + WIRE_SEAL_BYTES];
};

struct guests {
	struct visitor_terms terms;
	int num_slots;
	/* polls[0] is the listener; slot i is polls[1 + i] and list[i], free
	 * if its fd is -1. */
	struct pollfd *polls;
	struct guest *list;
	int num_strangers;
	int64_t shut_until; /* the door, clock_now(); 0: it is open */
	int64_t last_proof; /* when a rank came last; clock_now() */
};

/* Room for num_ranks and some strangers. Owes guests_fini(). Errors:
 * NO_MEMORY; SYSTEM (the limit on descriptors is too low). */
enum shunt_status guests_init(struct guests *guests, int32_t num_ranks);

/* Closes all, the listener too. */
void guests_fini(struct guests *guests);

/* The guest in slot `i` if it has proved to be a rank, else NULL. */
struct guest *guests_rank(const struct guests *guests, int i);

/* When guests_serve() has something to do even if nothing is received;
 * INT64_MAX if never. */
int64_t guests_next_due(const struct guests *guests);

/*
 * After poll(): lets new ones in, reads from those who must prove themselves,
 * drops who failed. False if the door cannot be kept open: errno.
 */
bool guests_serve(struct guests *guests);

/* Closes the connection in slot `i`. */
void guests_drop(struct guests *guests, int i);

/*
 * Sends the guest in slot `i` as much of its verdict and the table as goes
 * without blocking. True when all is sent or the connection is broken.
 */
bool guests_push(
	struct guests *guests, int i, const uint8_t *table, size_t table_bytes);

#endif
