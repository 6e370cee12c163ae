/* Plain copy loops, of which the floor takes the fastest. */
#ifndef BENCH_COPIES_H
#define BENCH_COPIES_H

#include <stddef.h>
#include <stdint.h>

#define COPIES_MAX 3

struct copies {
	const char *name;
	/* Copies a row. */
	void (*copy)(uint8_t *to, const uint8_t *from, size_t num_bytes);
	/* Reads `count` rows and writes one, so that each byte that is read
	 * has a part in it; zeros if count is 0. */
	void (*merge)(uint8_t *to, const uint8_t *const *from, int64_t count,
		size_t num_bytes);
	/* Makes streamed stores visible to other ranks. */
	void (*finish)(void);
};

/* The loops that this CPU can run: list[0 .. returned - 1]. */
int copies_list(struct copies list[COPIES_MAX]);

#endif
