/*
 * Reading structs that callers pass, whatever version of the header they were
 * compiled with: a shorter one is filled up with zeros, a longer one is taken
 * if what we do not know is zero.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stddef.h>

#include <shunt/status.h>

/*
 * Copies the caller's struct `given` to `known` (known_bytes of it). Both
 * begin with a size_t struct_size. `name` is the struct's name for messages.
 * Errors: NULL_ARGUMENT, INVALID (struct_size below a size_t), VERSION.
 */
enum shunt_status config_read(
	void *known, size_t known_bytes, const void *given, const char *name);

/* Copies min(known_bytes, its struct_size) bytes back to an out-struct of the
 * caller, leaving its struct_size as it was. */
void config_write(void *given, const void *known, size_t known_bytes);

#endif
