/* Exchanges of four ranks that elastic_info tables leave ranks out of, and the
 * tables that several tests use. */
#ifndef SUPPORT_ELASTIC_H
#define SUPPORT_ELASTIC_H

#include "support/plain.h"
#include "support/stand.h"

#define ELASTIC_RANKS 4

/* Eight experts on each rank, rank 1 is left out: the specification's example;
 * and the same with two experts on each. */
extern const int32_t elastic_example[12];
extern const int32_t elastic_without_1[12];
/* Of the latter, ranks 1 and 3 are left out. */
extern const int32_t elastic_only_0_and_2[12];

struct shunt_exchange_config elastic_config(int64_t experts_per_rank);

/* Six ranks: shared expert 0 on ranks 0, 1 and 1 on ranks 2, 3; experts 0, 1 on
 * ranks 4, 5. */
struct shunt_exchange_config elastic_shared_config(void);

/* plain_bring(), with a table for dispatch and combine. */
void elastic_bring(struct plain *plain, int64_t num_tokens, const int32_t *ids,
	const int32_t *table);

/* Trials of four ranks with two experts each: an exchange by the seat's way (ways.h);
 * a step of ranks 0 .. end - 1, with a table unless these are all; `count` of them, run
 * whole. */
struct shunt_exchange_config elastic_trial_config(
	const struct seat *seat, int32_t depth);
struct trial *elastic_prepare(struct stand *stand, int32_t end);
void elastic_run(struct stand *stand, int32_t end, int32_t count);

#endif
