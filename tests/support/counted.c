/* The step whose statistics are known; see counted.h. */
#include "support/counted.h"

#include <math.h>
#include <string.h>

const int32_t counted_ids[COUNTED_RANKS][6] = {
	{0, 1, 0, 2, 9, -1}, {2, 0, 0, 0}};
const int64_t counted_rows[COUNTED_RANKS][2] = {{5, 1}, {2, 0}};

struct shunt_exchange_config counted_config(void)
{
	struct shunt_exchange_config config = plain_config(3, 2, 4);

	config.quant = SHUNT_QUANT_INT8;
	config.bad_id = SHUNT_BAD_ID_DROP;
	return config;
}

void counted_spoil_x(struct plain *plain)
{
	if (plain->seat->rank != 0)
		return;
	plain->x[1] = NAN;
	plain->x[PLAIN_HIDDEN] = INFINITY;
	plain->x[PLAIN_HIDDEN + 3] = -INFINITY;
	plain->x[2 * PLAIN_HIDDEN] = NAN;
}

void counted_bring(struct plain *plain)
{
	static const int64_t tokens[COUNTED_RANKS] = {3, 2};
	int32_t me = plain->seat->rank;

	plain_bring(plain, tokens[me], counted_ids[me]);
}

void counted_combine(struct plain *plain)
{
	float *y = plain->out.expert_rows;

	for (int64_t i = 0; i < plain->out.extent_rows * PLAIN_HIDDEN; i++)
		y[i] = 1.0f;
	plain->combine.y = y;
	SEAT_OK(plain->seat, shunt_combine(plain->handle, &plain->combine));
}

void counted_pass(struct plain *plain)
{
	counted_bring(plain);
	plain_dispatch(plain);
	counted_combine(plain);
}

struct shunt_stats counted_stats(struct plain *plain)
{
	struct shunt_stats stats = SHUNT_STATS_INIT;

	SEAT_OK(plain->seat, shunt_stats_get(plain->exchange, &stats));
	return stats;
}

void counted_text(struct plain *plain, char *text, size_t size)
{
	size_t needed = 0;

	SEAT_OK(plain->seat,
		shunt_stats_text(plain->exchange, text, size, &needed));
	SEAT_CHECK(plain->seat, needed < size && strlen(text) == needed,
		"needed is %zu, written %zu", needed, strlen(text));
}
