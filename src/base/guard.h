/*
 * The fork guard: tells a forked child from the process that made things.
 * A page that the kernel wipes in children (MADV_WIPEONFORK) is read instead
 * of asking getpid(), so that the hot path makes no system call, and a raw
 * clone() is noticed too.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>

#include <shunt/status.h>

/* Makes the page, once per process; thread-safe. In a forked child it makes a
 * new one: the child may build worlds of its own. Errors: NO_MEMORY; SYSTEM (a
 * kernel without MADV_WIPEONFORK). */
enum shunt_status guard_init(void);

/* A number that names this process; differs in each forked child. 0 before
 * guard_init(). An object remembers the one it was made under. */
unsigned long guard_generation(void);

/* OK if `generation` is this process's; else STATE, message set. */
enum shunt_status guard_check(unsigned long generation);

#endif
