/*
 * What a wire takes, without the library: the constants of a wire that `shunt
 * model' asks for, from RDMA writes between two hosts, of which each runs
 *
 *	vm_wire a|b OWN-ADDRESS PEER-ADDRESS [alone]
 *
 * a listens, b writes them as options to standard output. All are medians, and
 * but for the latency of both hosts writing at once, as in a step; if a is told
 * `alone', of b only:
 *
 *	--wire-us     half of a small write there and one back
 *	--message-us  of a burst of small writes, for each
 *	--wire-gbs    of the bytes that a burst of large writes has more than one
 *		      of small ones, by the time that it takes longer
 *
 * So a message is not counted twice, once in its bytes. A burst is over when the
 * own writes are completed and the other's last one is here: writes of a queue
 * pair are done in their order, by software that writes in order.
 */
#include <netdb.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_cma.h>

#define PORT        "29600"
#define BURST       32
#define SMALL_BYTES 64
#define LARGE_BYTES 16384
#define ROUNDS      301
#define WARMUP      20
#define TIMEOUT_MS  10000
#define TIMEOUT_NS  INT64_C(30000000000)
#define SPIN_NS     1000000
#define SPINS       64

/* What a peer writes, and where this host writes from. */
struct window {
	_Atomic uint64_t turn; /* the peer's last one */
	alignas(64) uint64_t next_turn;
	alignas(4096) uint8_t payload[LARGE_BYTES];
	uint8_t source[LARGE_BYTES];
};

/* Told when connecting. */
struct hello {
	uint64_t address;
	uint32_t rkey;
};

struct wire {
	bool listens;
	struct rdma_cm_id *id;
	struct ibv_mr *memory;
	struct window *window;
	struct hello peer;
	uint64_t turn;
	int burst;     /* writes of this host in one */
	int in_flight; /* signalled writes that are not completed */
};

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- connecting ------------------------------------------------------- */

static struct addrinfo *address_of(const char *text, const char *port)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo(text, port, &hints, &found)) {
		fprintf(stderr, "vm_wire: '%s' is no address\n", text);
		exit(2);
	}
	return found;
}

static void make_queue_pair(struct wire *wire)
{
	struct ibv_qp_init_attr wanted = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = BURST + 2,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	if (rdma_create_qp(wire->id, NULL, &wanted))
		fail("vm_wire: rdma_create_qp");
	wire->memory = ibv_reg_mr(
		wire->id->pd, wire->window, sizeof(*wire->window), access);
	if (!wire->memory)
		fail("vm_wire: ibv_reg_mr");
}

static struct hello hello_of(const struct wire *wire)
{
	return (struct hello){(uintptr_t)wire->window, wire->memory->rkey};
}

/* The private data may come longer than it was sent. */
static void take_hello(struct wire *wire, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;

	if (param->private_data_len < sizeof(wire->peer)) {
		fprintf(stderr, "vm_wire: a stranger's hello\n");
		exit(1);
	}
	memcpy(&wire->peer, param->private_data, sizeof(wire->peer));
}

static void accept_peer(struct wire *wire, struct addrinfo *own)
{
	struct rdma_cm_id *listener;
	struct hello hello;
	struct rdma_conn_param param = {
		.private_data = &hello, .private_data_len = sizeof(hello)};

	if (rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) ||
		rdma_bind_addr(listener, own->ai_addr) ||
		rdma_listen(listener, 1) ||
		rdma_get_request(listener, &wire->id))
		fail("vm_wire: listening");
	take_hello(wire, wire->id->event);
	make_queue_pair(wire);
	hello = hello_of(wire);
	if (rdma_accept(wire->id, &param))
		fail("vm_wire: rdma_accept");
}

static bool try_to_connect(
	struct wire *wire, struct addrinfo *own, struct addrinfo *peer)
{
	struct hello hello;
	struct rdma_conn_param param = {
		.private_data = &hello, .private_data_len = sizeof(hello)};

	if (rdma_create_id(NULL, &wire->id, NULL, RDMA_PS_TCP) ||
		rdma_resolve_addr(
			wire->id, own->ai_addr, peer->ai_addr, TIMEOUT_MS) ||
		rdma_resolve_route(wire->id, TIMEOUT_MS))
		fail("vm_wire: resolving");
	make_queue_pair(wire);
	hello = hello_of(wire);
	if (!rdma_connect(wire->id, &param)) {
		take_hello(wire, wire->id->event);
		return true;
	}
	ibv_dereg_mr(wire->memory);
	rdma_destroy_ep(wire->id);
	return false;
}

/* The other host may not listen yet. */
static void connect_to_peer(
	struct wire *wire, struct addrinfo *own, struct addrinfo *peer)
{
	const struct timespec pause = {.tv_nsec = 100000000};

	for (int tries = 100; tries > 0; tries--) {
		if (try_to_connect(wire, own, peer))
			return;
		nanosleep(&pause, NULL);
	}
	fail("vm_wire: rdma_connect");
}

static void open_wire(struct wire *wire, const char *own, const char *peer)
{
	struct addrinfo *from = address_of(own, wire->listens ? PORT : NULL);
	struct addrinfo *to = address_of(peer, PORT);

	wire->window = aligned_alloc(4096, sizeof(*wire->window));
	if (!wire->window)
		fail("vm_wire: memory");
	memset(wire->window, 0, sizeof(*wire->window));
	if (wire->listens)
		accept_peer(wire, from);
	else
		connect_to_peer(wire, from, to);
	freeaddrinfo(from);
	freeaddrinfo(to);
}

