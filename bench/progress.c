/* A line that says how far the work is; only on a terminal. */
#include <stdio.h>
#include <unistd.h>

#include "progress.h"

void progress_init(struct progress *progress, bool quiet)
{
	progress->shown = !quiet && isatty(STDERR_FILENO);
	progress->dirty = false;
}

void progress_show(struct progress *progress, int64_t done, int64_t total)
{
	if (!progress->shown)
		return;
	if (done == 0)
		fputs("\rpreparing ...", stderr);
	else
		fprintf(stderr, "\rstep %lld of %lld   ", (long long)done,
			(long long)total);
	fflush(stderr);
	progress->dirty = true;
}

void progress_say(struct progress *progress, const char *text)
{
	if (!progress->shown)
		return;
	fprintf(stderr, "\r\033[K%s", text);
	fflush(stderr);
	progress->dirty = true;
}

void progress_clear(struct progress *progress)
{
	if (progress->dirty)
		fputs("\r\033[K", stderr);
	progress->dirty = false;
}
