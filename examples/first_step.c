/* One step of a Mixture-of-Experts layer: run with
 *	shunt run -n 4 -- ./first_step */
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

enum { TOKENS = 8, HIDDEN = 64, TOPK = 2, EXPERTS = 8 };

int main(void)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	static float x[TOKENS][HIDDEN], result[TOKENS][HIDDEN];
	static float weights[TOKENS][TOPK];
	static int32_t ids[TOKENS][TOPK];
	struct shunt_world *world;
	struct shunt_exchange *exchange;
	struct shunt_handle handle;

	CHECK(shunt_world_create(NULL, &world));
	config.max_tokens = TOKENS;
	config.hidden = HIDDEN;
	config.topk = TOPK;
	config.num_experts = EXPERTS;
	config.dtype = config.expert_dtype = SHUNT_DTYPE_F32;
	CHECK(shunt_exchange_create(world, NULL, &config, &exchange));

	for (int t = 0; t < TOKENS; t++) {
		for (int h = 0; h < HIDDEN; h++)
			x[t][h] = (float)(t + 1);
		for (int k = 0; k < TOPK; k++) {
			ids[t][k] = (t + 3 * k) % EXPERTS;
			weights[t][k] = 0.5f;
		}
	}
	args.x = x;
	args.num_tokens = TOKENS;
	args.expert_ids = ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = &weights[0][0];
	CHECK(shunt_dispatch(exchange, &args, &out, &handle));

	/* The experts of this rank: each doubles its tokens. */
	for (int64_t i = 0; i < out.num_rows * HIDDEN; i++)
		((float *)out.expert_rows)[i] = 2 * ((float *)out.expand_x)[i];

	combine.y = out.expert_rows;
	combine.out = result;
	CHECK(shunt_combine(handle, &combine));
	printf("rank %d of %d: token 3 was %g, came back as %g\n",
		(int)shunt_world_rank(world), (int)shunt_world_size(world),
		(double)x[3][0], (double)result[3][0]);

	shunt_exchange_destroy(exchange);
	shunt_world_destroy(world);
	return 0;
}
