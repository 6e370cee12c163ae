/* The floor: what it takes to move the bytes of a step with plain copies. */
#include "floor.h"
#include "shared.h"

/* ---- memory ----------------------------------------------------------- */

static int64_t window(const struct floor *floor, int64_t step, int32_t member)
{
	return member * floor->depth + step % floor->depth;
}

uint8_t *floor_sent(const struct floor *floor, int64_t step, int32_t member)
{
	return floor->sent + window(floor, step, member) * floor->sent_rows *
				     floor->plan->row_bytes;
}

uint8_t *floor_experts(const struct floor *floor, int64_t step, int32_t member)
{
	return floor->experts + window(floor, step, member) * floor->seen_rows *
					floor->plan->home_bytes;
}

static uint32_t *scales_at(
	const struct floor *floor, int64_t step, int32_t member)
{
	return floor->scales + window(floor, step, member) * floor->seen_rows *
				       floor->scale_words;
}

static void set_sizes(struct floor *floor)
{
	const struct plan *plan = floor->plan;

	floor->seen_rows = plan->most_rows;
	for (int32_t r = 0; plan->capacity && r < plan->load->shape->num_ranks;
		r++)
		if (plan->capacity[r] > floor->seen_rows)
			floor->seen_rows = plan->capacity[r];
	floor->sent_rows = floor->seen_rows;
	if (plan->indexed)
		floor->sent_rows =
			plan->load->num_tokens * plan_kept_rows(plan);
	floor->scale_words = (plan->scale_bytes + 3) / 4;
}

bool floor_init(struct floor *floor)
{
	struct shared_layout layout = {.one_process = floor->one_process};
	size_t windows = (size_t)floor->plan->load->shape->num_members *
			 (size_t)floor->depth;
	size_t sent, experts, scales;

	set_sizes(floor);
	sent = shared_reserve(&layout, windows * (size_t)floor->sent_rows,
		(size_t)floor->plan->row_bytes);
	experts = shared_reserve(&layout, windows * (size_t)floor->seen_rows,
		(size_t)floor->plan->home_bytes);
	scales = shared_reserve(&layout, windows * (size_t)floor->seen_rows,
		(size_t)floor->scale_words * 4);
	floor->memory = shared_map(&layout);
	if (!floor->memory)
		return false;
	floor->bytes = layout.bytes;
	floor->num_copies = copies_list(floor->copies);
	floor->sent = shared_at(floor->memory, sent);
	floor->experts = shared_at(floor->memory, experts);
	floor->scales = shared_at(floor->memory, scales);
	return true;
}

void floor_fini(struct floor *floor)
{
	shared_unmap(floor->memory, floor->bytes);
	floor->memory = NULL;
}

int64_t floor_most_terms(const struct floor *floor)
{
	/* The rows, and shared_x, ori_x and the residual. */
	return plan_num_targets(floor->plan) + 3;
}

int64_t floor_widest_row(const struct floor *floor)
{
	const struct plan *plan = floor->plan;
	int64_t widest = plan->row_bytes;

	if (plan->home_bytes > widest)
		widest = plan->home_bytes;
	return plan->load->out_bytes > widest ? plan->load->out_bytes : widest;
}

void floor_touch(const uint8_t *from, int64_t num_bytes)
{
	uint64_t sum = 0;

	for (int64_t i = 0; i < num_bytes; i += 64)
		sum += from[i];
	__asm__ volatile("" : : "r"(sum));
}

/* ---- dispatch --------------------------------------------------------- */

/* A token on its way: what was sent of it so far. */
struct sending {
	const struct copies *copies;
	const uint8_t *token;
	int64_t whole, bytes; /* of the token, of a row */
	int64_t num_pieces, num_sent;
};

/*
 * A quantized row is shorter than the token: the copies take turns at the
 * pieces of the token, so that together they read all of it, and what is left
 * over is read in the end.
 */
