/*
 * Memory that the kernel zeroes in a forked child (MADV_WIPEONFORK). State of
 * the process that lies there, its locks included, begins afresh in the child,
 * which therefore never waits for a thread that only its parent has.
 */
#ifndef TRANSPORT_WIPED_H
#define TRANSPORT_WIPED_H

#include <stdatomic.h>
#include <stddef.h>

#include <shunt/status.h>

/* Fills *slot with `bytes` of zeroed memory, once; it is never freed.
 * Thread-safe. Errors: NO_MEMORY, SYSTEM. */
enum shunt_status wiped_map(_Atomic(void *) *slot, size_t bytes);

#endif
