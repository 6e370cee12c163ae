/* --check: one member's outputs of every step against the reference. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* ---- digest ----------------------------------------------------------- */

static uint64_t mix(uint64_t digest, uint64_t word)
{
	digest = (digest ^ word) * 0x9fb21c651e98df25u;
	return digest ^ (digest >> 29);
}

uint64_t check_digest(uint64_t digest, const void *bytes, int64_t num_bytes)
{
	const uint8_t *from = bytes;
	uint64_t word;
	int64_t i = 0;

	for (; i + 8 <= num_bytes; i += 8) {
		memcpy(&word, from + i, 8);
		digest = mix(digest, word);
	}
	word = 0;
	if (i < num_bytes)
		memcpy(&word, from + i, (size_t)(num_bytes - i));
	/* The length, so that zeros at the end count. */
	return mix(mix(digest, word), (uint64_t)num_bytes);
}

/* Of row n: what experts see of it. */
static void digest_row(struct check *check,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows,
	int64_t n)
{
	const uint8_t *x =
		rows ? rows[n]
		     : (const uint8_t *)out->expand_x + n * expected->row_bytes;
	const uint8_t *scales = out->dynamic_scales;
	uint64_t digest = check_digest(check->digest, x, expected->row_bytes);

	for (int64_t i = 0; i < expected->num_scales; i++)
		digest = check_digest(digest,
			scales + (n * out->scale_row_stride +
					 i * out->scale_group_stride) *
					 expected->scale_bytes,
			expected->scale_bytes);
	if (out->row_scales)
		digest = check_digest(digest, out->row_scales + n, 4);
	if (out->expand_weights)
		digest = check_digest(digest, out->expand_weights + n, 4);
	check->digest = check_digest(digest, out->source + 3 * n, 12);
}

static void digest_dispatch(struct check *check,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out, const void *const *rows)
{
	int64_t blocks = expected->num_experts * expected->num_ranks *
			 check->load->shape->num_tp;

	for (int64_t n = 0; n < expected->num_places; n++)
		if (expected->kind[n] == REFERENCE_REAL)
			digest_row(check, expected, out, rows, n);
	check->digest = check_digest(check->digest, out->expert_token_nums,
		expected->num_experts * 8);
	check->digest =
		check_digest(check->digest, out->ep_recv_counts, blocks * 4);
}

/* ---- the expected ----------------------------------------------------- */

static void describe_inputs(struct check *check, int64_t step)
{
	const struct load *load = check->load;
	int32_t members = load->shape->num_members;
	struct reference_input *inputs = check->inputs + step * members;
	bool sends_weights =
		check->options->weights == OPTIONS_WEIGHTS_DISPATCH;

	for (int32_t m = 0; m < members; m++)
		inputs[m] = (struct reference_input){
			.num_tokens = load->num_tokens,
			.x = load_at(load, LOAD_X, step, m),
			.x_stride = load->x_stride,
			.ids = load_at(load, LOAD_IDS, step, m),
			.mask = load->mask,
			.active_mask = load_at(load, LOAD_MASK, step, m),
			.weights = sends_weights ? load_at(load, LOAD_WEIGHTS,
							   step, m)
						 : NULL,
			.smooth = load_table(load, LOAD_SMOOTH),
			.x_scales = load_at(load, LOAD_X_SCALES, step, m),
			.fixed = load_table(load, LOAD_STATIC),
			.fixed_shape = (enum shunt_static_shape)
					       check->options->static_shape,
		};
	check->job[step].inputs = inputs;
}

/* The toy expert in the form that the reference calls. */
static void reference_row(
	void *context, const struct reference_made *made, void *y)
{
	expert_row(context, made->expert, made->tp, made->q, y);
}

static bool take_memory(
	const struct check *check, struct check_combined *combined)
{
	size_t tokens = (size_t)check->load->num_tokens;
	size_t bytes = tokens * (size_t)check->load->out_bytes + 1;

	combined->out = malloc(bytes);
	combined->norm_out = malloc(bytes);
	combined->rstd = calloc(tokens + 1, sizeof(float));
	return combined->out && combined->norm_out && combined->rstd;
}

