/* The inputs of all ranks of a step, by its rule. */
#include "support/trial_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"

static struct input_key key_of(
	const struct trial_rule *rule, int32_t member, int64_t step)
{
	return (struct input_key){rule->seed, step, member};
}

/* Tokens, ids, mask and weights are those of the routing. */
static struct input_key routing_key(
	const struct trial_rule *rule, int32_t member)
{
	return key_of(
		rule, member, rule->cached ? rule->routing_step : rule->step);
}

struct input_key trial_key(const struct trial_rule *rule, int32_t member,
	enum trial_purpose purpose)
{
	struct input_key key = key_of(rule, member, rule->step);

	key.seed = ~rule->seed + (uint64_t)purpose;
	return key;
}

static int64_t draw(const struct input_key *key, enum trial_purpose purpose,
	int64_t low, int64_t high)
{
	return input_range(key, purpose, 0, low, high);
}

int64_t trial_draw(const struct trial_rule *rule, int32_t member,
	enum trial_purpose purpose, int64_t low, int64_t high)
{
	struct input_key key = key_of(rule, member, rule->step);

	return draw(&key, purpose, low, high);
}

bool trial_has_wide_ids(const struct trial_rule *rule, int32_t member)
{
	struct input_key key = routing_key(rule, member);

	return !rule->plain && draw(&key, TRIAL_WIDE_IDS, 0, 1);
}

int64_t trial_num_experts(const struct trial_rule *rule)
{
	return rule->table == NULL ? rule->config->num_experts : rule->table[3];
}

int64_t trial_num_ids(const struct trial_rule *rule)
{
	return trial_num_experts(rule) + rule->config->num_zero_experts +
	       rule->config->num_copy_experts +
	       rule->config->num_constant_experts;
}

int64_t trial_scale_rows(const struct shunt_exchange_config *config)
{
	if (config->num_shared_ranks == 0)
		return config->num_experts;
	return config->num_shared_experts + config->num_experts;
}

static int64_t tokens_of(
	const struct trial_rule *rule, const struct input_key *key)
{
	int64_t most = rule->config->max_tokens;
	struct input_key first = *key;

	first.rank = 0;
	if (rule->token_list != NULL)
		return rule->token_list[key->rank];
	switch (rule->tokens) {
	case TRIAL_TOKENS_RANDOM:
		return draw(key, TRIAL_TOKENS_OF, 0, most);
	case TRIAL_TOKENS_FULL:
		return most;
	case TRIAL_TOKENS_ONE:
		return draw(&first, TRIAL_ONE_RANK, 0, rule->num_ranks - 1) ==
				       key->rank
			       ? most
			       : 0;
	default:
		return 0;
	}
}

/* ---- x and scales ----------------------------------------------------- */

static void *room(int64_t count, size_t bytes)
{
	return malloc((size_t)count * bytes + 1);
}

/* Row by row into a dense (T, H). */
static bool make_x(const struct trial_rule *rule, const struct input_key *key,
	struct reference_input *input)
{
	const struct shunt_exchange_config *config = rule->config;
	bool nibbles = config->dtype == SHUNT_DTYPE_E2M1;
	size_t row =
		nibbles ? (size_t)(config->hidden + 1) / 2
			: (size_t)config->hidden * convert_bytes(config->dtype);
	uint8_t *x = room(input->num_tokens, row);

	if (x == NULL)
		return false;
	for (int64_t t = 0; t < input->num_tokens; t++)
		input_x_row(key, rule->style, config->dtype, config->hidden, t,
			x + (size_t)t * row);
	input->x = x;
	input->x_stride = config->hidden + (nibbles ? config->hidden % 2 : 0);
	return true;
}

static bool make_x_scales(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	const struct shunt_exchange_config *config = rule->config;
	int64_t count = input->num_tokens * config->x_scales_per_row;
	void *scales;

	if (config->x_scales_per_row == 0)
		return true;
	scales = room(count, convert_bytes(config->x_scale_dtype));
	if (scales != NULL)
		input_scales(
			key, rule->style, config->x_scale_dtype, count, scales);
	input->x_scales = scales;
	return scales != NULL;
}

static bool make_smooth(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	int64_t count = trial_scale_rows(rule->config) * rule->config->hidden;
	float *smooth;

	/* On member 0 always; elsewhere mostly: ranks need not agree. */
	if (!rule->smooth ||
		(key->rank != 0 && draw(key, TRIAL_HAS_SMOOTH, 0, 3) == 0))
		return true;
	smooth = room(count, sizeof(*smooth));
	if (smooth != NULL)
		input_smooth(key, rule->style, count, smooth);
	input->smooth = smooth;
	return smooth != NULL;
}

static bool make_static(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	const struct shunt_exchange_config *config = rule->config;
	struct input_key other = {~key->seed, key->step, key->rank};
	int64_t count = 1;
	float *fixed;

	if (config->quant != SHUNT_QUANT_INT8_STATIC &&
		config->quant != SHUNT_QUANT_E4M3FN_STATIC)
		return true;
	input->fixed_shape = rule->static_shape;
	if (key->rank & 1 && rule->static_shape != SHUNT_STATIC_ONE)
		input->fixed_shape = (enum shunt_static_shape)draw(
			key, TRIAL_STATIC_SHAPE, 0, (int)rule->static_shape);
	if (input->fixed_shape == SHUNT_STATIC_HIDDEN)
		count = config->hidden;
	if (input->fixed_shape == SHUNT_STATIC_EXPERTS)
		count = trial_scale_rows(config) * config->hidden;
	fixed = room(count, sizeof(*fixed));
	if (fixed == NULL)
		return false;
	input_smooth(&other, rule->style, count, fixed);
	for (int64_t i = 0; i < count; i++)
		fixed[i] = fixed[i] * 48;
	input->fixed = fixed;
	return true;
}

