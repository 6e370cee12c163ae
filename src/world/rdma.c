/* The RDMA options of a world; see rdma.h. */
#include "world/rdma.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"

/* A number: `field` of the config is it plus `bias` (0: not given). */
struct number {
	const char *field, *variable;
	size_t config_at, far_at;
	int32_t bias, least, most, unset;
};

#define AT(config, far)                              \
	offsetof(struct shunt_world_config, config), \
		offsetof(struct far_config, far)

static const struct number numbers[] = {
	{"rdma_port", "SHUNT_RDMA_PORT", AT(rdma_port, port), 0, 1, 255, 0},
	{"rdma_gid", "SHUNT_RDMA_GID_INDEX", AT(rdma_gid, gid_index), 1, 0,
		65535, -1},
	{"rdma_service_level", "SHUNT_RDMA_SERVICE_LEVEL",
		AT(rdma_service_level, service_level), 1, 0, 15, -1},
	{"rdma_traffic_class", "SHUNT_RDMA_TRAFFIC_CLASS",
		AT(rdma_traffic_class, traffic_class), 1, 0, 255, -1},
	{"rdma_lanes", "SHUNT_RDMA_LANES", AT(rdma_lanes, lanes), 0, 1,
		FAR_MAX_LANES, 0},
	{"rdma_ack_timeout", "SHUNT_RDMA_ACK_TIMEOUT",
		AT(rdma_ack_timeout, ack_timeout), 0, 1, 31, 0},
	{"rdma_queue_depth", "SHUNT_RDMA_QUEUE_DEPTH",
		AT(rdma_queue_depth, queue_depth), 0, FAR_MIN_QUEUE_DEPTH,
		32768, 0},
};

static const char *text_of(const char *given, const char *variable)
{
	const char *text = given ? given : getenv(variable);

	return text && *text ? text : NULL;
}

static enum shunt_status number_of_variable(
	const struct number *number, int32_t rank, int32_t *value)
{
	const char *text = text_of(NULL, number->variable);
	char *end;
	long parsed;

	*value = number->unset;
	if (!text)
		return SHUNT_OK;
	errno = 0;
	parsed = strtol(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' ||
		parsed < number->least || parsed > number->most)
		return error_set(SHUNT_INVALID,
			"%s is \"%.64s\", must be %d .. %d (rank %d)",
			number->variable, text, number->least, number->most,
			rank);
	*value = (int32_t)parsed;
	return SHUNT_OK;
}

static enum shunt_status number_read(const struct shunt_world_config *config,
	const struct number *number, int32_t rank, struct far_config *far)
{
	int32_t given = *(const int32_t *)(const void *)((const char *)config +
							 number->config_at);
	int32_t *value = (int32_t *)(void *)((char *)far + number->far_at);

	if (given == 0)
		return number_of_variable(number, rank, value);
	if (given < number->least + number->bias ||
		given > number->most + number->bias)
		return error_set(SHUNT_INVALID,
			"%s is %d, must be 0 or %d .. %d (rank %d)",
			number->field, given, number->least + number->bias,
			number->most + number->bias, rank);
	*value = given - number->bias;
	return SHUNT_OK;
}

enum shunt_status rdma_config_read(const struct shunt_world_config *config,
	int32_t rank, struct far_config *far)
{
	enum shunt_status status = SHUNT_OK;

	*far = (struct far_config)FAR_CONFIG_INIT;
	far->device = text_of(config->rdma_device, "SHUNT_RDMA_DEVICE");
	far->interface =
		text_of(config->rdma_interface, "SHUNT_RDMA_INTERFACE");
	far->address = text_of(config->rdma_address, "SHUNT_RDMA_ADDRESS");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers) && !status;
		i++)
		status = number_read(config, &numbers[i], rank, far);
	return status;
}
