/*
 * Whether the ranks that came to the root may form a job, and if not, what is
 * wrong: who disagrees, who came twice, who is missing.
 */
#ifndef BOOTSTRAP_JUDGE_H
#define BOOTSTRAP_JUDGE_H

#include "bootstrap/guests.h"
#include "bootstrap/tcp.h"

struct judge {
	const struct tcp_meeting *tcp;
	const struct guests *guests;
	/* Slot of each rank's guest, or one of the values below. */
	int32_t slots[BOOTSTRAP_MAX_RANKS];
	bool left[BOOTSTRAP_MAX_RANKS]; /* gave up at its deadline */
	int32_t num_expected;           /* ranks, by whoever claims most */
	int32_t num_here;               /* of these */
	/* The judgement: */
	enum shunt_status status;
	struct wire_report report; /* if status is not OK */
};
#define JUDGE_ABSENT (-1)
#define JUDGE_ROOT   (-2)

/* Sees who is here now. */
void judge_look(struct judge *judge);

/* Sets status and report by what judge_look() saw; true if somebody is out of
 * line (VERSION, MISMATCH), false and OK if nobody is. */
bool judge_disagreement(struct judge *judge);

/* Sets status TIMEOUT and a report of those that never came; where all came
 * once, of those that gave up. */
void judge_missing(struct judge *judge);

#endif
