/* Queues of letters, as many as its descriptor counts. Tokens are taken under
 * the lock only, so that the two numbers agree and no read can block. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

void mailbox_init(struct mailbox *box)
{
	box->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (box->fd < 0)
		abort();
	TAILQ_INIT(&box->letters);
}

static void drop_all(struct mailbox *box)
{
	struct letter *letter;

	while ((letter = TAILQ_FIRST(&box->letters)) != NULL) {
		TAILQ_REMOVE(&box->letters, letter, link);
		free(letter);
	}
}

void mailbox_fini(struct mailbox *box)
{
	drop_all(box);
	close(box->fd);
}

/* A pipe that nobody reads polls so. */
void mailbox_break(struct mailbox *box)
{
	int ends[2];

	if (box->broken)
		return;
	if (pipe(ends) != 0 || dup2(ends[1], box->fd) != box->fd)
		abort();
	close(ends[0]);
	close(ends[1]);
	drop_all(box);
	box->broken = true;
}

static void add_token(const struct mailbox *box)
{
	uint64_t one = 1;

	if (write(box->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void take_token(const struct mailbox *box)
{
	uint64_t one;

	if (read(box->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

void mailbox_post(struct mailbox *box, struct letter *letter)
{
	if (box->broken) {
		free(letter);
		return;
	}
	TAILQ_INSERT_TAIL(&box->letters, letter, link);
	add_token(box);
}

void mailbox_post_first(struct mailbox *box, struct letter *letter)
{
	TAILQ_INSERT_HEAD(&box->letters, letter, link);
	add_token(box);
}

static bool may_wait(const struct mailbox *box)
{
	return !(fcntl(box->fd, F_GETFL) & O_NONBLOCK);
}

/* False and errno if the wait was interrupted. */
static bool wait_for_letter(const struct mailbox *box)
{
	struct pollfd entry = {.fd = box->fd, .events = POLLIN};
	int result;

	fake_unlock();
	result = poll(&entry, 1, -1);
	fake_lock();
	return result >= 0;
}

struct letter *mailbox_take(struct mailbox *box)
{
	struct letter *letter;

	if (box->broken) {
		errno = EIO;
		return NULL;
	}
	while ((letter = TAILQ_FIRST(&box->letters)) == NULL) {
		if (!may_wait(box)) {
			errno = EAGAIN;
			return NULL;
		}
		if (!wait_for_letter(box))
			return NULL;
	}
	take_token(box);
	TAILQ_REMOVE(&box->letters, letter, link);
	return letter;
}

/* Takes the letters of an owner out, into a list. */
static void pick(struct mailbox *box, const void *owner, struct letters *picked)
{
	struct letter *letter = TAILQ_FIRST(&box->letters);
	struct letter *next;

	TAILQ_INIT(picked);
	for (; letter; letter = next) {
		next = TAILQ_NEXT(letter, link);
		if (letter->owner != owner)
			continue;
		TAILQ_REMOVE(&box->letters, letter, link);
		take_token(box);
		TAILQ_INSERT_TAIL(picked, letter, link);
	}
}

void mailbox_drop(struct mailbox *box, const void *owner)
{
	struct letters picked;
	struct letter *letter;

	pick(box, owner, &picked);
	while ((letter = TAILQ_FIRST(&picked)) != NULL) {
		TAILQ_REMOVE(&picked, letter, link);
		free(letter);
	}
}
