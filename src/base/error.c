/*
 * The error of the calling thread: its message, and the ranks it is about.
 * All of it is thread-local and small (under 2 KiB), because a library that is
 * loaded by dlopen() gets only a little static TLS.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <shunt/shunt.h>

/* The functions themselves, not what callers are told of them. */
#undef error_set
#undef error_set_errno

#define MESSAGE_BYTES 1024
#define MAX_RANKS     4096
#define WORD_BITS     64

struct error {
	char message[MESSAGE_BYTES];
	uint64_t ranks[MAX_RANKS / WORD_BITS];
};

static _Thread_local struct error error;
_Static_assert(sizeof(struct error) < 2048, "static TLS is scarce");

static const char *const status_names[SHUNT_NUM_STATUSES] = {
	[SHUNT_OK] = "OK",
	[SHUNT_NULL_ARGUMENT] = "NULL_ARGUMENT",
	[SHUNT_INVALID] = "INVALID",
	[SHUNT_UNSUPPORTED] = "UNSUPPORTED",
	[SHUNT_STATE] = "STATE",
	[SHUNT_MISMATCH] = "MISMATCH",
	[SHUNT_VERSION] = "VERSION",
	[SHUNT_CAPACITY] = "CAPACITY",
	[SHUNT_TIMEOUT] = "TIMEOUT",
	[SHUNT_PEER_LOST] = "PEER_LOST",
	[SHUNT_PEER_REFUSED] = "PEER_REFUSED",
	[SHUNT_PEER_FAULT] = "PEER_FAULT",
	[SHUNT_NO_MEMORY] = "NO_MEMORY",
	[SHUNT_SYSTEM] = "SYSTEM",
};

const char *shunt_status_name(enum shunt_status status)
{
	unsigned int index = (unsigned int)status;

	return index < SHUNT_NUM_STATUSES ? status_names[index] : "UNKNOWN";
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *shunt_version(void)
{
	return TEXT(SHUNT_VERSION_MAJOR) "." TEXT(SHUNT_VERSION_MINOR) "." TEXT(
		SHUNT_VERSION_PATCH);
}

/*
 * Formats into a buffer of its own first: an argument may be the old message,
 * which a caller wraps in a new one. vsnprintf() cuts what is too long.
 */
static void set_message(const char *format, va_list args)
{
	char text[MESSAGE_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	memcpy(error.message, text, sizeof(text));
	memset(error.ranks, 0, sizeof(error.ranks));
}

enum shunt_status error_set(enum shunt_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	set_message(format, args);
	va_end(args);
	return status;
}

enum shunt_status error_set_errno(
	enum shunt_status status, const char *format, ...)
{
	int cause = errno;
	char buffer[128];
	va_list args;
	size_t length;

	va_start(args, format);
	set_message(format, args);
	va_end(args);
	length = strlen(error.message);
	snprintf(error.message + length, MESSAGE_BYTES - length, ": %s",
		strerror_r(cause, buffer, sizeof(buffer)));
	errno = cause;
	return status;
}

void error_add_rank(int32_t rank)
{
	if (rank >= 0 && rank < MAX_RANKS)
		error.ranks[rank / WORD_BITS] |= UINT64_C(1)
						 << rank % WORD_BITS;
}

const char *shunt_error_message(void)
{
	return error.message;
}

size_t shunt_error_ranks(int32_t *ranks, size_t capacity)
{
	size_t num_ranks = 0;

	for (int32_t rank = 0; rank < MAX_RANKS; rank++) {
		if (!(error.ranks[rank / WORD_BITS] >> rank % WORD_BITS & 1))
			continue;
		if (num_ranks < capacity)
			ranks[num_ranks] = rank;
		num_ranks++;
	}
	return num_ranks;
}
