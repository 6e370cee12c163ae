/* --check: one rank's outputs of every step against the reference. */
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

static void digest_dispatch(struct check *check, int64_t rows,
	const struct reference_received *expected,
	const struct shunt_dispatch_out *out)
{
	uint64_t digest = check->digest;

	digest =
		check_digest(digest, out->expand_x, rows * expected->row_bytes);
	if (check->quantized)
		digest = check_digest(digest, out->dynamic_scales, rows * 4);
	digest = check_digest(
		digest, out->expert_token_nums, expected->num_experts * 8);
	digest = check_digest(digest, out->ep_recv_counts,
		expected->num_experts * check->job[0].num_ranks * 4);
	digest = check_digest(digest, out->expand_weights, rows * 4);
	check->digest = check_digest(digest, out->source, rows * 12);
}

/* ---- the expected ----------------------------------------------------- */

static void describe_inputs(
	struct check *check, const struct load *load, int64_t step)
{
	struct reference_input *inputs = check->inputs + step * load->num_ranks;

	for (int32_t rank = 0; rank < load->num_ranks; rank++)
		inputs[rank] = (struct reference_input){
			.num_tokens = load->num_tokens,
			.x = load_x(load, step, rank),
			.x_stride = check->job[step].config.hidden,
			.ids = load_ids(load, step, rank),
			.mask = load->mask ? SHUNT_MASK_TOKENS
					   : SHUNT_MASK_NONE,
			.active_mask = load_mask(load, step, rank),
			.weights = load_weights(load, step, rank),
			.smooth = load->smooth,
		};
	check->job[step].inputs = inputs;
}

/* The toy expert in the form that the reference calls. */
static void reference_row(
	void *context, const struct reference_made *made, void *y)
{
	expert_row(context, made->expert, made->q, 1, y);
}

static bool work_out(struct check *check, int64_t step, const float *weights,
	struct expert *expert)
{
	const struct reference_job *job = &check->job[step];
	const struct reference_place place = {.rank = check->rank};
	struct reference_combine combine = {
		.weights = weights,
		.expert = reference_row,
		.context = expert,
		.out_dtype = job->config.expert_dtype,
		.out_stride = job->config.hidden,
	};

	check->out[step] = malloc((size_t)check->out_bytes + 1);
	combine.out = check->out[step];
	return check->out[step] &&
	       reference_receive(job, place, 0, &check->received[step]) &&
	       reference_send(job, place, &check->sent[step]) &&
	       reference_combine(job, place, &combine);
}

static bool make_tables(struct check *check, const struct load *load,
	const struct shunt_exchange_config *config)
{
	check->inputs = calloc(
		LOAD_STEPS * (size_t)load->num_ranks, sizeof(check->inputs[0]));
	check->expert_rank = calloc(
		(size_t)config->num_experts, sizeof(check->expert_rank[0]));
	if (!check->inputs || !check->expert_rank)
		return false;
	reference_place_experts(config, load->num_ranks, check->expert_rank);
	return true;
}

bool check_init(struct check *check, const struct load *load,
	const struct shunt_exchange_config *config, struct expert *expert,
	int32_t rank)
{
	*check = (struct check){
		.rank = rank,
		.quantized = config->quant != SHUNT_QUANT_NONE,
		.out_row_bytes = config->hidden *
				 expert_element_bytes(config->expert_dtype),
	};
	check->out_bytes = load->num_tokens * check->out_row_bytes;
	if (!make_tables(check, load, config))
		return false;
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		check->job[step] = (struct reference_job){
			.config = *config,
			.num_ranks = load->num_ranks,
			.expert_rank = check->expert_rank,
		};
		describe_inputs(check, load, step);
		if (!work_out(check, step, load_weights(load, step, rank),
			    expert))
			return false;
	}
	return true;
}

void check_fini(struct check *check)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		reference_received_fini(&check->received[step]);
		free(check->out[step]);
	}
	free(check->inputs);
	free(check->expert_rank);
}

/* ---- comparing -------------------------------------------------------- */

bool check_dispatch(struct check *check, int64_t step,
	const struct shunt_dispatch_out *out, char why[CHECK_TEXT])
{
	const struct reference_received *expected =
		&check->received[step % LOAD_STEPS];

	if (!check_received(&check->job[0], expected, out, NULL, false, why) ||
		!check_sent(&check->sent[step % LOAD_STEPS], out, why))
		return false;
	digest_dispatch(check, expected->num_rows, expected, out);
	return true;
}

bool check_combine(struct check *check, int64_t step, const void *out,
	char why[CHECK_TEXT])
{
	if (!check_bytes("out", check->out[step % LOAD_STEPS], out,
		    check->out_bytes, check->out_row_bytes, why))
		return false;
	check->digest = check_digest(check->digest, out, check->out_bytes);
	return true;
}

static void read_both(const void *expected, const void *got, int64_t num_bytes)
{
	uint64_t digest = check_digest(0, expected, num_bytes) ^
			  check_digest(0, got, num_bytes);

	__asm__ volatile("" : : "r"(digest));
}

void check_disturb_dispatch(
	const struct check *check, int64_t step, const void *rows)
{
	const struct reference_received *expected =
		&check->received[step % LOAD_STEPS];

	read_both(expected->expand_x, rows,
		expected->num_rows * expected->row_bytes);
}

void check_disturb_combine(
	const struct check *check, int64_t step, const void *out)
{
	read_both(check->out[step % LOAD_STEPS], out, check->out_bytes);
}
