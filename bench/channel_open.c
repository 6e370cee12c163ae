/*
 * How the ranks meet. Each proves to the other that it knows the key, by a
 * digest of what both have made up for this occasion:
 *
 *	rank 0	challenge: nonce
 *	rank n	hello: who it is, what it runs, nonce, proof
 *	rank 0	welcome: what it thinks of that, proof
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <poll.h>
#include <sodium.h>

#include <shunt/shunt.h>

#include "channel.h"
#include "clock.h"
#include "socket.h"

#define MAGIC 0x3168636e65627300u
/* That a stranger may keep us waiting, and between tries to connect. */
#define GREETING_NS 2000000000
#define RETRY_NS    50000000

enum verdict { VERDICT_WELCOME, VERDICT_KEY, VERDICT_RUN, VERDICT_TAKEN };

struct challenge {
	uint64_t magic;
	uint8_t nonce[32];
};

struct hello {
	uint64_t magic;
	char version[16];
	int32_t rank, num_ranks;
	uint64_t purpose;
	uint8_t nonce[32];
	uint8_t proof[32];
};

struct welcome {
	uint64_t magic;
	uint64_t verdict;
	uint8_t proof[32];
};

/* What both sides of a greeting know. */
struct greeting {
	const struct channel_config *config;
	struct challenge challenge;
	struct hello hello;
};

/* ---- proofs ------------------------------------------------------------ */

/* Of all that was said so far, `who` says it. */
static void prove(const struct greeting *greeting, const char *who,
	uint64_t verdict, uint8_t proof[32])
{
	struct hello hello = greeting->hello;
	crypto_generichash_state state;
	uint8_t key[32];

	memset(hello.proof, 0, sizeof(hello.proof));
	crypto_generichash(key, sizeof(key),
		(const uint8_t *)greeting->config->key,
		strlen(greeting->config->key), NULL, 0);
	crypto_generichash_init(&state, key, sizeof(key), 32);
	crypto_generichash_update(&state, (const uint8_t *)who, strlen(who));
	crypto_generichash_update(
		&state, (const uint8_t *)&verdict, sizeof(verdict));
	crypto_generichash_update(&state, (const uint8_t *)&greeting->challenge,
		sizeof(greeting->challenge));
	crypto_generichash_update(
		&state, (const uint8_t *)&hello, sizeof(hello));
	crypto_generichash_final(&state, proof, 32);
}

static bool is_proven(const struct greeting *greeting, const char *who,
	uint64_t verdict, const uint8_t proof[32])
{
	uint8_t expected[32];

	prove(greeting, who, verdict, expected);
	return sodium_memcmp(expected, proof, sizeof(expected)) == 0;
}

static void describe(const struct channel_config *config, struct hello *hello)
{
	*hello = (struct hello){
		.magic = MAGIC,
		.rank = config->rank,
		.num_ranks = config->num_ranks,
		.purpose = config->purpose,
	};
	snprintf(hello->version, sizeof(hello->version), "%s", shunt_version());
}

/* ---- rank 0 ------------------------------------------------------------ */

static int listen_at(const struct addrinfo *address, int backlog)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (fd < 0)
		return -1;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
		!bind(fd, address->ai_addr, address->ai_addrlen) &&
		!listen(fd, backlog))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* At the first address that is this host's. */
static int listen_at_any(const struct addrinfo *list, int backlog)
{
	int fd = -1;

	errno = EADDRNOTAVAIL;
	for (; list && fd < 0; list = list->ai_next)
		fd = listen_at(list, backlog);
	return fd;
}

/* What rank 0 thinks of a rank that knows the key. */
static enum verdict judge(
	const struct channel *channel, const struct greeting *greeting)
{
	const struct hello *hello = &greeting->hello;
	struct hello own;

	describe(greeting->config, &own);
	if (memcmp(hello->version, own.version, sizeof(own.version)) != 0 ||
		hello->num_ranks != own.num_ranks ||
		hello->purpose != own.purpose || hello->rank < 1 ||
		hello->rank >= own.num_ranks)
		return VERDICT_RUN;
	return channel->sockets[hello->rank] >= 0 ? VERDICT_TAKEN
						  : VERDICT_WELCOME;
}

