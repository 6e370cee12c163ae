/* Owns the list of taken ranges; first fit. See ranges.h. */
#include "memory/ranges.h"

#include <stdlib.h>

#include "base/error.h"

struct range {
	uint64_t offset;
	uint64_t bytes;
	struct range *next;
};

void ranges_init(struct ranges *ranges, uint64_t end)
{
	*ranges = (struct ranges){.end = end};
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

enum shunt_status ranges_take(struct ranges *ranges, uint64_t bytes,
	uint64_t align, uint64_t *offset)
{
	struct range *range = calloc(1, sizeof(*range));
	struct range **link;

	if (!range)
		return error_set(SHUNT_NO_MEMORY,
			"no memory for the record of a range of %llu bytes",
			(unsigned long long)bytes);
	link = find_gap(ranges, bytes, align, &range->offset);
	if (!link) {
		free(range);
		return error_set(SHUNT_NO_MEMORY,
			"%llu bytes needed in one piece; of the segment's %llu "
			"bytes of address space %llu are in use: free some, or "
			"raise segment_bytes (SHUNT_SEGMENT_BYTES)",
			(unsigned long long)bytes,
			(unsigned long long)ranges->end,
			(unsigned long long)ranges->used_bytes);
	}
	range->bytes = bytes;
	range->next = *link;
	*link = range;
	ranges->used_bytes += bytes;
	*offset = range->offset;
	return SHUNT_OK;
}

bool ranges_give(struct ranges *ranges, uint64_t offset, uint64_t bytes)
{
	struct range **link = &ranges->first;
	struct range *range;

	while (*link && (*link)->offset < offset)
		link = &(*link)->next;
	range = *link;
	if (!range || range->offset != offset || range->bytes != bytes)
		return false;
	*link = range->next;
	ranges->used_bytes -= bytes;
	free(range);
	return true;
}
