/* From rows to times: each term as docs/scale.md has it. */
#include "load.h"
#include "model.h"

const char *const model_term_names[MODEL_NUM_TERMS] = {
	[MODEL_COUNTS] = "counts",
	[MODEL_EXPERTS] = "experts",
	[MODEL_PEERS] = "peers",
	[MODEL_TOKENS] = "tokens",
	[MODEL_COPY] = "copy",
	[MODEL_MESSAGES] = "messages",
	[MODEL_WIRE] = "wire",
	[MODEL_LATENCY] = "latency",
	[MODEL_TURNS] = "turns",
};

/* ---- what a rank does ------------------------------------------------- */

/* One algorithm's phase. */
struct pass {
	const struct model_job *job;
	const struct model_constants *constants;
	const struct model_rank *ranks;
	enum model_algorithm algorithm;
	enum model_phase phase;
};

typedef double work(const struct pass *pass, const struct model_rank *rank);

static bool is_hierarchy(const struct pass *pass)
{
	return pass->algorithm == MODEL_HIERARCHY;
}

static double num_tokens(const struct pass *pass)
{
	return (double)pass->job->options->bench.num_tokens;
}

static double dispatch_bytes(
	const struct pass *pass, const struct model_rank *rank)
{
	const struct model_job *job = pass->job;
	int64_t written = rank->local, placed;

	/* A row for another host is made in own memory, which the adapter
	 * reads, and at its host it is placed: read and written. */
	if (is_hierarchy(pass)) {
		written += rank->hosts;
		placed = rank->landed + rank->fanned;
	} else {
		written += rank->remote;
		placed = 2 * rank->from_remote;
	}
	return num_tokens(pass) * (double)job->x_bytes +
	       (double)((written + placed) * job->row_bytes);
}

static double combine_bytes(
	const struct pass *pass, const struct model_rank *rank)
{
	const struct model_job *job = pass->job;
	int64_t plain = 0, home = rank->local + rank->remote;

	/* Partial sums: rows read for another host's tokens, sums written for
	 * the adapter, and at home sums read. Only sums are quantized then. */
	if (is_hierarchy(pass)) {
		plain = rank->local + rank->fanned;
		home = rank->hosts + rank->landed;
	}
	return (double)(plain * job->expert_bytes + home * job->home_bytes) +
	       num_tokens(pass) * (double)job->out_bytes;
}

static double copied(const struct pass *pass, const struct model_rank *rank)
{
	return pass->phase == MODEL_DISPATCH ? dispatch_bytes(pass, rank)
					     : combine_bytes(pass, rank);
}

static double copy_us(const struct pass *pass, const struct model_rank *rank)
{
	double gbs = pass->phase == MODEL_DISPATCH
			     ? pass->constants->dispatch_gbs
			     : pass->constants->combine_gbs;

	return copied(pass, rank) / (gbs * 1e3);
}

static double token_us(const struct pass *pass, const struct model_rank *rank)
{
	const struct model_constants *constants = pass->constants;
	int64_t quantized = rank->received;

	if (pass->phase == MODEL_DISPATCH)
		return num_tokens(pass) * constants->quant_us;
	if (pass->job->options->bench.combine_quant == SHUNT_COMBINE_QUANT_NONE)
		quantized = 0;
	else if (is_hierarchy(pass))
		quantized = rank->landed + pass->job->options->bench.num_tokens;
	return num_tokens(pass) * constants->sum_us +
	       (double)quantized * constants->home_us;
}

/* Ranks of other hosts that a rank writes to. */
static int64_t far_peers(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	return is_hierarchy(pass) ? job->options->num_hosts - 1
				  : job->shape.num_ranks - job->host_ranks;
}

static int phases_of(const struct pass *pass)
{
	return pass->phase == MODEL_DISPATCH && !pass->job->fetched ? 2 : 1;
}

/* To each peer one for each signal; in a fullmesh combine one more for each
 * further expert with rows, whose rows lie apart. */
