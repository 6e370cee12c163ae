/* Sorted arrays of ranges; see verbs_ranges.h. */
#include "transport/verbs_ranges.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

void verbs_ranges_fini(struct verbs_ranges *ranges)
{
	free(ranges->ranges);
	*ranges = (struct verbs_ranges){0};
}

/* How many ranges begin at or before the offset. */
static uint32_t num_upto(const struct verbs_ranges *ranges, uint64_t offset)
{
	uint32_t low = 0, high = ranges->num;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->ranges[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct verbs_range *verbs_ranges_find(
	const struct verbs_ranges *ranges, uint64_t offset, uint64_t bytes)
{
	uint32_t upto = num_upto(ranges, offset);
	struct verbs_range *range;
	uint64_t within;

	if (upto == 0)
		return NULL;
	range = &ranges->ranges[upto - 1];
	within = offset - range->offset;
	/* No sum that could overflow. */
	if (within > range->bytes || bytes > range->bytes - within)
		return NULL;
	return range;
}

struct verbs_range *verbs_ranges_at(
	const struct verbs_ranges *ranges, uint64_t offset)
{
	uint32_t upto = num_upto(ranges, offset);

	if (upto == 0 || ranges->ranges[upto - 1].offset != offset)
		return NULL;
	return &ranges->ranges[upto - 1];
}

static bool ranges_grow(struct verbs_ranges *ranges)
{
	uint32_t capacity =
		ranges->capacity ? 2 * ranges->capacity : FIRST_CAPACITY;
	struct verbs_range *grown;

	if (ranges->num < ranges->capacity)
		return true;
	grown = reallocarray(ranges->ranges, capacity, sizeof(*grown));
	if (!grown)
		return false;
	ranges->ranges = grown;
	ranges->capacity = capacity;
	return true;
}

bool verbs_ranges_add(struct verbs_ranges *ranges,
	const struct verbs_range *range, bool *full)
{
	uint32_t at = num_upto(ranges, range->offset);
	const struct verbs_range *all = ranges->ranges;

	*full = false;
	if (at > 0 && range->offset - all[at - 1].offset < all[at - 1].bytes)
		return false;
	if (at < ranges->num && all[at].offset - range->offset < range->bytes)
		return false;
	*full = !ranges_grow(ranges);
	if (*full)
		return false;
	memmove(&ranges->ranges[at + 1], &ranges->ranges[at],
		(ranges->num - at) * sizeof(*range));
	ranges->ranges[at] = *range;
	ranges->num++;
	return true;
}

void verbs_ranges_remove(struct verbs_ranges *ranges, struct verbs_range *range)
{
	uint32_t at = (uint32_t)(range - ranges->ranges);

	ranges->num--;
	memmove(range, range + 1, (ranges->num - at) * sizeof(*range));
}
