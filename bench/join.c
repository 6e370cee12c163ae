/* The library's objects of a rank: world, groups, exchange, memory. */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "rank.h"
#include "setup.h"

/* Ranks of a launcher meet by its variables. */
static void choose_meeting(
	const struct rank *self, struct shunt_world_config *config)
{
	if (self->bench->options.joined)
		return;
	config->rendezvous = self->bench->meeting;
	config->rank = self->member;
	config->num_ranks = self->bench->shape.num_members;
	config->key = self->bench->rendezvous.key;
}

static void give_hosts(const struct rank *self,
	struct shunt_world_config *config, char host_id[32])
{
	const struct options *options = &self->bench->options;

	config->rdma_device = options->rdma_device;
	config->rdma_interface = options->rdma_interface;
	config->rdma_address = options->rdma_address;
	if (options->num_hosts == 0 || options->joined)
		return;
	snprintf(host_id, 32, "host%d", options_host_of(options, self->member));
	config->host_id = host_id;
}

static bool make_world(struct rank *self)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	enum shunt_status status;
	char host_id[32];
	int64_t started;

	choose_meeting(self, &config);
	give_hosts(self, &config, host_id);
	config.job = "shunt bench";
	if (!barrier_start(self->bench->barrier, &started))
		return false;
	status = shunt_world_create(&config, &self->world);
	self->page->world_ns = clock_ns() - started;
	return !status || rank_fail_call(self, "shunt_world_create", status);
}

/* The group of `count` members from `first` on, `step` apart. */
static bool make_group(struct rank *self, const char *name, int32_t first,
	int32_t count, int32_t step, struct shunt_group **group)
{
	int32_t *ranks = calloc((size_t)count, sizeof(ranks[0]));
	enum shunt_status status;

	if (!ranks)
		return rank_fail(self, "out of memory");
	for (int32_t i = 0; i < count; i++)
		ranks[i] = first + i * step;
	status = shunt_group_create(self->world, ranks, count, name, 0, group);
	free(ranks);
	return !status || rank_fail_call(self, "shunt_group_create", status);
}

static bool make_groups(struct rank *self)
{
	const struct shape *shape = &self->bench->shape;
	int32_t rank = shape_rank(shape, self->member);

	if (shape->num_tp == 1)
		return true;
	return make_group(self, "ep", self->member - rank, shape->num_ranks, 1,
		       &self->ep_group) &&
	       make_group(self, "tp", rank, shape->num_tp, shape->num_ranks,
		       &self->tp_group);
}

/* Asks for the sizes. */
static bool query_exchange(
	struct rank *self, const struct shunt_exchange_config *config)
{
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;
	const struct shape *shape = &self->bench->shape;
	enum shunt_status status;

	sizes.ranks_per_host = setup_ranks_per_host(self->bench);
	status = shunt_exchange_query(config, shape_rank(shape, self->member),
		shape->num_ranks, &sizes);
	if (status)
		return rank_fail_call(self, "shunt_exchange_query", status);
	self->recv_rows = sizes.recv_rows;
	self->page->query_bytes =
		(int64_t)(sizes.window_bytes + sizes.private_bytes);
	return true;
}

/* The n-th creation. All ranks begin at once, as for a phase. */
static bool create_exchange(struct rank *self,
	const struct shunt_exchange_config *config, int64_t n)
{
	struct bench *bench = self->bench;
	enum shunt_status status;
	int64_t started;

	if (!barrier_start(bench->barrier, &started))
		return false;
	status = shunt_exchange_create(
		self->world, self->ep_group, config, &self->exchange);
	*bench_creation(bench, n, self->member) = clock_ns() - started;
	return !status || rank_fail_call(self, "shunt_exchange_create", status);
}

/* What all ranks of this process have, when none is taking more; 0 where
 * another rank sees to it, -1 if not known. */
static bool measure_memory(const struct rank *self, int64_t *bytes)
{
	const struct bench *bench = self->bench;

	*bytes = 0;
	if (!barrier_wait(bench->barrier))
		return false;
	if (self->member == 0 || bench->options.launch == LAUNCH_PROCESSES)
		*bytes = machine_process_bytes();
	return barrier_wait(bench->barrier);
}

static bool make_exchange(struct rank *self)
{
	struct shunt_exchange_config config = self->bench->config;
	int64_t before, after;

	config.tp_group = self->tp_group;
	if (!query_exchange(self, &config) || !measure_memory(self, &before) ||
		!create_exchange(self, &config, 0) ||
		!measure_memory(self, &after))
		return false;
	self->page->memory_bytes = after - before;
	self->page->memory_known = before >= 0 && after >= 0;
	for (int64_t n = 1; n < bench_num_creations(self->bench); n++) {
		shunt_exchange_destroy(self->exchange);
		self->exchange = NULL;
		if (!create_exchange(self, &config, n))
			return false;
	}
	return true;
}

