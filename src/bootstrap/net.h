/*
 * Sockets of the rendezvous: non-blocking, close-on-exec, never a signal, and
 * every wait has an end (clock_now() units).
 */
#ifndef BOOTSTRAP_NET_H
#define BOOTSTRAP_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NET_MAX_ADDRESSES 8

struct net_address {
	struct sockaddr_storage storage;
	socklen_t bytes;
};

/* All addresses of a host name, in the order to try. */
struct net_addresses {
	int num;
	struct net_address list[NET_MAX_ADDRESSES];
};

/* Milliseconds for poll() until `until`: rounded up, at most a minute. */
int net_poll_ms(int64_t until);

/* Sleeps until `until`. */
void net_sleep(int64_t until);

/* Looks a host up, once; a reason from gai_strerror(), or NULL if found. */
const char *net_resolve(
	const char *host, uint16_t port, struct net_addresses *found);

bool net_is_loopback(const struct net_address *address);

/* "HOST:PORT", with brackets around an IPv6 address. */
void net_format(char *text, size_t text_bytes, const char *host, uint16_t port);

/* A socket that listens at this address alone; -1 with errno. */
int net_listen(const struct net_address *address);

/* Accepts one connection; -1 with errno. */
int net_accept(int listener);

/* Connects; -1 with errno (ETIMEDOUT when `until` passes). */
int net_connect(const struct net_address *address, int64_t until);

/* The own address, as text, on the way to `address`; false if there is no way.
 * Sends nothing. */
bool net_own_address(
	const struct net_address *address, char *text, size_t text_bytes);

/* Reads exactly num_bytes. Returns 0 or an errno: ETIMEDOUT when `until`
 * passes, ENODATA when the peer closed before the first byte, ECONNRESET when
 * it did so later. */
int net_read(int fd, void *bytes, size_t num_bytes, int64_t until);

/* Writes all. Returns 0 or an errno, as net_read(). */
int net_write(int fd, const void *bytes, size_t num_bytes, int64_t until);

/* Waits for something to read: 0, or ETIMEDOUT. */
int net_wait_readable(int fd, int64_t until);

#endif
