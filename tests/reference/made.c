/* A token as it is sent to an expert: its bits with the scales that came, or
 * quantized. */
#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/quantize.h"
#include "reference/route.h"

static struct reference_format format_of(const struct reference_job *job)
{
	const struct shunt_exchange_config *config = &job->config;

	return reference_format_of(config->quant, config->scale_form,
		config->dtype, config->hidden);
}

int64_t made_row_bytes(const struct reference_job *job)
{
	return format_of(job).row_bytes;
}

int64_t made_num_scales(const struct reference_job *job)
{
	return job->config.quant == SHUNT_QUANT_NONE
		       ? job->config.x_scales_per_row
		       : format_of(job).num_scales;
}

int64_t made_scale_bytes(const struct reference_job *job)
{
	return job->config.quant == SHUNT_QUANT_NONE
		       ? (int64_t)convert_bytes(job->config.x_scale_dtype)
		       : format_of(job).scale_bytes;
}

bool made_init(struct reference_made *made, const struct reference_job *job)
{
	int64_t scales = made_num_scales(job) * made_scale_bytes(job);

	*made = (struct reference_made){
		.q = calloc((size_t)made_row_bytes(job) + 1, 1),
		.scales = calloc((size_t)scales + 1, 1),
	};
	return made->q != NULL && made->scales != NULL;
}

void made_fini(struct reference_made *made)
{
	free(made->q);
	free(made->scales);
}

bool made_varies(const struct reference_input *input)
{
	return input->smooth != NULL ||
	       (input->fixed != NULL &&
		       input->fixed_shape == SHUNT_STATIC_EXPERTS);
}

static const uint8_t *token_row(const struct reference_job *job,
	const struct reference_input *input, int64_t t)
{
	int64_t elements = t * input->x_stride;

	if (job->config.dtype == SHUNT_DTYPE_E2M1)
		return (const uint8_t *)input->x + elements / 2;
	return (const uint8_t *)input->x +
	       elements * (int64_t)convert_bytes(job->config.dtype);
}

/* An expert's row of (E, H) or (s + E, H), shared experts first. */
static const float *scales_of(const struct shunt_exchange_config *config,
	const float *scales, int64_t expert)
{
	int64_t shared =
		config->num_shared_ranks > 0 ? config->num_shared_experts : 0;
	int64_t row = expert < config->num_experts
			      ? shared + expert
			      : expert - config->num_experts;

	return scales == NULL ? NULL : scales + row * config->hidden;
}

static void copy_row(struct reference_made *made,
	const struct reference_job *job, const struct reference_input *input,
	int64_t t)
{
	int64_t scales = made_num_scales(job) * made_scale_bytes(job);

	memcpy(made->q, token_row(job, input, t), (size_t)made_row_bytes(job));
	if (scales > 0)
		memcpy(made->scales,
			(const uint8_t *)input->x_scales + t * scales,
			(size_t)scales);
}

void made_fill(struct reference_made *made, const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t expert,
	struct reference_sent *sent)
{
	const struct shunt_exchange_config *config = &job->config;
	struct reference_row row = {
		.quant = config->quant,
		.form = config->scale_form,
		.dtype = config->dtype,
		.hidden = config->hidden,
		.x = token_row(job, input, t),
		.smooth = scales_of(config, input->smooth, expert),
		.fixed = input->fixed_shape == SHUNT_STATIC_EXPERTS
				 ? scales_of(config, input->fixed, expert)
				 : input->fixed,
		.fixed_is_one = input->fixed_shape == SHUNT_STATIC_ONE,
		.q = made->q,
		.scales = made->scales,
		.row_scale = &made->row_scale,
	};

	made->expert = expert;
	if (config->quant == SHUNT_QUANT_NONE) {
		copy_row(made, job, input, t);
		return;
	}
	reference_quantize_row(&row);
	sent->nan_elements += row.nan_elements;
	sent->inf_elements += row.inf_elements;
}
