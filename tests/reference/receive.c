/*
 * What a rank receives (spec 1.3, 1.4, 1.7), in two passes over the same
 * loops: by local expert, then EP group, then source rank, then token and
 * choice. The first counts, the second fills.
 */
#include <stdlib.h>
#include <string.h>

#include "reference/route.h"

/* A walk over the rows of `place`. */
struct walk {
	struct frame frame;
	struct reference_place place; /* rank is in the frame's numbering */
	struct reference_received *received;
	bool fills;
	int64_t row;      /* where the next one goes */
	int64_t in_group; /* rows of this EP group so far */
	struct reference_made made;
};

static int64_t largest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static bool is_shared(const struct walk *walk)
{
	return walk->place.rank < walk->frame.num_shared_ranks;
}

static int64_t num_local(const struct frame *frame, int32_t rank)
{
	int64_t count = 0;

	if (rank < frame->num_shared_ranks)
		return 1;
	for (int64_t e = 0; e < frame->num_experts; e++)
		count += frame_expert_rank(frame, e) == rank;
	return count;
}

int64_t reference_capacity(
	const struct reference_job *job, struct reference_place place)
{
	const struct shunt_exchange_config *config = &job->config;
	struct reference_job whole = *job;
	struct frame frame;
	int64_t local, rows, choices = config->topk, align;

	whole.table = NULL;
	frame = frame_of(&whole);
	local = num_local(&frame, place.rank);
	align = largest(config->expert_alignment, 1);
	if (local == 0)
		return 0;
	if (config->layout == SHUNT_LAYOUT_PADDED &&
		config->rows_per_expert > 0)
		return local * config->rows_per_expert;
	if (config->layout == SHUNT_LAYOUT_PADDED) {
		rows = config->max_tokens * frame.num_ranks * frame.num_tp;
		return local * ((rows + align - 1) / align * align);
	}
	if (config->distinct_experts && local < choices)
		choices = local;
	rows = frame.num_ranks * config->max_tokens * choices;
	if (place.rank < frame.num_shared_ranks) {
		rows = frame_replicas(&frame);
		rows = (frame.num_ranks + rows - 1) / rows;
		if (config->elastic)
			rows = frame.num_ranks;
		rows *= config->max_tokens;
	}
	return rows * frame.num_tp + local * (align - 1);
}

int64_t reference_room(
	const struct reference_job *job, struct reference_place place)
{
	int64_t most = job->config.max_recv_rows;
	int64_t worst = reference_capacity(job, place);

	return most > 0 && most < worst ? most : worst;
}

/* ---- rows ------------------------------------------------------------- */

static void put_row(struct walk *walk, const struct reference_input *input,
	int32_t tp, int32_t source, int64_t t, int64_t k)
{
	struct reference_received *received = walk->received;
	int64_t n = walk->row;
	int64_t scales = received->num_scales * received->scale_bytes;

	received->kind[n] = REFERENCE_REAL;
	memcpy(received->expand_x + n * received->row_bytes, walk->made.q,
		(size_t)received->row_bytes);
	if (scales > 0)
		memcpy(received->scales + n * scales, walk->made.scales,
			(size_t)scales);
	received->row_scales[n] = walk->made.row_scale;
	if (received->weights != NULL && k >= walk->frame.job->config.topk)
		received->weights[n] = 1;
	else if (received->weights != NULL)
		memcpy(&received->weights[n],
			&input->weights[t * walk->frame.job->config.topk + k],
			sizeof(float));
	received->source[3 * n] = source;
	received->source[3 * n + 1] = (int32_t)t;
	received->source[3 * n + 2] = (int32_t)k;
	received->experts[n] = walk->made.expert;
	received->groups[n] = tp;
}

/* One row for original expert `expert`. */
static void visit_row(struct walk *walk, const struct reference_input *input,
	int32_t tp, int32_t source, int64_t t, int64_t k, int64_t expert)
{
	struct reference_sent ignored = {0};

	if (walk->fills) {
		made_fill(&walk->made, walk->frame.job, input, t, expert,
			&ignored);
		put_row(walk, input, tp, source, t, k);
	}
	walk->row++;
	walk->in_group++;
}

/* Block (local expert, source) on a MoE rank: the order of t * K + k. */
static void visit_moe_block(
	struct walk *walk, int64_t expert, int32_t tp, int32_t source)
{
	const struct reference_input *input =
		frame_input(&walk->frame, tp, source);
	int64_t original = frame_original_expert(&walk->frame, expert);

