/* The private memory of an exchange: one block, laid out here. */
#include <stdlib.h>

#include "base/error.h"
#include "exchange/create.h"

/* Hands out pieces of a block; with no block it only counts. */
struct carver {
	uint8_t *block;
	uint64_t used;
};

static void *carve(struct carver *carver, int64_t count, size_t item_bytes)
{
	uint64_t start = carver->used;

	carver->used += ((uint64_t)count * item_bytes + 63) / 64 * 64;
	return carver->block ? carver->block + start : NULL;
}

static void carve_step(struct carver *carver, const struct shape *shape,
	int64_t num_local, struct step *step)
{
	int64_t choices = shape->max_tokens * shape->topk;

	step->expert = carve(carver, choices, sizeof(*step->expert));
	step->row = carve(carver, choices, sizeof(*step->row));
	step->weights = carve(carver, choices, sizeof(*step->weights));
	step->next_row =
		carve(carver, shape->num_experts, sizeof(*step->next_row));
	step->total = carve(carver, shape->num_experts, sizeof(*step->total));
	step->token_nums = carve(carver, num_local, sizeof(*step->token_nums));
	step->recv_counts = carve(carver, num_local * shape->num_ranks,
		sizeof(*step->recv_counts));
}

static void carve_scratch(struct carver *carver, const struct shape *shape,
	struct scratch *scratch)
{
	scratch->counts =
		carve(carver, shape->num_experts, sizeof(*scratch->counts));
	scratch->stamp =
		carve(carver, shape->num_experts, sizeof(*scratch->stamp));
	scratch->row = carve(carver, shape->row_bytes, 1);
	scratch->places = carve(carver, shape->topk, sizeof(void *));
	scratch->results = carve(carver, shape->topk, sizeof(void *));
	scratch->weights = carve(carver, shape->topk, sizeof(float));
}

uint64_t tables_bytes(const struct shape *shape, int64_t num_local)
{
	struct carver carver = {0};
	struct scratch scratch;
	struct step step;

	carve(&carver, shape->depth, sizeof(struct step));
	for (int32_t i = 0; i < shape->depth; i++)
		carve_step(&carver, shape, num_local, &step);
	carve_scratch(&carver, shape, &scratch);
	return carver.used;
}

enum shunt_status tables_init(struct shunt_exchange *exchange)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t num_local = exchange->layouts[exchange->rank].num_local;
	uint64_t bytes = tables_bytes(shape, num_local);
	struct carver carver = {.block = calloc(1, bytes)};

	if (!carver.block)
		return error_set(SHUNT_NO_MEMORY,
			"the tables of an exchange need %llu bytes, which "
			"there are not (rank %d)",
			(unsigned long long)bytes, exchange->rank);
	exchange->tables = carver.block;
	exchange->steps = carve(&carver, shape->depth, sizeof(struct step));
	for (int32_t i = 0; i < shape->depth; i++) {
		exchange->steps[i].slot = i;
		carve_step(&carver, shape, num_local, &exchange->steps[i]);
	}
	carve_scratch(&carver, shape, &exchange->scratch);
	return SHUNT_OK;
}

enum shunt_status layouts_init(
	const struct accepted *accepted, int32_t rank, struct layout **out)
{
	int32_t num_ranks = accepted->shape.num_ranks;
	struct layout *layouts = calloc((size_t)num_ranks, sizeof(*layouts));
	enum shunt_status status = SHUNT_OK;

	if (!layouts)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %d layouts", rank, num_ranks);
	for (int32_t r = 0; r < num_ranks && !status; r++)
		status = layout_init(&layouts[r], &accepted->shape,
			placement_num_local(&accepted->placement, r), r);
	if (status != SHUNT_OK) {
		free(layouts);
		return status;
	}
	*out = layouts;
	return SHUNT_OK;
}
