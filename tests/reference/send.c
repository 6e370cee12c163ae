/* What a rank counts while it sends: each quantization of a row once. */
#include "reference/route.h"

/* Token t to all its experts; where they get the same row, it is quantized
 * once. */
static void count_token(const struct frame *frame,
	const struct reference_input *input, int64_t t,
	struct reference_made *made, struct reference_sent *sent)
{
	const struct shunt_exchange_config *config = &frame->job->config;
	int64_t expert;

	for (int64_t k = 0; k < config->topk; k++) {
		expert = route_expert(frame, input, t, k);
		if (expert < 0)
			continue;
		made_fill(made, frame->job, input, t,
			frame_original_expert(frame, expert), sent);
		if (!made_varies(input))
			return;
	}
	if (!route_is_active(frame, input, t))
		return;
	for (int64_t j = 0; j < frame->num_shared; j++) {
		made_fill(made, frame->job, input, t, config->num_experts + j,
			sent);
		if (!made_varies(input))
			return;
	}
}

bool reference_send(const struct reference_job *job,
	struct reference_place place, struct reference_sent *sent)
{
	struct frame frame = frame_of(job);
	const struct reference_input *input =
		frame_input(&frame, place.tp, frame_rank(&frame, place.rank));
	struct reference_made made;
	bool done = made_init(&made, job);

	*sent = (struct reference_sent){0};
	for (int64_t t = 0; done && t < input->num_tokens; t++) {
		for (int64_t k = 0; k < job->config.topk; k++)
			sent->dropped_choices +=
				route_is_dropped(&frame, input, t, k);
		count_token(&frame, input, t, &made, sent);
	}
	made_fini(&made);
	return done;
}
