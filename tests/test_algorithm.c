/* Which algorithm is chosen for which hosts and sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "exchange/algorithm.h"
#include "exchange/config.h"

/* int8 rows, bf16 back, over hosts of per_host ranks. */
static struct shape spread(struct hosts *hosts, int32_t num_ranks,
	int32_t per_host, struct shunt_exchange_config *config)
{
	struct shape shape = shape_of(config, num_ranks, 1);

	assert_int_equal(
		hosts_of_blocks(hosts, num_ranks, 1, per_host), SHUNT_OK);
	shape_spread(&shape, config, hosts);
	return shape;
}

static struct shunt_exchange_config config_of(int64_t tokens, int64_t hidden)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = tokens;
	config.hidden = hidden;
	config.topk = 8;
	config.num_experts = 256;
	config.depth = 2;
	config.dtype = SHUNT_DTYPE_BF16;
	config.expert_dtype = SHUNT_DTYPE_BF16;
	config.quant = SHUNT_QUANT_INT8;
	return config;
}

static void expect(int32_t num_ranks, int32_t per_host,
	struct shunt_exchange_config config, bool rows, bool sums)
{
	struct hosts hosts = {0};
	struct shape shape = spread(&hosts, num_ranks, per_host, &config);
	char why[256];

	algorithm_explain(&shape, &config, why, sizeof(why));
	if (shape.rows_by_host != rows || shape.sums_by_host != sums)
		fail_msg("%d ranks, %d per host: %s", num_ranks, per_host, why);
	hosts_fini(&hosts);
}

static void few_large_hosts_are_served_by_hierarchy(void **state)
{
	(void)state;
	expect(16, 8, config_of(128, 7168), true, true);
	expect(32, 8, config_of(128, 7168), true, true);
	/* Whoever adds up takes longer than so few bytes less. */
	expect(64, 8, config_of(128, 7168), true, false);
	expect(256, 8, config_of(128, 7168), true, false);
}

static void sums_in_f32_are_worth_less(void **state)
{
	struct shunt_exchange_config config = config_of(128, 7168);

	(void)state;
	config.f32_partial_sums = true;
	expect(16, 8, config, true, true);
	expect(32, 8, config, true, false);
	/* Rows of f32 have sums as large in any case. */
	config.expert_dtype = SHUNT_DTYPE_F32;
	expect(32, 8, config, true, true);
}

static void one_rank_per_host_is_fullmesh(void **state)
{
	(void)state;
	expect(16, 1, config_of(128, 7168), false, false);
}

static void few_bytes_are_not_worth_another_phase(void **state)
{
	(void)state;
	expect(16, 8, config_of(1, 512), false, false);
}

static void what_is_asked_for_is_done(void **state)
{
	struct shunt_exchange_config config = config_of(1, 512);

	(void)state;
	config.algorithm = SHUNT_ALGORITHM_HIERARCHY;
	expect(16, 8, config, true, true);
	config.exact_sums = true;
	expect(16, 8, config, true, false);
	config = config_of(128, 7168);
	config.algorithm = SHUNT_ALGORITHM_FULLMESH;
	expect(16, 8, config, false, false);
	config.algorithm = SHUNT_ALGORITHM_AUTO;
	config.exact_sums = true;
	expect(16, 8, config, true, false);
}

static void on_one_host_there_is_nothing_to_choose(void **state)
{
	struct shunt_exchange_config config = config_of(128, 7168);
	struct hosts hosts = {0};
	struct shape shape;
	char why[256];

	(void)state;
	config.algorithm = SHUNT_ALGORITHM_HIERARCHY;
	shape = spread(&hosts, 8, 0, &config);
	assert_null(shape.hosts);
	assert_false(shape.rows_by_host || shape.sums_by_host);
	algorithm_explain(&shape, &config, why, sizeof(why));
	assert_non_null(strstr(why, "one host"));
	hosts_fini(&hosts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_large_hosts_are_served_by_hierarchy),
		cmocka_unit_test(sums_in_f32_are_worth_less),
		cmocka_unit_test(one_rank_per_host_is_fullmesh),
		cmocka_unit_test(few_bytes_are_not_worth_another_phase),
		cmocka_unit_test(what_is_asked_for_is_done),
		cmocka_unit_test(on_one_host_there_is_nothing_to_choose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
