/* The simulator of RDMA keeps what verbs promise, and sees misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_verbs.h"
#include "transport/verbs_api.h"

#define DEPTH      16
#define AREA_BYTES 65536
#define PATIENCE   20000000 /* polls until a test gives up */

/* One end of a connection. */
struct side {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *area;
	struct rdma_conn_param heard; /* with the request, or the answer */
	uint8_t data[256];
};

static const struct fake_config usual = {
	.devices =
		{
			{.name = "fake0", .host = 0, .address = "10.1.0.1"},
			{.name = "fake1", .host = 1, .address = "10.1.0.2"},
		},
	.num_devices = 2,
	.seed = 1,
};

static const struct verbs_api *api;
static struct side sides[2];

/* ---- making a connection ------------------------------------------------ */

static struct sockaddr *address_of(int side)
{
	static struct sockaddr_in addresses[2];

	addresses[side].sin_family = AF_INET;
	inet_pton(AF_INET, usual.devices[side].address,
		&addresses[side].sin_addr);
	addresses[side].sin_port = side ? htons(4711) : 0;
	return (void *)&addresses[side];
}

/* The next event must be this one. */
static void expect_event(struct side *side, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_int_equal(api->cm_get_event(side->events, &event), 0);
	assert_string_equal(
		api->cm_event_str(event->event), api->cm_event_str(type));
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		side->id = event->id;
	if (event->param.conn.private_data_len) {
		side->heard = event->param.conn;
		memcpy(side->data, event->param.conn.private_data,
			event->param.conn.private_data_len);
	}
	assert_int_equal(api->cm_ack_event(event), 0);
}

static void make_queues(struct side *side, int num_cqe)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	side->area = calloc(1, AREA_BYTES);
	side->pd = api->alloc_pd(side->id->verbs);
	side->channel = api->create_comp_channel(side->id->verbs);
	side->cq = api->create_cq(
		side->id->verbs, num_cqe, side, side->channel, 0);
	side->mr = api->reg_mr(side->pd, side->area, AREA_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = side->cq;
	assert_int_equal(api->cm_create_qp(side->id, side->pd, &init), 0);
}

static void listen_and_route(void)
{
	struct side *active = &sides[0];
	struct side *passive = &sides[1];

	for (int s = 0; s < 2; s++)
		sides[s].events = api->cm_create_event_channel();
	assert_int_equal(api->cm_create_id(passive->events, &passive->listener,
				 NULL, RDMA_PS_TCP),
		0);
	assert_int_equal(
		api->cm_bind_addr(passive->listener, address_of(1)), 0);
	assert_int_equal(api->cm_listen(passive->listener, 8), 0);
	assert_int_equal(api->cm_create_id(active->events, &active->id, NULL,
				 RDMA_PS_TCP),
		0);
	assert_int_equal(api->cm_resolve_addr(active->id, address_of(0),
				 address_of(1), 1000),
		0);
	expect_event(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(api->cm_resolve_route(active->id, 1000), 0);
	expect_event(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connect_sides(int num_cqe)
{
	struct rdma_conn_param parameters = {.private_data = "hello",
		.private_data_len = 5,
		.retry_count = 6,
		.rnr_retry_count = 6};

	listen_and_route();
	make_queues(&sides[0], num_cqe);
	assert_int_equal(api->cm_connect(sides[0].id, &parameters), 0);
	expect_event(&sides[1], RDMA_CM_EVENT_CONNECT_REQUEST);
	make_queues(&sides[1], num_cqe);
	assert_int_equal(api->cm_accept(sides[1].id, &parameters), 0);
	expect_event(&sides[0], RDMA_CM_EVENT_ESTABLISHED);
	expect_event(&sides[1], RDMA_CM_EVENT_ESTABLISHED);
}

static void start(const struct fake_config *config)
{
	fake_verbs_start(config);
	api = verbs_api();
	memset(sides, 0, sizeof(sides));
	connect_sides(4 * DEPTH);
}

static void close_side(struct side *side)
{
	if (side->id->qp)
		api->cm_destroy_qp(side->id);
	api->cm_destroy_id(side->id);
	if (side->listener)
		api->cm_destroy_id(side->listener);
	api->cm_destroy_event_channel(side->events);
	api->destroy_cq(side->cq);
	api->dereg_mr(side->mr);
	api->destroy_comp_channel(side->channel);
	api->dealloc_pd(side->pd);
	free(side->area);
}

/* The number of misuses. */
static int finish(void)
{
	for (int s = 0; s < 2; s++)
		close_side(&sides[s]);
	return fake_verbs_finish();
}

/* ---- posting ------------------------------------------------------------ */

/* From the same place of side 0's area to that of side 1's. */
static int post(enum ibv_wr_opcode opcode, uint64_t at, uint32_t bytes,
	unsigned int flags, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)sides[0].area + at,
		.length = bytes,
		.lkey = sides[0].mr->lkey};
	struct ibv_send_wr request = {.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = htonl((uint32_t)wr_id)};
	struct ibv_send_wr *bad;

	request.wr.rdma.remote_addr = (uintptr_t)sides[1].area + at;
	request.wr.rdma.rkey = sides[1].mr->rkey;
	return api->post_send(sides[0].id->qp, &request, &bad);
}

static void post_receive(uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)sides[1].area,
		.length = bytes,
		.lkey = sides[1].mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(api->post_recv(sides[1].id->qp, &request, &bad), 0);
}

