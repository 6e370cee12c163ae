/* The board: memory that the test program and all its ranks share, where each
 * rank says how it fares. Internal to the harness. */
#ifndef SUPPORT_BOARD_H
#define SUPPORT_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "support/ranks.h"

#define BOARD_TEXT 1536

/* How one rank fares. Written by it, read by all. */
struct board_rank {
	_Atomic int32_t pid;
	_Atomic int32_t mark;
	_Atomic uint32_t barriers; /* how many it has come to */
	_Atomic bool ended;        /* its function returned or failed */
	_Atomic uint32_t failure;  /* its place among failures; 0: none */
	char text[BOARD_TEXT];
};

struct board {
	_Atomic uint32_t failures;
	int32_t num_ranks;
	uint64_t absent;
	size_t bytes;
	void *shared;
	struct board_rank ranks[];
};

/* A board for the plan, or NULL. */
struct board *board_create(const struct ranks_plan *plan);
void board_destroy(struct board *board);

/* Notes a failure of a rank; only its first counts. */
void board_fail(struct board *board, int32_t rank, const char *text);

/* The rank that failed first, or -1. */
int32_t board_first_failure(const struct board *board);

/* True for ranks that the plan does not start. */
bool board_is_absent(const struct board *board, int32_t rank);

#endif