static void close_wire(struct wire *wire)
{
	rdma_disconnect(wire->id);
	ibv_dereg_mr(wire->memory);
	rdma_destroy_ep(wire->id);
	free(wire->window);
}

/* ---- writing ---------------------------------------------------------- */

static void post(struct wire *wire, const void *from, size_t bytes,
	size_t offset, bool signalled)
{
	struct ibv_sge piece = {
		(uintptr_t)from, (uint32_t)bytes, wire->memory->lkey};
	struct ibv_send_wr *wrong;
	struct ibv_send_wr request = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = signalled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = {.remote_addr = wire->peer.address + offset,
			.rkey = wire->peer.rkey},
	};

	if (ibv_post_send(wire->id->qp, &request, &wrong))
		fail("vm_wire: ibv_post_send");
	wire->in_flight += signalled;
}

static void reap(struct wire *wire)
{
	struct ibv_wc done;
	int got = ibv_poll_cq(wire->id->send_cq, 1, &done);

	if (got < 0)
		fail("vm_wire: ibv_poll_cq");
	if (got > 0 && done.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "vm_wire: a write failed: %s\n",
			ibv_wc_status_str(done.status));
		exit(1);
	}
	wire->in_flight -= got;
}

static bool is_over(const struct wire *wire)
{
	uint64_t turn =
		atomic_load_explicit(&wire->window->turn, memory_order_acquire);

	return turn >= wire->turn && wire->in_flight == 0;
}

static bool spin(struct wire *wire)
{
	for (int i = 0; i < SPINS; i++) {
		if (is_over(wire))
			return true;
		reap(wire);
	}
	return false;
}

/* Until the peer's turn, or a later one, is here and all own writes are done. A
 * device that is made of software may need this processor, so it is left now and
 * then, as the library does. */
static void await_peer(struct wire *wire)
{
	int64_t began = now_ns();

	while (!spin(wire)) {
		int64_t waited = now_ns() - began;

		if (waited > SPIN_NS)
			sched_yield();
		if (waited <= TIMEOUT_NS)
			continue;
		fprintf(stderr, "vm_wire: turn %llu of the peer is not here\n",
			(unsigned long long)wire->turn);
		exit(1);
	}
}

static void post_turn(struct wire *wire)
{
	wire->window->next_turn = wire->turn;
	post(wire, &wire->window->next_turn, sizeof(wire->window->next_turn),
		offsetof(struct window, turn), true);
}

/* ---- measuring -------------------------------------------------------- */

/* A write there and back. */
static int64_t trip_ns(struct wire *wire)
{
	int64_t began = now_ns();

	wire->turn++;
	if (wire->listens) {
		await_peer(wire);
		post_turn(wire);
	} else {
		post_turn(wire);
		await_peer(wire);
	}
	return now_ns() - began;
}

/* Both write at once. */
static int64_t burst_ns(struct wire *wire, size_t bytes)
{
	int64_t began;

	wire->turn++;
	post_turn(wire);
	await_peer(wire);
	began = now_ns();
	for (int i = 0; i < wire->burst; i++)
		post(wire, wire->window->source, bytes,
			offsetof(struct window, payload), false);
	wire->turn++;
	post_turn(wire);
	await_peer(wire);
	return now_ns() - began;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static double median_us(int64_t ns[ROUNDS])
{
	int64_t *middle = ns + ROUNDS / 2;

	qsort(ns, ROUNDS, sizeof(ns[0]), compare);
	return (double)*middle * 1e-3;
}

/* In turns, so that what disturbs the machine for a while disturbs all. */
static void measure(struct wire *wire)
{
	static int64_t trips[ROUNDS], small[ROUNDS], large[ROUNDS];
	double trip_us, small_us, large_us;

	for (int i = -WARMUP; i < ROUNDS; i++) {
		int at = i < 0 ? 0 : i;

		trips[at] = trip_ns(wire);
		small[at] = burst_ns(wire, SMALL_BYTES);
		large[at] = burst_ns(wire, LARGE_BYTES);
	}
	trip_us = median_us(trips);
	small_us = median_us(small);
	large_us = median_us(large);
	if (!wire->listens)
		printf("--wire-us %.2f --message-us %.2f --wire-gbs %.4f\n",
			trip_us / 2, (small_us - trip_us / 2) / BURST,
			BURST * (LARGE_BYTES - SMALL_BYTES) /
				((large_us - small_us) * 1e3));
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "vm_wire a|b OWN-ADDRESS PEER-ADDRESS [alone]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	struct wire wire = {.burst = BURST};

	if (argc < 4 || argc > 5 ||
		(strcmp(argv[1], "a") && strcmp(argv[1], "b")))
		usage();
	wire.listens = argv[1][0] == 'a';
	if (argc == 5) {
		if (strcmp(argv[4], "alone") || !wire.listens)
			usage();
		wire.burst = 0;
	}
	open_wire(&wire, argv[2], argv[3]);
	measure(&wire);
	close_wire(&wire);
	return 0;
}
