/*
 * A layer with fp8 rows, a shared expert and a fused tail, its four ranks as
 * threads of this process. Rows are not copied to their experts: each reads
 * them where their sender keeps them.
 */
#include <pthread.h>
#include <shunt/quant.h>
#include <shunt/shunt.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                     \
	do {                                                            \
		if ((call) != SHUNT_OK) {                               \
			fprintf(stderr, "%s\n", shunt_error_message()); \
			exit(1);                                        \
		}                                                       \
	} while (0)

enum { RANKS = 4, TOKENS = 8, HIDDEN = 256, TOPK = 2, EXPERTS = 6 };

/* Rank 0 holds the shared expert, ranks 1 to 3 two of the others each. */
static struct shunt_exchange_config config_of_all(void)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = TOKENS;
	config.hidden = HIDDEN;
	config.topk = TOPK;
	config.num_experts = EXPERTS;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.dtype = config.expert_dtype = SHUNT_DTYPE_F32;
	config.quant = SHUNT_QUANT_E4M3FN_GROUP; /* a scale per 128 */
	config.layout = SHUNT_LAYOUT_INDEXED;
	return config;
}

/* y[n] = factor * row n, in f32 again. */
static void apply_experts(const struct shunt_dispatch_out *out,
	const void *const *rows, float factor)
{
	float *y = out->expert_rows;

	for (int64_t n = 0; n < out->num_rows; n++) {
		struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;

		args.quant = SHUNT_QUANT_E4M3FN_GROUP;
		args.dtype = SHUNT_DTYPE_F32;
		args.num_rows = 1;
		args.hidden = HIDDEN;
		args.q = rows[n];
		args.scales = (const float *)out->dynamic_scales +
			      n * out->scale_row_stride;
		args.x = y + n * HIDDEN;
		CHECK(shunt_dequantize_rows(&args));
		for (int64_t h = 0; h < HIDDEN; h++)
			y[n * HIDDEN + h] *= factor;
	}
}

struct tokens {
	float x[TOKENS][HIDDEN], out[TOKENS][HIDDEN], norm[TOKENS][HIDDEN];
	float weights[TOKENS][TOPK], gamma[HIDDEN];
	int32_t ids[TOKENS][TOPK];
	const void *rows[RANKS * TOKENS * TOPK];
};

static void make_tokens(struct tokens *tokens)
{
	for (int h = 0; h < HIDDEN; h++)
		tokens->gamma[h] = 1;
	for (int t = 0; t < TOKENS; t++) {
		for (int h = 0; h < HIDDEN; h++)
			tokens->x[t][h] = (float)(t + 1);
		for (int k = 0; k < TOPK; k++) {
			tokens->ids[t][k] = (t + 3 * k) % EXPERTS;
			tokens->weights[t][k] = 0.5f;
		}
	}
}

static void run_layer(
	struct shunt_exchange *exchange, struct tokens *tokens, float factor)
{
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_handle handle;

	args.x = tokens->x;
	args.num_tokens = TOKENS;
	args.expert_ids = tokens->ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = &tokens->weights[0][0];
	CHECK(shunt_dispatch(exchange, &args, &out, &handle));
	CHECK(shunt_dispatch_rows(handle, tokens->rows));
	apply_experts(&out, tokens->rows, factor);

	combine.y = out.expert_rows;
	combine.out = tokens->out;
	combine.residual = tokens->x;
	combine.gamma = tokens->gamma;
	combine.norm_eps = 1e-6f;
	combine.norm_out = tokens->norm;
	CHECK(shunt_combine(handle, &combine));
}

static void *run_rank(void *argument)
{
	int32_t rank = *(const int32_t *)argument;
	struct shunt_world_config world_config = SHUNT_WORLD_CONFIG_INIT;
	struct shunt_exchange_config config = config_of_all();
	struct tokens *tokens = calloc(1, sizeof(*tokens));
	struct shunt_world *world;
	struct shunt_exchange *exchange;

	if (!tokens)
		exit(1);
	world_config.rendezvous = "threads://fp8_layer";
	world_config.rank = rank;
	world_config.num_ranks = RANKS;
	CHECK(shunt_world_create(&world_config, &world));
	CHECK(shunt_exchange_create(world, NULL, &config, &exchange));
	make_tokens(tokens);
	/* The shared expert gives a token as it is, the others double it. */
	run_layer(exchange, tokens, rank == 0 ? 1.0f : 2.0f);
	/* 0.5 * 2x + 0.5 * 2x of the experts, x of the shared one, x itself. */
	printf("rank %d: token 3 was %g, became %g, normalised %g\n", (int)rank,
		(double)tokens->x[3][0], (double)tokens->out[3][0],
		(double)tokens->norm[3][0]);
	shunt_exchange_destroy(exchange);
	shunt_world_destroy(world);
	free(tokens);
	return NULL;
}

int main(void)
{
	static const int32_t numbers[RANKS] = {0, 1, 2, 3};
	pthread_t threads[RANKS];

	for (int r = 0; r < RANKS; r++)
		if (pthread_create(
			    &threads[r], NULL, run_rank, (void *)&numbers[r]))
			return 1;
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	return 0;
}
