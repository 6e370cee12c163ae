/* What the ranks say to each other once they have met; see channel.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "socket.h"

/* The most that a rank may keep the others waiting: it may have to work out
 * what --check compares with. A rank that is gone is noticed long before. */
#define PATIENCE_NS (INT64_C(3600) * 1000000000)
#define SPIN_NS     10000000
/* Clocks of two machines part by at most so much, in millionths. */
#define DRIFT 200
/* From telling the ranks to the start: as often the way there, and a bit. */
#define LEAD_WAYS    4
#define LEAD_NS      20000
#define LEAD_MOST_NS 50000000

#define FRAME_MAGIC 0x53484243u

enum frame_kind { FRAME_ARRIVED = 1, FRAME_GO, FRAME_FAILED, FRAME_DATA };

/* All ranks have one byte order: that of the magic number in their hello. */
struct frame {
	uint32_t magic;
	uint32_t kind;
	int64_t value; /* ARRIVED: now; GO: when to start, or 0 */
	uint64_t num_bytes;
};

/* ---- breaking ---------------------------------------------------------- */

/* Rank 0 tells the others, who hear of it wherever they wait. */
static void spread(struct channel *channel, const char *why)
{
	struct frame frame = {
		.magic = FRAME_MAGIC,
		.kind = FRAME_FAILED,
		.num_bytes = strlen(why),
	};
	int32_t num = channel->rank == 0 ? channel->num_ranks : 1;

	for (int32_t i = 0; i < num && channel->sockets; i++) {
		int fd = channel->sockets[i];

		if (fd >= 0 &&
			socket_send(fd, &frame, sizeof(frame), clock_ns()))
			socket_send(fd, why, strlen(why), clock_ns());
	}
}

void channel_fail(struct channel *channel, const char *why)
{
	char text[CHANNEL_ERROR];

	if (channel->broken)
		return;
	channel->broken = true;
	snprintf(text, sizeof(text), "rank %d: %.480s", channel->rank, why);
	memcpy(channel->error, text, sizeof(text));
	spread(channel, text);
}

/* Another rank has failed. Returns false. */
static bool hear(struct channel *channel, const char *what)
{
	channel->broken = true;
	snprintf(channel->error, sizeof(channel->error), "%s", what);
	if (channel->rank == 0)
		spread(channel, what);
	return false;
}

static bool lost(struct channel *channel, int32_t rank)
{
	char text[128];

	snprintf(text, sizeof(text), "rank %d is gone (%s)", rank,
		strerror(errno));
	return hear(channel, text);
}

/* ---- frames ------------------------------------------------------------ */

static int32_t index_of(const struct channel *channel, int32_t rank)
{
	return channel->rank == 0 ? rank : 0;
}

static bool hear_text(
	struct channel *channel, int32_t rank, const struct frame *frame)
{
	char text[CHANNEL_ERROR] = "";
	int fd = channel->sockets[index_of(channel, rank)];

	if (frame->num_bytes >= sizeof(text) ||
		!socket_receive(fd, text, frame->num_bytes, false,
			clock_ns() + PATIENCE_NS))
		return lost(channel, rank);
	return hear(channel, text);
}

/* The next frame of `rank`, which is of that kind. */
static bool get_frame(struct channel *channel, int32_t rank,
	enum frame_kind kind, struct frame *frame)
{
	int fd = channel->sockets[index_of(channel, rank)];
	char text[128];

	if (!socket_receive(fd, frame, sizeof(*frame), !channel->crowded,
		    clock_ns() + PATIENCE_NS))
		return lost(channel, rank);
	if (frame->magic == FRAME_MAGIC && frame->kind == FRAME_FAILED)
		return hear_text(channel, rank, frame);
	if (frame->magic == FRAME_MAGIC && frame->kind == kind)
		return true;
	snprintf(text, sizeof(text),
		"rank %d says %u, and the bench of rank %d expected %u", rank,
		frame->kind, channel->rank, kind);
	return hear(channel, text);
}

static bool put_frame(struct channel *channel, int32_t rank,
	enum frame_kind kind, int64_t value)
{
	struct frame frame = {
		.magic = FRAME_MAGIC, .kind = kind, .value = value};
	int fd = channel->sockets[index_of(channel, rank)];

	return socket_send(
		       fd, &frame, sizeof(frame), clock_ns() + PATIENCE_NS) ||
	       lost(channel, rank);
}

/* ---- clocks ------------------------------------------------------------ */

/* How far the offset may be off by now. */
static int64_t error_now(const struct channel_clock *clock, int64_t now_ns)
{
	return clock->error_ns +
	       (now_ns - clock->measured_ns) * DRIFT / 1000000;
}

/* The rank answered at its `value` what it was told at asked_ns of ours. */
static void set_clock(struct channel_clock *clock, int64_t value)
{
	int64_t now_ns = clock_ns();
	int64_t error_ns = (now_ns - clock->asked_ns) / 2;

	if (clock->asked_ns == 0 ||
		(clock->error_ns > 0 && error_ns >= error_now(clock, now_ns)))
		return;
	clock->offset_ns = value - (clock->asked_ns + error_ns);
	clock->error_ns = error_ns > 0 ? error_ns : 1;
	clock->measured_ns = now_ns;
}

