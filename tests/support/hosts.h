/*
 * Hosts: one machine taken for several. A plan says which of its ranks share a
 * host (ranks_plan.hosts, one number a rank). Ranks on different hosts reach
 * each other by RDMA alone:
 *
 *  - threads of one process by the simulator (fake_verbs.h);
 *  - any ranks by real devices, where SHUNT_TEST_RDMA has the address of one for
 *    each host, as in "192.168.7.1,192.168.7.2".
 */
#ifndef SUPPORT_HOSTS_H
#define SUPPORT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/ranks.h"

#define HOSTS_MAX 4

/* True if ranks of this launch can be on `num_hosts` hosts here. */
bool hosts_can(enum ranks_launch launch, int32_t num_hosts);

/* How many hosts these ranks are on: the largest number and 1. */
int32_t hosts_count(const int32_t *hosts, int32_t num_ranks);

/* Reads a digit for each rank, "0011", into hosts; false if it is not that. */
bool hosts_parse(const char *text, int32_t num_ranks, int32_t *hosts);

/* Ends the rank if the simulator has seen a misuse so far. So a long run tells
 * in which part of it, or shortly before, it was. */
void hosts_check(struct seat *seat);

/* ---- for the harness -------------------------------------------------- */

/* Before the ranks of a process, and behind them: what the simulator has
 * against what they did, in words, or NULL. Nothing without hosts. */
void hosts_start(const struct ranks_plan *plan);
const char *hosts_finish(const struct ranks_plan *plan);

/* Puts the calling thread, and its seat's config, on the seat's host. */
void hosts_take(const struct ranks_plan *plan, struct seat *seat);

#endif
