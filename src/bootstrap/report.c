/* Reports, see report.h. */
#include "bootstrap/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void append(struct wire_report *report, const char *format, va_list args)
{
	size_t length = strlen(report->message);

	vsnprintf(report->message + length, sizeof(report->message) - length,
		format, args);
}

void report_start(struct wire_report *report, const char *format, ...)
{
	va_list args;

	report->num_ranks = 0;
	report->message[0] = '\0';
	va_start(args, format);
	append(report, format, args);
	va_end(args);
}

void report_append(struct wire_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(report, format, args);
	va_end(args);
}

void report_add_rank(struct wire_report *report, int32_t rank)
{
	if (report->num_ranks < BOOTSTRAP_MAX_RANKS)
		report->ranks[report->num_ranks++] = rank;
}

enum shunt_status report_raise(
	const struct wire_report *report, enum shunt_status status)
{
	error_set(status, "%s", report->message);
	for (uint32_t i = 0; i < report->num_ranks; i++)
		error_add_rank(report->ranks[i]);
	return status;
}
