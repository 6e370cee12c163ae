/* What creation and destruction of an exchange share. */
#ifndef EXCHANGE_CREATE_H
#define EXCHANGE_CREATE_H

#include "exchange/exchange.h"

/* Bytes of the tables of an exchange on this rank. */
uint64_t tables_bytes(const struct shape *shape, int64_t num_local);

/* Allocates the tables and points steps and scratch into them.
 * Errors: NO_MEMORY. */
enum shunt_status tables_init(struct shunt_exchange *exchange);

/* Layouts of all ranks. Errors: INVALID, NO_MEMORY. */
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
 * Tells the others where this rank's window is, or why it has none, and maps
 * theirs. *published becomes true if others may know the window in spite of
 * an error. Errors: as agree_config(), and PEER_FAULT.
 */
enum shunt_status agree_windows(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline, bool *published);

#endif
