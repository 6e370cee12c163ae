/*
 * Connecting through the connection manager, and its events ever after.
 *
 * Each lane is a connection of its own. The lower rank of two asks, the higher
 * answers, as simultaneous requests can reject each other:
 *
 *	lower rank (verbs_dial)			higher rank (verbs_answer)
 *	resolve address, route
 *	queue pair, receives
 *	connect {greeting}		-->	greeting genuine?
 *						queue pair, receives
 *	greeting genuine?		<--	accept {greeting}
 *	open; record HELLO		-->	open
 *
 * Who answers waits for HELLO, because on iWARP who asked has to send first,
 * and because the manager's own last message may be lost.
 */
#ifndef TRANSPORT_VERBS_CONNECT_H
#define TRANSPORT_VERBS_CONNECT_H

#include "transport/verbs.h"
#include "transport/verbs_greeting.h"

/* An event, copied: the manager's own is acknowledged at once, as destroying
 * an id waits for that. */
struct connect_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	bool is_request; /* id is new, nobody's yet */
	int status;
	uint8_t data[256];
	uint32_t num_data_bytes;
};

/* What connecting needs to know; only while it lasts. */
struct connecting {
	struct greeting_terms terms;
	int32_t num_dialling;
	enum shunt_status status; /* of what makes it impossible; message set */
};

/* Connects all links. `far` is locked by none. Errors: as far_connect(). */
enum shunt_status connect_all(
	struct far *far, struct connecting *connecting, int64_t deadline);

/* Takes all events that there are, once everything is connected: losses, and
 * requests of strangers, which are rejected. */
void connect_take_events(struct far *far);

/* ---- one side each ----------------------------------------------------- */

/* Begins to connect a lane to a higher rank. */
void dial_begin(struct connecting *connecting, struct verbs_lane *lane);

/* Gives up a try that has taken too long, to begin another. */
void dial_look(
	struct connecting *connecting, struct verbs_lane *lane, int64_t now);

/* Goes on as an event of the lane's id says. */
void dial_event(struct connecting *connecting, struct verbs_lane *lane,
	const struct connect_event *event);

/* Answers a request of a lower rank, or of a stranger. */
void answer_request(struct far *far, struct connecting *connecting,
	const struct connect_event *event);

/* An event of an id that was accepted. */
void answer_event(struct verbs_lane *lane, const struct connect_event *event);

/* ---- both sides -------------------------------------------------------- */

/* Takes over a lane's new id: its queue pair, and receives for the peer.
 * Errors: as device_make_qp(). */
enum shunt_status connect_prepare(
	struct verbs_lane *lane, struct rdma_cm_id *id);

/* Gives up a lane's id, to try again from `retry_at` on. */
void connect_drop(struct verbs_lane *lane, int64_t retry_at);

/* Parameters of connect() and accept(), with a signed greeting. */
void connect_fill(struct verbs_lane *lane, enum greeting_way way,
	const struct greeting_terms *terms, struct greeting *greeting,
	struct rdma_conn_param *parameters);

/* Whether a genuine greeting makes sense for a lane. */
bool connect_fits(
	const struct verbs_lane *lane, const struct greeting *greeting);

/* Learns what a greeting that fits says of a lane. */
void connect_learn(struct verbs_lane *lane, const struct greeting *greeting);

/* Errors: INVALID (the connection does not use the GID of the config). */
enum shunt_status connect_check_gid(const struct verbs_lane *lane);

/* Sets the options of an id that count from connecting on. */
void connect_options(const struct far_config *config, struct rdma_cm_id *id);

#endif
