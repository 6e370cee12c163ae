/*
 * From the options to shape, load, plan, config and floor of a run of `shunt
 * bench`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/quant.h>

#include "command.h"
#include "setup.h"

/* Says what the library has against the options. */
static int refuse(enum shunt_status status)
{
	fprintf(stderr, "shunt bench: %s: %s\n", shunt_status_name(status),
		shunt_error_message());
	return COMMAND_USAGE;
}

int64_t setup_home_bytes(const struct options *options)
{
	int64_t hidden = options->hidden;

	switch ((enum shunt_combine_quant)options->combine_quant) {
	case SHUNT_COMBINE_QUANT_INT8_8:
		return hidden +
		       load_bytes_of((enum shunt_dtype)options->expert_dtype,
			       (hidden + 7) / 8);
	case SHUNT_COMBINE_QUANT_INT8_128:
	case SHUNT_COMBINE_QUANT_E4M3FN_128:
		return hidden + 4 * ((hidden + 127) / 128);
	case SHUNT_COMBINE_QUANT_MXFP8:
		return hidden + (hidden + 63) / 64 * 2;
	default:
		return load_bytes_of(
			(enum shunt_dtype)options->expert_dtype, hidden);
	}
}

/* Formats are the library's to tell. Also what experts work on. */
static int set_plan(struct bench *bench)
{
	const struct options *options = &bench->options;
	struct shunt_quant_sizes sizes = SHUNT_QUANT_SIZES_INIT;
	enum shunt_status status = shunt_quant_query(
		(enum shunt_quant)options->quant,
		(enum shunt_scale_form)options->scale_form,
		(enum shunt_dtype)options->dtype, options->hidden, &sizes);

	if (status)
		return refuse(status);
	bench->expert = (struct expert){options->hidden, sizes.row_dtype,
		(enum shunt_dtype)options->expert_dtype};
	bench->plan = (struct plan){
		.load = &bench->load,
		.row_bytes = sizes.row_bytes,
		.scale_bytes = sizes.scales_per_row * sizes.scale_bytes +
			       (sizes.has_row_scales ? 4 : 0),
		.home_bytes = setup_home_bytes(options),
		.one_home = options->combine_quant != SHUNT_COMBINE_QUANT_NONE,
		.alignment = options->alignment,
		.own_first = !options->tp_rank_order,
		.indexed = options->layout == SHUNT_LAYOUT_INDEXED,
		.varies = options->smooth ||
			  options->static_shape == SHUNT_STATIC_EXPERTS,
		.residual = options->residual,
		.norm = options->gamma != SHUNT_DTYPE_NONE,
	};
	if (options->quant == SHUNT_QUANT_NONE)
		bench->plan.scale_bytes = bench->load.x_scale_bytes;
	plan_measure(&bench->plan);
	return COMMAND_OK;
}

static void set_placement(
	const struct bench *bench, struct shunt_exchange_config *config)
{
	switch (bench->options.placement) {
	case OPTIONS_PLACEMENT_RANGES:
		config->first_expert = bench->shape.range_first;
		config->expert_count = bench->shape.range_count;
		return;
	case OPTIONS_PLACEMENT_MAP:
		config->expert_rank = bench->shape.expert_rank;
		return;
	default:
		return;
	}
}

static void set_experts(
	const struct options *options, struct shunt_exchange_config *config)
{
	config->num_experts = options->num_experts;
	config->num_shared_experts = options->num_shared;
	config->num_shared_ranks = (int32_t)options->num_shared_ranks;
	config->num_zero_experts = options->num_zero;
	config->num_copy_experts = options->num_copy;
	config->num_constant_experts = options->num_constant;
	config->distinct_experts = options->repeat <= 0;
	config->elastic = options->elastic_text != NULL;
	if (options->bad > 0)
		config->bad_id = SHUNT_BAD_ID_DROP;
}

static void set_formats(
	const struct options *options, struct shunt_exchange_config *config)
{
	config->dtype = (enum shunt_dtype)options->dtype;
	config->expert_dtype = (enum shunt_dtype)options->expert_dtype;
	config->quant = (enum shunt_quant)options->quant;
	config->scale_form = (enum shunt_scale_form)options->scale_form;
	config->column_major_scales = options->column_major;
	config->x_scales_per_row = options->x_scales_per_row;
	config->x_scale_dtype = (enum shunt_dtype)options->x_scale_dtype;
	config->combine_quant =
		(enum shunt_combine_quant)options->combine_quant;
}