static struct ibv_wc await(int side)
{
	struct ibv_wc wc;

	for (int i = 0; i < PATIENCE; i++) {
		int count = api->poll_cq(sides[side].cq, 1, &wc);

		assert_true(count >= 0);
		if (count > 0)
			return wc;
	}
	fail_msg("no completion");
	return (struct ibv_wc){0};
}

static void expect_status(int side, enum ibv_wc_status status)
{
	struct ibv_wc wc = await(side);

	assert_string_equal(
		ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* ---- connections -------------------------------------------------------- */

static void private_data_arrives_padded(void **state)
{
	(void)state;
	start(&usual);
	assert_int_equal(sides[1].heard.private_data_len, 56);
	assert_int_equal(sides[0].heard.private_data_len, 196);
	assert_memory_equal(sides[1].data, "hello", 5);
	assert_memory_equal(sides[0].data, "hello", 5);
	assert_int_equal(finish(), 0);
}

static void private_data_of_iwarp_arrives_as_it_was(void **state)
{
	struct fake_config config = usual;

	(void)state;
	config.devices[0].iwarp = config.devices[1].iwarp = true;
	start(&config);
	assert_int_equal(sides[1].heard.private_data_len, 5);
	assert_int_equal(sides[0].heard.private_data_len, 5);
	assert_int_equal(finish(), 0);
}

static void who_disconnects_is_heard_and_flushes(void **state)
{
	(void)state;
	start(&usual);
	post_receive(64);
	assert_int_equal(api->cm_disconnect(sides[0].id), 0);
	expect_event(&sides[1], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(api->cm_disconnect(sides[1].id), 0);
	expect_status(1, IBV_WC_WR_FLUSH_ERR);
	expect_event(&sides[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(finish(), 0);
}

static void without_a_listener_one_is_rejected(void **state)
{
	struct rdma_conn_param parameters = {.retry_count = 6};

	(void)state;
	fake_verbs_start(&usual);
	api = verbs_api();
	memset(sides, 0, sizeof(sides));
	listen_and_route();
	make_queues(&sides[0], DEPTH);
	api->cm_destroy_id(sides[1].listener);
	assert_int_equal(api->cm_connect(sides[0].id, &parameters), 0);
	expect_event(&sides[0], RDMA_CM_EVENT_REJECTED);
	api->cm_destroy_event_channel(sides[1].events);
	close_side(&sides[0]);
	assert_int_equal(fake_verbs_finish(), 0);
}

static void a_dead_host_is_unreachable(void **state)
{
	struct rdma_conn_param parameters = {.retry_count = 6};
	struct fake_config config = usual;

	(void)state;
	config.cm_ns = 20000000;
	fake_verbs_start(&config);
	api = verbs_api();
	memset(sides, 0, sizeof(sides));
	listen_and_route();
	make_queues(&sides[0], DEPTH);
	fake_verbs_kill_host(1);
	assert_int_equal(api->cm_connect(sides[0].id, &parameters), 0);
	expect_event(&sides[0], RDMA_CM_EVENT_UNREACHABLE);
	api->cm_destroy_id(sides[1].listener);
	api->cm_destroy_event_channel(sides[1].events);
	close_side(&sides[0]);
	assert_int_equal(fake_verbs_finish(), 0);
}

static void an_odd_event_comes_at_its_turn(void **state)
{
	(void)state;
	start(&usual);
	fake_verbs_odd_event(1, FAKE_BEFORE, RDMA_CM_EVENT_ADDR_CHANGE, -EIO);
	assert_int_equal(api->cm_disconnect(sides[0].id), 0);
	expect_event(&sides[1], RDMA_CM_EVENT_ADDR_CHANGE);
	expect_event(&sides[1], RDMA_CM_EVENT_DISCONNECTED);
	assert_true(fake_verbs_failed());
	assert_int_equal(finish(), 0);
}

/* ---- bytes and completions ---------------------------------------------- */

/* Many writes, then one with an immediate: what it promises, whatever the
 * order of bytes is. */
static void check_order(const struct fake_config *config)
{
	start(config);
	for (int round = 1; round <= 100; round++) {
		post_receive(0);
		memset(sides[0].area, round, 8000);
		for (uint64_t w = 0; w < 4; w++)
			assert_int_equal(
				post(IBV_WR_RDMA_WRITE, w * 1999, 1999, 0, w),
				0);
		assert_int_equal(post(IBV_WR_RDMA_WRITE_WITH_IMM, 7996, 4,
					 IBV_SEND_SIGNALED, (uint64_t)round),
			0);
		assert_int_equal(ntohl(await(1).imm_data), round);
		for (int b = 0; b < 8000; b++)
			assert_int_equal(sides[1].area[b], round);
		assert_int_equal(await(0).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(finish(), 0);
}

static void a_receive_completes_behind_all_bytes(void **state)
{
	struct fake_config config = usual;

	(void)state;
	for (int policy = FAKE_RANDOM; policy <= FAKE_AT_POLL; policy++)
		for (int relaxed = 0; relaxed < 2; relaxed++) {
			config.policy = (enum fake_policy)policy;
			config.seed++;
			config.devices[1].relaxed = relaxed;
			check_order(&config);
		}
}

static void iwarp_has_no_immediates(void **state)
{
	struct fake_config config = usual;

	(void)state;
	config.devices[0].iwarp = config.devices[1].iwarp = true;
	start(&config);
	assert_int_equal(post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, 0, 0), EINVAL);
	post_receive(64);
	assert_int_equal(post(IBV_WR_SEND, 0, 8, 0, 0), 0);
	expect_status(1, IBV_WC_SUCCESS);
	assert_int_equal(finish(), 0);
}

static void a_place_is_free_once_a_completion_behind_is_polled(void **state)
{
	(void)state;
	start(&usual);
	for (uint64_t w = 0; w < DEPTH; w++)
		assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8,
					 w == 7 ? IBV_SEND_SIGNALED : 0, w),
			0);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, 0), ENOMEM);
	assert_int_equal(await(0).wr_id, 7);
	for (uint64_t w = 0; w < 8; w++)
		assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, 0), 0);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, 0), ENOMEM);
	assert_int_equal(finish(), 0);
}

