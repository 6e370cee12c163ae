/*
 * The reference's combine (spec 1.6, 1.7): a sum per token, in f32, in choice
 * order, multiply and add rounded apart (this folder is compiled with
 * -ffp-contract=off), and one rounding at the end. With partial sums a sum for
 * each host comes first, rounded by itself (docs/numerics.md, "Sums over hosts").
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/lanes.h"
#include "reference/quantize.h"
#include "reference/route.h"

/* What one token's sum needs; the arrays have a row each. */
struct sum {
	struct frame frame;
	const struct reference_input *input;
	const struct reference_combine *combine;
	reference_expert expert;
	void *context;
	int64_t hidden;
	int32_t tp, rank;
	struct reference_made made;
	int64_t nan_elements, inf_elements;
	uint8_t *y;
	float *values, *acc, *total, *token, *other, *part;
};

#define NUM_ROWS 7

static bool sum_init(struct sum *sum, const struct reference_job *job,
	struct reference_place place)
{
	size_t row = (size_t)job->config.hidden;
	float *rows = malloc(NUM_ROWS * row * sizeof(float));

	sum->frame = frame_of(job);
	sum->hidden = job->config.hidden;
	sum->tp = place.tp;
	sum->rank = frame_rank(&sum->frame, place.rank);
	sum->input = frame_input(&sum->frame, place.tp, sum->rank);
	if (!made_init(&sum->made, job) || rows == NULL) {
		made_fini(&sum->made);
		free(rows);
		return false;
	}
	sum->values = rows;
	sum->acc = rows + row;
	sum->total = rows + 2 * row;
	sum->token = rows + 3 * row;
	sum->other = rows + 4 * row;
	sum->part = rows + 5 * row;
	sum->y = (uint8_t *)(rows + 6 * row);
	return true;
}

static void sum_fini(struct sum *sum)
{
	made_fini(&sum->made);
	free(sum->values);
}

static const void *row_at(
	const void *rows, int64_t t, int64_t stride, enum shunt_dtype dtype)
{
	return (const uint8_t *)rows +
	       t * stride * (int64_t)convert_bytes(dtype);
}

static void load(const struct sum *sum, const void *rows, int64_t t,
	int64_t stride, float *values)
{
	enum shunt_dtype dtype = sum->frame.job->config.expert_dtype;

	convert_load(
		dtype, row_at(rows, t, stride, dtype), sum->hidden, values);
}

/* ---- terms ------------------------------------------------------------ */

/* sum->y = the row of the expert in sum->made: each TP rank's, added up in their
 * order and rounded to the row type. */
static void give_row(struct sum *sum)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;

	for (int32_t tp = 0; tp < sum->frame.num_tp; tp++) {
		sum->made.tp = tp;
		sum->expert(sum->context, &sum->made, sum->y);
		convert_load(
			config->expert_dtype, sum->y, sum->hidden, sum->values);
		for (int64_t h = 0; h < sum->hidden; h++)
			sum->total[h] =
				tp == 0 ? sum->values[h]
					: sum->total[h] + sum->values[h];
	}
	if (sum->frame.num_tp > 1)
		convert_store(
			config->expert_dtype, sum->total, sum->hidden, sum->y);
}

/* sum->values = the row in sum->y as it travels. */
static void travel(struct sum *sum)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;

	reference_travel_row(config->combine_quant, config->expert_dtype,
		sum->y, sum->hidden, sum->values, &sum->nan_elements,
		&sum->inf_elements);
}

static void add(struct sum *sum, const float *weight)
{
	float term;

	for (int64_t h = 0; h < sum->hidden; h++) {
		term = sum->values[h];
		if (weight != NULL)
			term = *weight * term;
		sum->acc[h] = sum->acc[h] + term;
	}
}

/* values = p1 * ori_x[t] + p2 * v[c]. */
static void constant_values(struct sum *sum, int64_t t, int64_t c)
{
	const struct reference_combine *combine = sum->combine;
	int64_t hidden = sum->hidden;
	float p[2], a1, a2, first, second;

	load(sum, combine->ori_x, t, combine->ori_x_stride, sum->token);
	load(sum, combine->alpha1, c, hidden, sum->other);
	a1 = lanes_dot(sum->other, sum->token, hidden);
	load(sum, combine->alpha2, c, hidden, sum->other);
	a2 = lanes_dot(sum->other, sum->token, hidden);
	lanes_softmax(a1, a2, p);
	load(sum, combine->v, c, hidden, sum->other);
	for (int64_t h = 0; h < hidden; h++) {
		first = p[0] * sum->token[h];
		second = p[1] * sum->other[h];
		sum->values[h] = first + second;
	}
}

/* Without varying scales every expert is sent the same row. */
static void make_row(struct sum *sum, int64_t t, int64_t expert, bool *made)
{
	struct reference_sent ignored = {0};

	if (!*made || made_varies(sum->input))
		made_fill(&sum->made, sum->frame.job, sum->input, t, expert,
			&ignored);
	sum->made.expert = expert;
	*made = true;
}

