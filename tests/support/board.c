/* The board of the rank harness, and what a rank's function does with it. */
#include "support/board.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct board *board_create(const struct ranks_plan *plan)
{
	size_t ranks = (size_t)plan->num_ranks * sizeof(struct board_rank);
	size_t head = (sizeof(struct board) + ranks + 63) & ~(size_t)63;
	size_t bytes = head + plan->shared_bytes;
	struct board *board = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (board == MAP_FAILED)
		return NULL;
	board->num_ranks = plan->num_ranks;
	board->absent = plan->absent;
	board->bytes = bytes;
	board->shared = (uint8_t *)board + head;
	return board;
}

void board_destroy(struct board *board)
{
	munmap(board, board->bytes);
}

void board_fail(struct board *board, int32_t rank, const char *text)
{
	struct board_rank *own = &board->ranks[rank];

	if (atomic_load(&own->failure) != 0)
		return;
	snprintf(own->text, sizeof(own->text), "%s", text);
	atomic_store(&own->failure, atomic_fetch_add(&board->failures, 1) + 1);
}

int32_t board_first_failure(const struct board *board)
{
	uint32_t place, first = UINT32_MAX;
	int32_t rank = -1;

	for (int32_t r = 0; r < board->num_ranks; r++) {
		place = atomic_load(&board->ranks[r].failure);
		if (place != 0 && place < first) {
			first = place;
			rank = r;
		}
	}
	return rank;
}

bool board_is_absent(const struct board *board, int32_t rank)
{
	return rank < 64 && (board->absent >> rank & 1);
}

/* ---- seats ------------------------------------------------------------ */

_Noreturn void seat_fail(
	struct seat *seat, const char *file, int line, const char *format, ...)
{
	char text[BOARD_TEXT], place[BOARD_TEXT + 512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(place, sizeof(place), "%s:%d: %s%s", file, line, seat->label,
		text);
	board_fail(seat->board, seat->rank, place);
	longjmp(seat->escape, 1);
}

void seat_label(struct seat *seat, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(seat->label, sizeof(seat->label), format, args);
	va_end(args);
}

void seat_status(struct seat *seat, enum shunt_status expected,
	enum shunt_status got, const char *call, const char *file, int line)
{
	if (expected == got)
		return;
	seat_fail(seat, file, line, "%s where %s is expected, of %s: %s",
		shunt_status_name(got), shunt_status_name(expected), call,
		got == SHUNT_OK ? "" : shunt_error_message());
}

static uint64_t error_ranks(struct seat *seat)
{
	int32_t ranks[64];
	size_t count = shunt_error_ranks(ranks, 64);
	uint64_t got = 0;

	SEAT_CHECK(seat, count <= 64, "%zu error ranks", count);
	for (size_t i = 0; i < count; i++) {
		SEAT_CHECK(seat, ranks[i] >= 0 && ranks[i] < seat->num_ranks,
			"error rank %d", ranks[i]);
		SEAT_CHECK(seat, i == 0 || ranks[i - 1] < ranks[i],
			"error ranks are not in order");
		got |= UINT64_C(1) << ranks[i];
	}
	return got;
}

void seat_error_ranks(struct seat *seat, uint64_t mask)
{
	uint64_t got = error_ranks(seat);

	SEAT_CHECK(seat, got == mask,
		"error ranks are 0x%llx where 0x%llx is expected: %s",
		(unsigned long long)got, (unsigned long long)mask,
		shunt_error_message());
}

bool seat_only_late(struct seat *seat, uint64_t mask)
{
	uint64_t got = error_ranks(seat);

	SEAT_CHECK(seat, (got & mask) == mask,
		"error ranks are 0x%llx, without all of 0x%llx: %s",
		(unsigned long long)got, (unsigned long long)mask,
		shunt_error_message());
	return got == mask;
}

void seat_message_has(struct seat *seat, const char *words)
{
	SEAT_CHECK(seat, strstr(shunt_error_message(), words) != NULL,
		"\"%s\" does not have \"%s\" in it", shunt_error_message(),
		words);
}

struct shunt_world *seat_join(struct seat *seat)
{
	struct shunt_world *world = NULL;

	SEAT_OK(seat, shunt_world_create(&seat->config, &world));
	SEAT_CHECK(seat, shunt_world_rank(world) == seat->rank, "rank");
	SEAT_CHECK(seat, shunt_world_size(world) == seat->num_ranks, "size");
	return world;
}

/* When another rank has failed there is nothing left to wait for. */
static void rest(struct seat *seat)
{
	SEAT_CHECK(seat, board_first_failure(seat->board) < 0,
		"gave up waiting: another rank failed");
	usleep(200);
}

void seat_barrier(struct seat *seat)
{
	struct board_rank *ranks = seat->board->ranks;
	uint32_t round = atomic_fetch_add(&ranks[seat->rank].barriers, 1) + 1;

	for (int32_t r = 0; r < seat->num_ranks; r++)
		while (!board_is_absent(seat->board, r) &&
			!atomic_load(&ranks[r].ended) &&
			atomic_load(&ranks[r].barriers) < round)
			rest(seat);
}

void seat_mark(struct seat *seat, int32_t mark)
{
	atomic_store(&seat->board->ranks[seat->rank].mark, mark);
}

void seat_await(struct seat *seat, int32_t rank, int32_t mark)
{
	while (atomic_load(&seat->board->ranks[rank].mark) < mark)
		rest(seat);
}

pid_t seat_pid(const struct seat *seat, int32_t rank)
{
	return atomic_load(&seat->board->ranks[rank].pid);
}

void seat_signal(struct seat *seat, int32_t rank, int number)
{
	pid_t pid = seat_pid(seat, rank);

	SEAT_CHECK(seat, pid > 0, "rank %d has no process", rank);
	SEAT_CHECK(seat, kill(pid, number) == 0, "kill of rank %d", rank);
}
