/*
 * The meeting over TCP: rank 0 is the root and listens, the others are its
 * clients.
 */
#ifndef BOOTSTRAP_TCP_H
#define BOOTSTRAP_TCP_H

#include "bootstrap/meeting.h"
#include "bootstrap/net.h"
#include "bootstrap/wire.h"

/* What this library is. */
extern const struct wire_version tcp_own_version;

/* One rank's part, with its address looked up and allowed. */
struct tcp_meeting {
	const struct meeting *meeting;
	struct wire_version version;
	struct net_addresses addresses;
	char where[300]; /* "HOST:PORT", for messages */
};

/* bootstrap_meet() for BOOTSTRAP_TCP. `version` is tcp_own_version, or another
 * one in tests. */
enum shunt_status tcp_meet(
	const struct meeting *meeting, const struct wire_version *version);

/* The two sides. */
enum shunt_status root_meet(const struct tcp_meeting *tcp);
enum shunt_status client_meet(const struct tcp_meeting *tcp);

#endif