/* ---- a token ---------------------------------------------------------- */

static bool has_partial_sums(const struct sum *sum)
{
	const struct reference_job *job = sum->frame.job;

	return job->hosts != NULL && job->adds_partial_sums;
}

/* Of choice (t, k); NULL without weights. */
static const float *weight_of(const struct sum *sum, int64_t t, int64_t k)
{
	const float *weights = sum->combine->weights;

	return weights == NULL ? NULL
			       : weights + t * sum->frame.job->config.topk + k;
}

static void add_row(struct sum *sum, int64_t t, int64_t expert,
	const float *weight, bool *made)
{
	make_row(sum, t, expert, made);
	give_row(sum);
	travel(sum);
	add(sum, weight);
}

/* A choice of a copy or constant expert; or of a MoE expert, unless their rows
 * have been added up. */
static void add_choice(struct sum *sum, int64_t t, int64_t k, bool *made)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;
	const struct reference_combine *combine = sum->combine;
	int64_t id = route_choice(&sum->frame, sum->input, t, k), special;

	special = id - sum->frame.num_experts;
	if (id < 0 || (special >= 0 && special < config->num_zero_experts))
		return;
	if (special < 0) {
		if (!has_partial_sums(sum))
			add_row(sum, t, frame_original_expert(&sum->frame, id),
				weight_of(sum, t, k), made);
		return;
	}
	if (special < config->num_zero_experts + config->num_copy_experts)
		load(sum, combine->ori_x, t, combine->ori_x_stride,
			sum->values);
	else
		constant_values(sum, t,
			special - config->num_zero_experts -
				config->num_copy_experts);
	add(sum, weight_of(sum, t, k));
}

static void clear(const struct sum *sum, float *row)
{
	for (int64_t h = 0; h < sum->hidden; h++)
		row[h] = 0;
}

/* sum->part = the sum of the MoE rows that token t has on `host`; returns how
 * many there are. */
static int64_t add_up(struct sum *sum, int64_t t, int32_t host, bool *made)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;
	float *acc = sum->acc;
	int64_t num_rows = 0;

	sum->acc = sum->part;
	clear(sum, sum->part);
	for (int64_t k = 0; k < config->topk; k++) {
		int64_t id = route_expert(&sum->frame, sum->input, t, k);

		if (id < 0 ||
			frame_host(&sum->frame, sum->tp,
				frame_expert_rank(&sum->frame, id)) != host)
			continue;
		make_row(sum, t, frame_original_expert(&sum->frame, id), made);
		give_row(sum);
		convert_load(
			config->expert_dtype, sum->y, sum->hidden, sum->values);
		add(sum, weight_of(sum, t, k));
		num_rows++;
	}
	sum->acc = acc;
	return num_rows;
}

/* sum->values = that sum as it travels; false if there is none. */
static bool partial_sum(struct sum *sum, int64_t t, int32_t host, bool *made)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;

	if (add_up(sum, t, host, made) == 0)
		return false;
	if (config->f32_partial_sums) {
		memcpy(sum->values, sum->part,
			(size_t)sum->hidden * sizeof(float));
		return true;
	}
	convert_store(config->expert_dtype, sum->part, sum->hidden, sum->y);
	travel(sum);
	return true;
}

/* Hosts come in the order of their first members. */
static bool is_first_of_host(const int32_t *hosts, int32_t member)
{
	for (int32_t m = 0; m < member; m++)
		if (hosts[m] == hosts[member])
			return false;
	return true;
}

static void add_partial_sums(struct sum *sum, int64_t t, bool *made)
{
	const struct reference_job *job = sum->frame.job;
	int32_t members = sum->frame.num_tp * job->num_ranks;

	for (int32_t m = 0; m < members; m++)
		if (is_first_of_host(job->hosts, m) &&
			partial_sum(sum, t, job->hosts[m], made))
			add(sum, NULL);
}

static void sum_token(struct sum *sum, int64_t t)
{
	const struct shunt_exchange_config *config = &sum->frame.job->config;
	const struct reference_combine *combine = sum->combine;
	bool made = false;

	clear(sum, sum->acc);
	if (!route_is_active(&sum->frame, sum->input, t))
		return;
	if (has_partial_sums(sum))
		add_partial_sums(sum, t, &made);
	for (int64_t k = 0; k < config->topk; k++)
		add_choice(sum, t, k, &made);
	for (int64_t j = 0; j < sum->frame.num_shared; j++)
		add_row(sum, t, config->num_experts + j, NULL, &made);
	if (combine->shared_x == NULL)
		return;
	load(sum, combine->shared_x, t, combine->shared_x_stride, sum->values);
	add(sum, NULL);
}

/* ---- outputs ---------------------------------------------------------- */

static void store(const struct sum *sum, const float *values, void *rows,
	int64_t t, int64_t stride)
{
	enum shunt_dtype dtype = sum->combine->out_dtype;

	convert_store(dtype, values, sum->hidden,
		(uint8_t *)rows + t * stride * (int64_t)convert_bytes(dtype));
}

