/* The RDMA options of a world: config, environment, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "transport/host.h"
#include "world/rdma.h"

static const char *const variables[] = {"SHUNT_RDMA_DEVICE",
	"SHUNT_RDMA_INTERFACE", "SHUNT_RDMA_ADDRESS", "SHUNT_RDMA_PORT",
	"SHUNT_RDMA_GID_INDEX", "SHUNT_RDMA_SERVICE_LEVEL",
	"SHUNT_RDMA_TRAFFIC_CLASS", "SHUNT_RDMA_LANES",
	"SHUNT_RDMA_ACK_TIMEOUT", "SHUNT_RDMA_QUEUE_DEPTH"};

static int clear(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		unsetenv(variables[i]);
	return 0;
}

static void nothing_given_leaves_everything_to_be_chosen(void **state)
{
	const struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	struct far_config far;

	(void)state;
	assert_int_equal(rdma_config_read(&config, 3, &far), SHUNT_OK);
	assert_null(far.device);
	assert_null(far.interface);
	assert_null(far.address);
	assert_int_equal(far.port, 0);
	assert_int_equal(far.gid_index, -1);
	assert_int_equal(far.service_level, -1);
	assert_int_equal(far.traffic_class, -1);
	assert_int_equal(far.lanes, 0);
	assert_int_equal(far.ack_timeout, 0);
	assert_int_equal(far.queue_depth, 0);
}

static void variables_give_what_the_config_does_not(void **state)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	struct far_config far;

	(void)state;
	setenv("SHUNT_RDMA_DEVICE", "mlx5_0", 1);
	setenv("SHUNT_RDMA_INTERFACE", "", 1); /* as if it were not set */
	setenv("SHUNT_RDMA_GID_INDEX", "0", 1);
	setenv("SHUNT_RDMA_SERVICE_LEVEL", "15", 1);
	setenv("SHUNT_RDMA_LANES", "2", 1);
	setenv("SHUNT_RDMA_QUEUE_DEPTH", "4", 1);
	config.rdma_lanes = 3;
	config.rdma_traffic_class = 1; /* class 0 */
	config.rdma_address = "10.0.0.1";
	assert_int_equal(rdma_config_read(&config, 3, &far), SHUNT_OK);
	assert_string_equal(far.device, "mlx5_0");
	assert_string_equal(far.address, "10.0.0.1");
	assert_null(far.interface);
	assert_int_equal(far.gid_index, 0);
	assert_int_equal(far.service_level, 15);
	assert_int_equal(far.traffic_class, 0);
	assert_int_equal(far.lanes, 3);
	assert_int_equal(far.queue_depth, 4);
}

static void refused(const struct shunt_world_config *config, const char *name,
	const char *value, const char *range)
{
	struct far_config far;

	assert_int_equal(rdma_config_read(config, 3, &far), SHUNT_INVALID);
	if (!strstr(shunt_error_message(), name) ||
		!strstr(shunt_error_message(), value) ||
		!strstr(shunt_error_message(), range) ||
		!strstr(shunt_error_message(), "rank 3"))
		fail_msg("%s: %s", name, shunt_error_message());
}

static void wrong_variables_are_named_with_value_and_range(void **state)
{
	static const struct {
		const char *name, *value, *range;
	} wrong[] = {{"SHUNT_RDMA_PORT", "0", "1 .. 255"},
		{"SHUNT_RDMA_PORT", "x", "1 .. 255"},
		{"SHUNT_RDMA_GID_INDEX", "-1", "0 .. 65535"},
		{"SHUNT_RDMA_SERVICE_LEVEL", "16", "0 .. 15"},
		{"SHUNT_RDMA_TRAFFIC_CLASS", "256", "0 .. 255"},
		{"SHUNT_RDMA_LANES", "17", "1 .. 16"},
		{"SHUNT_RDMA_LANES", "2 ", "1 .. 16"},
		{"SHUNT_RDMA_ACK_TIMEOUT", "32", "1 .. 31"},
		{"SHUNT_RDMA_QUEUE_DEPTH", "3", "4 .. 32768"},
		{"SHUNT_RDMA_QUEUE_DEPTH", "99999999999999999999",
			"4 .. 32768"}};
	const struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		clear(state);
		setenv(wrong[i].name, wrong[i].value, 1);
		refused(&config, wrong[i].name, wrong[i].value, wrong[i].range);
	}
}

static void wrong_fields_are_named_with_value_and_range(void **state)
{
	const struct shunt_world_config none = SHUNT_WORLD_CONFIG_INIT;
	struct shunt_world_config config;

	(void)state;
#define REFUSED(field, number, range)                     \
	do {                                              \
		config = none;                            \
		config.field = number;                    \
		refused(&config, #field, #number, range); \
	} while (0)
	REFUSED(rdma_port, 256, "1 .. 255");
	REFUSED(rdma_port, -1, "1 .. 255");
	REFUSED(rdma_gid, 65537, "1 .. 65536");
	REFUSED(rdma_service_level, 17, "1 .. 16");
	REFUSED(rdma_traffic_class, -5, "1 .. 256");
	REFUSED(rdma_lanes, 17, "1 .. 16");
	REFUSED(rdma_ack_timeout, 32, "1 .. 31");
	REFUSED(rdma_queue_depth, 2147483647, "4 .. 32768");
	REFUSED(rdma_gid, -2147483648, "1 .. 65536");
#undef REFUSED
}

static void a_text_makes_a_host_of_its_own(void **state)
{
	static const uint8_t process[16] = {1};
	uint8_t plain[16], again[16], a[16], b[16];

	(void)state;
	host_id(plain, process, NULL);
	host_id(again, process, NULL);
	host_id(a, process, "a");
	host_id(b, process, "b");
	assert_memory_equal(plain, again, 16);
	assert_memory_not_equal(plain, a, 16);
	assert_memory_not_equal(a, b, 16);
	host_id(again, process, "a");
	assert_memory_equal(a, again, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			nothing_given_leaves_everything_to_be_chosen, clear),
		cmocka_unit_test_setup(
			variables_give_what_the_config_does_not, clear),
		cmocka_unit_test_setup(
			wrong_variables_are_named_with_value_and_range, clear),
		cmocka_unit_test_setup(
			wrong_fields_are_named_with_value_and_range, clear),
		cmocka_unit_test(a_text_makes_a_host_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