	for (int64_t t = 0; t < input->num_tokens; t++)
		for (int64_t k = 0; k < walk->frame.job->config.topk; k++)
			if (route_expert(&walk->frame, input, t, k) == expert)
				visit_row(walk, input, tp, source, t, k,
					original);
}

/* Rank j * R + i holds shared expert j, and takes the tokens of each rank r
 * with r % R = i. */
static void visit_shared_block(struct walk *walk, int32_t tp, int32_t source)
{
	const struct shunt_exchange_config *config = &walk->frame.job->config;
	const struct reference_input *input =
		frame_input(&walk->frame, tp, source);
	int64_t shared = walk->place.rank / frame_replicas(&walk->frame);

	if (frame_shared_rank(&walk->frame, shared, source) != walk->place.rank)
		return;
	for (int64_t t = 0; t < input->num_tokens; t++)
		if (route_is_active(&walk->frame, input, t))
			visit_row(walk, input, tp, source, t,
				config->topk + shared,
				config->num_experts + shared);
}

/* ---- experts ---------------------------------------------------------- */

/* The EP group that comes as number i: own first, or in order. */
static int32_t group_at(const struct walk *walk, int32_t i)
{
	int32_t own = walk->place.tp;

	if (walk->frame.job->config.tp_rank_order)
		return i;
	if (i == 0)
		return own;
	return i <= own ? i - 1 : i;
}

/* All rows of a local expert; `expert` is its number, or unused on a shared
 * rank. Fills the counts, too, which restart with each EP group. */
static void visit_expert(
	struct walk *walk, int64_t local, int64_t expert, int64_t *before)
{
	struct reference_received *received = walk->received;
	int32_t ranks = walk->frame.num_ranks, tp;
	int32_t *counts;

	for (int32_t i = 0; i < walk->frame.num_tp; i++) {
		tp = group_at(walk, i);
		walk->in_group = before[i];
		counts = received->recv_counts +
			 (i * received->num_experts + local) * ranks;
		for (int32_t r = 0; r < ranks; r++) {
			if (is_shared(walk))
				visit_shared_block(walk, tp, r);
			else
				visit_moe_block(walk, expert, tp, r);
			counts[r] = (int32_t)walk->in_group;
		}
		before[i] = walk->in_group;
		received->tp_counts[tp] = (int32_t)walk->in_group;
	}
}

static void put_padding(struct reference_received *received, int64_t n)
{
	/* All of a padding row is 0 from the start, but this: */
	received->kind[n] = REFERENCE_PADDING;
	for (int i = 0; i < 3; i++)
		received->source[3 * n + i] = -1;
}

static int64_t aligned(const struct walk *walk, int64_t rows)
{
	int64_t unit = largest(walk->frame.job->config.expert_alignment, 1);

	return (rows + unit - 1) / unit * unit;
}

/* PADDED: M, where it is not given what W * T_max tokens need. */
static int64_t rows_per_expert(const struct walk *walk)
{
	const struct shunt_exchange_config *config = &walk->frame.job->config;

	if (config->rows_per_expert > 0)
		return config->rows_per_expert;
	return aligned(walk, config->max_tokens * walk->frame.job->num_ranks *
				     walk->frame.num_tp);
}

static void finish_expert(struct walk *walk, int64_t local, int64_t first)
{
	struct reference_received *received = walk->received;
	int64_t rows = walk->row - first, padded = aligned(walk, rows);
	int64_t end = first + padded, before;

	received->first_row[local] = first;
	received->token_nums[local] = rows;
	received->padded_nums[local] = padded;
	before = local == 0 ? 0 : received->token_prefix[local - 1];
	received->token_prefix[local] = before + rows;
	before = local == 0 ? 0 : received->padded_prefix[local - 1];
	received->padded_prefix[local] = before + padded;
	for (; walk->row < end; walk->row++)
		if (walk->fills)
			put_padding(received, walk->row);
}

static bool visit_all(struct walk *walk)
{
	const struct shunt_exchange_config *config = &walk->frame.job->config;
	bool padded = config->layout == SHUNT_LAYOUT_PADDED;
	int64_t *before = calloc((size_t)walk->frame.num_tp, sizeof(*before));
	int64_t local = 0, first;
	int64_t last = is_shared(walk) ? 1 : walk->frame.num_experts;

	if (before == NULL)
		return false;
	walk->row = 0;
	for (int64_t e = 0; e < last; e++) {
		if (!is_shared(walk) &&
			frame_expert_rank(&walk->frame, e) != walk->place.rank)
			continue;
		if (padded)
			walk->row = local * rows_per_expert(walk);
		first = walk->row;
		visit_expert(walk, local, e, before);
		finish_expert(walk, local, first);
		local++;
	}
	if (padded)
		walk->row = local * rows_per_expert(walk);
	free(before);
	return true;
}

