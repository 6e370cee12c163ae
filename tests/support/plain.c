/* Steps with literal inputs; see plain.h. */
#include "support/plain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_NS INT64_C(20000000000)

float plain_x(int32_t seat, int64_t token, int64_t h)
{
	return 100.0f * (float)seat + 10.0f * (float)token + (float)h;
}

struct shunt_exchange_config plain_config(
	int64_t max_tokens, int64_t topk, int64_t num_experts)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = max_tokens;
	config.hidden = PLAIN_HIDDEN;
	config.topk = topk;
	config.num_experts = num_experts;
	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	config.deadline_ns = DEADLINE_NS;
	return config;
}

void plain_init(struct plain *plain, struct seat *seat,
	struct shunt_group *group, const struct shunt_exchange_config *config)
{
	*plain = (struct plain){.seat = seat, .topk = config->topk};
	for (int64_t i = 0; i < PLAIN_TOKENS * PLAIN_HIDDEN; i++)
		plain->x[i] =
			plain_x(seat->rank, i / PLAIN_HIDDEN, i % PLAIN_HIDDEN);
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, group, config, &plain->exchange));
	plain_bring(plain, 0, NULL);
}

void plain_fini(struct plain *plain)
{
	shunt_exchange_destroy(plain->exchange);
}

void plain_bring(struct plain *plain, int64_t num_tokens, const int32_t *ids)
{
	plain->args = (struct shunt_dispatch_args)SHUNT_DISPATCH_ARGS_INIT;
	plain->out = (struct shunt_dispatch_out)SHUNT_DISPATCH_OUT_INIT;
	plain->combine = (struct shunt_combine_args)SHUNT_COMBINE_ARGS_INIT;
	plain->args.x = plain->x;
	plain->args.num_tokens = num_tokens;
	plain->args.expert_ids = ids;
	plain->args.ids_type = SHUNT_INDEX_I32;
	plain->combine.out = plain->sums;
}

enum shunt_status plain_try(struct plain *plain)
{
	return shunt_dispatch(
		plain->exchange, &plain->args, &plain->out, &plain->handle);
}

void plain_dispatch(struct plain *plain)
{
	SEAT_OK(plain->seat, plain_try(plain));
}

void plain_pass(struct plain *plain)
{
	plain_dispatch(plain);
	shunt_handle_destroy(plain->handle);
}

/* ---- experts ---------------------------------------------------------- */

/* Pointers to the received rows; the caller frees them. */
static const void **rows_of(struct plain *plain)
{
	const void **rows =
		calloc((size_t)plain->out.extent_rows + 1, sizeof(*rows));

	SEAT_CHECK(plain->seat, rows != NULL, "no memory");
	SEAT_OK(plain->seat, shunt_dispatch_rows(plain->handle, rows));
	return rows;
}

/* The local expert of row i, whatever the layout. */
static int64_t expert_of(const struct shunt_dispatch_out *out, int64_t i)
{
	int64_t expert = 0;

	for (int64_t l = 1; l < out->num_local_experts; l++)
		if (i >= out->expert_first_row[l])
			expert = l;
	return expert;
}

void plain_make_rows(struct plain *plain, const float *factors)
{
	const struct shunt_dispatch_out *out = &plain->out;
	const void **rows = rows_of(plain);
	float *y = out->expert_rows;

	for (int64_t i = 0; i < out->extent_rows; i++) {
		const float *x = rows[i];
		float factor = factors[expert_of(out, i)];

		for (int64_t h = 0; h < PLAIN_HIDDEN; h++)
			y[i * PLAIN_HIDDEN + h] = factor * x[h];
	}
	free(rows);
}

enum shunt_status plain_try_combine(struct plain *plain, const float *factors)
{
	plain_make_rows(plain, factors);
	plain->combine.y = plain->out.expert_rows;
	return shunt_combine(plain->handle, &plain->combine);
}

/* ---- what is expected ------------------------------------------------- */

static void expect_row(struct plain *plain, int64_t i, const float *x,
	const struct plain_row *expected)
{
	const int32_t *source = plain->out.source + 3 * i;
	const float *weights = plain->out.expand_weights;

	if (expected->seat < -1)
		return;
	SEAT_CHECK(plain->seat,
		source[0] == expected->rank && source[1] == expected->token &&
			source[2] == expected->k,
		"source of row %" PRId64 " is (%d, %d, %d), not (%d, %d, %d)",
		i, source[0], source[1], source[2], expected->rank,
		expected->token, expected->k);
	for (int64_t h = 0; h < PLAIN_HIDDEN; h++) {
		float want = expected->seat < 0 ? 0.0f
						: plain_x(expected->seat,
							  expected->token, h);

		SEAT_CHECK(plain->seat, x[h] == want,
			"row %" PRId64 " has %g at %" PRId64 ", not %g", i,
			(double)x[h], h, (double)want);
	}
	if (expected->seat < 0 && weights)
		SEAT_CHECK(plain->seat, weights[i] == 0.0f,
			"padding row %" PRId64 " has weight %g", i,
			(double)weights[i]);
}

void plain_expect_rows(
	struct plain *plain, int64_t num_rows, const struct plain_row *rows)
{
	const void **got;

	SEAT_CHECK(plain->seat, plain->out.extent_rows == num_rows,
		"%" PRId64 " rows came with padding, not %" PRId64,
		plain->out.extent_rows, num_rows);
	got = rows_of(plain);
	for (int64_t i = 0; i < num_rows; i++)
		expect_row(plain, i, got[i], &rows[i]);
	free(got);
}

void plain_expect_sums(struct plain *plain, const float *factors)
{
	for (int64_t t = 0; t < plain->args.num_tokens; t++)
		for (int64_t h = 0; h < PLAIN_HIDDEN; h++) {
			float got = plain->sums[t * PLAIN_HIDDEN + h];
			float want =
				factors[t] * plain->x[t * PLAIN_HIDDEN + h];

			SEAT_CHECK(plain->seat, got == want,
				"token %" PRId64 " has %g at %" PRId64
				", not %g",
				t, (double)got, h, (double)want);
		}
}

void plain_expect_i32(struct seat *seat, const char *name, const int32_t *got,
	int64_t count, const int32_t *expected)
{
	SEAT_CHECK(seat, got || count == 0, "%s is NULL", name);
	for (int64_t i = 0; i < count; i++)
		SEAT_CHECK(seat, got[i] == expected[i],
			"%s[%" PRId64 "] is %d, not %d", name, i, got[i],
			expected[i]);
}

void plain_expect_i64(struct seat *seat, const char *name, const int64_t *got,
	int64_t count, const int64_t *expected)
{
	SEAT_CHECK(seat, got || count == 0, "%s is NULL", name);
	for (int64_t i = 0; i < count; i++)
		SEAT_CHECK(seat, got[i] == expected[i],
			"%s[%" PRId64 "] is %" PRId64 ", not %" PRId64, name, i,
			got[i], expected[i]);
}

void plain_expect_f32(struct seat *seat, const char *name, const float *got,
	int64_t count, const float *expected)
{
	SEAT_CHECK(seat, got || count == 0, "%s is NULL", name);
	for (int64_t i = 0; i < count; i++)
		SEAT_CHECK(seat, got[i] == expected[i],
			"%s[%" PRId64 "] is %g, not %g", name, i,
			(double)got[i], (double)expected[i]);
}
