/* Rows in a communication quantization; see pack.h. */
#include "combine/pack.h"

#include "combine/acc.h"

void pack_row(const struct shunt_exchange *exchange, struct quant_tally *tally,
	uint8_t *to, const void *row)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct acc_kernels *kernels = acc_kernels();
	enum shunt_dtype dtype = config->expert_dtype;
	bool is_mx = config->combine_quant == SHUNT_COMBINE_QUANT_MXFP8;
	struct quant_row job = {
		.q = to,
		.scales = to + config->hidden,
		.x = row,
		.hidden = config->hidden,
		.tally = tally,
	};

	if (config->combine_quant == SHUNT_COMBINE_QUANT_INT8_8)
		kernels->quantize_int8_8[dtype](
			job.q, job.scales, row, job.hidden, job.tally);
	else if (config->combine_quant == SHUNT_COMBINE_QUANT_INT8_128)
		kernels->quantize_int8_128[dtype](
			job.q, job.scales, row, job.hidden, job.tally);
	else
		quant_row_kernel(is_mx ? SHUNT_QUANT_MXFP8_E4M3FN
				       : SHUNT_QUANT_E4M3FN_GROUP,
			SHUNT_SCALE_F32, dtype)(&job);
}
