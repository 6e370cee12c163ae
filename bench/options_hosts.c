/* --hosts, and who has started the ranks. */
#include <stdio.h>
#include <stdlib.h>

#include "options_table.h"

static bool only_here(const struct options *options, char error[ROUTING_ERROR])
{
	const char *name = options->exact_sums         ? "exact-sums"
			   : options->f32_partial_sums ? "f32-partial-sums"
			   : options->rdma_device      ? "rdma-device"
			   : options->rdma_interface   ? "rdma-interface"
			   : options->rdma_address     ? "rdma-address"
						       : NULL;

	if (!name)
		return true;
	snprintf(error, ROUTING_ERROR, "--%s: needs --hosts", name);
	return false;
}

/* One rank of a job that a launcher has started. */
static bool settle_joined(struct options *options, char error[ROUTING_ERROR])
{
	const struct launcher_job *job = &options->job;

	if (options->num_ranks > 0 && options->num_ranks != job->num_ranks) {
		snprintf(error, ROUTING_ERROR,
			"--ranks %lld: %s has started %d; leave --ranks out",
			(long long)options->num_ranks, job->family,
			job->num_ranks);
		return false;
	}
	if (options->launch != LAUNCH_PROCESSES) {
		snprintf(error, ROUTING_ERROR,
			"--launch threads: %s has started processes",
			job->family);
		return false;
	}
	options->joined = true;
	options->num_ranks = job->num_ranks;
	return true;
}

bool options_settle_hosts(struct options *options, char error[ROUTING_ERROR])
{
	char wrong[LAUNCHER_TEXT_BYTES], remedy[LAUNCHER_TEXT_BYTES];
	int64_t group;

	if (options->num_hosts == 0)
		return only_here(options, error);
	if (options->transport == OPTIONS_TRANSPORT_SHM &&
		options->num_hosts > 1) {
		snprintf(error, ROUTING_ERROR,
			"--transport shm: reaches no other host, and there are "
			"--hosts %lld",
			(long long)options->num_hosts);
		return false;
	}
	if (!launcher_read(&options->job, wrong, remedy)) {
		snprintf(
			error, ROUTING_ERROR, "--hosts: %s; %s", wrong, remedy);
		return false;
	}
	if (options->job.family && !settle_joined(options, error))
		return false;
	group = (options->num_ranks ? options->num_ranks : 4) / options->num_tp;
	if (options->num_hosts <= group)
		return true;
	snprintf(error, ROUTING_ERROR,
		"--hosts %lld: must be in 1 .. %lld, the ranks of a group",
		(long long)options->num_hosts, (long long)group);
	return false;
}
