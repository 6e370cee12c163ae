/*
 * Heads: what ranks announce with their counts, and must give alike. All ranks read
 * all heads, so all come to the same verdict.
 */
#ifndef DISPATCH_HEADS_H
#define DISPATCH_HEADS_H

#include "exchange/exchange.h"

/* What this rank brings (enum given); one without tokens leaves it open. */
uint32_t heads_given(const struct shunt_dispatch_args *args, bool offers);

/*
 * Takes in what member `index` of the view announced, with its counts; in ascending
 * order. The lowest that refuses, or is at fault, decides how the step fails, on all
 * ranks alike.
 */
void heads_take(
	struct shunt_exchange *exchange, struct step *step, int32_t index);

/* Compares what all ranks must give alike with what this rank gave: its step,
 * since peers can write to its head, too. False if the step has failed: MISMATCH. */
bool heads_agree(struct shunt_exchange *exchange, struct step *step,
	int32_t member, const struct step_head *head);

/* All heads are taken in: was everything given by all or by none? False as above. */
bool heads_given_agree(struct shunt_exchange *exchange, struct step *step);

#endif
