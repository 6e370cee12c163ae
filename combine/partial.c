/* Sums of a host as they travel; see partial.h. */
#include "combine/partial.h"

#include "combine/acc.h"
#include "combine/pack.h"
#include "combine/sum.h"

static void add_up(const struct shunt_exchange *exchange,
	const struct partial_rows *rows, enum shunt_dtype to_dtype, void *to)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	struct sum_next none = {NULL, 0};

	sum_kernels()->rows[config->expert_dtype][to_dtype](to, rows->rows,
		rows->weighted ? rows->weights : NULL, rows->num_rows,
		config->hidden, none);
}

void partial_make(const struct shunt_exchange *exchange,
	struct quant_tally *tally, const struct partial_rows *rows, void *to)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	uint8_t *unpacked = exchange->scratch.unpacked;

	if (config->f32_partial_sums) {
		add_up(exchange, rows, SHUNT_DTYPE_F32, to);
		return;
	}
	if (config->combine_quant == SHUNT_COMBINE_QUANT_NONE) {
		add_up(exchange, rows, config->expert_dtype, to);
		return;
	}
	add_up(exchange, rows, config->expert_dtype, unpacked);
	pack_row(exchange, tally, to, unpacked);
}

void partial_add(const struct shunt_exchange *exchange, float *acc,
	const uint8_t *partial)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct acc_kernels *kernels = acc_kernels();
	enum shunt_dtype dtype = config->f32_partial_sums
					 ? SHUNT_DTYPE_F32
					 : config->expert_dtype;

	if (config->combine_quant == SHUNT_COMBINE_QUANT_NONE)
		kernels->add_row[dtype](acc, partial, NULL, config->hidden);
	else
		kernels->add_quantized[config->combine_quant][dtype](acc,
			partial, partial + config->hidden, NULL,
			config->hidden);
}
