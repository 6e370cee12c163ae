/* Why a step fails, kept until its finish tells; see step.h. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exchange/loss.h"
#include "exchange/step.h"

void step_fail(struct step *step, enum shunt_status status, int32_t rank,
	const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(step->failure.message, sizeof(step->failure.message), format,
		args);
	va_end(args);
	step->failure.status = status;
	step->failure.rank = rank;
}

/* A peer's text: cut, and nothing but printable characters. */
static void copy_reason(char *to, const char *from, size_t bytes)
{
	memcpy(to, from, bytes);
	to[bytes - 1] = '\0';
	for (; *to; to++)
		if (!isprint((unsigned char)*to))
			*to = '?';
}

void step_fail_refused(struct shunt_exchange *exchange, struct step *step,
	int32_t rank, const struct step_head *head)
{
	char reason[STEP_REASON_BYTES] = "it gave the step up";
	char name[48];

	if (loss_explains(exchange, step, rank))
		return;
	if (step_signal_code(exchange, step, rank) == SIGNAL_REFUSED)
		copy_reason(reason, head->reason, sizeof(reason));
	step_fail(step, SHUNT_PEER_REFUSED, rank, "%s refused step %llu: %s",
		group_rank_text(exchange->group, rank, name),
		(unsigned long long)step->epoch, reason);
}