/* Who has connected? False if it is a stranger, who is no reason to fail; with
 * `error` if it is a rank that makes the run impossible. */
static bool greet(struct channel *channel, const struct channel_config *config,
	int fd, char error[CHANNEL_ERROR])
{
	struct greeting greeting = {.config = config};
	struct welcome welcome = {.magic = MAGIC};
	int64_t deadline_ns = clock_ns() + GREETING_NS;
	const struct hello *hello = &greeting.hello;

	greeting.challenge.magic = MAGIC;
	randombytes_buf(greeting.challenge.nonce, 32);
	if (!socket_set_up(fd) ||
		!socket_send(fd, &greeting.challenge,
			sizeof(greeting.challenge), deadline_ns) ||
		!socket_receive(fd, &greeting.hello, sizeof(greeting.hello),
			false, deadline_ns) ||
		hello->magic != MAGIC)
		return false;
	welcome.verdict = is_proven(&greeting, "rank", 0, hello->proof)
				  ? judge(channel, &greeting)
				  : VERDICT_KEY;
	prove(&greeting, "rank 0", welcome.verdict, welcome.proof);
	if (!socket_send(fd, &welcome, sizeof(welcome), deadline_ns))
		return false;
	if (welcome.verdict == VERDICT_RUN)
		snprintf(error, CHANNEL_ERROR,
			"rank %d of %d was started with other options, or by "
			"another version (%.16s), than rank 0 of %d (%s)",
			hello->rank, hello->num_ranks, hello->version,
			config->num_ranks, shunt_version());
	if (welcome.verdict != VERDICT_WELCOME)
		return false;
	channel->sockets[hello->rank] = fd;
	return true;
}

static void list_missing(const struct channel *channel, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (int32_t r = 1; r < channel->num_ranks && used + 16 < room; r++)
		if (channel->sockets[r] < 0)
			used += (size_t)snprintf(
				text + used, room - used, " %d", r);
}

static bool accept_all(struct channel *channel,
	const struct channel_config *config, int listener,
	char error[CHANNEL_ERROR])
{
	int64_t deadline_ns = clock_ns() + config->deadline_ns;
	struct pollfd wait = {.fd = listener, .events = POLLIN};
	int32_t missing = channel->num_ranks - 1;
	char ranks[256];

	error[0] = '\0';
	while (missing > 0 && !error[0] && clock_ns() < deadline_ns) {
		int fd;

		if (poll(&wait, 1, 100) <= 0)
			continue;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (greet(channel, config, fd, error))
			missing--;
		else
			close(fd);
	}
	if (missing > 0 && !error[0]) {
		list_missing(channel, ranks, sizeof(ranks));
		snprintf(error, CHANNEL_ERROR,
			"these ranks did not come to %.64s, port %u, within "
			"%lld s, or have another SHUNT_KEY:%s",
			config->host, config->port,
			(long long)(config->deadline_ns / 1000000000), ranks);
	}
	return missing == 0;
}

static bool receive_all(struct channel *channel,
	const struct channel_config *config, const struct addrinfo *list,
	char error[CHANNEL_ERROR])
{
	int listener = listen_at_any(list, config->num_ranks);
	bool done;

	if (listener < 0) {
		snprintf(error, CHANNEL_ERROR,
			"cannot listen at %.64s, port %u: %s", config->host,
			config->port, strerror(errno));
		return false;
	}
	done = accept_all(channel, config, listener, error);
	close(listener);
	return done;
}

/* ---- other ranks ------------------------------------------------------- */

static void say_refused(enum verdict verdict, char error[CHANNEL_ERROR])
{
	static const char *const why[] = {
		[VERDICT_KEY] = "it has another SHUNT_KEY",
		[VERDICT_RUN] = "it was started with other options, or is of "
				"another version",
		[VERDICT_TAKEN] = "a rank with this number is there already",
	};

	snprintf(error, CHANNEL_ERROR, "rank 0 turns this rank away: %s",
		verdict <= VERDICT_TAKEN ? why[verdict]
					 : "for no known reason");
}

