/* Who chooses which experts: the routings of `shunt bench`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "routing.h"
#include "shape.h"
#include "trace.h"

#define PURPOSE_IDS 1

/* ---- reading ---------------------------------------------------------- */

static bool fail(char error[ROUTING_ERROR], const char *text, const char *rule)
{
	snprintf(error, ROUTING_ERROR, "'%s': %s", text, rule);
	return false;
}

static bool read_zipf(
	struct routing *routing, const char *text, char error[ROUTING_ERROR])
{
	char *end;

	routing->kind = ROUTING_ZIPF;
	routing->exponent = strtod(text + 5, &end);
	if (end == text + 5 || *end ||
		!(routing->exponent >= 0 && routing->exponent <= 20))
		return fail(error, text, "zipf:A needs A in 0 .. 20");
	return true;
}

static bool read_hot(
	struct routing *routing, const char *text, char error[ROUTING_ERROR])
{
	const char *rule = "hot:N:F needs N of at least 1 and F in 0 .. 1";
	char *end;
	char *start;

	routing->kind = ROUTING_HOT;
	routing->num_hot = strtol(text + 4, &end, 10);
	if (end == text + 4 || *end != ':' || routing->num_hot < 1)
		return fail(error, text, rule);
	start = end + 1;
	routing->hot_fraction = strtod(start, &end);
	if (end == start || *end ||
		!(routing->hot_fraction >= 0 && routing->hot_fraction <= 1))
		return fail(error, text, rule);
	return true;
}

/* PATH[:SET]: a path with a colon in it needs a SET. */
static bool read_file(
	struct routing *routing, const char *text, char error[ROUTING_ERROR])
{
	char *path = strdup(text + 5);
	char *set = path ? strrchr(path, ':') : NULL;
	struct trace trace = {0};
	bool done;

	if (!path)
		return fail(error, text, "out of memory");
	if (set)
		*set++ = '\0';
	routing->kind = ROUTING_FILE;
	done = trace_read(&trace, path, set, error, ROUTING_ERROR);
	free(path);
	if (!done)
		return false;
	routing->weights = trace.counts;
	routing->file_experts = trace.num_experts;
	routing->file_topk = trace.topk;
	snprintf(routing->set, sizeof(routing->set), "%s", trace.name);
	return true;
}

bool routing_init(
	struct routing *routing, const char *text, char error[ROUTING_ERROR])
{
	static const struct {
		const char *name;
		enum routing_kind kind;
	} plain[] = {
		{"uniform", ROUTING_UNIFORM},
		{"one", ROUTING_ONE},
		{"local", ROUTING_LOCAL},
		{"balanced", ROUTING_BALANCED},
	};

	*routing = (struct routing){0};
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!strcmp(text, plain[i].name)) {
			routing->kind = plain[i].kind;
			return true;
		}
	if (!strncmp(text, "zipf:", 5))
		return read_zipf(routing, text, error);
	if (!strncmp(text, "hot:", 4))
		return read_hot(routing, text, error);
	if (!strncmp(text, "file:", 5))
		return read_file(routing, text, error);
	return fail(error, text,
		"must be uniform, zipf:A, hot:N:F, one, local, balanced or "
		"file:PATH[:SET]");
}

void routing_fini(struct routing *routing)
{
	free(routing->weights);
	routing->weights = NULL;
}

/* ---- fixing the shape ------------------------------------------------- */

static bool prepare_zipf(struct routing *routing, char error[ROUTING_ERROR])
{
	int64_t num_experts = routing->num_experts;

	routing->weights =
		malloc((size_t)num_experts * sizeof(routing->weights[0]));
	if (!routing->weights)
		return fail(error, "zipf", "out of memory");
	for (int64_t i = 0; i < num_experts; i++)
		routing->weights[i] = pow((double)i + 1, -routing->exponent);
	return true;
}

static bool prepare_file(struct routing *routing, char error[ROUTING_ERROR])
{
	int64_t num_used = 0;

	if (routing->num_experts != routing->file_experts) {
		snprintf(error, ROUTING_ERROR,
			"set %s has %lld experts, --experts says %lld",
			routing->set, (long long)routing->file_experts,
			(long long)routing->num_experts);
		return false;
	}
	for (int64_t i = 0; i < routing->num_experts; i++)
		num_used += routing->weights[i] > 0;
	if (num_used >= routing->topk)
		return true;
	snprintf(error, ROUTING_ERROR,
		"set %s has %lld experts with tokens, --topk %lld needs more",
		routing->set, (long long)num_used, (long long)routing->topk);
	return false;
}

static bool prepare_local(
	const struct routing *routing, char error[ROUTING_ERROR])
{
	const struct shape *shape = routing->shape;
	int64_t fewest = INT64_MAX;

	if (shape->num_shared_ranks > 0) {
		snprintf(error, ROUTING_ERROR,
			"local: ranks of --shared experts have no others");
		return false;
	}
	for (int32_t i = 0; i < shape->left_ranks; i++) {
		int64_t local = shape_num_local(shape, shape->old_of_new[i]);

		fewest = local < fewest ? local : fewest;
	}
	if (fewest >= routing->topk)
		return true;
	snprintf(error, ROUTING_ERROR,
		"local: --topk %lld needs as many experts on each rank, some "
		"rank has only %lld",
		(long long)routing->topk, (long long)fewest);
	return false;
}

