/* The meeting over TCP: where it is, whether it is allowed, which side. */
#include "bootstrap/tcp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define LOOKUP_PAUSE_NS 100000000

const struct wire_version tcp_own_version = {
	.protocol = WIRE_PROTOCOL,
	.major = SHUNT_VERSION_MAJOR,
	.minor = SHUNT_VERSION_MINOR,
};

/* Names may come up after the ranks do: asks until the deadline. */
static enum shunt_status look_up(struct tcp_meeting *tcp)
{
	const struct meeting *meeting = tcp->meeting;
	const struct bootstrap *own = meeting->bootstrap;
	const char *reason;
	bool noted = false;

	for (;;) {
		int64_t next = clock_deadline(LOOKUP_PAUSE_NS);

		reason = net_resolve(own->address, own->port, &tcp->addresses);
		if (!reason)
			return SHUNT_OK;
		if (next > meeting->deadline)
			break;
		if (!noted)
			log_note(LOG_WARN,
				"looking up \"%s\": %s; trying on until the "
				"deadline",
				own->address, reason);
		noted = true;
		net_sleep(next);
	}
	if (own->rank == 0)
		return error_set(SHUNT_SYSTEM,
			"rank 0 cannot look up \"%s\": %s", own->address,
			reason);
	error_set(SHUNT_TIMEOUT,
		"rank %d did not reach rank 0: cannot look up \"%s\": %s",
		own->rank, own->address, reason);
	error_add_rank(0);
	return SHUNT_TIMEOUT;
}

/* Without a key anyone who reaches the port could join. */
static enum shunt_status demand_key(const struct tcp_meeting *tcp)
{
	if (tcp->meeting->bootstrap->key[0] != '\0')
		return SHUNT_OK;
	for (int i = 0; i < tcp->addresses.num; i++) {
		if (!net_is_loopback(&tcp->addresses.list[i]))
			return error_set(SHUNT_INVALID,
				"%s is not a loopback address, so the job "
				"needs a key: set SHUNT_KEY (or key in the "
				"config) to the same secret on all ranks",
				tcp->where);
	}
	return SHUNT_OK;
}

enum shunt_status tcp_meet(
	const struct meeting *meeting, const struct wire_version *version)
{
	const struct bootstrap *own = meeting->bootstrap;
	struct tcp_meeting tcp = {.meeting = meeting, .version = *version};
	enum shunt_status status;

	net_format(tcp.where, sizeof(tcp.where), own->address, own->port);
	status = look_up(&tcp);
	if (status == SHUNT_OK)
		status = demand_key(&tcp);
	if (status != SHUNT_OK)
		return status;
	return own->rank == 0 ? root_meet(&tcp) : client_meet(&tcp);
}