static struct reference_combine describe_combine(
	const struct check *check, int64_t step, struct expert *expert)
{
	const struct load *load = check->load;
	const struct check_combined *to = &check->combined[step];
	int32_t member =
		shape_member(load->shape, check->place.tp, check->place.rank);

	return (struct reference_combine){
		.weights = load_at(load, LOAD_WEIGHTS, step, member),
		.expert = reference_row,
		.context = expert,
		.out_dtype = (enum shunt_dtype)check->options->out_dtype,
		.out = to->out,
		.out_stride = load->hidden,
		.ori_x = load_at(load, LOAD_ORI_X, step, member),
		.ori_x_stride = load->hidden,
		.alpha1 = load_table(load, LOAD_ALPHA1),
		.alpha2 = load_table(load, LOAD_ALPHA2),
		.v = load_table(load, LOAD_V),
		.shared_x = load_at(load, LOAD_SHARED_X, step, member),
		.shared_x_stride = load->hidden,
		.residual = load_at(load, LOAD_RESIDUAL, step, member),
		.residual_stride = load->hidden,
		.gamma = load_table(load, LOAD_GAMMA),
		.gamma_dtype = (enum shunt_dtype)check->options->gamma,
		.norm_eps = OPTIONS_NORM_EPS,
		.norm_out = to->norm_out,
		.norm_out_stride = load->hidden,
		.rstd = to->rstd,
	};
}

static bool count_odd(struct check *check, int64_t step, struct expert *expert)
{
	const struct load *load = check->load;
	struct check_combined *combined = &check->combined[step];
	const float **weights;
	bool done;

	if (check->options->combine_quant == SHUNT_COMBINE_QUANT_NONE)
		return true;
	weights = calloc((size_t)load->shape->num_members, sizeof(*weights));
	for (int32_t m = 0; weights && m < load->shape->num_members; m++)
		weights[m] = load_at(load, LOAD_WEIGHTS, step, m);
	done = weights &&
	       reference_combine_counts(&check->job[step], check->place,
		       weights, reference_row, expert, &combined->nan_elements,
		       &combined->inf_elements);
	free(weights);
	return done;
}

static bool work_out(struct check *check, int64_t step, int64_t recv_rows,
	struct expert *expert)
{
	const struct reference_job *job = &check->job[step];
	struct check_combined *combined = &check->combined[step];
	struct reference_combine combine;

	if (!take_memory(check, combined))
		return false;
	combine = describe_combine(check, step, expert);
	return reference_receive(
		       job, check->place, recv_rows, &check->received[step]) &&
	       reference_send(job, check->place, &check->sent[step]) &&
	       reference_combine(job, check->place, &combine) &&
	       count_odd(check, step, expert);
}

bool check_init(struct check *check, const struct check_for *what)
{
	const struct shape *shape = what->load->shape;

	*check = (struct check){
		.load = what->load,
		.options = what->options,
		.place = {shape_tp(shape, what->member),
			shape_rank(shape, what->member)},
	};
	/* Who is left out gets nothing. */
	if (shape_new_rank(shape, what->member) < 0)
		return true;
	check->inputs = calloc(LOAD_STEPS * (size_t)shape->num_members,
		sizeof(check->inputs[0]));
	if (!check->inputs)
		return false;
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		check->job[step] = (struct reference_job){
			.config = *what->config,
			.num_ranks = shape->num_ranks,
			.num_tp = shape->num_tp,
			.expert_rank = shape->expert_rank,
			.table = shape->table,
			.hosts = what->hosts,
			.adds_partial_sums = what->adds_partial_sums,
		};
		describe_inputs(check, step);
		if (!work_out(check, step, what->recv_rows, what->expert))
			return false;
	}
	return true;
}

