/* Sending rows; see send.h. */
#include "dispatch/send.h"

#include "base/dtype.h"
#include "base/fpenv.h"

struct sender {
	struct shunt_exchange *exchange;
	struct step *step;
	const struct shape *shape;
	void (*scatter)(void *const *places, int64_t num_places,
		const void *row, int64_t bytes);
	void (*quantize)(int8_t *q, float *scale, const void *x,
		const float *smooth, int64_t hidden, struct quant_tally *tally);
	const uint8_t *x;
	int64_t x_row_bytes; /* from row to row of x */
};

static void *array_of(
	const struct sender *sender, int32_t rank, uint64_t array_off)
{
	return exchange_array(sender->exchange, rank, array_off, sender->step);
}

/*
 * Assigns choice (token, k) its row, writes all but the row itself, and
 * returns where that goes. `scale` is that of the row; NULL: not known yet.
 */
static uint8_t *send_choice(
	const struct sender *sender, int64_t token, int64_t k, float **scale)
{
	struct shunt_exchange *exchange = sender->exchange;
	struct step *step = sender->step;
	int64_t choice = token * sender->shape->topk + k;
	int32_t expert = step->expert[choice];
	int32_t rank = exchange->accepted.placement.rank[expert];
	const struct layout *layout = &exchange->layouts[rank];
	int64_t row = step->next_row[expert]++;
	int32_t *source =
		(int32_t *)array_of(sender, rank, layout->source_off) + 3 * row;

	step->row[choice] = (int32_t)row;
	source[0] = exchange->rank;
	source[1] = (int32_t)token;
	source[2] = (int32_t)k;
	if (step->has_weights)
		((float *)array_of(sender, rank, layout->weights_off))[row] =
			step->weights[choice];
	*scale = (float *)array_of(sender, rank, layout->scales_off) + row;
	return (uint8_t *)array_of(sender, rank, layout->rows_off) +
	       row * sender->shape->row_bytes;
}

/* A token whose row is the same for all its experts. */
static void send_token(const struct sender *sender, int64_t token)
{
	struct scratch *scratch = &sender->exchange->scratch;
	const struct shape *shape = sender->shape;
	const int32_t *expert = sender->step->expert + token * shape->topk;
	const void *row = sender->x + token * sender->x_row_bytes;
	int64_t num_places = 0;
	float *scale;
	float value;

	for (int64_t k = 0; k < shape->topk; k++)
		num_places += expert[k] >= 0;
	if (num_places == 0)
		return;
	if (sender->quantize) {
		sender->quantize((int8_t *)scratch->row, &value, row, NULL,
			shape->hidden, &sender->step->tally);
		row = scratch->row;
	}
	num_places = 0;
	for (int64_t k = 0; k < shape->topk; k++) {
		if (expert[k] < 0)
			continue;
		scratch->places[num_places++] =
			send_choice(sender, token, k, &scale);
		if (sender->quantize)
			*scale = value;
	}
	sender->scatter(scratch->places, num_places, row, shape->row_bytes);
}

/* A token that is quantized anew for each of its experts. */
static void send_token_smoothed(const struct sender *sender, int64_t token)
{
	const struct shape *shape = sender->shape;
	const int32_t *expert = sender->step->expert + token * shape->topk;
	const float *smooth = sender->step->dispatch.smooth_scales;
	float *scale;

	for (int64_t k = 0; k < shape->topk; k++) {
		uint8_t *place;

		if (expert[k] < 0)
			continue;
		place = send_choice(sender, token, k, &scale);
		sender->quantize((int8_t *)place, scale,
			sender->x + token * sender->x_row_bytes,
			smooth + expert[k] * shape->hidden, shape->hidden,
			&sender->step->tally);
	}
}

/*
 * Rows that the sender's own cache would not hold go past it by streaming
 * stores: a regular store would first read the line that it overwrites.
 * With an expert working in between, the two kinds meet at about 3/4 of L2:
 * docs/performance.md has the figures.
 */
static bool rows_should_stream(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);

	return step->dispatch.num_tokens * shape->topk * shape->row_bytes >
	       exchange->stream_bytes;
}

static struct sender sender_of(
	struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct shape *shape = exchange_shape(exchange);
	const struct quant_kernels *kernels = quant_kernels();
	int64_t stride = step->dispatch.x_stride;
	bool stream = rows_should_stream(exchange, step);

	return (struct sender){
		.exchange = exchange,
		.step = step,
		.shape = shape,
		.scatter = stream ? kernels->scatter_stream : kernels->scatter,
		.quantize = config->quant == SHUNT_QUANT_INT8
				    ? kernels->int8_row[config->dtype]
				    : NULL,
		.x = step->dispatch.x,
		.x_row_bytes = (stride ? stride : shape->hidden) *
			       dtype_bits(config->dtype) / 8,
	};
}

void send_rows(struct shunt_exchange *exchange, struct step *step)
{
	struct sender sender = sender_of(exchange, step);
	bool smoothed = step->dispatch.smooth_scales != NULL;
	struct fpenv caller = fpenv_enter();

	for (int64_t t = 0; t < step->dispatch.num_tokens; t++)
		if (smoothed)
			send_token_smoothed(&sender, t);
		else
			send_token(&sender, t);
	fpenv_leave(&caller);
}
