/* What the parts of the simulator know of each other; see fake_verbs.h. All of
 * it is under one lock, so that the parts need none. */
#ifndef SUPPORT_FAKE_VERBS_SIM_H
#define SUPPORT_FAKE_VERBS_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "support/fake_verbs.h"
#include "transport/verbs_api.h"

#define FAKE_MAX_SGE    16
#define FAKE_VENDOR_ERR 0x5a

/* ---- mailboxes: queues with a descriptor that polls readable ------------ */

struct letter {
	TAILQ_ENTRY(letter) link;
	void *owner; /* the cq, or the id, that it is about */
	union {
		struct rdma_cm_event cm;
		struct ibv_async_event async;
	};
	uint8_t data[256]; /* private data */
};
TAILQ_HEAD(letters, letter);

struct mailbox {
	int fd; /* a semaphore: its value is the number of letters */
	bool broken;
	struct letters letters;
};

void mailbox_init(struct mailbox *box);
void mailbox_fini(struct mailbox *box);
void mailbox_post(struct mailbox *box, struct letter *letter);
void mailbox_post_first(struct mailbox *box, struct letter *letter);
/* Waits without the lock, unless the descriptor says O_NONBLOCK. NULL and
 * errno if there is none, or the wait was interrupted. */
struct letter *mailbox_take(struct mailbox *box);
/* The descriptor polls as an error from now on; no letter comes any more. */
void mailbox_break(struct mailbox *box);
/* Drops all letters of an owner. */
void mailbox_drop(struct mailbox *box, const void *owner);

/* ---- objects ------------------------------------------------------------ */

struct fake_device {
	struct ibv_device device; /* first, as in all that follow */
	struct fake_device_config config;
	struct sockaddr_storage address;
	struct ibv_context *cm_context; /* librdmacm's own, or NULL */
	uint64_t locked_bytes;
	int64_t sent_bytes;
	bool removed;
};

struct fake_context {
	struct ibv_context context;
	struct fake_device *device;
	struct mailbox events;
	int children; /* objects that name it */
	int unacked;
};

struct fake_pd {
	struct ibv_pd pd;
	int children;
};

struct fake_mr {
	struct ibv_mr mr;
	int access;
	TAILQ_ENTRY(fake_mr) link;
};

struct fake_channel {
	struct ibv_comp_channel channel;
	struct mailbox events;
	int children;
};

struct fake_qp;

struct cqe {
	TAILQ_ENTRY(cqe) link;
	struct ibv_wc wc;
	struct fake_qp *qp;
	int frees_send; /* places in its queues that polling it gives back */
	int frees_recv;
};

struct fake_cq {
	struct ibv_cq cq;
	TAILQ_HEAD(, cqe) entries;
	int num_entries;
	int children;
	int unacked;
	bool armed;
	bool solicited_only;
	bool broken; /* takes nothing any more */
};

/* A request: of the send queue, or of the receive queue. */
struct wqe {
	TAILQ_ENTRY(wqe) link;
	struct ibv_send_wr send;
	struct ibv_sge sge[FAKE_MAX_SGE];
	uint8_t *data; /* inline, or as it was sent */
	uint64_t bytes;
	int64_t due;     /* of its next step */
	int64_t give_up; /* stalled until then; 0: not */
	bool is_inline;
	bool sent; /* placed there, not acknowledged yet */
	enum ibv_wc_status fails;
};
TAILQ_HEAD(wqes, wqe);

struct fake_id;

struct fake_qp {
	struct ibv_qp qp;
	struct fake_device *device;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct wqes sends;
	struct wqes recvs;
	int send_used; /* places, until a completion behind is polled */
	int recv_used;
	int unsignalled; /* done since the last completion */
	uint32_t remote_num;
	uint64_t tcp_bytes;  /* in TCP's buffer, for a dead host */
	int64_t paced_until; /* nothing is sent before */
	bool is_mute;        /* completes nothing any more */
	bool may_send; /* iWARP: the connecting side, or it has received */
	struct fake_id *id;
	TAILQ_ENTRY(fake_qp) link;
};

