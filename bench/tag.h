/* Output of the ranks, line by line, with the rank in front. */
#ifndef BENCH_TAG_H
#define BENCH_TAG_H

#include <stddef.h>
#include <stdint.h>

/* One stream of one rank. Lines longer than the buffer are split. */
struct tag_stream {
	int from; /* read end of the rank's pipe; -1 once it has ended */
	int to;   /* our stdout or stderr */
	int32_t rank;
	size_t used;
	char line[4096];
};

/* Reads what is there and writes whole lines; sets `from` to -1 at the end.
 * Call it when poll() says that `from` can be read. */
void tag_forward(struct tag_stream *stream);

/* Writes what is left, and closes. */
void tag_finish(struct tag_stream *stream);

#endif
