/* Sockets of the rendezvous, see net.h. */
#include "bootstrap/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define MAX_POLL_MS 60000
#define NS_PER_MS   1000000

int net_poll_ms(int64_t until)
{
	int64_t now = clock_now();

	if (until <= now)
		return 0;
	if ((until - now) / NS_PER_MS >= MAX_POLL_MS)
		return MAX_POLL_MS;
	return (int)((until - now + NS_PER_MS - 1) / NS_PER_MS);
}

void net_sleep(int64_t until)
{
	while (clock_now() < until)
		poll(NULL, 0, net_poll_ms(until));
}

const char *net_resolve(
	const char *host, uint16_t port, struct net_addresses *found)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV};
	struct addrinfo *list;
	char service[8];
	int result;

	snprintf(service, sizeof(service), "%u", port);
	result = getaddrinfo(host, service, &hints, &list);
	if (result != 0)
		return gai_strerror(result);
	found->num = 0;
	for (struct addrinfo *entry = list;
		entry && found->num < NET_MAX_ADDRESSES;
		entry = entry->ai_next) {
		struct net_address *address = &found->list[found->num++];

		memcpy(&address->storage, entry->ai_addr, entry->ai_addrlen);
		address->bytes = entry->ai_addrlen;
	}
	freeaddrinfo(list);
	return NULL;
}

bool net_is_loopback(const struct net_address *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (address->storage.ss_family == AF_INET) {
		memcpy(&v4, &address->storage, sizeof(v4));
		return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
	memcpy(&v6, &address->storage, sizeof(v6));
	if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
		return v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

void net_format(char *text, size_t text_bytes, const char *host, uint16_t port)
{
	const char *form = strchr(host, ':') ? "[%s]:%u" : "%s:%u";

	snprintf(text, text_bytes, form, host, port);
}

static void close_keeping_errno(int fd)
{
	int saved_errno = errno;

	close(fd);
	errno = saved_errno;
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	/* Ports in TIME_WAIT, and those that clients of this job connect from
	 * by chance, must not keep rank 0 from listening. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
		close_keeping_errno(fd);
		return -1;
	}
	return fd;
}

static void send_at_once(int fd)
{
	int on = 1;

	/* Only speed depends on it. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int net_listen(const struct net_address *address)
{
	int fd = open_socket(address->storage.ss_family);

	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&address->storage,
		    address->bytes) == 0 &&
		listen(fd, SOMAXCONN) == 0)
		return fd;
	close_keeping_errno(fd);
	return -1;
}

int net_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0)
		send_at_once(fd);
	return fd;
}

static int wait_for(int fd, short events, int64_t until)
{
	struct pollfd entry = {.fd = fd, .events = events};

	for (;;) {
		int num_ready = poll(&entry, 1, net_poll_ms(until));

		if (num_ready > 0)
			return 0;
		if (num_ready < 0 && errno != EINTR)
			return errno;
		if (num_ready == 0 && clock_now() >= until)
			return ETIMEDOUT;
	}
}

int net_wait_readable(int fd, int64_t until)
{
	return wait_for(fd, POLLIN, until);
}

/*
 * While nobody listens at a port of the ephemeral range, a connection to it
 * can be given that very port as its own and meet itself.
 */
static bool met_itself(int fd)
{
	struct net_address own = {.bytes = sizeof(own.storage)};
	struct net_address peer = {.bytes = sizeof(peer.storage)};

	if (getsockname(fd, (struct sockaddr *)&own.storage, &own.bytes) ||
		getpeername(fd, (struct sockaddr *)&peer.storage, &peer.bytes))
		return false;
	return own.bytes == peer.bytes &&
	       memcmp(&own.storage, &peer.storage, own.bytes) == 0;
}

bool net_own_address(
	const struct net_address *address, char *text, size_t text_bytes)
{
	struct net_address own = {.bytes = sizeof(own.storage)};
	int fd = socket(
		address->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found;

	if (fd < 0)
		return false;
	/* Of a datagram socket this only asks for the route. */
	found = connect(fd, (const struct sockaddr *)&address->storage,
			address->bytes) == 0 &&
		getsockname(fd, (struct sockaddr *)&own.storage, &own.bytes) ==
			0 &&
		getnameinfo((struct sockaddr *)&own.storage, own.bytes, text,
			(socklen_t)text_bytes, NULL, 0, NI_NUMERICHOST) == 0;
	close(fd);
	return found;
}

/* Ends a connect() that was begun: 0 or an errno. */
static int finish_connect(int fd, int64_t until)
{
	int result = wait_for(fd, POLLOUT, until);
	socklen_t bytes = sizeof(result);

	if (result != 0)
		return result;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &bytes) != 0)
		return errno;
	if (result == 0 && met_itself(fd))
		return ECONNREFUSED;
	return result;
}

int net_connect(const struct net_address *address, int64_t until)
{
	int fd = open_socket(address->storage.ss_family);
	int result = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&address->storage,
		    address->bytes) != 0)
		result = errno;
	if (result == 0 || result == EINPROGRESS || result == EINTR)
		result = finish_connect(fd, until);
	if (result == 0) {
		send_at_once(fd);
		return fd;
	}
	close(fd);
	errno = result;
	return -1;
}

int net_read(int fd, void *bytes, size_t num_bytes, int64_t until)
{
	size_t done = 0;

	while (done < num_bytes) {
		ssize_t got =
			recv(fd, (char *)bytes + done, num_bytes - done, 0);
		int result = got < 0 ? errno : 0;

		if (got > 0)
			done += (size_t)got;
		else if (got == 0)
			return done == 0 ? ENODATA : ECONNRESET;
		else if (result == EAGAIN)
			result = wait_for(fd, POLLIN, until);
		if (result != 0 && result != EINTR)
			return result;
	}
	return 0;
}

int net_write(int fd, const void *bytes, size_t num_bytes, int64_t until)
{
	size_t done = 0;

	while (done < num_bytes) {
		ssize_t put = send(fd, (const char *)bytes + done,
			num_bytes - done, MSG_NOSIGNAL);
		int result = put < 0 ? errno : 0;

		if (put >= 0)
			done += (size_t)put;
		else if (result == EAGAIN)
			result = wait_for(fd, POLLOUT, until);
		if (result != 0 && result != EINTR)
			return result;
	}
	return 0;
}
