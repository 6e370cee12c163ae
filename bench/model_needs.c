/* What a rank needs: formats and sizes by the library, and what RDMA adds. */
#include <stdlib.h>

#include <shunt/quant.h>

#include "command.h"
#include "load.h"
#include "model.h"
#include "setup.h"

static int refuse(enum shunt_status status)
{
	fprintf(stderr, "shunt model: %s: %s\n", shunt_status_name(status),
		shunt_error_message());
	return COMMAND_USAGE;
}

/* ---- formats ---------------------------------------------------------- */

/* The rule of fetch_tokens in shunt/exchange.h, for one host. */
static bool is_fetched(const struct model_job *job, int64_t row_bytes)
{
	const struct options *options = &job->options->bench;
	int64_t most = options->fetch_tokens;

	if (job->options->num_hosts > 1 || most < 0)
		return false;
	if (most == 0 && options->num_ranks <= 64) {
		most = (512 << 10) / (options->topk * row_bytes);
		most = most < 128 ? most : 128;
	}
	return options->num_tokens > 0 && options->num_tokens <= most;
}

int model_formats(struct model_job *job)
{
	const struct options *options = &job->options->bench;
	struct shunt_quant_sizes sizes = SHUNT_QUANT_SIZES_INIT;
	int64_t x_scale_bytes =
		load_bytes_of((enum shunt_dtype)options->x_scale_dtype,
			options->x_scales_per_row);
	enum shunt_status status = shunt_quant_query(
		(enum shunt_quant)options->quant,
		(enum shunt_scale_form)options->scale_form,
		(enum shunt_dtype)options->dtype, options->hidden, &sizes);

	if (status)
		return refuse(status);
	job->x_bytes = load_bytes_of((enum shunt_dtype)options->dtype,
			       options->hidden) +
		       x_scale_bytes;
	job->row_bytes = sizes.row_bytes + x_scale_bytes;
	if (options->quant != SHUNT_QUANT_NONE)
		job->row_bytes = sizes.row_bytes +
				 sizes.scales_per_row * sizes.scale_bytes +
				 (sizes.has_row_scales ? 4 : 0);
	job->scale_bytes = job->row_bytes - sizes.row_bytes;
	job->expert_bytes = load_bytes_of(
		(enum shunt_dtype)options->expert_dtype, options->hidden);
	job->home_bytes = setup_home_bytes(options);
	job->out_bytes = load_bytes_of(
		(enum shunt_dtype)options->out_dtype, options->hidden);
	job->fetched = is_fetched(job, sizes.row_bytes);
	return COMMAND_OK;
}

/* ---- memory ----------------------------------------------------------- */

static struct shunt_exchange_config config_of(const struct model_job *job)
{
	const struct options *options = &job->options->bench;
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = options->num_tokens;
	config.hidden = options->hidden;
	config.topk = options->topk;
	config.num_experts = options->num_experts;
	config.distinct_experts = true;
	config.depth = (int32_t)options->depth;
	config.fetch_tokens = options->fetch_tokens;
	config.dtype = (enum shunt_dtype)options->dtype;
	config.expert_dtype = (enum shunt_dtype)options->expert_dtype;
	config.quant = (enum shunt_quant)options->quant;
	config.scale_form = (enum shunt_scale_form)options->scale_form;
	config.x_scales_per_row = options->x_scales_per_row;
	config.x_scale_dtype = (enum shunt_dtype)options->x_scale_dtype;
	config.combine_quant = (enum shunt_combine_quant)options->combine_quant;
	if (options->placement == OPTIONS_PLACEMENT_RANGES) {
		config.first_expert = job->shape.range_first;
		config.expert_count = job->shape.range_count;
	} else if (options->placement == OPTIONS_PLACEMENT_MAP) {
		config.expert_rank = job->shape.expert_rank;
	}
	return config;
}

/* The sizes of the rank that takes most, over hosts of `host_ranks` ranks by an
 * algorithm; 0: over one. */
static int largest(const struct model_job *job, int64_t recv_rows,
	int64_t host_ranks, enum model_algorithm algorithm,
	struct shunt_exchange_sizes *most)
{
	struct shunt_exchange_config config = config_of(job);
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	config.max_recv_rows = recv_rows;
	config.algorithm = algorithm == MODEL_HIERARCHY
				   ? SHUNT_ALGORITHM_HIERARCHY
				   : SHUNT_ALGORITHM_FULLMESH;
	*most = sizes;
	sizes.ranks_per_host = (int32_t)host_ranks;
	for (int32_t r = 0; r < job->shape.num_ranks; r++) {
		enum shunt_status status = shunt_exchange_query(
			&config, r, job->shape.num_ranks, &sizes);

		if (status)
			return refuse(status);
		if (sizes.window_bytes > most->window_bytes)
			*most = sizes;
	}
	return COMMAND_OK;
}

/* What a window has more with other hosts than on one: for any routing. */
static int wire_memory(const struct model_job *job,
	enum model_algorithm algorithm, double *bytes)
{
	struct shunt_exchange_sizes one, many;
	int status;

	*bytes = 0;
	if (job->options->num_hosts == 1)
		return COMMAND_OK;
	status = largest(job, 0, 0, algorithm, &one);
	if (!status)
		status = largest(job, 0, job->host_ranks, algorithm, &many);
	if (!status)
		*bytes = (double)many.window_bytes - (double)one.window_bytes;
	return status;
}

int model_needs(struct model *model)
{
	struct model_job *job = &model->job;
	int status = largest(job, job->most_rows > 0 ? job->most_rows : 1, 0,
		MODEL_FULLMESH, &job->sizes);

	if (!status)
		status = largest(job, 0, 0, MODEL_FULLMESH, &job->worst);
	for (int a = 0; !status && a < MODEL_NUM_ALGORITHMS; a++) {
		double wire = 0;

		status = wire_memory(job, (enum model_algorithm)a, &wire);
		model->needs[a] = (struct model_needs){
			.window_bytes = (double)job->sizes.window_bytes,
			.private_bytes = (double)job->sizes.private_bytes,
			.worst_bytes = (double)job->worst.window_bytes +
				       (double)job->worst.private_bytes,
			.wire_bytes = wire,
			/* All hear of a step, whoever gets rows. */
			.queue_pairs =
				(job->shape.num_ranks - job->host_ranks) *
				model->options.lanes * model->options.devices,
			/* The window, and the images of control pages. */
			.registrations = model->options.num_hosts > 1
						 ? 2 * model->options.devices
						 : 0,
		};
	}
	return status;
}
