/*
 * Memory order by name. A word that ranks share is an _Atomic with one writer
 * or with atomic additions; what a reader may then see is said here, once.
 *
 *	writer				reader
 *	fill data			order_acquire(flag) >= epoch
 *	order_publish(flag, epoch)	read data
 *
 * order_publish and order_acquire are sequentially consistent, because the
 * doorbell needs a store followed by a load of another word (see doorbell.h);
 * on x86 the load costs nothing for it.
 */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

#include <stdatomic.h>
#include <stdint.h>

/* Adds to a shared counter; everything written before is visible to whoever
 * sees the sum. Pairs with order_acquire. */
static inline void order_publish_add(_Atomic uint64_t *word, uint64_t add)
{
	atomic_fetch_add_explicit(word, add, memory_order_seq_cst);
}

/* Stores a shared word, with the same promise. Pairs with order_acquire. */
static inline void order_publish(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_seq_cst);
}

/* Reads a shared word; what its writer did before is visible afterwards. */
static inline uint64_t order_acquire(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_seq_cst);
}

/*
 * A mark on data that its owner takes back, and the look at it behind reading
 * the data: whoever does not see the mark has read all of it as it was. Both are
 * read-modify-writes, because only those order what is before and behind them
 * on every machine.
 */
static inline void order_withdraw(_Atomic uint64_t *word, uint64_t value)
{
	atomic_exchange_explicit(word, value, memory_order_seq_cst);
}

static inline uint64_t order_recheck(_Atomic uint64_t *word)
{
	return atomic_fetch_add_explicit(word, 0, memory_order_seq_cst);
}

/* Reads a word for a report, where its age does not matter. */
static inline uint64_t order_peek(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

#endif
