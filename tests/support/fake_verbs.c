/* The simulator as a whole: start, finish, its thread, hosts and wires. */
#include "support/fake_verbs_sim.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define USUAL_DELAY_NS 50000
#define USUAL_RETRY_NS 30000000
#define USUAL_CM_NS    3000000000

/* Of the thread, at most; and while a queue pair is stalled. */
#define SLEEP_NS 50000000
#define STALL_NS 1000000

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current_host = -1;

void fake_lock(void)
{
	pthread_mutex_lock(&fake.lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&fake.lock);
}

/* splitmix64 */
uint64_t fake_random(uint64_t below)
{
	uint64_t z = fake.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % below;
}

void *fake_new(size_t bytes)
{
	void *object = calloc(1, bytes);

	if (!object)
		abort();
	fake.objects++;
	return object;
}

void fake_delete(void *object)
{
	fake.objects--;
	free(object);
}

void fake_misuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("fake verbs: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	fake.misuses++;
}

int fake_current_host(void)
{
	return current_host;
}

void fake_verbs_host(int host)
{
	current_host = host;
}

bool fake_wire_is_whole(int host, int other)
{
	return !fake.dead[host] && !fake.dead[other] && !fake.cut[host][other];
}

/* ---- the thread --------------------------------------------------------- */

/* Sleeps until something is due, or someone calls. */
static void sleep_until_due(void)
{
	int64_t due = fake_next_due();
	int64_t now = clock_now();
	struct timespec until;

	if (due > now + SLEEP_NS)
		due = now + SLEEP_NS;
	/* Due and yet not done: it waits for something else. */
	if (due <= now)
		due = now + STALL_NS;
	until.tv_sec = due / 1000000000;
	until.tv_nsec = due % 1000000000;
	pthread_cond_clockwait(&fake.wake, &fake.lock, CLOCK_MONOTONIC, &until);
}

static void *run(void *unused)
{
	(void)unused;
	fake_lock();
	while (!fake.stopping) {
		if (!fake_step(false)) {
			sleep_until_due();
			continue;
		}
		/* Others may take their turn between two steps. */
		fake_unlock();
		fake_lock();
	}
	fake_unlock();
	return NULL;
}

/* ---- start and finish --------------------------------------------------- */

static int64_t usual(int64_t value, int64_t instead)
{
	return value ? value : instead;
}

static void device_start(
	struct fake_device *device, const struct fake_device_config *config)
{
	struct ibv_device *base = &device->device;
	struct sockaddr_in6 *six = (void *)&device->address;
	struct sockaddr_in *four = (void *)&device->address;

	device->config = *config;
	device->config.max_queue = (int)usual(config->max_queue, 1024);
	device->config.max_sge = (int)usual(config->max_sge, FAKE_MAX_SGE);
	device->config.max_cqe = (int)usual(config->max_cqe, 65536);
	device->config.max_inline = (int)usual(config->max_inline, 220);
	if (config->max_inline < 0)
		device->config.max_inline = 0;
	if (!config->max_mr_bytes)
		device->config.max_mr_bytes = UINT64_MAX;
	if (!config->max_locked_bytes)
		device->config.max_locked_bytes = UINT64_MAX;
	base->node_type = config->iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
	base->transport_type =
		config->iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	snprintf(base->name, sizeof(base->name), "%s", config->name);
	if (inet_pton(AF_INET, config->address, &four->sin_addr) == 1)
		four->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, config->address, &six->sin6_addr) == 1)
		six->sin6_family = AF_INET6;
	else
		abort();
}

static const struct verbs_api *make_table(void)
{
	static struct verbs_api api;

	fake_device_init(&api);
	fake_memory_init(&api);
	fake_completion_init(&api);
	fake_queue_init(&api);
	fake_post_init(&api);
	fake_cm_init(&api);
	fake_connect_init(&api);
	return &api;
}

void fake_verbs_start(const struct fake_config *config)
{
	pthread_mutex_t lock = fake.lock;

	/* A test that failed left it running. */
	if (fake.running)
		fake_verbs_finish();
	memset(&fake, 0, sizeof(fake));
	fake.lock = lock;
	fake.config = *config;
	fake.config.delay_ns = usual(config->delay_ns, USUAL_DELAY_NS);
	fake.config.retry_ns = usual(config->retry_ns, USUAL_RETRY_NS);
	fake.config.cm_ns = usual(config->cm_ns, USUAL_CM_NS);
	fake.random = config->seed;
	fake.last_number = 100;
	TAILQ_INIT(&fake.mrs);
	TAILQ_INIT(&fake.qps);
	TAILQ_INIT(&fake.ids);
	TAILQ_INIT(&fake.chunks);
	TAILQ_INIT(&fake.messages);
	for (int d = 0; d < config->num_devices; d++)
		device_start(&fake.devices[d], &config->devices[d]);
	fake_forget_faults();
	pthread_cond_init(&fake.wake, NULL);
	verbs_api_replace(make_table());
	if (pthread_create(&fake.thread, NULL, run, NULL) != 0)
		abort();
	fake.running = true;
}

static void drop_what_is_under_way(void)
{
	struct message *message;
	struct chunk *chunk;

	while ((message = TAILQ_FIRST(&fake.messages)) != NULL) {
		TAILQ_REMOVE(&fake.messages, message, link);
		free(message);
	}
	while ((chunk = TAILQ_FIRST(&fake.chunks)) != NULL) {
		TAILQ_REMOVE(&fake.chunks, chunk, link);
		free(chunk);
	}
}

int fake_verbs_finish(void)
{
	fake_lock();
	fake.stopping = true;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
	pthread_join(fake.thread, NULL);
	fake_forget_faults();
	if (fake.objects)
		fake_misuse("%d objects were not destroyed", fake.objects);
	for (int d = 0; d < fake.config.num_devices; d++)
		fake_close_cm_context(&fake.devices[d]);
	drop_what_is_under_way();
	pthread_cond_destroy(&fake.wake);
	verbs_api_replace(NULL);
	fake.running = false;
	current_host = -1;
	return fake.misuses;
}

/* ---- what happened ------------------------------------------------------ */

static int64_t read_locked(const int64_t *word)
{
	int64_t value;

	fake_lock();
	value = *word;
	fake_unlock();
	return value;
}

static int read_locked_int(const int *word)
{
	int value;

	fake_lock();
	value = *word;
	fake_unlock();
	return value;
}

int fake_verbs_misuses(void)
{
	return read_locked_int(&fake.misuses);
}

int fake_verbs_objects(void)
{
	return read_locked_int(&fake.objects);
}

int fake_verbs_not_ready(void)
{
	return read_locked_int(&fake.not_ready);
}

int64_t fake_verbs_sent(void)
{
	return read_locked(&fake.sent);
}

int64_t fake_verbs_signalled(void)
{
	return read_locked(&fake.signalled);
}

int64_t fake_verbs_largest_post(void)
{
	return read_locked(&fake.largest_post);
}

int64_t fake_verbs_channel_looks(void)
{
	return read_locked(&fake.channel_looks);
}

int64_t fake_verbs_sent_bytes(const char *device)
{
	for (int d = 0; d < fake.config.num_devices; d++)
		if (strcmp(fake.devices[d].config.name, device) == 0)
			return read_locked(&fake.devices[d].sent_bytes);
	return -1;
}

int fake_verbs_queue_pairs(void)
{
	struct fake_qp *qp;
	int num_qps = 0;

	fake_lock();
	TAILQ_FOREACH(qp, &fake.qps, link)
	num_qps++;
	fake_unlock();
	return num_qps;
}
