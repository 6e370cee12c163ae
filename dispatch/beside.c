/* What goes with a row; see beside.h. */
#include "dispatch/beside.h"

#include <string.h>

/* Column-major: scale i of all rows lies together. */
static void write_column(const struct shape *shape, const struct layout *layout,
	uint8_t *to, int64_t row, const uint8_t *scales)
{
	int64_t bytes = shape->format.scale_bytes;

	to += row * bytes;
	for (int64_t i = 0; i < shape->format.num_scales; i++)
		memcpy(to + i * layout->recv_rows * bytes, scales + i * bytes,
			(size_t)bytes);
}

static void write_scales(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member, int64_t row,
	const struct token_scales *scales)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = &exchange->layouts[member];
	uint8_t *to =
		exchange_array(exchange, member, layout->scales_off, step);
	int64_t bytes = shape_scale_bytes(shape);

	if (shape->column_major)
		write_column(shape, layout, to, row, scales->scales);
	else if (bytes == sizeof(float)) /* the usual one */
		memcpy(to + row * bytes, scales->scales, sizeof(float));
	else
		memcpy(to + row * bytes, scales->scales, (size_t)bytes);
	if (shape->format.has_row_scale)
		((float *)exchange_array(exchange, member,
			layout->row_scales_off, step))[row] = scales->row_scale;
}

void beside_write(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member, int64_t row,
	const struct beside *beside)
{
	const struct layout *layout = &exchange->layouts[member];
	int32_t *source = (int32_t *)exchange_array(
				  exchange, member, layout->source_off, step) +
			  3 * row;

	source[0] = beside->source;
	source[1] = beside->token;
	source[2] = beside->k;
	if (beside->weight)
		((float *)exchange_array(exchange, member, layout->weights_off,
			step))[row] = *beside->weight;
	if (beside->scales.scales)
		write_scales(exchange, step, member, row, &beside->scales);
}