/* False, with `error` where it makes no sense to try again. */
static bool introduce(const struct channel_config *config, int fd,
	int64_t deadline_ns, char error[CHANNEL_ERROR])
{
	struct greeting greeting = {.config = config};
	struct welcome welcome;

	if (!socket_receive(fd, &greeting.challenge, sizeof(greeting.challenge),
		    false, deadline_ns) ||
		greeting.challenge.magic != MAGIC)
		return false;
	describe(config, &greeting.hello);
	randombytes_buf(greeting.hello.nonce, 32);
	prove(&greeting, "rank", 0, greeting.hello.proof);
	if (!socket_send(
		    fd, &greeting.hello, sizeof(greeting.hello), deadline_ns) ||
		!socket_receive(
			fd, &welcome, sizeof(welcome), false, deadline_ns) ||
		welcome.magic != MAGIC)
		return false;
	if (!is_proven(&greeting, "rank 0", welcome.verdict, welcome.proof)) {
		say_refused(VERDICT_KEY, error);
		return false;
	}
	if (welcome.verdict == VERDICT_WELCOME)
		return true;
	say_refused((enum verdict)welcome.verdict, error);
	return false;
}

static int connect_to(const struct addrinfo *address, int64_t deadline_ns)
{
	int fd = socket(address->ai_family,
		SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	int64_t left_ms = (deadline_ns - clock_ns()) / 1000000;
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, address->ai_addr, address->ai_addrlen)) {
		error = errno;
		/* A host that does not answer yet is asked again. */
		left_ms = left_ms < 0 ? 0 : left_ms < 2000 ? left_ms : 2000;
		if (error == EINPROGRESS && poll(&wait, 1, (int)left_ms) > 0)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	}
	if (!error && socket_set_up(fd))
		return fd;
	close(fd);
	errno = error ? error : errno;
	return -1;
}

static bool go_to_rank_0(struct channel *channel,
	const struct channel_config *config, const struct addrinfo *list,
	char error[CHANNEL_ERROR])
{
	static const struct timespec retry = {.tv_nsec = RETRY_NS};
	int64_t deadline_ns = clock_ns() + config->deadline_ns;
	const struct addrinfo *at = list;
	int cause = 0;

	error[0] = '\0';
	while (!error[0] && clock_ns() < deadline_ns) {
		int fd = connect_to(at, deadline_ns);

		if (fd < 0)
			cause = errno;
		if (fd >= 0 && introduce(config, fd, deadline_ns, error)) {
			channel->sockets[0] = fd;
			return true;
		}
		if (fd >= 0)
			close(fd);
		at = at->ai_next ? at->ai_next : list;
		nanosleep(&retry, NULL);
	}
	if (!error[0])
		snprintf(error, CHANNEL_ERROR,
			"no bench of rank 0 at %.64s, port %u, within %lld s%s"
			"%s",
			config->host, config->port,
			(long long)(config->deadline_ns / 1000000000),
			cause ? ": " : "", cause ? strerror(cause) : "");
	return false;
}

/* ------------------------------------------------------------------------ */

static bool take_memory(struct channel *channel)
{
	size_t num = channel->rank == 0 ? (size_t)channel->num_ranks : 1;

	channel->sockets = calloc(num, sizeof(channel->sockets[0]));
	channel->clocks = calloc(num, sizeof(channel->clocks[0]));
	for (size_t i = 0; i < num && channel->sockets; i++)
		channel->sockets[i] = -1;
	return channel->sockets && channel->clocks;
}

bool channel_open(struct channel *channel, const struct channel_config *config,
	char error[CHANNEL_ERROR])
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *list;
	char service[8];
	bool done;
	int result;

	*channel = (struct channel){
		.rank = config->rank,
		.num_ranks = config->num_ranks,
		.crowded = config->crowded,
	};
	if (!take_memory(channel) || sodium_init() < 0) {
		snprintf(error, CHANNEL_ERROR, "out of memory");
		return false;
	}
	if (config->num_ranks == 1)
		return true;
	snprintf(service, sizeof(service), "%u", config->port);
	result = getaddrinfo(config->host, service, &hints, &list);
	if (result) {
		snprintf(error, CHANNEL_ERROR, "looking up \"%.64s\": %s",
			config->host, gai_strerror(result));
		return false;
	}
	done = config->rank == 0 ? receive_all(channel, config, list, error)
				 : go_to_rank_0(channel, config, list, error);
	freeaddrinfo(list);
	return done;
}
