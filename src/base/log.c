/* One line per note, see log.h. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES   1024
#define LEVEL_UNREAD (-1)
#define NUM_LEVELS   4

static const char *const level_names[NUM_LEVELS] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* Read from the environment at the first note. */
static _Atomic int chosen_level = LEVEL_UNREAD;

/* Rank + 1, so that zero-initialised TLS means none. */
static _Thread_local int32_t rank_plus_one;

void log_set_rank(int32_t rank)
{
	rank_plus_one = rank < 0 ? 0 : rank + 1;
}

static void write_line(const char *format, va_list args)
{
	char line[LINE_BYTES];
	int length;

	if (rank_plus_one > 0)
		length = snprintf(line, sizeof(line),
			"shunt[rank %d]: ", rank_plus_one - 1);
	else
		length = snprintf(line, sizeof(line), "shunt: ");
	length += vsnprintf(
		line + length, sizeof(line) - (size_t)length, format, args);
	if (length > LINE_BYTES - 1)
		length = LINE_BYTES - 1;
	line[length++] = '\n'; /* takes the place of the final zero */
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nowhere left to complain */
}

static int read_level(void)
{
	const char *text = getenv("SHUNT_LOG");

	for (int level = 0; text && level < NUM_LEVELS; level++) {
		if (strcmp(text, level_names[level]) == 0)
			return level;
	}
	return LOG_WARN;
}

/* Says once that the variable was not understood. */
static void check_level(void)
{
	const char *text = getenv("SHUNT_LOG");

	if (text && *text && read_level() == LOG_WARN &&
		strcmp(text, level_names[LOG_WARN]) != 0)
		log_note(LOG_WARN,
			"SHUNT_LOG is \"%s\", must be error, warn, info or "
			"debug; taking warn",
			text);
}

void log_note(enum log_level level, const char *format, ...)
{
	int saved_errno = errno;
	int unread = LEVEL_UNREAD;
	va_list args;

	if (atomic_load(&chosen_level) == LEVEL_UNREAD &&
		atomic_compare_exchange_strong(
			&chosen_level, &unread, read_level()))
		check_level();
	if ((int)level <= atomic_load(&chosen_level)) {
		va_start(args, format);
		write_line(format, args);
		va_end(args);
	}
	errno = saved_errno;
}
