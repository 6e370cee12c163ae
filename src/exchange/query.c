/* What an exchange needs, and how one travels: the questions of the public API. */
#include <stdio.h>

#include "base/config.h"
#include "base/error.h"
#include "exchange/algorithm.h"
#include "exchange/create.h"

/* What a rank keeps besides its tables: itself, the placement, and what
 * exchange_reserve() takes of all members. */
static uint64_t record_bytes(const struct shape *shape)
{
	uint64_t member = sizeof(struct layout) + sizeof(uint64_t) +
			  sizeof(uint8_t *) + sizeof(int32_t);

	return sizeof(struct shunt_exchange) +
	       (uint64_t)shape->num_members * member +
	       placement_bytes(shape->num_ranks, shape->num_units);
}

enum shunt_status layouts_check(const struct accepted *accepted)
{
	struct layout layout;
	enum shunt_status status = SHUNT_OK;

	for (int32_t r = 0; r < accepted->shape.num_ranks && !status; r++)
		status = layout_init(&layout, &accepted->shape,
			placement_num_local(&accepted->placement, r), r);
	return status;
}

static enum shunt_status query(struct accepted *accepted, int32_t rank,
	struct shunt_exchange_sizes *sizes)
{
	const struct shape *shape = &accepted->shape;
	struct layout layout = {0};
	enum shunt_status status = hosts_of_blocks(&accepted->hosts,
		shape->num_ranks, shape->tp_size, sizes->ranks_per_host);

	if (status == SHUNT_OK)
		accepted_spread(accepted);
	if (status == SHUNT_OK)
		status = layouts_check(accepted);
	if (status == SHUNT_OK)
		status = layout_init(&layout, shape,
			placement_num_local(&accepted->placement, rank), rank);
	if (status != SHUNT_OK)
		return status;
	sizes->num_local_experts = layout.num_local;
	sizes->worst_rows = layout.worst_rows;
	sizes->recv_rows = layout.recv_rows;
	sizes->window_bytes = layout.total_bytes;
	sizes->private_bytes =
		tables_bytes(shape, &layout) + record_bytes(shape);
	return SHUNT_OK;
}

enum shunt_status shunt_exchange_query(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks, struct shunt_exchange_sizes *out)
{
	struct shunt_exchange_sizes sizes;
	struct accepted accepted;
	enum shunt_status status;

	if (num_ranks < 1 || num_ranks > 4096)
		return error_set(SHUNT_INVALID,
			"num_ranks is %d, must be 1 .. 4096", num_ranks);
	if (rank < 0 || rank >= num_ranks)
		return error_set(SHUNT_INVALID, "rank is %d, must be 0 .. %d",
			rank, num_ranks - 1);
	status =
		config_read(&sizes, sizeof(sizes), out, "shunt_exchange_sizes");
	if (status != SHUNT_OK)
		return status;
	status = accepted_init(&accepted, config, rank, num_ranks);
	if (status != SHUNT_OK)
		return status;
	status = query(&accepted, rank, &sizes);
	accepted_fini(&accepted);
	if (status == SHUNT_OK)
		config_write(out, &sizes, sizeof(sizes));
	return status;
}

static enum shunt_algorithm algorithm_of(bool by_host)
{
	return by_host ? SHUNT_ALGORITHM_HIERARCHY : SHUNT_ALGORITHM_FULLMESH;
}

enum shunt_status shunt_exchange_info_get(
	const struct shunt_exchange *exchange, struct shunt_exchange_info *out)
{
	struct shunt_exchange_info info;
	const struct shape *shape;
	enum shunt_status status;

	if (!exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "exchange is NULL");
	status = config_read(&info, sizeof(info), out, "shunt_exchange_info");
	if (status != SHUNT_OK)
		return status;
	shape = exchange_shape(exchange);
	info.num_hosts = exchange->accepted.hosts.num_hosts;
	info.host = exchange->accepted.hosts.host[exchange->rank];
	info.dispatch = algorithm_of(shape->rows_by_host);
	info.combine = algorithm_of(shape->sums_by_host);
	info.adds_partial_sums = shape->sums_by_host;
	algorithm_explain(
		shape, &exchange->accepted.config, info.why, sizeof(info.why));
	config_write(out, &info, sizeof(info));
	return SHUNT_OK;
}
