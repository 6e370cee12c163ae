/*
 * Shunt: status codes and the message that goes with them.
 *
 * Every function that can fail returns an enum shunt_status. The function
 * that found the cause also leaves a message for the calling thread, which
 * names the argument, its value, its legal range, and the rank.
 */
#ifndef SHUNT_STATUS_H
#define SHUNT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHUNT_EXPORT __attribute__((visibility("default")))
#else
#define SHUNT_EXPORT
#endif

enum shunt_status {
	/* All went well. */
	SHUNT_OK = 0,
	/* A pointer that must be given is NULL. Mend the call. */
	SHUNT_NULL_ARGUMENT,
	/* An argument is outside its legal range. Mend the call. */
	SHUNT_INVALID,
	/* A legal wish that this version cannot fulfil; the message names it. */
	SHUNT_UNSUPPORTED,
	/* The call is not allowed now (a handle used twice, too many in
	 * flight, a forked child, ...); the message names the rule. */
	SHUNT_STATE,
	/* Ranks disagree on something that must be the same everywhere. */
	SHUNT_MISMATCH,
	/* Ranks, or caller and library, are of different versions. */
	SHUNT_VERSION,
	/* A step needs more rows on some rank than its window holds. */
	SHUNT_CAPACITY,
	/* The deadline passed. Nobody is known to be dead: in a finish the
	 * caller may wait again. shunt_error_ranks() has the missing. */
	SHUNT_TIMEOUT,
	/* A rank died or left. shunt_error_ranks() has the lost. */
	SHUNT_PEER_LOST,
	/* A rank refused its own part of this step (its arguments were wrong,
	 * or it gave the step up). The next step works. */
	SHUNT_PEER_REFUSED,
	/* A rank sent something that no correct rank sends. */
	SHUNT_PEER_FAULT,
	/* Memory is exhausted, or a limit on it is too low. */
	SHUNT_NO_MEMORY,
	/* The operating system refused something else. */
	SHUNT_SYSTEM,
	SHUNT_NUM_STATUSES
};

/* The name of a status, such as "INVALID"; "UNKNOWN" for other values. */
SHUNT_EXPORT const char *shunt_status_name(enum shunt_status status);

/*
 * The message of the last failed call on this thread, "" if none failed yet.
 * Valid until the next failing call on this thread.
 */
SHUNT_EXPORT const char *shunt_error_message(void);

/*
 * The ranks that the last failed call on this thread was about: missing
 * (TIMEOUT), lost (PEER_LOST), refusing (PEER_REFUSED), at fault (PEER_FAULT)
 * or disagreeing (MISMATCH, VERSION), as ranks of the group of the call, in
 * ascending order. Writes at most `capacity` of them to `ranks` (which may be
 * NULL if capacity is 0) and returns how many there are.
 */
SHUNT_EXPORT size_t shunt_error_ranks(int32_t *ranks, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
