/* Parcels: their address, their code, and how they travel. */
#include "transport/parcel.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

_Static_assert(PARCEL_CODE_BYTES == crypto_auth_BYTES, "size of the code");
_Static_assert(crypto_auth_KEYBYTES == 32, "size of the secret");
_Static_assert(sizeof(struct parcel) == 48, "no padding goes out");

#define ADDRESS_PREFIX "shunt-"

/* What the code is computed over. */
struct parcel_terms {
	uint64_t magic;
	int32_t from;
	int32_t to;
	uint8_t from_segment[16];
	uint8_t to_segment[16];
};
_Static_assert(sizeof(struct parcel_terms) == 48, "no padding");

socklen_t parcel_address(const uint8_t name[16], struct sockaddr_un *address)
{
	const size_t prefix = strlen(ADDRESS_PREFIX);
	char *path = address->sun_path;

	/* A leading zero byte makes it abstract: no file, nothing to clean. */
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(path + 1, ADDRESS_PREFIX, prefix);
	sodium_bin2hex(path + 1 + prefix, 33, name, 16);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix +
			   32);
}

static void terms_of(struct parcel_terms *terms, const struct parcel *parcel,
	const struct peer_hello *hellos)
{
	terms->magic = parcel->magic;
	terms->from = parcel->from;
	terms->to = parcel->to;
	memcpy(terms->from_segment, hellos[parcel->from].segment, 16);
	memcpy(terms->to_segment, hellos[parcel->to].segment, 16);
}

void parcel_pack(struct parcel *parcel, int32_t from, int32_t to,
	const struct peer_hello *hellos, const uint8_t secret[32])
{
	struct parcel_terms terms;

	parcel->magic = PARCEL_MAGIC;
	parcel->from = from;
	parcel->to = to;
	terms_of(&terms, parcel, hellos);
	crypto_auth(
		parcel->code, (const uint8_t *)&terms, sizeof(terms), secret);
}

bool parcel_genuine(const struct parcel *parcel, int32_t to, int32_t num_ranks,
	const struct peer_hello *hellos, const uint8_t secret[32])
{
	struct parcel_terms terms;

	if (parcel->magic != PARCEL_MAGIC || parcel->to != to ||
		parcel->from < 0 || parcel->from >= num_ranks)
		return false;
	terms_of(&terms, parcel, hellos);
	return crypto_auth_verify(parcel->code, (const uint8_t *)&terms,
		       sizeof(terms), secret) == 0;
}

/* Room for exactly one descriptor: the length given to the kernel is that of
 * CMSG_LEN, as the padding of CMSG_SPACE would let in a second. */
union one_fd {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int parcel_send(int socket, const struct parcel *parcel, int fd)
{
	union one_fd control = {.bytes = {0}};
	struct iovec bytes = {(void *)(uintptr_t)parcel, sizeof(*parcel)};
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_LEN(sizeof(fd)),
	};
	ssize_t sent;

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	do {
		sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -1 : 0;
}

static int fd_of(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd;

	if (!header || header->cmsg_level != SOL_SOCKET ||
		header->cmsg_type != SCM_RIGHTS ||
		header->cmsg_len != CMSG_LEN(sizeof(fd)))
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

enum parcel_result parcel_receive(
	int socket, struct parcel *parcel, int *fd, bool *cut)
{
	union one_fd control;
	struct iovec bytes = {parcel, sizeof(*parcel)};
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_LEN(sizeof(*fd)),
	};
	ssize_t got;

	do {
		got = recvmsg(
			socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	*fd = -1;
	if (got < 0)
		return errno == EAGAIN ? PARCEL_NOT_YET : PARCEL_JUNK;
	*fd = fd_of(&message);
	*cut = message.msg_flags & MSG_CTRUNC;
	if (got == sizeof(*parcel) && !(message.msg_flags & MSG_TRUNC))
		return PARCEL_CAME;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return PARCEL_JUNK;
}
