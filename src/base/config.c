/* Structs across versions of the header; the rule is in config.h. */
#include "base/config.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

/* No struct of ours comes near; more is a struct nobody initialised. */
#define MAX_STRUCT_BYTES 4096

static bool is_zero(const unsigned char *bytes, size_t num_bytes)
{
	for (size_t i = 0; i < num_bytes; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

enum shunt_status config_read(
	void *known, size_t known_bytes, const void *given, const char *name)
{
	size_t given_bytes;

	if (!given)
		return error_set(SHUNT_NULL_ARGUMENT, "%s is NULL", name);
	memcpy(&given_bytes, given, sizeof(given_bytes));
	if (given_bytes < sizeof(given_bytes) || given_bytes > MAX_STRUCT_BYTES)
		return error_set(SHUNT_INVALID,
			"%s: struct_size is %zu, must be %zu .. %d; start from "
			"the initialiser macro",
			name, given_bytes, sizeof(given_bytes),
			MAX_STRUCT_BYTES);
	if (given_bytes > known_bytes &&
		!is_zero((const unsigned char *)given + known_bytes,
			given_bytes - known_bytes))
		return error_set(SHUNT_VERSION,
			"%s: struct_size is %zu and fields past byte %zu are "
			"set, which this version does not know",
			name, given_bytes, known_bytes);
	if (given_bytes > known_bytes)
		given_bytes = known_bytes;
	memset(known, 0, known_bytes);
	memcpy(known, given, given_bytes);
	memcpy(known, &known_bytes, sizeof(known_bytes));
	return SHUNT_OK;
}

void config_write(void *given, const void *known, size_t known_bytes)
{
	size_t given_bytes;

	memcpy(&given_bytes, given, sizeof(given_bytes));
	if (given_bytes > known_bytes)
		given_bytes = known_bytes;
	if (given_bytes > sizeof(size_t))
		memcpy((char *)given + sizeof(size_t),
			(const char *)known + sizeof(size_t),
			given_bytes - sizeof(size_t));
}
