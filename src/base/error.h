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

/* Compilers see one file at a time; this tells them that the status given is
 * the one that comes back, so that they know when outputs are written. */
#define error_set(status, ...) \
	error_given(status, (error_set)(status, __VA_ARGS__))
#define error_set_errno(status, ...) \
	error_given(status, (error_set_errno)(status, __VA_ARGS__))

static inline enum shunt_status error_given(
	enum shunt_status given, enum shunt_status returned)
{
	(void)returned;
	return given;
}

/* Adds a rank (of the group of the call) to those that the error is about.
 * Ranks are added in ascending order. */
void error_add_rank(int32_t rank);

#endif
