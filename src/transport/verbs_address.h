/*
 * Which addresses of this rank lead over which device: found by binding to
 * them, as the kernel then says what it would use, on InfiniBand, RoCE and
 * iWARP alike. And the hello that tells the others.
 */
#ifndef TRANSPORT_VERBS_ADDRESS_H
#define TRANSPORT_VERBS_ADDRESS_H

#include "transport/verbs.h"

/* Binds and listens: listener and address of all devices of far, num_devices.
 * The config has been checked. Errors: INVALID (nothing here is what the
 * config asks for; says what was tried), SYSTEM, NO_MEMORY; UNSUPPORTED, if
 * the config asks for nothing by name: there is no device, and the message
 * says why. On failure no listener is there. */
enum shunt_status address_listen(struct far *far);

/* How many devices the config names; 1 if none. */
int32_t address_num_devices(const struct far_config *config);

/* Sets the options of an id that count from its address on. */
void address_options(const struct far_config *config, struct rdma_cm_id *id);

/* What a hello says. */
struct far_address {
	uint64_t base; /* of the rank's segment */
	uint8_t num_devices;
	uint8_t num_lanes;
	struct sockaddr_storage addresses[FAR_MAX_DEVICES];
};

void address_pack(const struct far *far, struct far_hello *hello);

/* Reads the hello of a rank whose segment has so many bytes. False if it is
 * not sound; *absent: the rank has no device. */
bool address_read(const struct far_hello *hello, uint64_t segment_bytes,
	struct far_address *address, bool *absent);

/* As text, for messages. */
#define ADDRESS_TEXT_BYTES 64
const char *address_text(
	const struct sockaddr_storage *address, char text[ADDRESS_TEXT_BYTES]);

#endif
