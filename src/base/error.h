/*
 * The calling thread's error: set once by the function that knows the cause,
 * passed up by everyone above as a bare status.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <shunt/status.h>

/*
 * Records `status` with a printf message and returns it, so that a caller
 * writes `return error_set(SHUNT_INVALID, "...", ...)`. Clears the ranks.
 */
enum shunt_status error_set(enum shunt_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* As error_set, with ": <strerror of errno>" behind the message. */
enum shunt_status error_set_errno(enum shunt_status status, const char *format,
	...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* Lint sees one file at a time; this tells it that the status comes back. */
#define error_set(status, ...) \
	((void)(error_set)(status, __VA_ARGS__), (status))
#define error_set_errno(status, ...) \
	((void)(error_set_errno)(status, __VA_ARGS__), (status))
#endif

/* Adds a rank (of the group of the call) to those that the error is about.
 * Ranks are added in ascending order. */
void error_add_rank(int32_t rank);

#endif
