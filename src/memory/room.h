/*
 * Room: how much memory the machine and the container still have, asked
 * before much is taken: the kernel answers too large a wish not with an error
 * but by killing somebody.
 */
#ifndef MEMORY_ROOM_H
#define MEMORY_ROOM_H

#include <stdint.h>

#include <shunt/status.h>

/* Wishes up to this are not asked about: it costs some file reads. */
#define ROOM_SMALL_BYTES (UINT64_C(4) << 20)

/* OK if `bytes` more can be taken, as far as one can know. Errors: NO_MEMORY,
 * naming needed, available, and what limits. */
enum shunt_status room_check(uint64_t bytes);

/* Bytes that can still be taken, UINT64_MAX if unknown; *limit becomes the
 * name of what limits, a constant. */
uint64_t room_available(const char **limit);

#endif
