/* Seats of ranks that a launcher has started; see launched.h. */
#include "support/launched.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/board.h"

/* A board on which the others have nothing to say. */
static struct board *board_alone(const struct seat *seat)
{
	struct ranks_plan plan = {.num_ranks = seat->num_ranks};
	struct board *board = board_create(&plan);

	for (int32_t r = 0; board != NULL && r < seat->num_ranks; r++)
		atomic_store(&board->ranks[r].ended, r != seat->rank);
	return board;
}

/* The host of each rank, as the library numbers them; to be freed. */
static int32_t *hosts_in(const struct shunt_world *world, int32_t num_ranks)
{
	int32_t *hosts = calloc((size_t)num_ranks, sizeof(*hosts));

	for (int32_t r = 0; hosts != NULL && r < num_ranks; r++)
		hosts[r] = shunt_world_host(world, r);
	return hosts;
}

static bool join(struct seat *seat)
{
	if (shunt_world_create(NULL, &seat->world) != SHUNT_OK) {
		fprintf(stderr, "no world: %s\n", shunt_error_message());
		return false;
	}
	seat->rank = shunt_world_rank(seat->world);
	seat->num_ranks = shunt_world_size(seat->world);
	seat->hosts = hosts_in(seat->world, seat->num_ranks);
	seat->board = board_alone(seat);
	if (seat->hosts == NULL || seat->board == NULL) {
		fprintf(stderr, "no memory for a seat\n");
		return false;
	}
	seat->host = seat->hosts[seat->rank];
	return true;
}

int launched_run(ranks_function function, const void *context)
{
	struct seat *seat = calloc(1, sizeof(*seat));

	if (seat == NULL)
		return 1;
	seat->launch = RANKS_PROCESSES;
	seat->context = context;
	if (!join(seat))
		return 1;
	/* A failed rank leaves its world as it is: the end of the process is
	 * what others see. */
	if (setjmp(seat->escape) != 0) {
		fprintf(stderr, "failed: %s\n",
			seat->board->ranks[seat->rank].text);
		return 1;
	}
	function(seat);
	shunt_world_destroy(seat->world);
	board_destroy(seat->board);
	free((void *)(uintptr_t)seat->hosts);
	free(seat);
	return 0;
}

bool launched_parse_ranks(const char *list, uint64_t *mask)
{
	char *end;
	long rank;

	*mask = 0;
	do {
		rank = strtol(list, &end, 10);
		if (end == list || rank < 0 || rank > 62)
			return false;
		*mask |= UINT64_C(1) << rank;
		list = end + 1;
	} while (*end == ',');
	return *end == '\0';
}