static double messages(const struct pass *pass, const struct model_rank *rank)
{
	int64_t count = phases_of(pass) * far_peers(pass);

	if (pass->phase == MODEL_COMBINE && !is_hierarchy(pass))
		count += rank->runs - rank->sources;
	return (double)count;
}

static double message_us(const struct pass *pass, const struct model_rank *rank)
{
	return messages(pass, rank) * pass->constants->message_us;
}

static double peer_us(const struct pass *pass, const struct model_rank *rank)
{
	(void)rank;
	return pass->constants->peer_us * phases_of(pass) *
	       (double)(pass->job->host_ranks + far_peers(pass));
}

static double expert_us(const struct pass *pass, const struct model_rank *rank)
{
	(void)rank;
	if (pass->phase != MODEL_DISPATCH)
		return 0;
	return pass->constants->expert_ns / 1e3 *
	       (double)pass->job->shape.num_experts;
}

static double counts_us(const struct pass *pass, const struct model_rank *rank)
{
	const struct shape *shape = &pass->job->shape;

	(void)rank;
	if (pass->phase != MODEL_DISPATCH || pass->constants->counts_gbs <= 0)
		return 0;
	return 4 * (double)shape->num_ranks * (double)shape->num_experts /
	       (pass->constants->counts_gbs * 1e3);
}

/* ---- what a host does ------------------------------------------------- */

/* The slowest host: as long as its busiest rank, or as its cores have work. */
static double slowest(const struct pass *pass, work *of)
{
	const struct model_job *job = pass->job;
	double longest = 0;

	for (int64_t h = 0; h < job->options->num_hosts; h++) {
		const struct model_rank *first =
			pass->ranks + h * job->host_ranks;
		double sum = 0;

		for (int64_t r = 0; r < job->host_ranks; r++) {
			double one = of(pass, first + r);

			sum += one;
			longest = one > longest ? one : longest;
		}
		sum /= (double)job->options->cores;
		longest = sum > longest ? sum : longest;
	}
	return longest;
}

static double most(const struct pass *pass, work *of)
{
	double most = 0;

	for (int32_t r = 0; r < pass->job->shape.num_ranks; r++) {
		double one = of(pass, &pass->ranks[r]);

		most = one > most ? one : most;
	}
	return most;
}

static double sum(const struct pass *pass, work *of)
{
	double sum = 0;

	for (int32_t r = 0; r < pass->job->shape.num_ranks; r++)
		sum += of(pass, &pass->ranks[r]);
	return sum;
}

/* Bytes of rows that the busiest host sends or takes in. */
static double wire_bytes(const struct pass *pass)
{
	const struct model_job *job = pass->job;
	int64_t busiest = 0;

	for (int64_t h = 0; h < job->options->num_hosts; h++) {
		int64_t out = 0, in = 0;

		for (int64_t r = 0; r < job->host_ranks; r++) {
			const struct model_rank *rank =
				&pass->ranks[h * job->host_ranks + r];

			out += is_hierarchy(pass) ? rank->hosts : rank->remote;
			in += is_hierarchy(pass) ? rank->landed
						 : rank->from_remote;
		}
		busiest = out > busiest ? out : busiest;
		busiest = in > busiest ? in : busiest;
	}
	return (double)busiest * (double)(pass->phase == MODEL_DISPATCH
						  ? job->row_bytes
						  : job->home_bytes);
}

/* Each rank's counts go to each rank, or once to each host. */
static double counts_bytes(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	if (pass->phase != MODEL_DISPATCH)
		return 0;
	return 4 * (double)(job->host_ranks * far_peers(pass)) *
	       (double)job->shape.num_experts;
}

/* A signal passes on what has landed: behind the wire in dispatch, before it
 * in combine. */
static int signals(const struct pass *pass)
{
	if (pass->job->options->num_hosts == 1 || is_hierarchy(pass))
		return phases_of(pass);
	return 0;
}

