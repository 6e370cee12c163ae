/* One token of this rank; see token.h. */
#include "dispatch/token.h"

#include "base/dtype.h"

const uint8_t *token_x(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct shunt_dispatch_args *args = &step->dispatch;
	int64_t pitch = args->x_stride
				? dtype_row_bytes(config->dtype, args->x_stride)
				: exchange_shape(exchange)->x_row_bytes;

	return (const uint8_t *)args->x + token * pitch;
}

struct ahead token_ahead(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token)
{
	if (token + 1 >= step->dispatch.num_tokens)
		return (struct ahead){NULL, 0};
	return (struct ahead){(const char *)token_x(exchange, step, token + 1),
		exchange_shape(exchange)->x_row_bytes};
}

struct token_scales token_quantize(struct shunt_exchange *exchange,
	struct step *step, int64_t token, int64_t scale_row, void *q,
	const void *next)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct shunt_dispatch_args *args = &step->dispatch;
	uint8_t *scales = exchange->scratch.row_scales;
	struct token_scales made = {
		.scales = shape_scale_bytes(shape) ? scales : NULL,
	};
	int64_t offset = scale_row * shape->hidden;
	struct quant_row row = {
		.q = q,
		.scales = scales,
		.row_scale = &made.row_scale,
		.x = token_x(exchange, step, token),
		.fixed = args->static_scales,
		.fixed_is_one = args->static_shape == SHUNT_STATIC_ONE,
		.hidden = shape->hidden,
		.tally = &step->tally,
		.next = next,
	};

	if (args->smooth_scales)
		row.smooth = args->smooth_scales + offset;
	if (args->static_scales && args->static_shape == SHUNT_STATIC_EXPERTS)
		row.fixed += offset;
	exchange->quantize(&row);
	return made;
}

struct token_scales token_brought(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token)
{
	const uint8_t *scales = step->dispatch.x_scales;

	if (!scales)
		return (struct token_scales){NULL, 0.0f};
	return (struct token_scales){
		scales + token * shape_scale_bytes(exchange_shape(exchange)),
		0.0f};
}
