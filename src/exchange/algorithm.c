/*
 * Choosing the algorithm; see algorithm.h.
 *
 * What crosses between hosts decides, for a token whose K choices are drawn
 * evenly from all ranks. Of W ranks in hosts of n_h ranks it goes to
 *
 *	ranks of other hosts:	sum over them of 1 - (1 - 1/W)^K
 *	other hosts:		sum over them of 1 - (1 - n_h/W)^K
 *	experts elsewhere:	K * (W - n_own) / W
 *
 * on average. Dispatch sends as many rows by fullmesh as the first, by hierarchy as
 * the second, and to each rank, or host, the places, weights and scales of all tokens.
 * Combine sends as many rows by fullmesh as the third, by hierarchy as many sums as
 * the second; rows of shared experts come one by one in both.
 *
 * Hierarchy costs a step inside the host more, so it must save some bytes, and there
 * must be some. In combine whoever adds up reads rows and writes sums before anything
 * of them crosses, which on fast wires takes longer than the rows that it saves
 * (docs/scale.md, "Where fullmesh stops"), so there it must save more.
 */
#include "exchange/algorithm.h"

#include <stdio.h>

/* Hierarchy is worth it from so many times fewer bytes on, ... */
#define WORTH_DISPATCH_RATIO 1.25
#define WORTH_COMBINE_RATIO  2.0
/* ... and where a rank sends more than so many in a step. */
#define WORTH_BYTES 65536.0

struct traffic {
	double ranks, hosts, experts; /* of other hosts, that a token goes to */
	double all_ranks, all_hosts;  /* that there are */
};

static double missed(double share, int64_t times)
{
	double all = 1.0;

	for (int64_t i = 0; i < times; i++)
		all *= 1.0 - share;
	return all;
}

/* For a token of host 0; with hosts of several sizes it is an example. */
static struct traffic traffic_of(const struct shape *shape)
{
	const struct hosts *hosts = shape->hosts;
	double all = hosts->num_members;
	double far_ranks = all - hosts->size[0];
	struct traffic traffic = {
		.all_ranks = far_ranks,
		.all_hosts = hosts->num_hosts - 1,
		.ranks = far_ranks * (1.0 - missed(1.0 / all, shape->topk)),
		.experts = (double)shape->topk * far_ranks / all,
	};

	for (int32_t h = 1; h < hosts->num_hosts; h++)
		traffic.hosts +=
			1.0 - missed(hosts->size[h] / all, shape->topk);
	return traffic;
}

static bool is_worth(const struct shape *shape, double ratio,
	double fullmesh_bytes, double hierarchy_bytes)
{
	return fullmesh_bytes > ratio * hierarchy_bytes &&
	       fullmesh_bytes * (double)shape->max_tokens > WORTH_BYTES;
}

/* What goes along of each token, to whoever gets some. */
static double beside_bytes(const struct shape *shape)
{
	return (double)(shape->num_sends * 4 + shape->topk * 4 +
			shape_scale_bytes(shape) +
			(shape->format.has_row_scale ? 4 : 0));
}

void algorithm_choose(
	struct shape *shape, const struct shunt_exchange_config *config)
{
	struct traffic traffic = traffic_of(shape);
	double row = (double)shape->format.row_bytes;
	double beside = beside_bytes(shape);

	shape->rows_by_host = config->algorithm == SHUNT_ALGORITHM_HIERARCHY;
	shape->sums_by_host = shape->rows_by_host;
	if (config->algorithm == SHUNT_ALGORITHM_AUTO) {
		shape->rows_by_host = is_worth(shape, WORTH_DISPATCH_RATIO,
			traffic.ranks * row + traffic.all_ranks * beside,
			traffic.hosts * row + traffic.all_hosts * beside);
		shape->sums_by_host = is_worth(shape, WORTH_COMBINE_RATIO,
			traffic.experts * (double)shape->home_bytes,
			traffic.hosts * (double)shape->partial_bytes);
	}
	shape->sums_by_host = shape->sums_by_host && !config->exact_sums;
}

static const char *name_of(bool by_host)
{
	return by_host ? "hierarchy" : "fullmesh";
}

void algorithm_explain(const struct shape *shape,
	const struct shunt_exchange_config *config, char *text, size_t bytes)
{
	struct traffic traffic;

	if (!shape->hosts) {
		snprintf(text, bytes, "all ranks are on one host");
		return;
	}
	traffic = traffic_of(shape);
	snprintf(text, bytes,
		"%s: dispatch %s, combine %s%s; evenly routed, a token of one "
		"of %d hosts goes to %.2f ranks or %.2f hosts elsewhere, with "
		"%.2f rows to come back",
		config->algorithm == SHUNT_ALGORITHM_AUTO
			? "by bytes (hierarchy from 64 KiB a step on, and 1.25 "
			  "or 2 times fewer)"
			: "as asked for",
		name_of(shape->rows_by_host), name_of(shape->sums_by_host),
		config->exact_sums ? " (exact_sums)" : "",
		shape->hosts->num_hosts, traffic.ranks, traffic.hosts,
		traffic.experts);
}
