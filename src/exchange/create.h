/* What creation and destruction of an exchange share. */
#ifndef EXCHANGE_CREATE_H
#define EXCHANGE_CREATE_H

#include "exchange/exchange.h"

/* Most ranks in a TP group. */
#define GRID_MAX_TP 512

/* Bytes of the tables of an exchange on this rank. */
uint64_t tables_bytes(const struct shape *shape, const struct layout *layout);

/* Allocates the tables and points steps, routes and scratch into them. Owes
 * tables_fini(), also on error. Errors: NO_MEMORY. */
enum shunt_status tables_init(struct shunt_exchange *exchange);
void tables_fini(struct shunt_exchange *exchange);

/* Can there be layouts for all ranks, as far as they are known? Of all, since
 * creation refuses for any of them. Errors: INVALID. */
enum shunt_status layouts_check(const struct accepted *accepted);

/* Layouts of all members. Errors: INVALID, NO_MEMORY. */
enum shunt_status layouts_init(
	const struct accepted *accepted, int32_t rank, struct layout **layouts);

/*
 * Agrees with the other ranks on the config: each brings its own, or why it
 * has none (`own` is not OK, with the thread's message). Errors: `own`;
 * PEER_REFUSED, MISMATCH; those of group_gather().
 */
enum shunt_status agree_config(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline);

/*
 * Compares the config with the other ranks of the TP group, as agree_config()
 * has done in the EP group, with the outcome `own`. Errors: as there.
 */
enum shunt_status agree_tp(struct shunt_exchange *exchange,
	struct shunt_group *tp_group, enum shunt_status own, int64_t deadline);

/*
 * Tells the others where this rank's window is, or why it has none, and maps
 * theirs. *published becomes true if others may know the window in spite of
 * an error. Errors: as agree_config(), and PEER_FAULT.
 */
enum shunt_status agree_windows(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline, bool *published);

/*
 * Makes the group of all P * W members out of this rank's EP group and TP
 * group: member p * W + r is rank r of EP group p. Both groups' locks must be
 * held. On success *grid is owed to shunt_group_destroy(). Errors: MISMATCH (TP
 * groups that do not fit together); those of group_gather() and
 * shunt_group_create().
 */
enum shunt_status grid_create(struct shunt_group *ep_group,
	struct shunt_group *tp_group, int64_t deadline,
	struct shunt_group **grid);

#endif