static int64_t lead_of(const struct channel *channel)
{
	int64_t most_ns = 0;

	for (int32_t rank = 1; rank < channel->num_ranks; rank++)
		if (channel->clocks[rank].error_ns > most_ns)
			most_ns = channel->clocks[rank].error_ns;
	most_ns = LEAD_WAYS * most_ns + LEAD_NS;
	return most_ns < LEAD_MOST_NS ? most_ns : LEAD_MOST_NS;
}

static void wait_until(const struct channel *channel, int64_t moment_ns)
{
	struct timespec moment = {
		.tv_sec = moment_ns / 1000000000,
		.tv_nsec = moment_ns % 1000000000,
	};

	while (channel->crowded &&
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL))
		;
	while (clock_ns() < moment_ns)
		;
}

/* ---- waiting ----------------------------------------------------------- */

/* One round of looking at those that have not come. -1 with a broken channel,
 * else how many came. */
static int32_t take_arrivals(
	struct channel *channel, struct pollfd *polls, int timeout_ms)
{
	struct frame frame;
	int32_t num = 0;

	if (poll(polls, (nfds_t)channel->num_ranks, timeout_ms) <= 0)
		return 0;
	for (int32_t rank = 1; rank < channel->num_ranks; rank++) {
		if (!polls[rank].revents)
			continue;
		if (!get_frame(channel, rank, FRAME_ARRIVED, &frame))
			return -1;
		set_clock(&channel->clocks[rank], frame.value);
		polls[rank].fd = -1;
		num++;
	}
	return num;
}

static bool await_all(struct channel *channel)
{
	int64_t begun_ns = clock_ns();
	int32_t missing = channel->num_ranks - 1, came = 0;
	struct pollfd *polls =
		calloc((size_t)channel->num_ranks, sizeof(polls[0]));

	if (!polls)
		return hear(channel, "rank 0: out of memory");
	for (int32_t rank = 0; rank < channel->num_ranks; rank++)
		polls[rank] = (struct pollfd){
			.fd = channel->sockets[rank], .events = POLLIN};
	while (missing > 0 && came >= 0) {
		int64_t waited_ns = clock_ns() - begun_ns;
		bool spin = !channel->crowded && waited_ns < SPIN_NS;

		if (waited_ns > PATIENCE_NS) {
			errno = ETIMEDOUT;
			for (int32_t r = 1; r < channel->num_ranks; r++)
				if (polls[r].fd >= 0 && !channel->broken)
					lost(channel, r);
			break;
		}
		came = take_arrivals(channel, polls, spin ? 0 : 1000);
		missing -= came;
	}
	free(polls);
	return !channel->broken;
}

static bool send_all_on(struct channel *channel, int64_t *start_ns)
{
	int64_t start = 0;

	if (start_ns)
		start = clock_ns() + lead_of(channel);
	for (int32_t rank = 1; rank < channel->num_ranks; rank++) {
		struct channel_clock *clock = &channel->clocks[rank];

		/* A start makes the next answer wait, so it tells no time. */
		clock->asked_ns = start ? 0 : clock_ns();
		if (!put_frame(channel, rank, FRAME_GO,
			    start ? start + clock->offset_ns : 0))
			return false;
	}
	if (start_ns)
		*start_ns = start;
	return true;
}

bool channel_wait(struct channel *channel, int64_t *start_ns)
{
	struct frame frame;

	if (channel->broken)
		return false;
	if (channel->rank == 0) {
		if (!await_all(channel) || !send_all_on(channel, start_ns))
			return false;
	} else {
		if (!put_frame(channel, 0, FRAME_ARRIVED, clock_ns()) ||
			!get_frame(channel, 0, FRAME_GO, &frame))
			return false;
		if (start_ns)
			*start_ns = frame.value;
	}
	if (start_ns)
		wait_until(channel, *start_ns);
	return true;
}

/* ---- data -------------------------------------------------------------- */

bool channel_send(struct channel *channel, const void *bytes, size_t num_bytes)
{
	struct frame frame = {
		.magic = FRAME_MAGIC,
		.kind = FRAME_DATA,
		.num_bytes = num_bytes,
	};
	int64_t deadline_ns = clock_ns() + PATIENCE_NS;

	if (channel->broken)
		return false;
	return (socket_send(channel->sockets[0], &frame, sizeof(frame),
			deadline_ns) &&
		       socket_send(channel->sockets[0], bytes, num_bytes,
			       deadline_ns)) ||
	       lost(channel, 0);
}

bool channel_receive(struct channel *channel, int32_t rank, void *bytes,
	size_t num_bytes, size_t *got)
{
	struct frame frame;
	char text[128];

	if (channel->broken || !get_frame(channel, rank, FRAME_DATA, &frame))
		return false;
	if (frame.num_bytes > num_bytes) {
		snprintf(text, sizeof(text),
			"rank %d sends %llu bytes of results, at most %zu are "
			"due",
			rank, (unsigned long long)frame.num_bytes, num_bytes);
		return hear(channel, text);
	}
	*got = (size_t)frame.num_bytes;
	return socket_receive(channel->sockets[rank], bytes, *got, false,
		       clock_ns() + PATIENCE_NS) ||
	       lost(channel, rank);
}

void channel_close(struct channel *channel)
{
	int32_t num = channel->rank == 0 ? channel->num_ranks : 1;

	for (int32_t i = 0; i < num && channel->sockets; i++)
		if (channel->sockets[i] >= 0)
			close(channel->sockets[i]);
	free(channel->sockets);
	free(channel->clocks);
	channel->sockets = NULL;
	channel->clocks = NULL;
}
