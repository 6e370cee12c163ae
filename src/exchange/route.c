/* Routes; see route.h. */
#include "exchange/route.h"

#include "exchange/layout.h"

#include <string.h>

void route_copy_counts(struct route *to, const struct route *from,
	const struct shape *shape, const struct layout *layout)
{
	size_t units = (size_t)shape->num_units * sizeof(uint32_t);
	size_t experts = (size_t)layout->num_local;

	memcpy(to->next, from->next, units);
	memcpy(to->total, from->total, units * (size_t)shape->tp_size);
	memcpy(to->start, from->start, units * (size_t)shape->tp_size);
	memcpy(to->expert_rows, from->expert_rows,
		experts * sizeof(*to->expert_rows));
	memcpy(to->expert_first_row, from->expert_first_row,
		experts * sizeof(*to->expert_first_row));
	memcpy(to->blocks, from->blocks,
		experts * (size_t)shape->num_members * sizeof(*to->blocks));
	if (shape->sums_by_host)
		memcpy(to->before, from->before,
			units * (size_t)layout->num_landings);
	to->num_rows = from->num_rows;
	to->extent_rows = from->extent_rows;
}

bool route_next_block(const struct route *route, const struct shape *shape,
	bool rank_order, int32_t own_tp, struct row_cursor *cursor)
{
	int32_t num_ranks = route->view->num_ranks;
	int64_t num_local =
		placement_num_local(&route->view->placement, route->view->rank);

	if (cursor->expert == num_local)
		return false;
	cursor->tp = route_group_at(cursor->order, own_tp, rank_order);
	cursor->local = cursor->expert;
	cursor->rank = cursor->source;
	cursor->rows = route->blocks[(cursor->tp * num_local + cursor->local) *
					     num_ranks +
				     cursor->rank];
	cursor->row = cursor->next;
	cursor->next += cursor->rows;
	if (++cursor->source < num_ranks)
		return true;
	cursor->source = 0;
	if (++cursor->order < shape->tp_size)
		return true;
	cursor->order = 0;
	if (++cursor->expert < num_local)
		cursor->next = route->expert_first_row[cursor->expert];
	return true;
}
