/* Owns the list of taken ranges; first fit. See ranges.h. */
#include "memory/ranges.h"

#include <stdlib.h>

struct range {
	uint64_t offset;
	uint64_t bytes;
	struct range *next;
};

/* The head is the list: there is nothing to allocate yet. */
bool ranges_init(struct ranges *ranges, uint64_t end)
{
	*ranges = (struct ranges){.end = end};
	return true;
}

void ranges_fini(struct ranges *ranges)
{
	while (ranges->first) {
		struct range *range = ranges->first;

		ranges->first = range->next;
		free(range);
	}
}

/* Where `bytes` fit into the gap [begin, end); false if they do not. */
static bool gap_fits(uint64_t begin, uint64_t end, uint64_t bytes,
	uint64_t align, uint64_t *offset)
{
	uint64_t pad = -begin & (align - 1);

	if (end - begin < pad || end - begin - pad < bytes)
		return false;
	*offset = begin + pad;
	return true;
}

/* The link behind which the first gap that fits begins; NULL if none does. */
static struct range **find_gap(
	struct ranges *ranges, uint64_t bytes, uint64_t align, uint64_t *offset)
{
	struct range **link = &ranges->first;
	uint64_t begin = 0;

	while (*link) {
		if (gap_fits(begin, (*link)->offset, bytes, align, offset))
			return link;
		begin = (*link)->offset + (*link)->bytes;
		link = &(*link)->next;
	}
	return gap_fits(begin, ranges->end, bytes, align, offset) ? link : NULL;
}

bool ranges_take(
	struct ranges *ranges, uint64_t bytes, uint64_t align, uint64_t *offset)
{
	struct range *range = calloc(1, sizeof(*range));
	struct range **link;

	if (!range)
		return false;
	link = find_gap(ranges, bytes, align, &range->offset);
	if (!link) {
		free(range);
		return false;
	}
	range->bytes = bytes;
	range->next = *link;
	*link = range;
	ranges->used_bytes += bytes;
	*offset = range->offset;
	return true;
}

bool ranges_taken(const struct ranges *ranges, uint64_t offset, uint64_t bytes)
{
	const struct range *range = ranges->first;

	while (range && range->offset < offset)
		range = range->next;
	return range && range->offset == offset && range->bytes == bytes;
}

void ranges_give(struct ranges *ranges, uint64_t offset, uint64_t bytes)
{
	struct range **link = &ranges->first;
	struct range *range;

	if (!ranges_taken(ranges, offset, bytes))
		return;
	while ((*link)->offset < offset)
		link = &(*link)->next;
	range = *link;
	*link = range->next;
	ranges->used_bytes -= bytes;
	free(range);
}

bool ranges_next(const struct ranges *ranges, uint64_t from, uint64_t *offset,
	uint64_t *bytes)
{
	const struct range *range = ranges->first;

	while (range && range->offset < from)
		range = range->next;
	if (!range)
		return false;
	*offset = range->offset;
	*bytes = range->bytes;
	return true;
}

uint64_t ranges_largest(const struct ranges *ranges)
{
	uint64_t begin = 0;
	uint64_t largest = 0;

	for (const struct range *range = ranges->first; range;
		range = range->next) {
		if (range->offset - begin > largest)
			largest = range->offset - begin;
		begin = range->offset + range->bytes;
	}
	return ranges->end - begin > largest ? ranges->end - begin : largest;
}
