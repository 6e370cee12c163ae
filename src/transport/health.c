/*
 * Health: the service thread and its robust list.
 *
 *	head -> life_link of a control page -> life_link of another -> head
 *
 * The kernel walks the list when the service thread ends, that is when the
 * process dies, and sets FUTEX_OWNER_DIED in each life word that holds the
 * thread's id. Any thread may change the list: a change is one store of one
 * link, so that whenever death comes the list is whole. What is linked is
 * known from an array of our own; links lie in shared memory and are written,
 * never read back.
 */
#include "transport/health.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "memory/segment.h"
#include "transport/wiped.h"

#define NO_TID UINT32_MAX /* the thread could not register its list */

/* struct robust_list_head of the kernel, the first link atomic. */
struct list_head {
	_Atomic uintptr_t first;
	long futex_offset; /* from a link to its futex word */
	_Atomic uintptr_t pending;
};
_Static_assert(sizeof(struct list_head) == sizeof(struct robust_list_head),
	"layout of the kernel");

struct service {
	pthread_mutex_t lock; /* guards all but the futex words and the list */
	pthread_t thread;
	_Atomic uint32_t tid;  /* futex word; 0 until the thread runs */
	_Atomic uint32_t stop; /* futex word */
	struct list_head list;
	/* Linked in this order, the first by list.first. */
	struct control *held[HEALTH_MAX_HELD];
	int num_held;
};

static _Atomic(void *) shared_service; /* struct service */

/* ---- the thread -------------------------------------------------------- */

static void word_wait(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) == value)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL,
			0);
}

static void word_set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *service_main(void *argument)
{
	struct service *service = argument;

	pthread_setname_np(pthread_self(), "shunt-health");
	if (syscall(SYS_set_robust_list, &service->list,
		    sizeof(service->list)) != 0) {
		word_set(&service->tid, NO_TID);
		return NULL;
	}
	word_set(&service->tid, (uint32_t)syscall(SYS_gettid));
	word_wait(&service->stop, 0);
	return NULL;
}

/* Signals are for the threads of the application. */
static int thread_create_unsignalled(struct service *service)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&service->thread, NULL, service_main, service);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static enum shunt_status service_start(struct service *service)
{
	atomic_store(&service->tid, 0);
	atomic_store(&service->stop, 0);
	atomic_store(&service->list.first, (uintptr_t)&service->list.first);
	service->list.futex_offset = (long)offsetof(struct control, life) -
				     (long)offsetof(struct control, life_link);
	errno = thread_create_unsignalled(service);
	if (errno)
		return error_set_errno(
			SHUNT_SYSTEM, "starting the health thread");
	word_wait(&service->tid, 0);
	if (atomic_load(&service->tid) != NO_TID)
		return SHUNT_OK;
	pthread_join(service->thread, NULL);
	return error_set(SHUNT_SYSTEM,
		"the kernel refuses robust futexes (set_robust_list)");
}

static void service_stop(struct service *service)
{
	word_set(&service->stop, 1);
	pthread_join(service->thread, NULL);
}

/* ---- the list ---------------------------------------------------------- */

/* The link that leads to held[index], or to the end. */
static _Atomic uintptr_t *link_to(struct service *service, int index)
{
	return index ? &service->held[index - 1]->life_link
		     : &service->list.first;
}

/* What leads to held[index]; the head, if that is the end. */
static uintptr_t address_of(struct service *service, int index)
{
	return index < service->num_held
		       ? (uintptr_t)&service->held[index]->life_link
		       : (uintptr_t)&service->list.first;
}

static void list_append(struct service *service, struct control *control)
{
	int index = service->num_held;

	atomic_store(&control->life_link, (uintptr_t)&service->list.first);
	atomic_store(link_to(service, index), (uintptr_t)&control->life_link);
	service->held[index] = control;
	service->num_held++;
}

static void list_remove(struct service *service, int index)
{
	atomic_store(link_to(service, index), address_of(service, index + 1));
	service->num_held--;
	memmove(&service->held[index], &service->held[index + 1],
		(size_t)(service->num_held - index) * sizeof(struct control *));
}

static int list_find(const struct service *service, const void *control)
{
	for (int i = 0; i < service->num_held; i++)
		if (service->held[i] == control)
			return i;
	return -1;
}

/* ---- words ------------------------------------------------------------- */

static struct control *control_of(_Atomic uint32_t *life)
{
	return (void *)((char *)life - offsetof(struct control, life));
}

static enum shunt_status hold(struct service *service, _Atomic uint32_t *life)
{
	enum shunt_status status = SHUNT_OK;

	if (service->num_held == HEALTH_MAX_HELD)
		return error_set(SHUNT_SYSTEM,
			"this process has %d worlds with shared segments, the "
			"most that there can be",
			HEALTH_MAX_HELD);
	if (service->num_held == 0)
		status = service_start(service);
	if (status != SHUNT_OK)
		return status;
	list_append(service, control_of(life));
	atomic_store(life, atomic_load(&service->tid));
	return SHUNT_OK;
}

enum shunt_status health_hold(_Atomic uint32_t *life)
{
	enum shunt_status status =
		wiped_map(&shared_service, sizeof(struct service));
	struct service *service;

	if (status != SHUNT_OK)
		return status;
	service = atomic_load(&shared_service);
	pthread_mutex_lock(&service->lock);
	status = hold(service, life);
	pthread_mutex_unlock(&service->lock);
	return status;
}

void health_release(_Atomic uint32_t *life)
{
	struct service *service = atomic_load(&shared_service);
	int index;

	if (!service)
		return;
	pthread_mutex_lock(&service->lock);
	index = list_find(service, control_of(life));
	if (index >= 0) {
		/* First the word: dying in between is leaving, too. */
		atomic_store(life, HEALTH_LEFT);
		list_remove(service, index);
		if (service->num_held == 0)
			service_stop(service);
	}
	pthread_mutex_unlock(&service->lock);
}

enum health health_read(const _Atomic uint32_t *life)
{
	uint32_t word = atomic_load_explicit(life, memory_order_acquire);

	if (word & FUTEX_OWNER_DIED)
		return HEALTH_DEAD;
	return word == HEALTH_LEFT ? HEALTH_GONE : HEALTH_ALIVE;
}

/* ---- segments ---------------------------------------------------------- */

enum shunt_status life_begin(struct segment *segment)
{
	_Atomic uint32_t *life = &segment_control(segment)->life;

	if (segment_fd(segment) >= 0)
		return health_hold(life);
	atomic_store(life, HEALTH_HERE);
	return SHUNT_OK;
}

void life_end(struct segment *segment)
{
	_Atomic uint32_t *life = &segment_control(segment)->life;

	if (segment_fd(segment) >= 0)
		health_release(life);
	else
		atomic_store(life, HEALTH_LEFT);
}
