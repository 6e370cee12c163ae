/*
 * A stand: an exchange over the seat's world or a part of it, and steps on it that are
 * checked against the reference. For tests of behaviour that need a working
 * exchange around the one thing they look at.
 */
#ifndef SUPPORT_STAND_H
#define SUPPORT_STAND_H

#include "support/trial.h"

/* Some ranks of the seat's world. */
struct stand_part {
	struct shunt_group *group; /* NULL: all */
	int32_t num_ranks;
	const int32_t *members; /* by rank of the world; NULL: the same */
	const int32_t *hosts;   /* by member; NULL: one */
};

struct stand {
	struct seat *seat;
	struct stand_part part;
	struct shunt_exchange_config config;
	struct shunt_exchange *exchange;
	struct shunt_exchange_info info;
	int32_t *expert_rank;
	int64_t next_step;
};

/* Makes the exchange; owes stand_fini(). */
void stand_init(struct stand *stand, struct seat *seat,
	const struct shunt_exchange_config *config);
void stand_init_part(struct stand *stand, struct seat *seat,
	const struct stand_part *part,
	const struct shunt_exchange_config *config);
void stand_fini(struct stand *stand);

/* A plain rule for the next step: T at random, weights at dispatch. */
struct trial_rule stand_rule(struct stand *stand);

/* A rule for the next step with everything drawn that a step may change:
 * tokens, routing, masks, weights, strides. */
struct trial_rule stand_draw(struct stand *stand);

/* Runs the next step whole, and checks it. */
void stand_step(struct stand *stand);

/* The same num_steps times: rank r of R brings tokens[i * R + r] to the i-th. */
void stand_steps_of(
	struct stand *stand, const int64_t *tokens, size_t num_steps);

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
