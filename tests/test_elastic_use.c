/*
 * What docs/elastic.md tells applications to do: the table and the ids that they
 * make, and how they go on where nobody knew of a loss in time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "support/elastic.h"

#define RANKS ELASTIC_RANKS

static int32_t new_id(const int32_t *table, int64_t num_ranks,
	int64_t shared_ranks, int64_t per_rank, int32_t id)
{
	int64_t experts = (num_ranks - shared_ranks) * per_rank;
	int32_t rank;

	if (id < 0)
		return id;
	if (id >= experts) /* zero, copy, constant */
		return (int32_t)(id - experts) + table[3];
	rank = table[4 + shared_ranks + id / per_rank];
	return rank < 0 ? -1
			: (int32_t)((rank - table[2]) * per_rank +
				    id % per_rank);
}

static void make_table(int32_t *table, const uint8_t *lost, int32_t num_ranks,
	int32_t shared_ranks, int32_t per_rank)
{
	int32_t *to_new = table + 4, *to_original = table + 4 + num_ranks;
	int32_t left = 0, shared = 0;

	for (int32_t r = 0; r < num_ranks; r++) {
		to_new[r] = lost[r] ? -1 : left;
		if (lost[r])
			continue;
		shared += r < shared_ranks;
		to_original[left++] = r;
	}
	for (int32_t n = left; n < num_ranks; n++)
		to_original[n] = -1;
	table[0] = 1;
	table[1] = left;
	table[2] = shared;
	table[3] = (left - shared) * per_rank;
}

static void documented_table_and_ids_are_those_of_the_example(void **state)
{
	static const uint8_t lost[RANKS] = {0, 1, 0, 0};
	/* One of each of elastic_shared_config()'s replicas. */
	static const uint8_t replicas[6] = {0, 1, 1, 0, 0, 0};
	static const int32_t shared[] = {
		1, 4, 2, 2, 0, -1, -1, 1, 2, 3, 0, 3, 4, 5, -1, -1};
	int32_t table[16];

	(void)state;
	make_table(table, lost, RANKS, 0, 8);
	assert_memory_equal(table, elastic_example, sizeof(elastic_example));
	for (int32_t id = -1; id < 40; id++)
		assert_int_equal(
			new_id(table, RANKS, 0, 8, id), id < 8    ? id
							: id < 16 ? -1
								  : id - 8);
	make_table(table, replicas, 6, 4, 1);
	assert_memory_equal(table, shared, sizeof(shared));
	for (int32_t id = 0; id < 2; id++)
		assert_int_equal(new_id(table, 6, 4, 1, id), id);
}

/* Nobody knew when the step began: that exchange is over. */
static void make_another(struct seat *seat)
{
	static const int32_t survivors[] = {0, 2, 3};
	struct shunt_exchange_config config = elastic_config(8);
	struct shunt_group *group;
	struct plain plain;
	uint8_t lost[RANKS];

	plain_init(&plain, seat, NULL, &config);
	elastic_bring(&plain, 1, (const int32_t[]){31, 9}, NULL);
	plain_pass(&plain);
	seat_barrier(seat);
	if (seat->rank == 1)
		kill(getpid(), SIGKILL);
	elastic_bring(&plain, 1, (const int32_t[]){31, 9}, NULL);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
	elastic_bring(&plain, 1, (const int32_t[]){0, 8}, elastic_example);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
	plain_fini(&plain);
	SEAT_CHECK(seat,
		shunt_world_lost(seat->world, lost) == 1 && lost[1] == 1,
		"rank 1 is not the lost one");
	SEAT_OK(seat, shunt_group_create(
			      seat->world, survivors, 3, "two", 0, &group));
	config.num_experts = 24;
	plain_init(&plain, seat, group, &config);
	for (int i = 0; i < 5; i++) {
		elastic_bring(&plain, 1, (const int32_t[]){8, 23}, NULL);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain,
				      (const float[]){1, 1, 1, 1, 1, 1, 1, 1}));
		plain_expect_sums(&plain, (const float[]){2});
	}
	plain_fini(&plain);
	shunt_group_destroy(group);
}

static void survivors_of_a_broken_step_make_another_group_and_exchange(
	void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
		.may_die = 1 << 1,
	};

	(void)state;
	ranks_run(&plan, make_another);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			documented_table_and_ids_are_those_of_the_example),
		cmocka_unit_test(
			survivors_of_a_broken_step_make_another_group_and_exchange),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
