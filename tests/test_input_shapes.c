/*
 * Shapes at the edge of what is allowed: many ranks, many experts, odd and
 * large rows, all checked against the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "support/scale.h"
#include "support/stand.h"

struct shape {
	int32_t num_ranks;
	int64_t max_tokens, hidden, topk, num_experts;
};

static void run_shape(struct seat *seat)
{
	const struct shape *shape = seat->context;
	struct shunt_exchange_config config = trial_config(shape->max_tokens,
		shape->hidden, shape->topk, shape->num_experts);
	struct stand stand;
	struct trial_rule rule;

	config.deadline_ns = INT64_C(120) * 1000000000;
	config.quant = shape->hidden & 1 ? SHUNT_QUANT_INT8 : SHUNT_QUANT_NONE;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 3; i++) {
		rule = stand_rule(&stand);
		rule.mask = (enum shunt_mask)i;
		rule.percent_masked = 20;
		rule.plain = false;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void run_shapes(
	enum ranks_launch launch, const struct shape *shapes, size_t count)
{
	struct ranks_plan plan = {.launch = launch, .seconds = 300};

	for (size_t i = 0; i < count; i++) {
		plan.num_ranks = shapes[i].num_ranks;
		plan.context = &shapes[i];
		if (plan.num_ranks > 64)
			plan.segment_bytes = 64 << 20;
		ranks_run(&plan, run_shape);
	}
}

#define RUN_SHAPES(launch, shapes) \
	run_shapes(launch, shapes, sizeof(shapes) / sizeof((shapes)[0]))

static void every_listed_hidden_size_works(void **state)
{
	static const struct shape shapes[] = {
		{2, 3, 1, 2, 4},
		{2, 3, 3, 2, 4},
		{2, 3, 31, 2, 4},
		{2, 3, 127, 2, 4},
		{2, 3, 129, 2, 4},
		{2, 3, 1536, 2, 4},
		{2, 3, 2880, 2, 4},
		{2, 3, 3584, 2, 4},
		{2, 3, 7168, 2, 4},
		{2, 3, 7169, 2, 4},
	};

	(void)state;
	RUN_SHAPES(RANKS_THREADS, shapes);
	RUN_SHAPES(RANKS_PROCESSES, shapes);
}

static void every_listed_topk_works(void **state)
{
	static const struct shape shapes[] = {
		{3, 4, 65, 1, 40},
		{3, 4, 65, 2, 40},
		{3, 4, 65, 10, 40},
		{3, 4, 65, 11, 40},
		{3, 4, 65, 16, 40},
		{3, 4, 65, 22, 40},
		{3, 4, 65, 32, 40},
		{3, 4, 65, 32, 2},
	};

	(void)state;
	RUN_SHAPES(RANKS_THREADS, shapes);
	RUN_SHAPES(RANKS_PROCESSES, shapes);
}

static void every_listed_number_of_experts_works(void **state)
{
	static const struct shape shapes[] = {
		{1, 1, 1, 1, 1},
		{4, 4, 16, 2, 1},
		{4, 4, 16, 2, 3},
		{4, 4, 16, 2, 5},
		{5, 4, 17, 8, 4096},
		{2, 4, 16, 8, 4096},
		{7, 4, 16, 2, 256},
	};

	(void)state;
	RUN_SHAPES(RANKS_THREADS, shapes);
	RUN_SHAPES(RANKS_PROCESSES, shapes);
}

static void every_listed_number_of_ranks_works(void **state)
{
	static const struct shape shapes[] = {
		{1, 5, 16, 2, 8},
		{2, 5, 16, 2, 8},
		{3, 5, 17, 2, 8},
		{5, 5, 16, 2, 8},
		{6, 5, 17, 2, 8},
		{7, 5, 16, 2, 8},
		{24, 3, 16, 4, 64},
	};

	(void)state;
	RUN_SHAPES(RANKS_THREADS, shapes);
	RUN_SHAPES(RANKS_PROCESSES, shapes);
}

static void sixty_four_ranks_as_threads_work(void **state)
{
	static const struct shape shapes[] = {{64, 2, 17, 4, 128}};

	(void)state;
	RUN_SHAPES(RANKS_THREADS, shapes);
}

static void many_hundreds_of_ranks_as_threads_work(void **state)
{
	static const struct shape all[] = {{1024, 1, 8, 2, 1024}};
	static const struct shape fewer[] = {{128, 1, 8, 2, 128}};

	(void)state;
	if (scale_is_small())
		RUN_SHAPES(RANKS_THREADS, fewer);
	else
		RUN_SHAPES(RANKS_THREADS, all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_listed_hidden_size_works),
		cmocka_unit_test(every_listed_topk_works),
		cmocka_unit_test(every_listed_number_of_experts_works),
		cmocka_unit_test(every_listed_number_of_ranks_works),
		cmocka_unit_test(sixty_four_ranks_as_threads_work),
		cmocka_unit_test(many_hundreds_of_ranks_as_threads_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
