/* Checks options; see verbs_config.h. */
#include "transport/verbs_config.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "transport/verbs_address.h"

#define MAX_QUEUE_DEPTH 32768 /* the ring's depth travels in 16 bits */

static enum shunt_status option_check(int32_t rank, const char *name,
	int32_t value, int32_t none, int32_t low, int32_t high)
{
	if (value == none || (value >= low && value <= high))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"rank %d: %s is %d, must be %d .. %d, or %d to choose", rank,
		name, value, low, high, none);
}

static enum shunt_status names_check(
	const struct far_config *config, int32_t rank)
{
	int32_t num = address_num_devices(config);

	if (num > FAR_MAX_DEVICES)
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_device=%s names %d devices, at most %d",
			rank, config->device, num, FAR_MAX_DEVICES);
	for (const char *c = config->device; c && num > 0; num--) {
		size_t length = strcspn(c, ",");

		if (length == 0 || length >= IBV_SYSFS_NAME_MAX)
			return error_set(SHUNT_INVALID,
				"rank %d: rdma_device=%s has a name of %zu "
				"bytes, must be 1 .. %d",
				rank, config->device, length,
				IBV_SYSFS_NAME_MAX - 1);
		c += length + (c[length] == ',');
	}
	if (address_num_devices(config) > 1 &&
		(config->address || config->interface))
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_%s=%s is one address, rdma_device=%s "
			"several: leave one of them out",
			rank, config->address ? "address" : "interface",
			config->address ? config->address : config->interface,
			config->device);
	return SHUNT_OK;
}

enum shunt_status far_config_check(
	const struct far_config *config, int32_t rank)
{
	const struct {
		const char *name;
		int32_t value, none, low, high;
	} options[] = {
		{"rdma_port", config->port, 0, 1, 255},
		{"rdma_gid_index", config->gid_index, -1, 0, 65535},
		{"rdma_service_level", config->service_level, -1, 0, 15},
		{"rdma_traffic_class", config->traffic_class, -1, 0, 255},
		{"rdma_lanes", config->lanes, 0, 1, FAR_MAX_LANES},
		{"rdma_ack_timeout", config->ack_timeout, 0, 1, 31},
		{"rdma_queue_depth", config->queue_depth, 0,
			FAR_MIN_QUEUE_DEPTH, MAX_QUEUE_DEPTH},
	};
	int32_t num_devices = address_num_devices(config);

	for (size_t o = 0; o < sizeof(options) / sizeof(*options); o++) {
		enum shunt_status status = option_check(rank, options[o].name,
			options[o].value, options[o].none, options[o].low,
			options[o].high);

		if (status != SHUNT_OK)
			return status;
	}
	if (config->lanes && config->lanes < num_devices)
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_lanes is %d, must be at least the "
			"number of devices, %d (rdma_device=%s)",
			rank, config->lanes, num_devices, config->device);
	return names_check(config, rank);
}
