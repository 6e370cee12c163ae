/* Rows with a stride among guard bytes. */
#include "support/trial_rows.h"

#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"

#define GUARD_BYTES 64
#define GUARD       0xa5
#define SPOILT      0xee

static int64_t bytes_of(enum shunt_dtype dtype, int64_t elements)
{
	if (dtype == SHUNT_DTYPE_E2M1)
		return (elements + 1) / 2;
	return elements * (int64_t)convert_bytes(dtype);
}

bool trial_rows_init(
	struct trial_rows *rows, const struct trial_rows_shape *shape)
{
	int64_t elements = shape->stride == 0 ? shape->hidden : shape->stride;

	*rows = (struct trial_rows){
		.first = GUARD_BYTES + shape->shift,
		.stride = shape->stride,
		.pitch = bytes_of(shape->dtype, elements),
		.row_bytes = bytes_of(shape->dtype, shape->hidden),
		.num_rows = shape->num_rows,
	};
	rows->bytes = rows->first + rows->num_rows * rows->pitch + GUARD_BYTES;
	rows->block = malloc((size_t)rows->bytes);
	if (rows->block != NULL)
		memset(rows->block, GUARD, (size_t)rows->bytes);
	return rows->block != NULL;
}

void trial_rows_fini(struct trial_rows *rows)
{
	free(rows->block);
	*rows = (struct trial_rows){0};
}

void *trial_rows_first(const struct trial_rows *rows)
{
	return rows->block == NULL ? NULL : rows->block + rows->first;
}

void *trial_rows_at(const struct trial_rows *rows, int64_t i)
{
	return rows->block + rows->first + i * rows->pitch;
}

void trial_rows_fill(struct trial_rows *rows, const void *dense)
{
	for (int64_t i = 0; i < rows->num_rows; i++)
		memcpy(trial_rows_at(rows, i),
			(const uint8_t *)dense + i * rows->row_bytes,
			(size_t)rows->row_bytes);
}

void trial_rows_spoil(struct trial_rows *rows)
{
	if (rows->block != NULL)
		memset(rows->block, SPOILT, (size_t)rows->bytes);
}