static void send_row(struct sending *sending, uint8_t *to)
{
	int64_t from = sending->num_sent % sending->num_pieces * sending->bytes;

	if (from > sending->whole - sending->bytes)
		from = sending->whole - sending->bytes;
	sending->copies->copy(
		to, sending->token + from, (size_t)sending->bytes);
	sending->num_sent++;
}

static void read_rest(const struct sending *sending)
{
	int64_t read = sending->num_sent * sending->bytes;

	if (sending->num_sent > 0 && sending->num_sent < sending->num_pieces)
		floor_touch(sending->token + read, sending->whole - read);
}

static void write_scales(const struct floor *floor, int64_t step,
	const struct plan_target *target)
{
	uint32_t *scales = scales_at(floor, step, target->member) +
			   target->row * floor->scale_words;

	for (int64_t i = 0; i < floor->scale_words; i++)
		scales[i] = 1;
}

/* INDEXED: the token's rows stay here, one for all or one for each place. */
static void keep_token(const struct floor_work *work, struct sending *sending,
	int64_t step, int64_t t, const struct plan_target *targets)
{
	const struct floor *floor = work->floor;
	const struct plan *plan = floor->plan;
	int32_t tp = plan->load->shape->num_tp;
	int64_t kept = plan_kept_rows(plan);
	uint8_t *row = floor_sent(floor, step, work->member) +
		       t * kept * plan->row_bytes;

	for (int64_t i = 0; i < plan_num_targets(plan); i += tp) {
		if (targets[i].member < 0)
			continue;
		if (!plan->varies && sending->num_sent > 0)
			return;
		send_row(sending, row);
		row += plan->row_bytes;
	}
}

static void send_token(const struct floor_work *work, int variant, int64_t step,
	int64_t t, const struct plan_target *targets)
{
	const struct floor *floor = work->floor;
	const struct plan *plan = floor->plan;
	const struct load *load = plan->load;
	struct sending sending = {
		.copies = &floor->copies[variant],
		.token = (const uint8_t *)load_at(
				 load, LOAD_X, step, work->member) +
			 t * load->x_row_bytes,
		.whole = load->x_row_bytes,
		.bytes = plan->row_bytes,
		.num_pieces = (load->x_row_bytes + plan->row_bytes - 1) /
			      plan->row_bytes,
	};

	for (int64_t i = 0; i < plan_num_targets(plan); i++) {
		if (targets[i].member < 0)
			continue;
		if (!plan->indexed)
			send_row(&sending,
				floor_sent(floor, step, targets[i].member) +
					targets[i].row * plan->row_bytes);
		write_scales(floor, step, &targets[i]);
	}
	if (plan->indexed)
		keep_token(work, &sending, step, t, targets);
	read_rest(&sending);
}

/* Zeros, at the end of the window. */
static void fill_zeros(const struct floor_work *work, int variant, int64_t step)
{
	const struct floor *floor = work->floor;
	const struct plan *plan = floor->plan;
	int64_t zeros = work->zero_rows[step % LOAD_STEPS];
	uint8_t *sent = floor_sent(floor, step, work->member);

	for (int64_t i = 0; i < zeros; i++) {
		struct plan_target target = {
			work->member, (int32_t)(floor->seen_rows - zeros + i)};

		if (!plan->indexed)
			floor->copies[variant].merge(
				sent + target.row * plan->row_bytes, NULL, 0,
				(size_t)plan->row_bytes);
		write_scales(floor, step, &target);
	}
}

void floor_dispatch(const struct floor_work *work, int variant, int64_t step,
	const struct plan_target *targets)
{
	const struct plan *plan = work->floor->plan;
	const uint8_t *x_scales =
		load_at(plan->load, LOAD_X_SCALES, step, work->member);

	for (int64_t t = 0; t < plan->load->num_tokens; t++)
		send_token(work, variant, step, t,
			targets + t * plan_num_targets(plan));
	if (x_scales)
		floor_touch(x_scales,
			plan->load->num_tokens * plan->load->x_scale_bytes);
	fill_zeros(work, variant, step);
	work->floor->copies[variant].finish();
}

/* ---- combine ---------------------------------------------------------- */