enum id_state {
	ID_IDLE,
	ID_BOUND,
	ID_RESOLVING,
	ID_RESOLVED,
	ID_ROUTING,
	ID_ROUTED,
	ID_LISTENING,
	ID_CONNECTING,
	ID_REQUESTED,
	ID_ACCEPTED,
	ID_RESPONDED, /* established once its event is taken */
	ID_CONNECTED,
	ID_DISCONNECTED,
};

struct fake_id {
	struct rdma_cm_id id;
	int number;
	int other; /* the id at the far end, 0: none */
	enum id_state state;
	int host; /* -1: of no device yet */
	bool passive;
	struct fake_id *listener; /* until the caller has seen it */
	struct letters unacked;
	uint32_t remote_qp;
	struct rdma_conn_param connect; /* what was asked for */
	uint8_t timeout;                /* of acknowledgement, log2 */
	TAILQ_ENTRY(fake_id) link;
};

struct fake_events {
	struct rdma_event_channel channel;
	struct mailbox events;
	int children;
};

/* Bytes of a relaxed write that have not been placed. */
struct chunk {
	TAILQ_ENTRY(chunk) link;
	struct fake_qp *qp; /* of the receiver */
	uint8_t *to;
	uint32_t bytes;
	_Alignas(8) uint8_t data[64];
};

/* A message of connection managers under way. */
enum message_type {
	MESSAGE_EVENT, /* an event for `to', as it is */
	MESSAGE_REQUEST,
	MESSAGE_REPLY,
	MESSAGE_READY,
	MESSAGE_REJECT,
	MESSAGE_DISCONNECT,
};

struct message {
	TAILQ_ENTRY(message) link;
	enum message_type type;
	int64_t due;
	int from; /* numbers of ids; their hosts when it was sent */
	int to;
	int from_host;
	enum rdma_cm_event_type event;
	int status;
	struct rdma_conn_param param;
	uint8_t data[256];
	struct sockaddr_storage address; /* MESSAGE_REQUEST: to whom */
};

struct fake {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool running;
	bool stopping;
	struct fake_config config;
	struct fake_device devices[FAKE_MAX_DEVICES];
	uint64_t random;
	int objects;
	int misuses;
	int not_ready;
	int64_t sent;
	int64_t signalled;
	int64_t largest_post;
	int64_t channel_looks;
	uint32_t last_number; /* of queue pairs, keys, ids and ports */
	bool dead[FAKE_MAX_HOSTS];
	bool cut[FAKE_MAX_HOSTS][FAKE_MAX_HOSTS];
	bool disorder;
	bool held;
	int64_t pace_ns;
	TAILQ_HEAD(, fake_mr) mrs;
	TAILQ_HEAD(, fake_qp) qps;
	TAILQ_HEAD(, fake_id) ids;
	TAILQ_HEAD(, chunk) chunks;
	TAILQ_HEAD(, message) messages;
};

extern struct fake fake;

/* ---- fake_verbs.c ------------------------------------------------------- */

void fake_lock(void);
void fake_unlock(void);
/* A number in [0, below). */
uint64_t fake_random(uint64_t below);
void *fake_new(size_t bytes); /* zero, never NULL; counted */
void fake_delete(void *object);
void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The calling thread's host; -1: any. */
int fake_current_host(void);
bool fake_wire_is_whole(int host, int other);

/* ---- fake_verbs_fault.c ------------------------------------------------- */

/* At the head of each call: true if it is to fail. Takes the lock itself. */
bool fake_fails(const char *function);
bool fake_fails_locked(const char *function);
enum ibv_wc_status fake_send_fails(void);
/* Posts an event for its id, and what is to come with it. */
void fake_deliver(struct fake_id *id, struct letter *letter);
void fake_forget_faults(void);

/* ---- the parts of the table --------------------------------------------- */

void fake_device_init(struct verbs_api *api);
void fake_memory_init(struct verbs_api *api);
void fake_completion_init(struct verbs_api *api);
void fake_queue_init(struct verbs_api *api);
void fake_post_init(struct verbs_api *api);
void fake_cm_init(struct verbs_api *api);
void fake_connect_init(struct verbs_api *api);

