/* --hosts: what goes between hosts, and how; see travel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "results.h"
#include "travel.h"

const char *const travel_ways[TRAVEL_NUM_WAYS] = {
	[TRAVEL_SELF] = "self",
	[TRAVEL_THREADS] = "threads",
	[TRAVEL_SHM] = "shm",
	[TRAVEL_VERBS] = "verbs",
};

/* ---- asking the library ------------------------------------------------ */

static bool count_peer(struct travel_rank *travel, const char *way)
{
	for (int i = 0; way && i < TRAVEL_NUM_WAYS; i++)
		if (!strcmp(travel_ways[i], way)) {
			travel->peers[i]++;
			return true;
		}
	return false;
}

static bool note_peers(struct travel_rank *travel,
	const struct shunt_world *world, char *error, size_t error_bytes)
{
	int32_t size = shunt_world_size(world);

	travel->host = shunt_world_host(world, shunt_world_rank(world));
	for (int32_t rank = 0; rank < size; rank++) {
		const char *way = shunt_world_transport(world, rank);
		int32_t host = shunt_world_host(world, rank);

		if (host >= travel->num_hosts)
			travel->num_hosts = host + 1;
		if (count_peer(travel, way))
			continue;
		snprintf(error, error_bytes,
			"shunt_world_transport() of rank %d is %s", rank,
			way ? way : "NULL");
		return false;
	}
	return true;
}

bool travel_note(struct travel_rank *travel, const struct bench *bench,
	const struct shunt_world *world, const struct shunt_exchange *exchange,
	char *error, size_t error_bytes)
{
	struct shunt_exchange_info info = SHUNT_EXCHANGE_INFO_INIT;
	enum shunt_status status = shunt_exchange_info_get(exchange, &info);

	*travel = (struct travel_rank){0};
	if (status) {
		snprintf(error, error_bytes, "shunt_exchange_info_get: %s: %s",
			shunt_status_name(status), shunt_error_message());
		return false;
	}
	if (!note_peers(travel, world, error, error_bytes))
		return false;
	travel->dispatch = info.dispatch;
	travel->combine = info.combine;
	travel->adds_partial_sums = info.adds_partial_sums;
	snprintf(travel->why, sizeof(travel->why), "%s", info.why);
	if (travel->num_hosts == bench->options.num_hosts)
		return true;
	snprintf(error, error_bytes,
		"--hosts %lld: the ranks are on %d host%s (by SHUNT_HOST_ID, "
		"or "
		"boot and network namespace)",
		(long long)bench->options.num_hosts, travel->num_hosts,
		travel->num_hosts == 1 ? "" : "s");
	return false;
}

/* ---- by the plan ------------------------------------------------------- */

/* Other hosts among a token's targets. */
static int64_t num_other_hosts(const struct plan_target *targets, int64_t num,
	const int32_t *hosts, int32_t own)
{
	int64_t count = 0;

	for (int64_t i = 0; i < num; i++) {
		bool first = targets[i].member >= 0 &&
			     hosts[targets[i].member] != own;

		for (int64_t j = 0; first && j < i; j++)
			first = targets[j].member < 0 ||
				hosts[targets[j].member] !=
					hosts[targets[i].member];
		count += first;
	}
	return count;
}

/* Targets on the own host: every `pitch`-th from `from` on. */
static int64_t num_own_rows(const struct plan_target *targets, int64_t num,
	int64_t from, int64_t pitch, const int32_t *hosts, int32_t own)
{
	int64_t count = 0;

	for (int64_t i = from; i < num; i += pitch)
		count += targets[i].member >= 0 &&
			 hosts[targets[i].member] == own;
	return count;
}

bool travel_plan(const struct bench *bench, const int32_t *hosts, int64_t step,
	int32_t member, struct travel_plan *sums)
{
	const struct plan *plan = &bench->plan;
	int64_t tokens = plan->load->num_tokens, num = plan_num_targets(plan);
	int64_t row = plan->row_bytes + plan->scale_bytes;
	int64_t from = plan->one_home ? shape_tp(&bench->shape, member) : 0;
	int64_t pitch = plan->one_home ? bench->shape.num_tp : 1;
	int64_t moe = plan->load->topk * bench->shape.num_tp;
	/* Rows that are added up by host are quantized after that. */
	int64_t moe_bytes = bench->ranks[member].travel.adds_partial_sums
				    ? plan->load->expert_bytes
				    : plan->home_bytes;
	struct plan_target *targets =
		calloc((size_t)(tokens * num + 1), sizeof(targets[0]));
	bool done = targets && plan_targets(plan, step, member, targets);

	*sums = (struct travel_plan){0};
	for (int64_t t = 0; done && t < tokens; t++) {
		const struct plan_target *at = targets + t * num;
		int32_t own = hosts[member];

		sums->ideal_bytes += num_other_hosts(at, num, hosts, own) * row;
		sums->dispatch_memory_bytes +=
			num_own_rows(at, num, 0, 1, hosts, own) * row;
		sums->combine_memory_bytes +=
			num_own_rows(at, moe, from, pitch, hosts, own) *
				moe_bytes +
			num_own_rows(
				at + moe, num - moe, from, pitch, hosts, own) *
				plan->home_bytes;
	}
	free(targets);
	return done;
}

/* ---- of all ranks ------------------------------------------------------ */

static double per_step(int64_t count, int64_t steps)
{
	return steps > 0 ? (double)count / (double)steps : 0;
}

static void add_counted(
	struct results *results, const struct shunt_stats *stats)
{
	struct travel_phase *dispatch = &results->travel[BENCH_DISPATCH];
	struct travel_phase *combine = &results->travel[BENCH_COMBINE];

	dispatch->wire_bytes +=
		per_step(stats->dispatch_wire_bytes, stats->dispatches);
	dispatch->wire_requests +=
		per_step(stats->dispatch_wire_requests, stats->dispatches);
	dispatch->ideal_bytes +=
		per_step(stats->ideal_wire_bytes, stats->dispatches);
	combine->wire_bytes +=
		per_step(stats->combine_wire_bytes, stats->combines);
	combine->wire_requests +=
		per_step(stats->combine_wire_requests, stats->combines);
}

static bool add_planned(struct results *results, const struct bench *bench,
	const int32_t *hosts, int32_t member)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		struct travel_plan sums;

		if (!travel_plan(bench, hosts, step, member, &sums))
			return false;
		results->travel[BENCH_DISPATCH].memory_bytes +=
			(double)sums.dispatch_memory_bytes / LOAD_STEPS;
		results->travel[BENCH_COMBINE].memory_bytes +=
			(double)sums.combine_memory_bytes / LOAD_STEPS;
	}
	return true;
}

bool travel_collect(struct results *results, const struct bench *bench)
{
	int32_t num = bench->shape.num_members;
	int32_t *hosts = calloc((size_t)num, sizeof(hosts[0]));
	bool done = hosts != NULL;

	for (int32_t r = 0; done && r < num; r++)
		hosts[r] = bench->ranks[r].travel.host;
	for (int32_t r = 0; done && r < num; r++) {
		add_counted(results, &bench->ranks[r].stats);
		done = add_planned(results, bench, hosts, r);
	}
	free(hosts);
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++) {
		double p50 = results->phase[phase].time.p50;

		if (p50 > 0)
			results->travel[phase].wire_gbps =
				results->travel[phase].wire_bytes / p50 / 1000;
	}
	return done;
}
