/*
 * A simulator of RDMA inside one process: what struct verbs_api promises, kept
 * to the letter and no further, with devices, wires and hosts that a test
 * chooses, breaks and kills.
 *
 *	fake_verbs_start(&config)	devices; verbs_api() is the simulator
 *	fake_verbs_host(1)		this thread is a rank on host 1
 *	fake_verbs_...			faults, at any time
 *	fake_verbs_finish()		the misuse and the leaks that it saw
 *
 * Bytes really move between queue pairs, by an own thread, and by calls that
 * post or poll (the policy). A random scheduler takes turns among queue pairs:
 * order holds within a queue pair only. Misuse that hardware would punish at
 * its leisure (a queue overrun, a source changed too early, an event that is
 * never acknowledged) is told on stderr and counted.
 */
#ifndef SUPPORT_FAKE_VERBS_H
#define SUPPORT_FAKE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#define FAKE_MAX_DEVICES 8
#define FAKE_MAX_HOSTS   8

/* Zero means: usual. */
struct fake_device_config {
	const char *name;
	int host;            /* 0 .. FAKE_MAX_HOSTS - 1 */
	const char *address; /* IPv4 or IPv6, one per device */
	/* iWARP: no immediates, the accepting side may not send first, exact
	 * lengths of private data, an error breaks the other side's queue, and
	 * what gets no answer is tried for ever: for a dead host TCP takes what
	 * fits into its buffer, also behind a read, and that completes. It
	 * alone has reads here. */
	bool iwarp;
	bool infiniband; /* link layer; else Ethernet */
	/* Bytes of a write are placed in any order and at any time before the
	 * next receive of that queue pair completes, and none of its
	 * completions says more. Words of 8 bytes are not torn, and bytes that
	 * two writes have in common keep their order. */
	bool relaxed;
	bool down; /* the port */
	/* Inline data: -1 none; usual 220. */
	int max_inline;
	int max_queue;             /* max_qp_wr; usual 1024 */
	int max_sge;               /* usual 16 */
	int max_cqe;               /* usual 65536 */
	uint64_t max_mr_bytes;     /* of one region; usual: endless */
	uint64_t max_locked_bytes; /* of all regions; usual: endless */
};

enum fake_policy {
	FAKE_RANDOM,  /* by the thread and by who polls, in pieces, late */
	FAKE_AT_POST, /* all at once, within the call */
	FAKE_AT_POLL, /* by who polls; else the thread, a little later */
};

struct fake_config {
	struct fake_device_config devices[FAKE_MAX_DEVICES];
	int num_devices;
	enum fake_policy policy;
	uint64_t seed;
	int64_t delay_ns; /* FAKE_RANDOM: at most, of each step; usual 50 us */
	int64_t retry_ns; /* until RETRY_EXC_ERR; usual 30 ms */
	int64_t cm_ns;    /* until a connection is UNREACHABLE; usual 3 s */
	/* As Soft-RoCE: a retry count of 7 is endless. */
	bool endless_retry;
};

/* verbs_api() is the simulator from now on. */
void fake_verbs_start(const struct fake_config *config);

/* Takes all down, whatever is left; the real libraries are in place again.
 * The number of misuses and of objects that were still there. */
int fake_verbs_finish(void);

/* Misuses so far; objects that are there now. */
int fake_verbs_misuses(void);
int fake_verbs_objects(void);

/* The calling thread is on this host: it sees its devices only. Threads see
 * all devices before; the host of an object is that of its device. */
void fake_verbs_host(int host);

/* ---- faults ------------------------------------------------------------- */

/* The host is gone without a word. Its calls go on, towards nobody. */
void fake_verbs_kill_host(int host);

/* All processes of the host are dead, its kernel is not: who is connected is
 * told so. */
void fake_verbs_kill_process(int host);

/* The wire between two hosts: cut, or mended. */
void fake_verbs_cut(int host, int other, bool cut);

/* The same in one direction: the other hears nothing of the host. */
void fake_verbs_mute(int host, int other, bool mute);

/* The device is pulled out: DEVICE_REMOVAL for each id, all queues fail. */
void fake_verbs_remove_device(const char *name);

/* An asynchronous event of the device: about its port, or, as the type says,
 * about the completion queue or the queue pair that is first there. In
 * error, neither completes anything any more, and nothing else tells. */
void fake_verbs_async(const char *name, enum ibv_event_type type);

/* The kernel takes the device away from the process: its descriptors of events
 * break. Nothing else happens, so that only who polls them can know. */
void fake_verbs_break_descriptors(const char *name);

/*
 * The nth call (from 1) from now on, of the function with this name in struct
 * verbs_api or of any if NULL, fails with its usual error. Work requests are
 * counted one by one, so that some of a list may have been posted. What
 * destroys does so nevertheless and says EIO. 0: none.
 */
void fake_verbs_fail_call(const char *function, int nth);

/* The nth send from now on completes with this status; 0: none. */
void fake_verbs_fail_send(int nth, enum ibv_wc_status status);

/* How many of the two were made; the name of the one that failed. */
bool fake_verbs_failed(void);
const char *fake_verbs_failed_call(void);

enum fake_place { FAKE_BEFORE, FAKE_INSTEAD, FAKE_BEHIND };

/* At the nth event (from 1) from now on that a connection manager gives to
 * anyone: another one, for the same id. 0: none. */
void fake_verbs_odd_event(int nth, enum fake_place place,
	enum rdma_cm_event_type type, int status);

/* An event now, for each id of the host that has a peer. How many. */
int fake_verbs_raise(int host, enum rdma_cm_event_type type, int status);

/* Each event comes twice where that is possible (DISCONNECTED,
 * TIMEWAIT_EXIT), and connections are told late that they are established. */
void fake_verbs_disorder(bool disorder);

/* Wires are slow: a queue pair sends one request in so long. 0: at any time. */
void fake_verbs_pace(int64_t ns);

/* No send is acknowledged while this holds: its completion is late. */
void fake_verbs_hold(bool hold);

/* ---- what happened ------------------------------------------------------ */

/* Sends that found no receive. */
int fake_verbs_not_ready(void);

/* Work requests sent, and those that were signalled. */
int64_t fake_verbs_sent(void);
int64_t fake_verbs_signalled(void);

/* The most that one call has posted. */
int64_t fake_verbs_largest_post(void);

/* Looks at completion channels for events, of all hosts. */
int64_t fake_verbs_channel_looks(void);

/* Bytes that went out from the device. */
int64_t fake_verbs_sent_bytes(const char *device);

/* Queue pairs there are. */
int fake_verbs_queue_pairs(void);

#endif