static void from_the_bad_request_on_nothing_is_posted(void **state)
{
	struct ibv_send_wr requests[3] = {0};
	struct ibv_send_wr *bad = NULL;

	(void)state;
	start(&usual);
	for (int r = 0; r < 3; r++) {
		requests[r].opcode = IBV_WR_RDMA_WRITE;
		requests[r].send_flags = IBV_SEND_SIGNALED;
		requests[r].next = r < 2 ? &requests[r + 1] : NULL;
	}
	fake_verbs_fail_call("post_send", 2);
	assert_int_equal(
		api->post_send(sides[0].id->qp, requests, &bad), ENOMEM);
	assert_ptr_equal(bad, &requests[1]);
	assert_string_equal(fake_verbs_failed_call(), "post_send");
	assert_int_equal(fake_verbs_sent(), 1);
	assert_int_equal(finish(), 0);
}

static void an_armed_queue_tells_once(void **state)
{
	struct pollfd entry;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	start(&usual);
	entry = (struct pollfd){.fd = sides[0].channel->fd, .events = POLLIN};
	assert_int_equal(api->req_notify_cq(sides[0].cq, 0), 0);
	assert_int_equal(
		post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, 0), 0);
	assert_int_equal(api->get_cq_event(sides[0].channel, &cq, &context), 0);
	assert_ptr_equal(cq, sides[0].cq);
	assert_ptr_equal(context, &sides[0]);
	api->ack_cq_events(cq, 1);
	assert_int_equal(await(0).status, IBV_WC_SUCCESS);
	assert_int_equal(
		post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, 0), 0);
	assert_int_equal(await(0).status, IBV_WC_SUCCESS);
	assert_int_equal(poll(&entry, 1, 0), 0);
	assert_int_equal(finish(), 0);
}

/* ---- errors ------------------------------------------------------------- */

