/*
 * A stand: an exchange over the seat's whole world, and steps on it that are
 * checked against the reference. For tests of behaviour that need a working
 * exchange around the one thing they look at.
 */
#ifndef SUPPORT_STAND_H
#define SUPPORT_STAND_H

#include "support/trial.h"

struct stand {
	struct seat *seat;
	struct shunt_exchange_config config;
	struct shunt_exchange *exchange;
	struct shunt_exchange_info info;
	int32_t *expert_rank;
	int64_t next_step;
};

/* Makes the exchange; owes stand_fini(). */
void stand_init(struct stand *stand, struct seat *seat,
	const struct shunt_exchange_config *config);
void stand_fini(struct stand *stand);

/* A plain rule for the next step: T at random, weights at dispatch. */
struct trial_rule stand_rule(struct stand *stand);

/* Runs the next step whole, and checks it. */
void stand_step(struct stand *stand);

/* The next step, created: dispatch and combine are the test's. Owes
 * stand_drop(). */
struct trial *stand_prepare(struct stand *stand);
struct trial *stand_prepare_rule(
	struct stand *stand, const struct trial_rule *rule);
void stand_drop(struct trial *step);

/* The parts of a step; each must succeed and is checked. */
void stand_dispatch(struct stand *stand, struct trial *step);
void stand_combine(struct stand *stand, struct trial *step);

#endif
