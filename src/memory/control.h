/*
 * The control page: the head of every rank's segment, at offset 0. Peers read
 * it, and ring its doorbell; nothing else of it is written by them.
 *
 *	0    life: futex word of the robust holder     (kernel writes at death)
 *	     and its link in the holder's robust list  (owner writes)
 *	128  doorbell                                  (peers add)
 *	256  beat: what this rank did last, and when   (owner writes)
 *	384  cores: where this rank may run             (owner writes)
 *	512  directory: where this rank's groups are   (owner writes)
 */
#ifndef MEMORY_CONTROL_H
#define MEMORY_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "memory/doorbell.h"

#define CONTROL_MAGIC       UINT64_C(0x31746e7568530a0d) /* "\r\nShunt1" */
#define CONTROL_MAX_GROUPS  256
#define CONTROL_LINE        128 /* two cache lines: the prefetcher takes pairs */
#define CONTROL_PHASE_BYTES 24
#define CONTROL_CORE_WORDS  16 /* 1024 processors, as many as cpu_set_t has */

/* What a rank did last; for reports only, so a torn read does no harm. */
struct beat {
	_Atomic uint64_t epoch;
	_Atomic uint64_t phase; /* enum beat_phase */
	_Atomic int64_t when;   /* clock_now() at that moment */
};

enum beat_phase {
	BEAT_STARTED, /* the world was made */
	BEAT_GROUP,   /* making a group or an exchange */
	BEAT_DISPATCH_START,
	BEAT_DISPATCH_WRITE,
	BEAT_DISPATCH_DONE,
	BEAT_COMBINE_START,
	BEAT_COMBINE_DONE,
	BEAT_LEFT, /* the world was destroyed */
	BEAT_NUM_PHASES
};

/* One group: published by storing `key` last; 0 is a free entry. */
struct directory_entry {
	_Atomic uint64_t key;
	_Atomic uint64_t offset; /* of the group's region in this segment */
};

struct control {
	_Alignas(CONTROL_LINE) _Atomic uint32_t life; /* see health.h */
	uint64_t magic;
	_Atomic uintptr_t life_link; /* written, never read: see health.c */
	_Alignas(CONTROL_LINE) struct doorbell doorbell;
	_Alignas(CONTROL_LINE) struct beat beat;
	/* Bit n of word n / 64: processor n. Written before peers attach. */
	_Alignas(CONTROL_LINE) uint64_t cores[CONTROL_CORE_WORDS];
	_Alignas(CONTROL_LINE) struct directory_entry
		directory[CONTROL_MAX_GROUPS];
};

/* Bytes of a segment that the control page takes; ranges begin behind it. */
#define CONTROL_BYTES 8192
_Static_assert(sizeof(struct control) <= CONTROL_BYTES, "control page");

#endif
