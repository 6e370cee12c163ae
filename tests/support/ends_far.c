/* Ends over RDMA: what the world does with far.h, for one peer. */
#include "support/ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/order.h"
#include "support/child.h"
#include "support/fake_forms.h"
#include "transport/far.h"
#include "transport/health.h"

#define LONG_NS INT64_C(20000000000)

struct far_letter {
	struct peer_hello hello;
	uint64_t area;
};

static const uint8_t secret[32] = {4, 5, 6};

bool ends_have_rdma(void)
{
	return getenv("SHUNT_TEST_RDMA") != NULL;
}

static const struct fake_form *form_of_tests(void)
{
	const struct fake_form *form =
		fake_form_find(getenv("SHUNT_TEST_FORM"));

	assert_non_null(form);
	return form;
}

void ends_far_begin(void)
{
	if (!ends_have_rdma())
		fake_form_start(form_of_tests(), 1);
}

void ends_far_end(void)
{
	if (!ends_have_rdma())
		assert_int_equal(fake_verbs_finish(), 0);
}

/* The status is OK; else says why. */
static bool told_good(enum shunt_status status)
{
	if (status != SHUNT_OK)
		fprintf(stderr, "%s: %s\n", shunt_status_name(status),
			shunt_error_message());
	return status == SHUNT_OK;
}

/* The address of an end, in a buffer of the caller. */
static const char *address_of(int32_t rank, char text[64])
{
	const char *addresses = getenv("SHUNT_TEST_RDMA");
	const char *second = strchr(addresses, ',');

	if (rank == 1 && second)
		return second + 1;
	strncpy(text, addresses, 63);
	text[63] = '\0';
	text[strcspn(text, ",")] = '\0';
	return text;
}

static int32_t number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : 0;
}

/* What else a guest's run asks for. */
static void config_fill(
	struct far_config *config, int32_t rank, char address[64])
{
	if (!ends_have_rdma()) {
		fake_verbs_host(rank);
		fake_form_fill(form_of_tests(), rank, config);
		return;
	}
	config->device = getenv("SHUNT_TEST_RDMA_DEVICES");
	if (!config->device)
		config->address = address_of(rank, address);
	config->lanes = number_of("SHUNT_TEST_RDMA_LANES");
	if (getenv("SHUNT_TEST_RDMA_LEVEL"))
		config->service_level = number_of("SHUNT_TEST_RDMA_LEVEL");
	config->queue_depth = number_of("SHUNT_TEST_RDMA_DEPTH");
}

static int far_letter_write(
	struct end *end, int32_t rank, struct far_letter *letter)
{
	struct far_config config = FAR_CONFIG_INIT;
	char text[64];

	memset(letter, 0, sizeof(*letter));
	config_fill(&config, rank, text);
	CHILD_CHECK(told_good(far_open(
		&config, end->segment, rank, &end->far, &letter->hello.far)));
	letter->hello.segment_bytes = segment_reserved_bytes(end->segment);
	letter->hello.segment[0] = (uint8_t)(rank + 1);
	letter->area = end->own_area;
	return 0;
}

static int letters_swap(int wire, int32_t rank, struct far_letter letters[2])
{
	ssize_t bytes = sizeof(struct far_letter);

	CHILD_CHECK(write(wire, &letters[rank], sizeof(*letters)) == bytes);
	CHILD_CHECK(recv(wire, &letters[1 - rank], sizeof(*letters),
			    MSG_WAITALL) == bytes);
	return 0;
}

/* Tells the other that the area is exposed: a put behind that, as a value is a
 * sum, to an entry of the directory in its image. Awaits the same from it. */
static int areas_meet(struct end *end)
{
	const uint64_t key_off = offsetof(struct control, directory[0].key);
	_Atomic uint64_t *key = &end->other->control->directory[0].key;
	bool again = true;

	CHILD_CHECK(far_expose(end->far, end->own_area, 2 * ENDS_AREA_BYTES) ==
		    SHUNT_OK);
	while (again) {
		CHILD_CHECK(end->other->ops->put(end->other, 0, NULL, 0,
				    far_image_off(end->other) + key_off, 1,
				    &again) == SHUNT_OK);
		far_progress(end->far);
	}
	while (order_acquire(key) != 1 &&
		end->other->ops->state(end->other) == PEER_ALIVE)
		far_progress(end->far);
	CHILD_CHECK(order_acquire(key) == 1);
	return 0;
}

int ends_far_join(struct end *end, int wire, int32_t rank)
{
	const bool is_far[2] = {rank == 1, rank == 0};
	struct far_letter letters[2];
	struct peer_hello hellos[2];
	int line;

	CHILD_CHECK(guard_init() == SHUNT_OK);
	CHILD_CHECK(segment_create(SEGMENT_SHARED, ENDS_RESERVE_BYTES,
			    &end->segment) == SHUNT_OK);
	CHILD_CHECK(life_begin(end->segment) == SHUNT_OK);
	CHILD_CHECK(segment_alloc(end->segment, 2 * ENDS_AREA_BYTES,
			    ENDS_AREA_ALIGN, &end->own_area) == SHUNT_OK);
	line = far_letter_write(end, rank, &letters[rank]);
	if (line == 0)
		line = letters_swap(wire, rank, letters);
	if (line)
		return line;
	hellos[0] = letters[0].hello;
	hellos[1] = letters[1].hello;
	CHILD_CHECK(told_good(far_connect(end->far, 2, hellos, is_far, secret,
		clock_deadline(LONG_NS), end->peers)));
	end->other = end->peers[1 - rank];
	end->other_area = letters[1 - rank].area;
	return areas_meet(end);
}

void ends_far_close(struct end *end)
{
	life_end(end->segment);
	if (end->other)
		end->other->ops->close(end->other);
	far_close(end->far);
	segment_put(end->segment);
}

void ends_far_progress(const struct end *end)
{
	if (end->far)
		far_progress(end->far);
}

void ends_far_arm(const struct end *end)
{
	if (end->far)
		far_arm(end->far);
}
