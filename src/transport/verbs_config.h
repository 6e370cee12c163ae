/* Options of the far side: their ranges. */
#ifndef TRANSPORT_VERBS_CONFIG_H
#define TRANSPORT_VERBS_CONFIG_H

#include <stdint.h>

#include "transport/far.h"

/* Checks what can be checked without a device. Errors: INVALID. */
enum shunt_status far_config_check(
	const struct far_config *config, int32_t rank);

#endif