/* ---- routing ---------------------------------------------------------- */

static bool make_mask(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	int64_t count = input->num_tokens;
	uint8_t *mask;

	input->mask = rule->mask;
	if (key->rank & 1)
		input->mask = (enum shunt_mask)draw(
			key, TRIAL_MASK_OF, 0, rule->mask);
	if (input->mask == SHUNT_MASK_NONE)
		return true;
	if (input->mask == SHUNT_MASK_CHOICES)
		count *= rule->config->topk;
	mask = room(count, 1);
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
	int64_t *ids = room(count, sizeof(*ids));
	struct input_ids_rule ids_rule = {
		.routing = rule->routing,
		.topk = config->topk,
		.num_experts = trial_num_experts(rule),
		.num_special = trial_num_ids(rule) - trial_num_experts(rule),
		.expert_rank = rule->expert_rank,
		.rank = key->rank % rule->num_ranks,
		.distinct = config->distinct_experts,
		.wide = trial_has_wide_ids(rule, key->rank),
		.percent_special = rule->percent_special,
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
				trial_num_ids(rule), ids_rule.wide);
	input->ids = ids;
	return true;
}

/* Weights of masked, -1, dropped and zero-expert choices are not read. */
static bool is_read(const struct trial_rule *rule,
	const struct reference_input *input, int64_t choice)
{
	int64_t id = input->ids[choice], experts = trial_num_experts(rule);

	if (is_masked(input, choice, rule->config->topk) || id < 0 ||
		id >= trial_num_ids(rule))
		return false;
	return id < experts || id >= experts + rule->config->num_zero_experts;
}

void trial_weights(const struct trial_rule *rule, const struct input_key *key,
	const struct reference_input *input, float *weights)
{
	int64_t count = input->num_tokens * rule->config->topk;

	input_weights(key, rule->style, count, weights);
	for (int64_t i = 0; i < count; i++)
		if (!is_read(rule, input, i))
			weights[i] = NAN;
}

static bool make_weights(const struct trial_rule *rule,
	const struct input_key *key, struct reference_input *input)
{
	float *weights;

	if (!rule->weights_at_dispatch)
		return true;
	weights =
		room(input->num_tokens * rule->config->topk, sizeof(*weights));
	if (weights != NULL)
		trial_weights(rule, key, input, weights);
	input->weights = weights;
	return weights != NULL;
}

/* Spoils one unmasked choice: a bad id, or a promise of distinct experts that
 * is broken. True if there was one to spoil. */
static bool spoil_id(const struct trial_rule *rule, const struct input_key *key,
	struct reference_input *input)
{
	int64_t topk = rule->config->topk;
	int64_t count = input->num_tokens * topk, choice, first;
	int64_t *ids = (int64_t *)(uintptr_t)input->ids;

	if (count == 0)
		return false;
	choice = draw(key, TRIAL_REFUSED_CHOICE, 0, count - 1);
	if (is_masked(input, choice, topk))
		return false;
	first = choice - choice % topk;
	if (rule->config->distinct_experts && choice != first &&
		!is_masked(input, first, topk) && ids[first] >= 0 &&
		ids[first] < trial_num_experts(rule))
		ids[choice] = ids[first];
	else if (rule->config->bad_id == SHUNT_BAD_ID_REFUSE)
		ids[choice] =
			input_bad_id((uint64_t)choice, trial_num_ids(rule),
				trial_has_wide_ids(rule, key->rank));
	else
		return false;
	return true;
}

bool trial_inputs_init(const struct trial_rule *rule, int32_t member,
	struct reference_input *input, bool *refuses)
{
	struct input_key key = key_of(rule, member, rule->step);
	struct input_key routing = routing_key(rule, member);
	bool done;

	*input = (struct reference_input){
		.num_tokens = tokens_of(rule, &routing),
	};
	done = make_x(rule, &key, input) && make_x_scales(rule, &key, input) &&
	       make_smooth(rule, &key, input) &&
	       make_static(rule, &key, input) &&
	       make_mask(rule, &routing, input) &&
	       make_ids(rule, &routing, input) &&
	       make_weights(rule, &routing, input);
	*refuses = done && member < 64 && (rule->refusers >> member & 1) &&
		   spoil_id(rule, &routing, input);
	return done;
}

void trial_inputs_fini(struct reference_input *input)
{
	free((void *)(uintptr_t)input->x);
	free((void *)(uintptr_t)input->x_scales);
	free((void *)(uintptr_t)input->ids);
	free((void *)(uintptr_t)input->active_mask);
	free((void *)(uintptr_t)input->weights);
	free((void *)(uintptr_t)input->smooth);
	free((void *)(uintptr_t)input->fixed);
	*input = (struct reference_input){0};
}
