/* The inputs of all ranks of a step, by its rule. */
#include "support/trial_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"

static struct input_key key_of(const struct trial_rule *rule, int32_t rank)
{
	return (struct input_key){rule->seed, rule->step, rank};
}

int64_t trial_draw(const struct trial_rule *rule, int32_t rank,
	enum trial_purpose purpose, int64_t low, int64_t high)
{
	struct input_key key = key_of(rule, rank);

	return input_range(&key, purpose, 0, low, high);
}

bool trial_has_wide_ids(const struct trial_rule *rule, int32_t rank)
{
	return !rule->plain && trial_draw(rule, rank, TRIAL_WIDE_IDS, 0, 1);
}

static int64_t tokens_of(const struct trial_rule *rule, int32_t rank)
{
	int64_t most = rule->config->max_tokens;

	if (rule->token_list != NULL)
		return rule->token_list[rank];
	switch (rule->tokens) {
	case TRIAL_TOKENS_RANDOM:
		return trial_draw(rule, rank, TRIAL_TOKENS_OF, 0, most);
	case TRIAL_TOKENS_FULL:
		return most;
	case TRIAL_TOKENS_ONE:
		return trial_draw(rule, 0, TRIAL_ONE_RANK, 0,
			       rule->num_ranks - 1) == rank
			       ? most
			       : 0;
	default:
		return 0;
	}
}

/* Row by row into a dense (T, H). */
static bool make_x(const struct trial_rule *rule, const struct input_key *key,
	struct reference_input *input)
{
	const struct shunt_exchange_config *config = rule->config;
	size_t row = (size_t)config->hidden * convert_bytes(config->dtype);
	uint8_t *x = malloc((size_t)input->num_tokens * row + 1);

	if (x == NULL)
		return false;
	for (int64_t t = 0; t < input->num_tokens; t++)
		input_x_row(key, rule->style, config->dtype, config->hidden, t,
			x + (size_t)t * row);
	input->x = x;
	input->x_stride = config->hidden;
	return true;
}

static bool make_mask(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	int64_t count = input->num_tokens;
	uint8_t *mask;

	input->mask = rule->mask;
	if (key->rank & 1)
		input->mask = (enum shunt_mask)trial_draw(
			rule, key->rank, TRIAL_MASK_OF, 0, rule->mask);
	if (input->mask == SHUNT_MASK_NONE)
		return true;
	if (input->mask == SHUNT_MASK_CHOICES)
		count *= rule->config->topk;
	mask = malloc((size_t)count + 1);
	if (mask == NULL)
		return false;
	input_mask(key, rule->percent_masked, count, mask);
	input->active_mask = mask;
	return true;
}

static bool is_masked(
	const struct reference_input *input, int64_t choice, int64_t topk)
{
	if (input->mask == SHUNT_MASK_TOKENS)
		return input->active_mask[choice / topk] == 0;
	if (input->mask == SHUNT_MASK_CHOICES)
		return input->active_mask[choice] == 0;
	return false;
}

static bool make_ids(const struct trial_rule *rule, const struct input_key *key,
	struct reference_input *input)
{
	const struct shunt_exchange_config *config = rule->config;
	int64_t count = input->num_tokens * config->topk;
	int64_t *ids = malloc((size_t)count * sizeof(*ids) + 1);
	bool wide = trial_has_wide_ids(rule, key->rank);
	struct input_ids_rule ids_rule = {
		.routing = rule->routing,
		.topk = config->topk,
		.num_experts = config->num_experts,
		.expert_rank = rule->expert_rank,
		.distinct = config->distinct_experts,
		.wide = wide,
		.percent_none = rule->percent_none,
		.percent_bad = rule->percent_bad,
	};

	if (ids == NULL)
		return false;
	for (int64_t t = 0; t < input->num_tokens; t++)
		input_ids(key, &ids_rule, t, ids + t * config->topk);
	/* Ids of masked choices must not be read: anything may be there. */
	for (int64_t i = 0; i < count; i++)
		if (is_masked(input, i, config->topk))
			ids[i] = input_bad_id(
				input_random(key, TRIAL_GARBAGE, (uint64_t)i),
				config->num_experts, wide);
	input->ids = ids;
	return true;
}

/* Weights that must not be read are NaN. */
static bool make_weights(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	int64_t topk = rule->config->topk, id;
	int64_t count = input->num_tokens * topk;
	float *weights;

	if (!rule->weights_at_dispatch)
		return true;
	weights = malloc((size_t)count * sizeof(*weights) + 1);
	if (weights == NULL)
		return false;
	input_weights(key, rule->style, count, weights);
	for (int64_t i = 0; i < count; i++) {
		id = input->ids[i];
		if (is_masked(input, i, topk) || id < 0 ||
			id >= rule->config->num_experts)
			weights[i] = NAN;
	}
	input->weights = weights;
	return true;
}

static bool make_smooth(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	int64_t count = rule->config->num_experts * rule->config->hidden;
	float *smooth;

	/* On rank 0 always; elsewhere mostly: ranks need not agree. */
	if (!rule->smooth ||
		(key->rank != 0 && trial_draw(rule, key->rank, TRIAL_HAS_SMOOTH,
					   0, 3) == 0))
		return true;
	smooth = malloc((size_t)count * sizeof(*smooth));
	if (smooth == NULL)
		return false;
	input_smooth(key, rule->style, count, smooth);
	input->smooth = smooth;
	return true;
}

/* Spoils one unmasked choice: a bad id, or a promise of distinct experts that
 * is broken. True if there was one to spoil. */
static bool spoil_id(const struct trial_rule *rule, int32_t rank,
	struct reference_input *input)
{
	int64_t topk = rule->config->topk;
	int64_t count = input->num_tokens * topk, choice, first;
	int64_t *ids = (int64_t *)(uintptr_t)input->ids;

	if (count == 0)
		return false;
	choice = trial_draw(rule, rank, TRIAL_REFUSED_CHOICE, 0, count - 1);
	if (is_masked(input, choice, topk))
		return false;
	first = choice - choice % topk;
	if (rule->config->distinct_experts && choice != first &&
		!is_masked(input, first, topk) && ids[first] >= 0 &&
		ids[first] < rule->config->num_experts)
		ids[choice] = ids[first];
	else if (rule->config->bad_id == SHUNT_BAD_ID_REFUSE)
		ids[choice] = input_bad_id((uint64_t)choice,
			rule->config->num_experts,
			trial_has_wide_ids(rule, rank));
	else
		return false;
	return true;
}

bool trial_inputs_init(const struct trial_rule *rule, int32_t rank,
	struct reference_input *input, bool *refuses)
{
	struct input_key key = key_of(rule, rank);
	bool done;

	*input = (struct reference_input){
		.num_tokens = tokens_of(rule, rank),
	};
	done = make_x(rule, &key, input) && make_mask(rule, &key, input) &&
	       make_ids(rule, &key, input) && make_weights(rule, &key, input) &&
	       make_smooth(rule, &key, input);
	*refuses = done && rank < 64 && (rule->refusers >> rank & 1) &&
		   spoil_id(rule, rank, input);
	return done;
}

void trial_inputs_fini(struct reference_input *input)
{
	free((void *)(uintptr_t)input->x);
	free((void *)(uintptr_t)input->ids);
	free((void *)(uintptr_t)input->active_mask);
	free((void *)(uintptr_t)input->weights);
	free((void *)(uintptr_t)input->smooth);
	*input = (struct reference_input){0};
}
