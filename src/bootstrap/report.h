/* Building what rank 0 tells all ranks when a meeting fails. */
#ifndef BOOTSTRAP_REPORT_H
#define BOOTSTRAP_REPORT_H

#include "bootstrap/wire.h"

/* Starts over with a printf message. */
void report_start(struct wire_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Appends to the message; what does not fit is cut. */
void report_append(struct wire_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds a rank it is about; more than fit are left out. */
void report_add_rank(struct wire_report *report, int32_t rank);

/* Makes it this thread's error; returns `status`. */
enum shunt_status report_raise(
	const struct wire_report *report, enum shunt_status status);

#endif
