/*
 * A parcel: one message of a hand-over, with the descriptor of a segment. Its
 * code proves that the sender knows the job's secret, and ties it to the two
 * ranks and their segments.
 */
#ifndef TRANSPORT_PARCEL_H
#define TRANSPORT_PARCEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "transport/transport.h"

#define PARCEL_MAGIC      UINT64_C(0x6c63726170746e73) /* "sntparcl" */
#define PARCEL_CODE_BYTES 32

struct parcel {
	uint64_t magic;
	int32_t from;
	int32_t to;
	uint8_t code[PARCEL_CODE_BYTES];
};

/* The abstract address that a rank's hand-over socket has; returns its
 * length. */
socklen_t parcel_address(const uint8_t name[16], struct sockaddr_un *address);

/* Fills in a parcel between two ranks. */
void parcel_pack(struct parcel *parcel, int32_t from, int32_t to,
	const struct peer_hello *hellos, const uint8_t secret[32]);

/* True if it comes from a rank of the job and is for `to`. */
bool parcel_genuine(const struct parcel *parcel, int32_t to, int32_t num_ranks,
	const struct peer_hello *hellos, const uint8_t secret[32]);

/* Sends a parcel, with `fd`, over a connected SOCK_SEQPACKET socket. 0, or -1
 * with errno. Never blocks. */
int parcel_send(int socket, const struct parcel *parcel, int fd);

enum parcel_result {
	PARCEL_CAME,
	PARCEL_NOT_YET,
	PARCEL_JUNK /* something else, or the end */
};

/* Receives a parcel; *fd becomes its descriptor, -1 if there is none (then
 * *cut tells that one came, and this process had no room for it). Never
 * blocks. */
enum parcel_result parcel_receive(
	int socket, struct parcel *parcel, int *fd, bool *cut);

#endif
