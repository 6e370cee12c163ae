/* Whole messages over TCP, each with a deadline. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "clock.h"
#include "socket.h"

/* How long to look before sleeping: a core that has slept is slow at first. */
#define SPIN_NS 10000000
/* A silent host is asked from then on, so often, and given up at last. */
#define SILENT_SECONDS  10
#define ASK_SECONDS     5
#define ASK_TIMES       3
#define GIVE_UP_SECONDS 25

bool socket_set_up(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, SILENT_SECONDS},
		{IPPROTO_TCP, TCP_KEEPINTVL, ASK_SECONDS},
		{IPPROTO_TCP, TCP_KEEPCNT, ASK_TIMES},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, GIVE_UP_SECONDS * 1000},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name,
			    &options[i].value, sizeof(options[i].value)))
			return false;
	return fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* Sleeps until the socket is ready. False with errno if it is too late. */
static bool sleep_for(int fd, short events, int64_t deadline_ns)
{
	struct pollfd wait = {.fd = fd, .events = events};
	int64_t left = deadline_ns - clock_ns();
	int most = left < 1000000000 ? (int)(left / 1000000) + 1 : 1000;

	if (left > 0 && (poll(&wait, 1, most) >= 0 || errno == EINTR))
		return true;
	if (left <= 0)
		errno = ETIMEDOUT;
	return false;
}

static bool is_passing(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool socket_send(
	int fd, const void *bytes, size_t num_bytes, int64_t deadline_ns)
{
	const char *from = bytes;

	while (num_bytes > 0) {
		ssize_t sent = send(fd, from, num_bytes, MSG_NOSIGNAL);

		if (sent < 0 &&
			(!is_passing() || !sleep_for(fd, POLLOUT, deadline_ns)))
			return false;
		if (sent > 0) {
			from += sent;
			num_bytes -= (size_t)sent;
		}
	}
	return true;
}

bool socket_receive(
	int fd, void *bytes, size_t num_bytes, bool spin, int64_t deadline_ns)
{
	int64_t spin_ns = spin ? clock_ns() + SPIN_NS : 0;
	char *to = bytes;

	while (num_bytes > 0) {
		ssize_t got = recv(fd, to, num_bytes, 0);

		if (got == 0) {
			errno = ECONNRESET;
			return false;
		}
		if (got < 0 && !is_passing())
			return false;
		if (got < 0 && clock_ns() >= spin_ns &&
			!sleep_for(fd, POLLIN, deadline_ns))
			return false;
		if (got > 0) {
			to += got;
			num_bytes -= (size_t)got;
		}
	}
	return true;
}