/* PADDED: rows that an expert of this run may get; with --worst-rows any
 * run. 0 is the library's own worst case, which takes ids to be distinct. */
static int64_t expert_room(const struct bench *bench)
{
	const struct options *options = &bench->options;
	int64_t rows = bench->plan.most_expert_rows;

	if (options->worst_rows && options->repeat <= 0)
		return 0;
	if (options->worst_rows)
		rows = options->num_ranks * options->num_tokens * options->topk;
	rows = rows > 0 ? rows : 1;
	return (rows + options->alignment - 1) / options->alignment *
	       options->alignment;
}

static int set_expert_rows(
	const struct bench *bench, struct shunt_exchange_config *config)
{
	int64_t given = bench->options.rows_per_expert;
	int64_t needed = bench->plan.most_expert_rows;

	config->rows_per_expert = given ? given : expert_room(bench);
	if (!given || given >= needed)
		return COMMAND_OK;
	fprintf(stderr,
		"shunt bench: --rows-per-expert %lld: must be at least %lld, "
		"an expert of this run gets that many\n",
		(long long)given, (long long)needed);
	return COMMAND_USAGE;
}

/* Rows of windows; without --worst-rows what this run needs, at least 1: 0
 * would mean the worst case. */
static int set_rows(
	const struct bench *bench, struct shunt_exchange_config *config)
{
	if (bench->options.layout == SHUNT_LAYOUT_PADDED)
		return set_expert_rows(bench, config);
	if (!bench->options.worst_rows)
		config->max_recv_rows =
			bench->plan.most_rows > 0 ? bench->plan.most_rows : 1;
	return COMMAND_OK;
}

static int set_config(struct bench *bench)
{
	const struct options *options = &bench->options;
	struct shunt_exchange_config *config = &bench->config;

	*config = (struct shunt_exchange_config)SHUNT_EXCHANGE_CONFIG_INIT;
	config->max_tokens = options->num_tokens;
	config->hidden = options->hidden;
	config->topk = options->topk;
	config->layout = (enum shunt_layout)options->layout;
	config->algorithm = (enum shunt_algorithm)options->algorithm;
	config->exact_sums = options->exact_sums;
	config->f32_partial_sums = options->f32_partial_sums;
	config->depth = (int32_t)options->depth;
	config->fetch_tokens = options->fetch_tokens;
	config->expert_alignment = options->alignment;
	config->zero_tail = options->zero_tail;
	config->tp_rank_order = options->tp_rank_order;
	set_experts(options, config);
	set_placement(bench, config);
	set_formats(options, config);
	return set_rows(bench, config);
}

int setup_fail_memory(const char *what)
{
	fprintf(stderr,
		"shunt bench: no memory for %s: %s; %lld MiB are available. "
		"Fewer --ranks, --tokens or a smaller --hidden need less\n",
		what, strerror(errno),
		(long long)(machine_available_bytes() >> 20));
	return COMMAND_FAILED;
}

/* Memory that is reserved, but hardly touched yet. */
static uint64_t own_bytes(const struct bench *bench)
{
	const struct plan *plan = &bench->plan;
	uint64_t expected =
		(uint64_t)(plan->most_rows * plan->row_bytes +
			   2 * bench->load.num_tokens * bench->load.out_bytes);
	uint64_t bytes = bench->load.bytes + bench->floor.bytes;

	if (bench->options.check)
		bytes += LOAD_STEPS * (uint64_t)bench->shape.num_members *
			 expected;
	return bytes;
}

/*
 * Rows of a rank's window. The query is asked without a TP group, which the
 * launcher does not have: the worst case, without its padding, is P times
 * that.
 */
static int64_t capacity_of(
	const struct bench *bench, const struct shunt_exchange_sizes *sizes)
{
	int64_t padding =
		sizes->num_local_experts * (bench->options.alignment - 1);
	int64_t worst =
		(sizes->worst_rows - padding) * bench->shape.num_tp + padding;
	int64_t set = bench->config.max_recv_rows;

	if (bench->shape.num_tp == 1 || bench->config.rows_per_expert)
		return sizes->recv_rows;
	return set > 0 && set < worst ? set : worst;
}

