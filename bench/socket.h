/* Whole messages over TCP, each with a deadline. */
#ifndef BENCH_SOCKET_H
#define BENCH_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No delay, and an end within half a minute if the other host is gone. The
 * socket blocks no call. False with errno set. */
bool socket_set_up(int fd);

/* All of the bytes, until deadline_ns of clock_ns(). With `spin` looks for
 * some milliseconds before it sleeps. False with errno set: ETIMEDOUT, or
 * ECONNRESET also where the other side has closed. */
bool socket_send(
	int fd, const void *bytes, size_t num_bytes, int64_t deadline_ns);
bool socket_receive(
	int fd, void *bytes, size_t num_bytes, bool spin, int64_t deadline_ns);

#endif