/* Where the experts write, if it is not the window. */
static bool make_y(struct rank *self)
{
	size_t rows = (size_t)self->recv_rows;
	size_t bytes = rows * (size_t)self->bench->load.expert_bytes;

	self->rows = calloc(rows + 1, sizeof(self->rows[0]));
	self->y_rows = calloc(rows + 1, sizeof(self->y_rows[0]));
	if (!self->rows || !self->y_rows)
		return rank_fail(self, "out of memory");
	switch (self->bench->options.y) {
	case OPTIONS_Y_WINDOW:
		return true;
	case OPTIONS_Y_HEAP:
		self->y = shunt_alloc(self->world, bytes + 1);
		return self->y || rank_fail(self, "shunt_alloc: %s",
					  shunt_error_message());
	default:
		self->y = malloc(bytes + 1);
		return self->y || rank_fail(self, "out of memory");
	}
}

static bool note_travel(struct rank *self)
{
	int32_t num = self->bench->shape.num_members;
	char error[512];

	if (self->bench->options.num_hosts == 0)
		return true;
	self->hosts = calloc((size_t)num, sizeof(self->hosts[0]));
	if (!self->hosts)
		return rank_fail(self, "out of memory");
	for (int32_t r = 0; r < num; r++)
		self->hosts[r] = shunt_world_host(self->world, r);
	return travel_note(&self->page->travel, self->bench, self->world,
		       self->exchange, error, sizeof(error)) ||
	       rank_fail(self, "%s", error);
}

bool rank_join(struct rank *self)
{
	return make_world(self) && make_groups(self) && make_exchange(self) &&
	       note_travel(self) && make_y(self);
}

void rank_leave(struct rank *self)
{
	shunt_exchange_destroy(self->exchange);
	if (self->bench->options.y == OPTIONS_Y_HEAP)
		shunt_free(self->world, self->y);
	else
		free(self->y);
	free(self->rows);
	free(self->y_rows);
	shunt_group_destroy(self->tp_group);
	shunt_group_destroy(self->ep_group);
	shunt_world_destroy(self->world);
}

/* Waiting only adds up, and nobody waits for who is left out. */
static bool check_waits(struct rank *self)
{
	const struct shape *shape = &self->bench->shape;

	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		for (int32_t r = 0; r < shape->num_ranks; r++) {
			int64_t wait = bench_waits(
				self->bench, phase, self->member)[r];

			if (wait < 0 || (wait > 0 && shape->new_of_old[r] < 0))
				return rank_fail(self,
					"performance_info of rank %d is %lld",
					r, (long long)wait);
		}
	return true;
}

/* What must go to other hosts at least, against the plan's own count. */
static bool check_ideal(struct rank *self)
{
	const struct bench *bench = self->bench;
	int64_t expected = 0, counted = self->page->stats.ideal_wire_bytes;

	for (int64_t s = 0; !self->left_out && s < LOAD_STEPS; s++) {
		struct travel_plan sums;

		if (!travel_plan(bench, self->hosts, s, self->member, &sums))
			return rank_fail(self, "out of memory");
		/* So often that step of the ring was made. */
		expected += (self->real_step + LOAD_STEPS - 1 - s) /
			    LOAD_STEPS * sums.ideal_bytes;
	}
	return expected == counted ||
	       rank_fail(self,
		       "ideal_wire_bytes is %lld, must be %lld by the routing",
		       (long long)counted, (long long)expected);
}

bool rank_take_stats(struct rank *self)
{
	const struct bench *bench = self->bench;
	char *text = bench->texts + self->member * BENCH_TEXT_BYTES;
	struct shunt_stats *stats = &self->page->stats;
	char why[CHECK_TEXT];
	size_t needed;
	enum shunt_status status;

	if (bench->options.check && !check_waits(self))
		return false;
	if (!bench->options.stats && bench->options.num_hosts == 0)
		return true;
	*stats = (struct shunt_stats)SHUNT_STATS_INIT;
	status = shunt_stats_get(self->exchange, stats);
	if (status)
		return rank_fail_call(self, "shunt_stats_get", status);
	if (bench->options.check && !self->left_out &&
		!check_stats(&self->check, stats, why))
		return rank_fail(self, "the stats are wrong: %s", why);
	if (bench->options.check && self->hosts && !check_ideal(self))
		return false;
	if (!bench->options.stats)
		return true;
	status = shunt_stats_text(
		self->exchange, text, BENCH_TEXT_BYTES, &needed);
	if (status)
		return rank_fail_call(self, "shunt_stats_text", status);
	return true;
}