bool routing_prepare(struct routing *routing, const struct shape *shape,
	int64_t topk, char error[ROUTING_ERROR])
{
	routing->shape = shape;
	routing->num_experts = shape->left_experts;
	routing->topk = topk;
	if (routing->num_experts == 0)
		return true;
	if (topk > routing->num_experts) {
		snprintf(error, ROUTING_ERROR,
			"--elastic leaves %lld experts, --topk %lld needs more",
			(long long)routing->num_experts, (long long)topk);
		return false;
	}
	switch (routing->kind) {
	case ROUTING_ZIPF:
		return prepare_zipf(routing, error);
	case ROUTING_FILE:
		return prepare_file(routing, error);
	case ROUTING_LOCAL:
		return prepare_local(routing, error);
	case ROUTING_HOT:
		if (routing->num_hot <= routing->num_experts)
			return true;
		snprintf(error, ROUTING_ERROR,
			"hot: N %lld is more than --experts %lld",
			(long long)routing->num_hot,
			(long long)routing->num_experts);
		return false;
	default:
		return true;
	}
}

/* ---- drawing ---------------------------------------------------------- */

struct entry {
	double key; /* weighted draws: when it comes */
	int64_t expert;
};

struct draw {
	const struct routing *routing;
	struct random random;
	struct entry *pool;
	int64_t pool_size;
};

/* `count` distinct experts of the `range` ones at `pool`: the first steps of
 * a Fisher-Yates shuffle, so those drawn come to lie in front. */
static void draw_distinct(struct draw *draw, struct entry *pool, int64_t range,
	int64_t count, int64_t *ids)
{
	for (int64_t k = 0; k < count; k++) {
		int64_t other = k + random_below(&draw->random, range - k);
		struct entry drawn = pool[other];

		pool[other] = pool[k];
		pool[k] = drawn;
		ids[k] = drawn.expert;
	}
}

static int by_key(const void *left, const void *right)
{
	double a = ((const struct entry *)left)->key;
	double b = ((const struct entry *)right)->key;

	return (a > b) - (a < b);
}

/*
 * K draws without replacement, each with chance by weight among those left:
 * expert i waits for an exponential time with rate weight[i], and the K first
 * are taken in the order in which they come.
 */
static void draw_weighted(struct draw *draw, int64_t *ids)
{
	const double *weights = draw->routing->weights;

	for (int64_t i = 0; i < draw->pool_size; i++) {
		struct entry *entry = &draw->pool[i];

		entry->key = -log(random_unit(&draw->random)) /
			     weights[entry->expert];
	}
	qsort(draw->pool, (size_t)draw->pool_size, sizeof(draw->pool[0]),
		by_key);
	for (int64_t k = 0; k < draw->routing->topk; k++)
		ids[k] = draw->pool[k].expert;
}

/* Each choice is hot with chance F, while there are both kinds left. */
static void draw_hot(struct draw *draw, int64_t *ids)
{
	int64_t num_hot = draw->routing->num_hot;
	int64_t num_cold = draw->pool_size - num_hot;
	int64_t hot = 0;
	int64_t cold = 0;

	for (int64_t k = 0; k < draw->routing->topk; k++) {
		bool wish = random_unit(&draw->random) <=
			    draw->routing->hot_fraction;

		if (hot < num_hot && (wish || cold == num_cold)) {
			draw_distinct(draw, draw->pool + hot, num_hot - hot, 1,
				&ids[k]);
			hot++;
		} else {
			draw_distinct(draw, draw->pool + num_hot + cold,
				num_cold - cold, 1, &ids[k]);
			cold++;
		}
	}
}

/* `number` counts the tokens of all ranks and steps. */
static void draw_token(struct draw *draw, int64_t number, int64_t *ids)
{
	const struct routing *routing = draw->routing;

	switch (routing->kind) {
	case ROUTING_UNIFORM:
	case ROUTING_LOCAL:
		draw_distinct(
			draw, draw->pool, draw->pool_size, routing->topk, ids);
		return;
	case ROUTING_ZIPF:
	case ROUTING_FILE:
		draw_weighted(draw, ids);
		return;
	case ROUTING_HOT:
		draw_hot(draw, ids);
		return;
	case ROUTING_ONE:
		for (int64_t k = 0; k < routing->topk; k++)
			ids[k] = k;
		return;
	case ROUTING_BALANCED:
		for (int64_t k = 0; k < routing->topk; k++)
			ids[k] = (number * routing->topk + k) %
				 routing->num_experts;
		return;
	}
}

/* The experts that can be drawn. */
static void fill_pool(struct draw *draw, int32_t member)
{
	const struct routing *routing = draw->routing;
	const struct shape *shape = routing->shape;
	int32_t rank = shape_rank(shape, member);
	bool local = routing->kind == ROUTING_LOCAL;
	int64_t count = routing->num_experts;

	if (local)
		count = shape->new_of_old[rank] < 0
				? 0
				: shape_num_local(shape, rank);
	for (int64_t i = 0; i < count; i++) {
		int64_t e = local ? shape_new_local(shape, rank, i) : i;

		if (!routing->weights || routing->weights[e] > 0)
			draw->pool[draw->pool_size++].expert = e;
	}
}

bool routing_draw(const struct routing *routing, const struct routing_step *at,
	int64_t num_tokens, int64_t *ids)
{
	struct draw draw = {.routing = routing};
	int64_t number = (at->step * routing->shape->num_members + at->member) *
			 num_tokens;

	for (int64_t i = 0; i < num_tokens * routing->topk; i++)
		ids[i] = -1;
	/* Who is left out has no experts of its own. */
	if (routing->num_experts == 0 ||
		shape_new_rank(routing->shape, at->member) < 0)
		return true;
	draw.random =
		random_stream(at->seed, PURPOSE_IDS, at->step, at->member);
	draw.pool = calloc((size_t)routing->num_experts, sizeof(draw.pool[0]));
	if (!draw.pool)
		return false;
	fill_pool(&draw, at->member);
	for (int64_t t = 0; t < num_tokens; t++)
		draw_token(&draw, number + t, ids + t * routing->topk);
	free(draw.pool);
	return true;
}
