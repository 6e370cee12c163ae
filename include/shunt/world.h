/* Shunt: worlds and groups, the ranks that take part, and memory that peers can
 * reach. See shunt/shunt.h for the order of things. */
#ifndef SHUNT_WORLD_H
#define SHUNT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- world ------------------------------------------------------------ */

struct shunt_world;

/*
 * How this rank joins its job. All zero (or a NULL config) takes everything
 * from the environment; see shunt_world_create().
 */
struct shunt_world_config {
	size_t struct_size;
	/*
	 * Where the ranks meet. NULL: from the environment.
	 * "tcp://HOST:PORT": rank 0 listens there, the others connect; HOST is
	 * a name, an IPv4 address or [IPv6]. A HOST off loopback demands `key`.
	 * "threads://NAME": all ranks are threads of this process; NAME is
	 * any text that only the threads of one job use at a time.
	 * With a rendezvous, rank and num_ranks must be given here too.
	 */
	const char *rendezvous;
	int32_t rank;      /* this rank, 0 .. num_ranks - 1 */
	int32_t num_ranks; /* ranks in the job, 1 .. 4096 */
	/* Secret of the job, any text; NULL: from SHUNT_KEY, else none. */
	const char *key;
	/* Name of the job, at most 127 bytes; ranks of another job at the same
	 * address are turned away. NULL: from SHUNT_JOB, else "". */
	const char *job;
	/* How long to wait for the other ranks, in ns; 0: 60 s. */
	int64_t deadline_ns;
	/*
	 * Address space for this rank's windows and heap, in bytes; 0: from
	 * SHUNT_SEGMENT_BYTES, else the machine's memory. Address space only:
	 * memory is taken as exchanges and allocations need it.
	 */
	uint64_t segment_bytes;
	/*
	 * Which ranks are on one host, where they share memory: those with the
	 * same text. NULL: from SHUNT_HOST_ID, else what the kernel tells (one
	 * boot, one network namespace). Only needed to make one machine look
	 * like several.
	 */
	const char *host_id;

	/*
	 * RDMA, for ranks on other hosts. All may be left 0 or NULL, and are
	 * then taken from the environment variable named behind them, if it is
	 * set. A device, interface or address that is named must be there, but
	 * for a world of one rank; the rest matters only where there are other
	 * hosts to reach. A rank of another host that is stopped is lost once
	 * it has taken nothing for half a minute of what no longer fits its queue.
	 */
	/* Devices, "mlx5_0" or "mlx5_0,mlx5_1": several share the bytes. NULL:
	 * that of the address. SHUNT_RDMA_DEVICE */
	const char *rdma_device;
	/* Address to be reached at: one of this network interface ("ib0",
	 * SHUNT_RDMA_INTERFACE), or this one (IPv4 or IPv6,
	 * SHUNT_RDMA_ADDRESS), which must be one of the interface if both are
	 * given. Both NULL: the one that reached the rendezvous, if a device
	 * has it, else the first that a device has. */
	const char *rdma_interface;
	const char *rdma_address;
	/* Port of the device, from 1 on; 0: the first active one.
	 * SHUNT_RDMA_PORT */
	int32_t rdma_port;
	/* GID index plus 1, up to 65536; 0: the kernel's choice. With RoCE it
	 * must be the GID of the address.
	 * SHUNT_RDMA_GID_INDEX has the index itself. */
	int32_t rdma_gid;
	/* Service level plus 1 (SHUNT_RDMA_SERVICE_LEVEL: itself, 0 .. 15), and
	 * traffic class plus 1 (SHUNT_RDMA_TRAFFIC_CLASS: itself, 0 .. 255); 0:
	 * the kernel's choice. */
	int32_t rdma_service_level;
	int32_t rdma_traffic_class;
	/* Queue pairs per peer, at least one per device, at most 16; 0: one per
	 * device. SHUNT_RDMA_LANES */
	int32_t rdma_lanes;
	/* An unanswered packet is sent again after 4.096 us * 2^n, six times;
	 * n = 1 .. 31; 0: 14, which finds a dead host in about 0.5 s (by iWARP
	 * in 5 s, or later if n asks for more).
	 * SHUNT_RDMA_ACK_TIMEOUT */
	int32_t rdma_ack_timeout;
	/* Requests in flight per queue pair, 4 .. 32768; 0: 256, or what the
	 * device allows. SHUNT_RDMA_QUEUE_DEPTH */
	int32_t rdma_queue_depth;
};
#define SHUNT_WORLD_CONFIG_INIT SHUNT_INIT(struct shunt_world_config)

