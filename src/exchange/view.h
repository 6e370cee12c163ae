/*
 * A view: the ranks that take part in a step, and what they hold. The view of
 * an exchange's beginning has all ranks; an elastic_info table makes a smaller
 * one, in which ranks and experts are numbered anew. Everything in a step that
 * is counted or placed by rank goes by the numbers of its view.
 */
#ifndef EXCHANGE_VIEW_H
#define EXCHANGE_VIEW_H

#include "exchange/placement.h"
#include "exchange/shape.h"

struct view {
	uint64_t table;           /* its hash; 0: there is none */
	int32_t num_ranks;        /* of an EP group, W' */
	int32_t num_shared_ranks; /* S' */
	int64_t num_experts;      /* E' */
	int32_t rank;             /* of this rank, in its EP group */
	int32_t num_members;      /* P * W' */
	int32_t *members;         /* [num_members]: of (p, r) at p * W' + r */
	int32_t *original;        /* [W']: EP rank in the exchange */
	int64_t *scale_row;       /* [units]: row of smooth and static scales */
	/* Where ranks are on several hosts: the members by host, those of host h
	 * from host_first[h] on; and by member of the exchange its number among
	 * those of its host, -1 if it is left out. */
	int32_t num_hosts;          /* 0: all are on one host */
	int32_t num_all;            /* members of the exchange */
	int32_t *by_host;           /* [num_members] */
	int32_t *host_first;        /* [num_hosts + 1] */
	int32_t *number;            /* [members] */
	struct placement placement; /* of units over the ranks of the view */
};

/* Makes room for a view of up to the whole shape. Owes view_fini(). Errors:
 * NO_MEMORY. */
enum shunt_status view_init(
	struct view *view, const struct shape *shape, int32_t rank);
void view_fini(struct view *view);

/* Bytes that view_init() takes. */
uint64_t view_bytes(const struct shape *shape);

/* Fills in the view with all ranks, from the placement of the config. */
void view_fill_whole(struct view *view, const struct shape *shape,
	const struct placement *placement, int32_t rank);

/* Hash of a table of `num_ranks` ranks, 0 if there is none (NULL, or first
 * entry not 1). */
uint64_t view_table_hash(const int32_t *table, int32_t num_ranks);

/*
 * Fills in the view that a table (as in spec 3.2) makes of the whole one.
 * Errors, with the view unchanged: INVALID, naming the entry, or this rank if
 * the table has removed it.
 */
enum shunt_status view_fill_table(struct view *view, const struct shape *shape,
	const struct view *whole, const int32_t *table);

/* Copies `from` to `to`, which has room. */
void view_copy(struct view *to, const struct view *from);

/* The member of host h that takes in for its host what `member`, of another one,
 * sends there, or adds up what goes back; -1: nobody of the host is left. */
static inline int32_t view_rail(
	const struct view *view, int32_t member, int32_t h)
{
	int32_t first = view->host_first[h];
	int32_t size = view->host_first[h + 1] - first;

	return size ? view->by_host[first + view->number[member] % size] : -1;
}

/* True if the member takes part. */
static inline bool view_has(const struct view *view, int32_t member)
{
	for (int32_t i = 0; i < view->num_members; i++)
		if (view->members[i] == member)
			return true;
	return false;
}

/* Ranks that hold the same shared expert; 1 where there is none. */
static inline int32_t view_replicas(
	const struct view *view, const struct shape *shape)
{
	int32_t experts = (int32_t)shape->num_shared;

	return experts > 0 && view->num_shared_ranks > experts
		       ? view->num_shared_ranks / experts
		       : 1;
}

/* The rank of the view that EP rank `source` of the view sends its tokens for
 * shared expert j to. */
static inline int32_t view_replica(const struct view *view,
	const struct shape *shape, int32_t source, int64_t j)
{
	int32_t replicas = view_replicas(view, shape);

	return (int32_t)j * replicas + source % replicas;
}

#endif