/* ---- fake_verbs_device.c ------------------------------------------------ */

struct fake_device *fake_device_by_address(const struct sockaddr *address);
struct fake_device *fake_device_of(const struct ibv_context *context);
struct ibv_context *fake_cm_context(struct fake_device *device);
void fake_close_cm_context(struct fake_device *device);
/* What an event is about may go before it was taken; it goes along then. */
void fake_async(struct fake_device *device, const struct ibv_async_event *event,
	const void *about);
bool fake_same_address(const struct sockaddr *a, const struct sockaddr *b);

struct fake_device *fake_device_by_name(const char *name);

/* ---- fake_verbs_memory.c ------------------------------------------------ */

/* Whether [address, address + bytes) is of a region of `pd' with the key and
 * the access. */
bool fake_reaches(const struct ibv_pd *pd, uint32_t key, bool remote,
	uint64_t address, uint64_t bytes, int access);
/* Copies words at once, as the hardware of our hosts does. */
void fake_copy(void *to, const void *from, size_t bytes);
/* Writes to the memory behind qp: at once, or in chunks some time. */
void fake_place(
	struct fake_qp *qp, uint64_t to, const uint8_t *from, uint64_t bytes);
bool fake_place_any(void);
void fake_place_all(const struct fake_qp *qp);
void fake_place_range(const uint8_t *start, size_t bytes);

/* ---- fake_verbs_source.c ------------------------------------------------ */

/* Copies the source. False if it lies in no region of the key. */
bool fake_gather(const struct fake_qp *qp, struct wqe *wqe);
/* At the completion: misuse, if the source has changed since. */
void fake_check_source(const struct fake_qp *qp, const struct wqe *wqe);

/* ---- fake_verbs_completion.c -------------------------------------------- */

void fake_complete(struct ibv_cq *cq, struct fake_qp *qp,
	const struct ibv_wc *wc, int frees_send, int frees_recv,
	bool solicited);
void fake_forget_entries(struct fake_cq *cq, const struct fake_qp *qp);

/* ---- fake_verbs_queue.c ------------------------------------------------- */

struct fake_qp *fake_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init,
	struct fake_device *device);
void fake_qp_destroy(struct fake_qp *qp);
struct fake_qp *fake_qp_find(uint32_t number);
/* To IBV_QPS_ERR: all requests are flushed. */
void fake_qp_break(struct fake_qp *qp);
void fake_qp_ready(struct fake_qp *qp, uint32_t remote_num);

/* ---- fake_verbs_wire.c -------------------------------------------------- */

/* Does one step of anyone; `force': also what is not due. */
bool fake_step(bool force);
int64_t fake_next_due(void);
/* What a call that posted, or polled, does. */
void fake_run_at_post(void);
void fake_run_at_poll(void);
int64_t fake_due(void);
void fake_finish_send(
	struct fake_qp *qp, struct wqe *wqe, enum ibv_wc_status status);
void fake_finish_recv(
	struct fake_qp *qp, struct wqe *wqe, const struct ibv_wc *wc);
void fake_wqe_free(struct wqe *wqe);

/* ---- fake_verbs_cm.c ---------------------------------------------------- */

struct fake_id *fake_id_find(int number);
struct fake_id *fake_id_new(struct fake_events *channel, void *context);
void fake_attach_device(struct fake_id *id, struct fake_device *device);

/* ---- fake_verbs_message.c ----------------------------------------------- */

/* A message under way; the caller fills in the rest at once. */
struct message *fake_message(
	enum message_type type, const struct fake_id *from, int to);
void fake_message_arrives(struct message *message);
/* An event for the id, with what the message says, or NULL; now, or later. */
void fake_event(struct fake_id *id, enum rdma_cm_event_type type, int status,
	const struct message *message);
void fake_event_later(struct fake_id *id, enum rdma_cm_event_type type,
	int status, int64_t delay_ns);
void fake_event_is_taken(struct letter *letter);
/* Ends what the id was about, and tells the far end. */
void fake_hang_up(struct fake_id *id);

#endif
