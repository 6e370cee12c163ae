/*
 * Comparing what the library gave with what the reference expects, byte by
 * byte. A difference is told in words, with the first place where it shows.
 */
#ifndef REFERENCE_CHECK_H
#define REFERENCE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "reference/reference.h"

#define CHECK_TEXT 256

/*
 * True if `out` (of a dispatch on the rank that `expected` is for) is as
 * expected; else `why` tells. `rows` has a pointer to each of extent_rows rows,
 * NULL: they lie in out->expand_x. `prefix`: token numbers are prefix sums.
 */
bool check_received(const struct reference_job *job,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows,
	bool prefix, char why[CHECK_TEXT]);

/* The same for the three numbers about the rank's own tokens. */
bool check_sent(const struct reference_sent *expected,
	const struct shunt_dispatch_out *out, char why[CHECK_TEXT]);

/* The same for a number, called `name` in the words. */
bool check_number(
	const char *name, int64_t expected, int64_t got, char why[CHECK_TEXT]);

/* The same for `num_bytes` bytes at `got`, called `name` in the words; a row
 * has row_bytes. */
bool check_bytes(const char *name, const void *expected, const void *got,
	int64_t num_bytes, int64_t row_bytes, char why[CHECK_TEXT]);

#endif
