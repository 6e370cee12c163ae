/* Where the ranks of a local job meet, and their secret. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous.h"

/* Binds `fd` to a free port of the loopback interface. */
static int bind_free_port(int fd, uint16_t *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t bytes = sizeof(address);
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
		getsockname(fd, (struct sockaddr *)&address, &bytes))
		return -1;
	*port = ntohs(address.sin_port);
	return 0;
}

static int make_key(char key[33])
{
	uint8_t secret[16];

	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return -1;
	for (int i = 0; i < 16; i++)
		snprintf(key + 2 * i, 3, "%02x", secret[i]);
	return 0;
}

int rendezvous_open(struct rendezvous *rendezvous)
{
	uint16_t port;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind_free_port(fd, &port) || make_key(rendezvous->key)) {
		close(fd);
		return -1;
	}
	snprintf(rendezvous->address, sizeof(rendezvous->address),
		"127.0.0.1:%u", port);
	rendezvous->socket = fd;
	return 0;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
	close(rendezvous->socket);
}
