/*
 * Notes to stderr, for slow paths only: decisions at start-up, strangers
 * dropped. SHUNT_LOG=error|warn|info|debug chooses how much (default warn).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Writes one line, "shunt[rank R]: ...", in one write(), so that lines of
 * ranks do not mix. Lines over 1 KiB are cut. Keeps errno. */
void log_note(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The rank that the calling thread's lines name; negative for none. */
void log_set_rank(int32_t rank);

#endif
