/*
 * Rows for other hosts: this rank's share is copied by RDMA to where members
 * there fetch it, to each of them who has one of its experts (fullmesh), or to
 * one of each host (hierarchy). What no token of the target needs is left out.
 */
#ifndef DISPATCH_CROSS_H
#define DISPATCH_CROSS_H

#include "exchange/exchange.h"

/* Makes the share of the step, and sends it: before the step is announced. */
void cross_send(struct shunt_exchange *exchange, struct step *step);

#endif