static void a_write_outside_a_region_breaks_both_ends(void **state)
{
	(void)state;
	start(&usual);
	post_receive(0);
	assert_int_equal(api->dereg_mr(sides[1].mr), 0);
	sides[1].mr = api->reg_mr(sides[1].pd, sides[1].area, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 4090, 6, 0, 0), 0);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 4090, 7, 0, 1), 0);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 7, 0, 2), 0);
	assert_int_equal(await(0).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(await(0).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(await(1).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(finish(), 0);
}

static void a_key_of_nothing_is_a_local_error(void **state)
{
	(void)state;
	start(&usual);
	api->dereg_mr(sides[0].mr);
	sides[0].mr = api->reg_mr(
		sides[0].pd, sides[0].area, 64, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 60, 8, 0, 0), 0);
	expect_status(0, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(finish(), 0);
}

static void a_send_without_a_receive_is_seen(void **state)
{
	(void)state;
	start(&usual);
	assert_int_equal(post(IBV_WR_SEND, 0, 8, 0, 0), 0);
	expect_status(0, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(fake_verbs_not_ready(), 1);
	assert_int_equal(finish(), 0);
}

static void a_cut_wire_may_be_mended_a_dead_host_may_not(void **state)
{
	struct fake_config config = usual;

	(void)state;
	config.retry_ns = 2000000000;
	start(&config);
	fake_verbs_cut(0, 1, true);
	assert_int_equal(
		post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, 0), 0);
	fake_verbs_cut(1, 0, false);
	expect_status(0, IBV_WC_SUCCESS);
	assert_int_equal(finish(), 0);
	start(&usual);
	fake_verbs_kill_host(1);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, 0), 0);
	expect_status(0, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(finish(), 0);
}

static void a_failed_completion_says_four_things_only(void **state)
{
	struct ibv_wc wc;

	(void)state;
	start(&usual);
	fake_verbs_fail_send(2, IBV_WC_LOC_QP_OP_ERR);
	for (uint64_t w = 0; w < 3; w++)
		assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, w), 0);
	wc = await(0);
	assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.qp_num, sides[0].id->qp->qp_num);
	assert_int_equal(wc.byte_len, 0xa5a5a5a5);
	assert_int_equal(await(0).wr_id, 2);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 0, 8, 0, 3), 0);
	expect_status(0, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(finish(), 0);
}

/* ---- misuse ------------------------------------------------------------- */

static void an_overrun_of_completions_is_misuse(void **state)
{
	(void)state;
	fake_verbs_start(&usual);
	api = verbs_api();
	memset(sides, 0, sizeof(sides));
	connect_sides(2);
	for (uint64_t w = 0; w < 3; w++)
		post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, w);
	for (int i = 0; i < PATIENCE && !fake_verbs_misuses(); i++)
		;
	assert_int_equal(finish(), 1);
}

static void a_source_changed_too_early_is_misuse(void **state)
{
	(void)state;
	start(&usual);
	fake_verbs_hold(true);
	post_receive(0);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 4096, IBV_SEND_SIGNALED, 0);
	expect_status(1, IBV_WC_SUCCESS);
	sides[0].area[5] ^= 1;
	fake_verbs_hold(false);
	expect_status(0, IBV_WC_SUCCESS);
	assert_int_equal(finish(), 1);
}

static void what_is_not_destroyed_is_misuse(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	start(&usual);
	pd = api->alloc_pd(sides[0].id->verbs);
	assert_non_null(pd);
	assert_true(finish() > 0);
	free(pd);
}

static void an_event_that_is_not_acknowledged_is_misuse(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	start(&usual);
	api->cm_disconnect(sides[0].id);
	assert_int_equal(api->cm_get_event(sides[1].events, &event), 0);
	assert_int_equal(finish(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_data_arrives_padded),
		cmocka_unit_test(private_data_of_iwarp_arrives_as_it_was),
		cmocka_unit_test(who_disconnects_is_heard_and_flushes),
		cmocka_unit_test(without_a_listener_one_is_rejected),
		cmocka_unit_test(a_dead_host_is_unreachable),
		cmocka_unit_test(an_odd_event_comes_at_its_turn),
		cmocka_unit_test(a_receive_completes_behind_all_bytes),
		cmocka_unit_test(iwarp_has_no_immediates),
		cmocka_unit_test(
			a_place_is_free_once_a_completion_behind_is_polled),
		cmocka_unit_test(from_the_bad_request_on_nothing_is_posted),
		cmocka_unit_test(an_armed_queue_tells_once),
		cmocka_unit_test(a_write_outside_a_region_breaks_both_ends),
		cmocka_unit_test(a_key_of_nothing_is_a_local_error),
		cmocka_unit_test(a_send_without_a_receive_is_seen),
		cmocka_unit_test(a_cut_wire_may_be_mended_a_dead_host_may_not),
		cmocka_unit_test(a_failed_completion_says_four_things_only),
		cmocka_unit_test(an_overrun_of_completions_is_misuse),
		cmocka_unit_test(a_source_changed_too_early_is_misuse),
		cmocka_unit_test(what_is_not_destroyed_is_misuse),
		cmocka_unit_test(an_event_that_is_not_acknowledged_is_misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
