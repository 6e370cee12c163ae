/* Jobs of the reference that are small enough to be worked out by hand. */
#ifndef SUPPORT_SMALL_JOB_H
#define SUPPORT_SMALL_JOB_H

#include "reference/reference.h"

/* The worked example of the specification (1.5): four ranks, two of them with
 * replicas of one shared expert; two tokens each, of one element of x. */
void small_job_example(struct reference_job *job,
	struct reference_input inputs[4], const float *x);

/* Two groups for TP of one rank, one expert; one token, and two. */
void small_job_pair(struct reference_job *job, struct reference_input inputs[2],
	const float *x);

#endif
