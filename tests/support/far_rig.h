/*
 * Ranks on hosts of their own, in threads, over the simulator of RDMA: what a
 * world does with far.h, with nothing of a world. Nothing here fails a test by
 * itself, as ranks may well fail when the simulator does.
 *
 *	rig_open	segments, far sides, their connections; all at once
 *	rig_run		all ranks run a function, each in its thread
 *	rig_close	all leave, at once or one by one
 */
#ifndef SUPPORT_FAR_RIG_H
#define SUPPORT_FAR_RIG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/far.h"
#include "transport/transport.h"

#define RIG_MAX_RANKS 4
/* Each rank has one area, exposed to all, at the same offset everywhere. */
#define RIG_AREA_BYTES (UINT64_C(4) << 20)
#define RIG_LONG_NS    INT64_C(20000000000) /* only ever reached by a hang */

struct rig;

struct rig_rank {
	struct rig *rig;
	int32_t rank;
	struct segment *segment;
	struct far *far;
	struct peer *peers[RIG_MAX_RANKS];
	struct peer_hello hello;
	uint64_t area_off;
	uint8_t *area;
	bool exposed;
	/* Of what failed first; OK. */
	enum shunt_status status;
	char message[1024];
	int32_t lost[RIG_MAX_RANKS]; /* that the error is about */
	int num_lost;
	int line; /* that a function of rig_run() returned */
	pthread_t thread;
	int (*function)(struct rig_rank *rank);
};

struct rig {
	int num_ranks;
	struct far_config configs[RIG_MAX_RANKS]; /* to be set before open */
	int64_t connect_ns;                       /* deadline of connecting */
	uint8_t secrets[RIG_MAX_RANKS][32];
	struct rig_rank ranks[RIG_MAX_RANKS];
};

/* Rank r will be on host r, and needs an address or device of it. */
void rig_init(struct rig *rig, int num_ranks);

/* True if all ranks are connected, and know each other's areas. */
bool rig_open(struct rig *rig);

/* Only the segments and far_open(); the status of that of each is in ranks.
 * rig_connect() is then due, or rig_close(). */
bool rig_listen(struct rig *rig);
bool rig_connect(struct rig *rig);

/* True if the function returned 0 in all ranks. */
bool rig_run(struct rig *rig, int (*function)(struct rig_rank *rank));

/* Closes all that is open, in the ranks' own threads. True if each segment is
 * then as empty as it was. */
bool rig_close(struct rig *rig);

/* Closes one rank's far side, and segment. */
bool rig_close_rank(struct rig_rank *rank);

/* ---- for functions of ranks --------------------------------------------- */

/* A put to the area of a peer, pushed through back-pressure. */
enum shunt_status rig_put(struct rig_rank *rank, int32_t to, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter, uint64_t add);

/* Waits until a counter of the own area has a value; sleeping now and then.
 * False if not: then the peer is no more, or (rig_hangs()) it hangs. */
bool rig_await(
	struct rig_rank *rank, int32_t from, uint64_t counter, uint64_t value);

/* Waits until the peer has the state. False: it never has. */
bool rig_await_state(
	struct rig_rank *rank, int32_t peer, enum peer_state state);

/* Waits until the sources of all puts may be reused; false: never. */
bool rig_await_quiet(struct rig_rank *rank);

enum peer_state rig_state(const struct rig_rank *rank, int32_t peer);

/* Waits that were given up; to be 0. */
int rig_hangs(void);

#endif