static double latency_us(const struct pass *pass)
{
	double wires = pass->job->options->num_hosts > 1 ? phases_of(pass) : 0;

	return signals(pass) * pass->constants->signal_us +
	       wires * pass->constants->wire_us;
}

static double turns_us(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	if (job->host_ranks <= job->options->cores)
		return 0;
	return phases_of(pass) * pass->constants->turn_us *
	       (double)job->host_ranks / (double)job->options->cores;
}

static double wire_us(const struct pass *pass)
{
	if (pass->job->options->num_hosts == 1)
		return 0;
	return (wire_bytes(pass) + counts_bytes(pass)) /
	       (pass->constants->wire_gbs * 1e3);
}

/* ---- the whole -------------------------------------------------------- */

double model_fixed_us(const struct model_constants *constants,
	enum model_phase phase, double num_ranks, double num_experts)
{
	bool dispatch = phase == MODEL_DISPATCH;
	double us = constants->peer_us * num_ranks * (dispatch ? 2 : 1);

	if (dispatch)
		us += constants->expert_ns / 1e3 * num_experts;
	if (dispatch && constants->counts_gbs > 0)
		us += 4 * num_ranks * num_experts /
		      (constants->counts_gbs * 1e3);
	return us;
}

static void add_pass(
	struct model_result *result, const struct pass *pass, double share)
{
	static work *const works[MODEL_NUM_TERMS] = {
		[MODEL_COUNTS] = counts_us,
		[MODEL_EXPERTS] = expert_us,
		[MODEL_PEERS] = peer_us,
		[MODEL_TOKENS] = token_us,
		[MODEL_COPY] = copy_us,
		[MODEL_MESSAGES] = message_us,
	};
	double us[MODEL_NUM_TERMS] = {
		[MODEL_WIRE] = wire_us(pass),
		[MODEL_LATENCY] = latency_us(pass),
		[MODEL_TURNS] = turns_us(pass),
	};

	for (int i = 0; i < MODEL_NUM_TERMS; i++) {
		if (works[i])
			us[i] = slowest(pass, works[i]);
		result->us[i] += us[i] * share;
		result->total_us += us[i] * share;
	}
	result->copied_bytes += sum(pass, copied) * share;
	result->wire_bytes += wire_bytes(pass) * share;
	result->counts_bytes += counts_bytes(pass) * share;
	result->messages += most(pass, messages) * share;
	result->signals += signals(pass) * share;
}

static void add_routing(
	struct model *model, const struct model_rank *ranks, double share)
{
	const struct model_job *job = &model->job;
	double tokens = (double)(model->options.bench.num_tokens *
				 model->options.bench.num_ranks);
	double hosts = 0, rows = 0;

	for (int32_t r = 0; r < job->shape.num_ranks; r++) {
		hosts += (double)ranks[r].hosts;
		rows += (double)ranks[r].remote;
	}
	if (tokens <= 0)
		return;
	model->remote_hosts_per_token += hosts / tokens * share;
	model->remote_rows_per_token += rows / tokens * share;
}

void model_add_step(
	struct model *model, const struct model_rank *ranks, double share)
{
	for (int a = 0; a < MODEL_NUM_ALGORITHMS; a++)
		for (int p = 0; p < MODEL_NUM_PHASES; p++)
			add_pass(&model->result[a][p],
				&(struct pass){&model->job,
					&model->options.constants, ranks,
					(enum model_algorithm)a,
					(enum model_phase)p},
				share);
	add_routing(model, ranks, share);
	for (int32_t r = 0; r < model->job.shape.num_ranks; r++)
		if (ranks[r].received > model->job.most_rows)
			model->job.most_rows = ranks[r].received;
}

double model_roundtrip(const struct model *model, enum model_algorithm which)
{
	return model->result[which][MODEL_DISPATCH].total_us +
	       model->result[which][MODEL_COMBINE].total_us;
}