void check_fini(struct check *check)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		reference_received_fini(&check->received[step]);
		free(check->combined[step].out);
		free(check->combined[step].norm_out);
		free(check->combined[step].rstd);
	}
	free(check->inputs);
}

/* ---- comparing -------------------------------------------------------- */

bool check_dispatch(struct check *check, int64_t step,
	const struct shunt_dispatch_out *out, const void *const *rows,
	char why[CHECK_TEXT])
{
	int64_t at = step % LOAD_STEPS;
	const struct reference_received *expected = &check->received[at];
	struct reference_sent sent = check->sent[at];

	/* A cached dispatch is given no ids. */
	if (check->options->cached && step > 0)
		sent.dropped_choices = 0;
	if (!check_received(&check->job[at], expected, out, rows,
		    check->options->prefix_nums, why) ||
		!check_sent(&sent, out, why))
		return false;
	check->num_steps++;
	check->num_rows += expected->num_rows;
	check->total.dropped_choices += sent.dropped_choices;
	check->total.nan_elements += sent.nan_elements;
	check->total.inf_elements += sent.inf_elements;
	digest_dispatch(check, expected, out, rows);
	return true;
}

bool check_combine(struct check *check, int64_t step,
	const struct check_combined *got, char why[CHECK_TEXT])
{
	const struct check_combined *expected =
		&check->combined[step % LOAD_STEPS];
	int64_t tokens = check->load->num_tokens;
	int64_t row = check->load->out_bytes;
	bool norm = load_table(check->load, LOAD_GAMMA) != NULL;

	if (!check_bytes(
		    "out", expected->out, got->out, tokens * row, row, why) ||
		!check_number("combine's nan_elements", expected->nan_elements,
			got->nan_elements, why) ||
		!check_number("combine's inf_elements", expected->inf_elements,
			got->inf_elements, why))
		return false;
	check->digest = check_digest(check->digest, got->out, tokens * row);
	if (!norm)
		return true;
	if (!check_bytes("norm_out", expected->norm_out, got->norm_out,
		    tokens * row, row, why) ||
		!check_bytes(
			"rstd", expected->rstd, got->rstd, tokens * 4, 4, why))
		return false;
	check->digest =
		check_digest(check->digest, got->norm_out, tokens * row);
	return true;
}

bool check_stats(const struct check *check, const struct shunt_stats *stats,
	char why[CHECK_TEXT])
{
	int64_t steps = check->num_steps;
	int64_t tokens = steps * check->load->num_tokens;

	return check_number("dispatches", steps, stats->dispatches, why) &&
	       check_number("combines", steps, stats->combines, why) &&
	       check_number("failed_steps", 0, stats->failed_steps, why) &&
	       check_number("tokens", tokens, stats->tokens, why) &&
	       check_number("received_rows", check->num_rows,
		       stats->received_rows, why) &&
	       check_number("dropped_choices", check->total.dropped_choices,
		       stats->dropped_choices, why) &&
	       check_number("dispatch_nan_elements", check->total.nan_elements,
		       stats->dispatch_nan_elements, why) &&
	       check_number("dispatch_inf_elements", check->total.inf_elements,
		       stats->dispatch_inf_elements, why);
}

/* ---- disturbing ------------------------------------------------------- */

static void read_both(const void *expected, const void *got, int64_t num_bytes)
{
	uint64_t digest = check_digest(0, expected, num_bytes) ^
			  check_digest(0, got, num_bytes);

	__asm__ volatile("" : : "r"(digest));
}

void check_disturb_dispatch(const struct check *check, int64_t step,
	const void *rows, int64_t most_rows)
{
	const struct reference_received *expected =
		&check->received[step % LOAD_STEPS];
	int64_t num_rows = expected->num_rows;

	read_both(expected->expand_x, rows,
		(num_rows < most_rows ? num_rows : most_rows) *
			expected->row_bytes);
}

void check_disturb_combine(
	const struct check *check, int64_t step, const void *out)
{
	read_both(check->combined[step % LOAD_STEPS].out, out,
		check->load->num_tokens * check->load->out_bytes);
}