int32_t setup_ranks_per_host(const struct bench *bench)
{
	int64_t hosts = bench->options.num_hosts;

	if (hosts < 2)
		return 0;
	return (int32_t)((bench->shape.num_ranks + hosts - 1) / hosts);
}

/* Asks the library for its opinion of the shape, and what the exchange takes
 * on all ranks together: each rank alone cannot see that they do not fit. */
static int check_shape(struct bench *bench, uint64_t *needed)
{
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;
	struct shunt_exchange_config config = bench->config;
	const struct shape *shape = &bench->shape;

	/* It goes with a TP group only. */
	config.tp_rank_order = false;
	sizes.ranks_per_host = setup_ranks_per_host(bench);
	for (int32_t rank = 0; rank < shape->num_ranks; rank++) {
		enum shunt_status status = shunt_exchange_query(
			&config, rank, shape->num_ranks, &sizes);

		if (status)
			return refuse(status);
		if (bench->plan.capacity)
			bench->plan.capacity[rank] = capacity_of(bench, &sizes);
		*needed += (uint64_t)shape->num_tp *
			   (sizes.window_bytes + sizes.private_bytes);
	}
	return COMMAND_OK;
}

static int check_memory(const struct bench *bench, uint64_t needed)
{
	uint64_t available = (uint64_t)machine_available_bytes();
	uint64_t num_ranks = (uint64_t)bench->options.num_ranks;
	uint64_t local = (uint64_t)bench_num_local(bench);

	/* Ranks that a launcher has started have all for themselves. */
	if (bench->options.joined)
		needed = needed / num_ranks * local + own_bytes(bench) * local;
	else
		needed += own_bytes(bench);
	if (needed <= available)
		return COMMAND_OK;
	fprintf(stderr,
		"shunt bench: the job needs %llu MiB, %llu MiB are available. "
		"Fewer --ranks, --tokens, a smaller --hidden or --depth, or no "
		"--worst-rows need less\n",
		(unsigned long long)(needed >> 20),
		(unsigned long long)(available >> 20));
	return COMMAND_FAILED;
}

static int make_shape(struct bench *bench)
{
	char error[ROUTING_ERROR];

	if (!shape_init(&bench->shape, &bench->options, error)) {
		fprintf(stderr, "shunt bench: %s\n", error);
		return COMMAND_USAGE;
	}
	if (!routing_prepare(&bench->options.routing, &bench->shape,
		    bench->options.topk, error)) {
		fprintf(stderr, "shunt bench: --routing %s\n", error);
		return COMMAND_USAGE;
	}
	return COMMAND_OK;
}

/* What the library says, and what the floor takes. */
static int make_floor(struct bench *bench)
{
	uint64_t needed = 0;
	int status = set_plan(bench);

	if (status)
		return status;
	status = set_config(bench);
	if (status)
		return status;
	if (bench->options.zero_tail) {
		bench->plan.capacity = calloc((size_t)bench->shape.num_ranks,
			sizeof(bench->plan.capacity[0]));
		if (!bench->plan.capacity)
			return setup_fail_memory("the plan");
	}
	status = check_shape(bench, &needed);
	if (status)
		return status;
	bench->floor.plan = &bench->plan;
	bench->floor.depth = bench->options.depth;
	bench->floor.one_process = bench->options.launch == LAUNCH_THREADS;
	/* Copies need memory that the ranks have in common. */
	if (!bench->options.joined && !floor_init(&bench->floor))
		return setup_fail_memory("the floor");
	return check_memory(bench, needed);
}

int setup(struct bench *bench)
{
	int status = make_shape(bench);

	if (status)
		return status;
	if (!load_init(&bench->load, &bench->options, &bench->shape))
		return setup_fail_memory("the inputs");
	return make_floor(bench);
}

void setup_undo(struct bench *bench)
{
	if (bench->floor.memory)
		floor_fini(&bench->floor);
	free(bench->plan.capacity);
	load_fini(&bench->load);
	shape_fini(&bench->shape);
}
