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

static bool has_hosts(const struct pass *pass)
{
	return pass->job->options->num_hosts > 1;
}

static double dispatch_bytes(
	const struct pass *pass, const struct model_rank *rank)
{
	const struct model_job *job = pass->job;
	double rows = (double)rank->local;

	/* With other hosts a row is made once for each token, and fetched, read
	 * and written, once for each choice. */
	if (has_hosts(pass))
		rows = num_tokens(pass) + 2 * (double)rank->received;
	return num_tokens(pass) * (double)job->x_bytes +
	       rows * (double)job->row_bytes;
}

static double combine_bytes(
	const struct pass *pass, const struct model_rank *rank)
{
	const struct model_job *job = pass->job;
	int64_t bytes = (rank->local + rank->remote) * job->home_bytes;

	/* Rows of other hosts' tokens are read as experts give them, their sums
	 * written, and those of own tokens read. */
	if (is_hierarchy(pass))
		bytes = (rank->local + rank->fanned) * job->expert_bytes +
			(rank->landed + rank->hosts) * job->home_bytes;
	return (double)bytes + num_tokens(pass) * (double)job->out_bytes;
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
	double sums = num_tokens(pass), packed = (double)rank->received;

	if (pass->phase == MODEL_DISPATCH)
		return num_tokens(pass) * constants->quant_us;
	/* Sums of hosts are quantized, the own one's too, and not rows. */
	if (is_hierarchy(pass)) {
		sums += (double)rank->landed;
		packed = (double)(rank->landed + rank->stayed);
	}
	if (pass->job->options->bench.combine_quant == SHUNT_COMBINE_QUANT_NONE)
		return sums * constants->sum_us;
	return sums * constants->sum_us + packed * constants->home_us;
}

/* Ranks of other hosts: all hear of a step. */
static int64_t far_peers(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	return job->shape.num_ranks - job->host_ranks;
}

/* Those that a rank sends rows to. */
static int64_t num_targets(const struct pass *pass)
{
	return is_hierarchy(pass) ? pass->job->options->num_hosts - 1
				  : far_peers(pass);
}

/* How often a rank waits for others: on one host for counts and rows, unless
 * they come at once; with several for both at once, and in a hierarchy for what
 * ranks of its host do in between. */
static int num_waits(const struct pass *pass)
{
	if (has_hosts(pass))
		return is_hierarchy(pass) ? 2 : 1;
	return pass->phase == MODEL_DISPATCH && !pass->job->fetched ? 2 : 1;
}

/* Dispatch: rows, neighbours at once; to each target places, weights and
 * scales; to each far peer counts with a signal, and one when all are fetched.
 * Combine: rows or sums one by one, note and signal; in a hierarchy weights
 * there, and a signal behind the sums. */
static double messages(const struct pass *pass, const struct model_rank *rank)
{
	int64_t targets = num_targets(pass), far = far_peers(pass);

	if (!has_hosts(pass))
		return 0;
	if (pass->phase == MODEL_DISPATCH)
		return (double)((is_hierarchy(pass) ? rank->host_runs
						    : rank->rank_runs) +
				(2 + (pass->job->scale_bytes > 0)) * targets +
				3 * far);
	if (is_hierarchy(pass))
		return (double)(rank->landed + 2 * targets + 2 * far);
	return (double)(rank->from_remote + 2 * far);
}

static double message_us(const struct pass *pass, const struct model_rank *rank)
{
	return messages(pass, rank) * pass->constants->message_us;
}

/* Signals that a rank gives, in the host and to others. */
static int64_t num_signals(const struct pass *pass)
{
	const struct model_job *job = pass->job;
	int64_t all = job->shape.num_ranks;

	if (!has_hosts(pass))
		return num_waits(pass) * all;
	if (pass->phase == MODEL_DISPATCH)
		return 2 * all + (is_hierarchy(pass) ? job->host_ranks : 0);
	return all + (is_hierarchy(pass) ? num_targets(pass) : 0);
}

static double peer_us(const struct pass *pass, const struct model_rank *rank)
{
	(void)rank;
	return pass->constants->peer_us * (double)num_signals(pass);
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

/* Rows that a rank sends to other hosts, or takes in. */
static int64_t rows_across(
	const struct pass *pass, const struct model_rank *rank, bool out)
{
	bool combine = pass->phase == MODEL_COMBINE;

	/* Sums go back the way that tokens came, rows that of choices. */
	if (is_hierarchy(pass))
		return out != combine ? rank->hosts : rank->landed;
	if (combine)
		return out ? rank->from_remote : rank->remote;
	return out ? rank->ranks : rank->arrived;
}

static int64_t bytes_across(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	if (pass->phase == MODEL_DISPATCH)
		return job->row_bytes - job->scale_bytes;
	return job->home_bytes;
}

/* Bytes of rows that the busiest host sends or takes in. */
static double wire_bytes(const struct pass *pass)
{
	const struct model_job *job = pass->job;
	int64_t busiest = 0;

	if (!has_hosts(pass))
		return 0;
	for (int64_t h = 0; h < job->options->num_hosts; h++) {
		int64_t out = 0, in = 0;

		for (int64_t r = 0; r < job->host_ranks; r++) {
			const struct model_rank *rank =
				&pass->ranks[h * job->host_ranks + r];

			out += rows_across(pass, rank, true);
			in += rows_across(pass, rank, false);
		}
		busiest = out > busiest ? out : busiest;
		busiest = in > busiest ? in : busiest;
	}
	return (double)busiest * (double)bytes_across(pass);
}

/* Of a step's head, and of a combine's note (src/exchange/layout.h). */
#define HEAD_BYTES 584

/* What a host tells beside rows. Dispatch: head and counts to all ranks, and of
 * each token places, weights and scales to each target. Combine: notes, and in a
 * hierarchy weights. */
static double counts_bytes(const struct pass *pass)
{
	const struct model_job *job = pass->job;
	double choices =
		num_tokens(pass) * (double)job->options->bench.topk * 4;
	double all = HEAD_BYTES, targets = 0;

	if (!has_hosts(pass))
		return 0;
	if (pass->phase == MODEL_DISPATCH) {
		all += 4 * (double)job->shape.num_experts;
		targets = 2 * choices +
			  num_tokens(pass) * (double)job->scale_bytes;
	} else if (is_hierarchy(pass)) {
		targets = choices;
	}
	return (double)job->host_ranks *
	       (all * (double)far_peers(pass) +
		       targets * (double)num_targets(pass));
}

/* Inside a host: in a hierarchy that what landed can be read. */
static int signals(const struct pass *pass)
{
	if (!has_hosts(pass))
		return num_waits(pass);
	return is_hierarchy(pass) && pass->phase == MODEL_DISPATCH;
}

/* Sums by host wait for the weights, then their owners for the sums. */
static int num_wires(const struct pass *pass)
{
	if (!has_hosts(pass))
		return 0;
	return is_hierarchy(pass) && pass->phase == MODEL_COMBINE ? 2 : 1;
}

static double latency_us(const struct pass *pass)
{
	return signals(pass) * pass->constants->signal_us +
	       num_wires(pass) * pass->constants->wire_us;
}

static double turns_us(const struct pass *pass)
{
	const struct model_job *job = pass->job;

	if (job->host_ranks <= job->options->cores)
		return 0;
	return num_waits(pass) * pass->constants->turn_us *
	       (double)job->host_ranks / (double)job->options->cores;
}

static double wire_us(const struct pass *pass)
{
	if (!has_hosts(pass))
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