/*
 * Joins the job; returns once every rank has joined. Collective.
 *
 * Without a rendezvous the environment decides. One family is taken whole,
 * in this order: SHUNT_RANK, SHUNT_NUM_RANKS, SHUNT_ADDRESS (set by `shunt
 * run`); torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Open MPI's
 * OMPI_COMM_WORLD_RANK/SIZE, Hydra's PMI_RANK/SIZE or Slurm's
 * SLURM_PROCID/NTASKS, each with SHUNT_ADDRESS. Two families that disagree
 * on rank or size are INVALID. With no family at all: a world of one rank.
 *
 * `config` may be NULL. On success the caller owns *world and owes
 * shunt_world_destroy(). Blocks, up to the deadline.
 * Errors: INVALID, NULL_ARGUMENT; TIMEOUT (the message and
 * shunt_error_ranks() name the ranks that did not come); VERSION and
 * MISMATCH (ranks of another version or with other num_ranks);
 * NO_MEMORY (also of memory that may be locked, with its limit); SYSTEM;
 * UNSUPPORTED (a rank on another host, and no RDMA device here: names it).
 */
SHUNT_EXPORT enum shunt_status shunt_world_create(
	const struct shunt_world_config *config, struct shunt_world **world);

/*
 * Leaves the job and frees everything of this rank. Local: never waits for
 * another rank, but until the devices of other hosts have taken what is on its way
 * there, and that this one leaves: as long as that moves, 2 s (4 s) behind the last
 * time that it did, never more than 30 s (60 s) in all. Groups, exchanges and memory
 * of this world must be destroyed and freed before. NULL is allowed.
 */
SHUNT_EXPORT void shunt_world_destroy(struct shunt_world *world);

/* This rank's number in the job; -1 if `world` is NULL. */
SHUNT_EXPORT int32_t shunt_world_rank(const struct shunt_world *world);

/* Number of ranks in the job; -1 if `world` is NULL. */
SHUNT_EXPORT int32_t shunt_world_size(const struct shunt_world *world);

/*
 * The number of the host that `rank` is on, from 0 in the order of their first
 * ranks; -1 if there is no such rank or `world` is NULL.
 */
SHUNT_EXPORT int32_t shunt_world_host(
	const struct shunt_world *world, int32_t rank);

/* How `rank` is reached: "self", "threads" (of this process), "shm" (this
 * host) or "verbs" (RDMA); NULL as above. */
SHUNT_EXPORT const char *shunt_world_transport(
	const struct shunt_world *world, int32_t rank);

/*
 * Which ranks are known to be lost, looked up now: lost[r] (num_ranks
 * bytes, may be NULL) becomes 1 for a lost rank and 0 for others. Returns
 * how many are lost. A rank that left by shunt_world_destroy() counts as
 * lost too; and one of another host that this rank has cut off, as an
 * elastic_info table left it out in the middle of a step (docs/elastic.md).
 */
SHUNT_EXPORT int32_t shunt_world_lost(
	const struct shunt_world *world, uint8_t *lost);

/*
 * Allocates `bytes` of this rank's registered memory, which peers can reach,
 * aligned to 64 bytes, not initialised. NULL when there is none (the message
 * tells needed and available) or after fork. Thread-safe.
 */
SHUNT_EXPORT void *shunt_alloc(struct shunt_world *world, size_t bytes);

/* Frees what shunt_alloc() of the same world gave. NULL is allowed. */
SHUNT_EXPORT void shunt_free(struct shunt_world *world, void *memory);

/* ---- group ------------------------------------------------------------ */

struct shunt_group;

/*
 * Makes a group of the world's ranks `ranks` (num_ranks of them, distinct;
 * NULL with num_ranks 0 means all, in order); group rank i is world rank
 * ranks[i]. Collective over the members, which give the same list and name.
 * Groups alive at once with the same list need different names. `name` is at
 * most 127 bytes; NULL means "".
 *
 * On success the caller owns *group and owes shunt_group_destroy(). Blocks,
 * up to deadline_ns (0: 60 s).
 * Errors: NULL_ARGUMENT, INVALID (a rank outside the world, twice, or a list
 * without this rank), TIMEOUT (names the missing; the same call again waits
 * on), PEER_LOST, NO_MEMORY, STATE.
 */
SHUNT_EXPORT enum shunt_status shunt_group_create(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name,
	int64_t deadline_ns, struct shunt_group **group);

/* Frees the group. Local. Its exchanges must be destroyed before. */
SHUNT_EXPORT void shunt_group_destroy(struct shunt_group *group);

/* This rank's number in the group; -1 if `group` is NULL. */
SHUNT_EXPORT int32_t shunt_group_rank(const struct shunt_group *group);

/* Number of ranks in the group; -1 if `group` is NULL. */
SHUNT_EXPORT int32_t shunt_group_size(const struct shunt_group *group);

#ifdef __cplusplus
}
#endif
#endif