/* Writes `bytes` bytes that are made of the first ones of `from`. */
static void copy_over(const struct copies *copies, uint8_t *to, int64_t bytes,
	const uint8_t *from, int64_t from_bytes)
{
	for (int64_t done = 0; done < bytes; done += from_bytes)
		copies->copy(to + done, from,
			(size_t)(bytes - done < from_bytes ? bytes - done
							   : from_bytes));
}

/*
 * Reads `count` rows of `bytes` and writes one of `out_bytes`. What is wider
 * than out goes to the scratch row, which stays in the cache; what out has
 * more is made of a row that was just read.
 */
static void merge_rows(const struct floor_work *work,
	const struct copies *copies, int64_t count, uint8_t *out)
{
	int64_t bytes = work->floor->plan->home_bytes;
	int64_t out_bytes = work->floor->plan->load->out_bytes;
	int64_t both = bytes < out_bytes ? bytes : out_bytes;

	if (count == 0)
		both = out_bytes;
	copies->merge(out, work->rows, count, (size_t)both);
	if (count == 0 || bytes == out_bytes)
		return;
	if (bytes < out_bytes) {
		copy_over(copies, out + both, out_bytes - both, work->rows[0],
			bytes);
		return;
	}
	for (int64_t i = 0; i < count; i++)
		work->rows[i] += both;
	copies->merge(work->scratch, work->rows, count, (size_t)(bytes - both));
}

/* A row that is added besides: among the others if it is as wide. */
static void add_given(const struct floor_work *work, const uint8_t *row,
	int64_t bytes, int64_t *count)
{
	if (bytes == work->floor->plan->home_bytes)
		work->rows[(*count)++] = row;
	else
		floor_touch(row, bytes);
}

static int64_t list_rows(const struct floor_work *work, int64_t step,
	const struct plan_target *targets)
{
	const struct floor *floor = work->floor;
	const struct shape *shape = floor->plan->load->shape;
	bool one_home = floor->plan->one_home;
	int64_t first = one_home ? shape_tp(shape, work->member) : 0;
	int64_t pitch = one_home ? shape->num_tp : 1;
	int64_t count = 0;

	for (int64_t i = first; i < plan_num_targets(floor->plan); i += pitch)
		if (targets[i].member >= 0)
			work->rows[count++] =
				floor_experts(floor, step, targets[i].member) +
				targets[i].row * floor->plan->home_bytes;
	return count;
}

static void list_given(
	const struct floor_work *work, int64_t step, int64_t t, int64_t *count)
{
	const struct plan *plan = work->floor->plan;
	const struct load *load = plan->load;
	const uint8_t *shared_x =
		load_at(load, LOAD_SHARED_X, step, work->member);
	const uint8_t *ori_x = load_at(load, LOAD_ORI_X, step, work->member);
	const uint8_t *residual =
		load_at(load, LOAD_RESIDUAL, step, work->member);

	if (shared_x && load_is_active(load, step, work->member, t))
		add_given(work, shared_x + t * load->expert_bytes,
			load->expert_bytes, count);
	if (ori_x && plan_reads_ori_x(plan, step, work->member, t))
		add_given(work, ori_x + t * load->expert_bytes,
			load->expert_bytes, count);
	if (residual)
		add_given(work, residual + t * load->out_bytes, load->out_bytes,
			count);
}

void floor_combine(const struct floor_work *work, int variant, int64_t step,
	const struct plan_target *targets)
{
	const struct plan *plan = work->floor->plan;
	const struct copies *copies = &work->floor->copies[variant];
	int64_t bytes = plan->load->out_bytes;

	for (int64_t t = 0; t < plan->load->num_tokens; t++) {
		int64_t count = list_rows(
			work, step, targets + t * plan_num_targets(plan));

		list_given(work, step, t, &count);
		merge_rows(work, copies, count, work->out + t * bytes);
		if (plan->norm)
			copies->copy(work->norm_out + t * bytes, work->scratch,
				(size_t)bytes);
	}
	copies->finish();
}