/* ---- room ------------------------------------------------------------- */

static void *room(int64_t count, size_t bytes)
{
	return calloc((size_t)count + 1, bytes);
}

static bool make_tables(const struct walk *walk)
{
	struct reference_received *received = walk->received;
	int64_t experts = received->num_experts;

	received->first_row = room(experts, sizeof(int64_t));
	received->token_nums = room(experts, sizeof(int64_t));
	received->token_prefix = room(experts, sizeof(int64_t));
	received->padded_nums = room(experts, sizeof(int64_t));
	received->padded_prefix = room(experts, sizeof(int64_t));
	received->recv_counts =
		room(experts * walk->frame.num_ranks * walk->frame.num_tp,
			sizeof(int32_t));
	received->tp_counts = room(walk->frame.num_tp, sizeof(int32_t));
	return received->first_row && received->token_nums &&
	       received->token_prefix && received->padded_nums &&
	       received->padded_prefix && received->recv_counts &&
	       received->tp_counts;
}

static bool make_rows(struct reference_received *received, bool weighted)
{
	int64_t rows = received->num_places;

	received->kind = room(rows, 1);
	received->expand_x = room(rows, (size_t)received->row_bytes);
	received->scales = room(
		rows, (size_t)(received->num_scales * received->scale_bytes));
	received->row_scales = room(rows, sizeof(float));
	received->source = room(rows, 3 * sizeof(int32_t));
	received->experts = room(rows, sizeof(int64_t));
	received->groups = room(rows, sizeof(int32_t));
	if (weighted)
		received->weights = room(rows, sizeof(float));
	return received->kind && received->expand_x && received->scales &&
	       received->row_scales && received->source && received->experts &&
	       received->groups && (!weighted || received->weights);
}

void reference_received_fini(struct reference_received *received)
{
	free(received->kind);
	free(received->expand_x);
	free(received->scales);
	free(received->row_scales);
	free(received->weights);
	free(received->source);
	free(received->experts);
	free(received->groups);
	free(received->first_row);
	free(received->token_nums);
	free(received->token_prefix);
	free(received->padded_nums);
	free(received->padded_prefix);
	free(received->recv_counts);
	free(received->tp_counts);
	*received = (struct reference_received){0};
}

/* The first pass. */
static bool count(struct walk *walk, const struct reference_job *job,
	struct reference_place place, struct reference_received *received)
{
	*walk = (struct walk){
		.frame = frame_of(job),
		.place = place,
		.received = received,
	};
	walk->place.rank = frame_rank(&walk->frame, place.rank);
	*received = (struct reference_received){
		.num_experts = num_local(&walk->frame, walk->place.rank),
		.num_ranks = walk->frame.num_ranks,
		.row_bytes = made_row_bytes(job),
		.num_scales = made_num_scales(job),
		.scale_bytes = made_scale_bytes(job),
	};
	return make_tables(walk) && visit_all(walk);
}

bool reference_fits(const struct reference_job *job,
	struct reference_place place, bool *fits)
{
	struct reference_received received;
	struct walk walk;
	bool done = count(&walk, job, place, &received);

	*fits = done && walk.row <= reference_room(job, place);
	if (job->config.layout == SHUNT_LAYOUT_PADDED)
		for (int64_t l = 0; done && l < received.num_experts; l++)
			*fits = *fits && received.padded_nums[l] <=
						 rows_per_expert(&walk);
	reference_received_fini(&received);
	return done;
}

/* What comes behind the counting. */
static bool fill(struct walk *walk, int64_t capacity)
{
	struct reference_received *received = walk->received;
	const struct reference_job *job = walk->frame.job;
	bool weighted = frame_input(&walk->frame, 0, 0)->weights != NULL;
	int64_t local = received->num_experts;

	if (local > 0)
		received->num_rows = received->token_prefix[local - 1];
	received->extent_rows = walk->row;
	received->num_places = walk->row;
	if (job->config.zero_tail)
		received->num_places = largest(capacity, walk->row);
	if (!make_rows(received, weighted))
		return false;
	if (job->config.zero_tail)
		for (int64_t n = 0; n < received->num_places; n++)
			put_padding(received, n);
	walk->fills = true;
	return visit_all(walk);
}

bool reference_receive(const struct reference_job *job,
	struct reference_place place, int64_t capacity,
	struct reference_received *received)
{
	struct walk walk;
	bool done;

	done = count(&walk, job, place, received);
	done = made_init(&walk.made, job) && done && fill(&walk, capacity);
	made_fini(&walk.made);
	return done;
}