/* norm_out = round(f32(round(z * rstd)) * gamma), z in sum->acc. */
static void norm_token(struct sum *sum, int64_t t)
{
	const struct reference_combine *combine = sum->combine;
	enum shunt_dtype dtype = combine->out_dtype;
	int64_t hidden = sum->hidden;
	float mean, rstd;

	mean = lanes_dot(sum->acc, sum->acc, hidden) / (float)hidden;
	rstd = 1.0f / sqrtf(mean + combine->norm_eps);
	if (combine->rstd != NULL)
		convert_store(SHUNT_DTYPE_F32, &rstd, 1, &combine->rstd[t]);
	for (int64_t h = 0; h < hidden; h++)
		sum->values[h] = sum->acc[h] * rstd;
	convert_store(dtype, sum->values, hidden, sum->y);
	convert_load(dtype, sum->y, hidden, sum->values);
	convert_load(combine->gamma_dtype, combine->gamma, hidden, sum->other);
	for (int64_t h = 0; h < hidden; h++)
		sum->values[h] = sum->values[h] * sum->other[h];
	store(sum, sum->values, combine->norm_out, t, combine->norm_out_stride);
}

static void finish_token(struct sum *sum, int64_t t)
{
	const struct reference_combine *combine = sum->combine;

	if (combine->residual != NULL) {
		convert_load(combine->out_dtype,
			row_at(combine->residual, t, combine->residual_stride,
				combine->out_dtype),
			sum->hidden, sum->values);
		add(sum, NULL);
	}
	store(sum, sum->acc, combine->out, t, combine->out_stride);
	if (combine->gamma != NULL)
		norm_token(sum, t);
}

bool reference_combine(const struct reference_job *job,
	struct reference_place place, const struct reference_combine *combine)
{
	struct sum sum = {
		.combine = combine,
		.expert = combine->expert,
		.context = combine->context,
	};

	if (!sum_init(&sum, job, place))
		return false;
	for (int64_t t = 0; t < sum.input->num_tokens; t++) {
		sum_token(&sum, t);
		finish_token(&sum, t);
	}
	sum_fini(&sum);
	return true;
}

/* ---- counts ----------------------------------------------------------- */

/* The rows of `place` that go to tokens of its own EP group, as they come; with
 * partial sums those of shared experts. */
static void count_rows(struct sum *sum, struct reference_place place,
	const struct reference_received *received)
{
	const int32_t *source;
	bool made;

	for (int64_t n = 0; n < received->num_places; n++) {
		if (received->kind[n] != REFERENCE_REAL ||
			received->groups[n] != place.tp ||
			(has_partial_sums(sum) &&
				received->experts[n] <
					sum->frame.job->config.num_experts))
			continue;
		source = received->source + 3 * n;
		sum->input = frame_input(&sum->frame, place.tp, source[0]);
		made = false;
		make_row(sum, source[1], received->experts[n], &made);
		give_row(sum);
		travel(sum);
	}
}

/* The partial sums of `host` for the tokens of sum->rank of EP group sum->tp. */
static void count_sums_for(
	struct sum *sum, int32_t host, const float *const *weights)
{
	const struct reference_job *job = sum->frame.job;
	struct reference_combine combine = {
		.weights = weights[sum->tp * job->num_ranks +
				   frame_original(&sum->frame, sum->rank)],
	};
	bool made;

	sum->combine = &combine;
	sum->input = frame_input(&sum->frame, sum->tp, sum->rank);
	for (int64_t t = 0; t < sum->input->num_tokens; t++) {
		made = false;
		partial_sum(sum, t, host, &made);
	}
	sum->combine = NULL;
}

/* The partial sums that `place` makes. */
static void count_partial_sums(struct sum *sum, struct reference_place place,
	const float *const *weights)
{
	const struct frame *frame = &sum->frame;
	int32_t rank = frame_rank(frame, place.rank);

	for (int32_t tp = 0; tp < frame->num_tp; tp++)
		for (int32_t r = 0; r < frame->num_ranks; r++) {
			if (!frame_adds_up(frame, place.tp, rank, tp, r))
				continue;
			sum->tp = tp;
			sum->rank = r;
			count_sums_for(sum, frame_host(frame, place.tp, rank),
				weights);
		}
}

bool reference_combine_counts(const struct reference_job *job,
	struct reference_place place, const float *const *weights,
	reference_expert expert, void *context, int64_t *nan_elements,
	int64_t *inf_elements)
{
	struct sum sum = {.expert = expert, .context = context};
	struct reference_received received;
	bool done;

	done = reference_receive(job, place, 0, &received) &&
	       sum_init(&sum, job, place);
	if (done) {
		count_rows(&sum, place, &received);
		if (has_partial_sums(&sum))
			count_partial_sums(&sum, place, weights);
		sum_fini(&sum);
	}
	*nan_elements = sum.nan_elements;
	*inf_elements = sum.inf_elements;
	reference_received_fini(&received);
	return done;
}
