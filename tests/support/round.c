#include "support/round.h"

#include <string.h>

struct shunt_exchange *round_exchange(struct seat *seat, enum round_kind kind)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;
	struct shunt_exchange *exchange;

	config.max_tokens = ROUND_TOKENS;
	config.hidden = ROUND_HIDDEN;
	config.topk = ROUND_RANKS;
	config.num_experts = ROUND_RANKS;
	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	config.num_copy_experts = kind == ROUND_SPECIAL;
	config.num_constant_experts = kind == ROUND_SPECIAL;
	if (kind == ROUND_PACKED)
		config.combine_quant = SHUNT_COMBINE_QUANT_INT8_128;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	return exchange;
}

void round_begin(
	struct seat *seat, struct shunt_exchange *exchange, struct round *round)
{
	static const int32_t ids[ROUND_TOKENS][ROUND_RANKS] = {
		{0, 1}, {0, 1}, {0, 1}};
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;

	*round = (struct round){
		.dispatched = SHUNT_DISPATCH_OUT_INIT,
		.args = SHUNT_COMBINE_ARGS_INIT,
	};
	for (int i = 0; i < ROUND_TOKENS * ROUND_HIDDEN; i++)
		round->x[i / ROUND_HIDDEN][i % ROUND_HIDDEN] =
			(float)(i + seat->rank);
	args.x = round->x;
	args.num_tokens = ROUND_TOKENS;
	args.expert_ids = ids;
	args.ids_type = SHUNT_INDEX_I32;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &round->dispatched,
			      &round->handle));
	memcpy(round->dispatched.expert_rows, round->dispatched.expand_x,
		ROUND_ROWS * ROUND_HIDDEN * sizeof(float));
	round->args.y = round->dispatched.expert_rows;
	round->args.out = round->out;
	round->args.ori_x = round->x;
	round->args.constant_alpha1 = round->constants;
	round->args.constant_alpha2 = round->constants;
	round->args.constant_v = round->constants;
}

void round_check(struct seat *seat, const struct round *round)
{
	for (int t = 0; t < ROUND_TOKENS; t++)
		for (int h = 0; h < ROUND_HIDDEN; h++)
			SEAT_CHECK(seat, round->out[t][h] == 2 * round->x[t][h],
				"element %d of token %d is wrong", h, t);
}

void round_good(struct seat *seat, struct shunt_exchange *exchange)
{
	struct round round;

	round_begin(seat, exchange, &round);
	SEAT_OK(seat, shunt_combine(round.handle, &round.args));
	round_check(seat, &round);
}
