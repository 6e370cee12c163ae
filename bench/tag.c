/* Output of the ranks, line by line, with the rank in front. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tag.h"

static void write_all(int fd, const char *bytes, size_t num_bytes)
{
	while (num_bytes > 0) {
		ssize_t written = write(fd, bytes, num_bytes);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return; /* nobody listens: the ranks go on */
		bytes += written;
		num_bytes -= (size_t)written;
	}
}

/* One write per line, so that lines of other programs do not mix in. */
static void write_line(
	const struct tag_stream *stream, const char *line, size_t num_bytes)
{
	char tagged[sizeof(stream->line) + 16];
	int prefix = snprintf(tagged, 16, "[%d] ", stream->rank);

	memcpy(tagged + prefix, line, num_bytes);
	tagged[(size_t)prefix + num_bytes] = '\n';
	write_all(stream->to, tagged, (size_t)prefix + num_bytes + 1);
}

/* Writes the whole lines of the buffer and keeps the rest. */
static void write_lines(struct tag_stream *stream)
{
	char *line = stream->line;
	char *end = stream->line + stream->used;
	char *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		write_line(stream, line, (size_t)(newline - line));
		line = newline + 1;
	}
	stream->used = (size_t)(end - line);
	memmove(stream->line, line, stream->used);
	if (stream->used == sizeof(stream->line)) {
		write_line(stream, stream->line, stream->used);
		stream->used = 0;
	}
}

void tag_forward(struct tag_stream *stream)
{
	ssize_t got = read(stream->from, stream->line + stream->used,
		sizeof(stream->line) - stream->used);

	if (got > 0) {
		stream->used += (size_t)got;
		write_lines(stream);
	} else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
		tag_finish(stream);
	}
}

void tag_finish(struct tag_stream *stream)
{
	if (stream->from < 0)
		return;
	if (stream->used > 0)
		write_line(stream, stream->line, stream->used);
	close(stream->from);
	stream->from = -1;
}
