/* A prediction as a table for people, and as JSON for programs. */
#include <string.h>

#include <cjson/cJSON.h>

#include "model.h"
#include "report.h"

static const char *const algorithms[MODEL_NUM_ALGORITHMS] = {
	"fullmesh", "hierarchy"};
static const char *const phases[MODEL_NUM_PHASES] = {"dispatch", "combine"};

/* On one host there is no hierarchy. */
static int num_algorithms(const struct model *model)
{
	return model->options.num_hosts > 1 ? MODEL_NUM_ALGORITHMS : 1;
}

static enum model_algorithm faster(const struct model *model)
{
	if (num_algorithms(model) == 1)
		return MODEL_FULLMESH;
	return model_roundtrip(model, MODEL_HIERARCHY) <
			       model_roundtrip(model, MODEL_FULLMESH)
		       ? MODEL_HIERARCHY
		       : MODEL_FULLMESH;
}

/* ---- table ------------------------------------------------------------ */

static void print_job(FILE *stream, const struct model *model)
{
	const struct options *bench = &model->options.bench;

	fprintf(stream,
		"shunt %s model: %lld ranks on %lld host%s of %lld cores, "
		"%lld tokens of %lld %s, top-%lld of %lld experts, quant %s, "
		"way home %s, routing %s, seed %lld\n",
		shunt_version(), (long long)bench->num_ranks,
		(long long)model->options.num_hosts,
		model->options.num_hosts == 1 ? "" : "s",
		(long long)model->options.cores, (long long)bench->num_tokens,
		(long long)bench->hidden,
		option_value_name(&options_row_dtypes, bench->dtype),
		(long long)bench->topk, (long long)bench->num_experts,
		option_value_name(&options_quants, bench->quant),
		option_value_name(
			&options_combine_quants, bench->combine_quant),
		bench->routing_text, (long long)bench->seed);
	if (model->options.num_hosts > 1)
		fprintf(stream,
			"a token has choices on %.3f other hosts, %.3f choices "
			"there\n",
			model->remote_hosts_per_token,
			model->remote_rows_per_token);
}

/* As they would be given; those that are 0 take no time. */
static void print_constants(FILE *stream, const struct model *model)
{
	for (size_t i = 0; i < model_num_rows; i++) {
		const struct option_row *row = &model_rows[i];

		if (row->kind == OPTION_REAL &&
			model_constant(&model->options, row) > 0)
			fprintf(stream, "--%s %.4g ", row->name,
				model_constant(&model->options, row));
	}
	fputs("\n\n", stream);
}

/* Two columns for each algorithm; rows of one kind. */
static void print_heads(FILE *stream, const struct model *model)
{
	char head[32];

	fprintf(stream, "%-14s", "us");
	for (int a = 0; a < num_algorithms(model); a++)
		for (int p = 0; p < MODEL_NUM_PHASES; p++) {
			snprintf(head, sizeof(head), "%s %s", algorithms[a],
				phases[p]);
			fprintf(stream, " %20s", head);
		}
	fputc('\n', stream);
}

#define FOR_RESULTS(model, result, expression)                            \
	do {                                                              \
		for (int a = 0; a < num_algorithms(model); a++)           \
			for (int p = 0; p < MODEL_NUM_PHASES; p++) {      \
				const struct model_result *(result) =     \
					&(model)->result[a][p];           \
				fprintf(stream, " %20.1f", (expression)); \
			}                                                 \
		fputc('\n', stream);                                      \
	} while (0)

static void print_results(FILE *stream, const struct model *model)
{
	print_heads(stream, model);
	for (int i = 0; i < MODEL_NUM_TERMS; i++) {
		fprintf(stream, "%-14s", model_term_names[i]);
		FOR_RESULTS(model, result, result->us[i]);
	}
	fprintf(stream, "%-14s", "total");
	FOR_RESULTS(model, result, result->total_us);
	fprintf(stream, "\n%-14s", "copied MB");
	FOR_RESULTS(model, result, result->copied_bytes / 1e6);
	fprintf(stream, "%-14s", "signals");
	FOR_RESULTS(model, result, result->signals);
	if (num_algorithms(model) == 1)
		return;
	fprintf(stream, "%-14s", "wire rows MB");
	FOR_RESULTS(model, result, result->wire_bytes / 1e6);
	fprintf(stream, "%-14s", "wire counts MB");
	FOR_RESULTS(model, result, result->counts_bytes / 1e6);
	fprintf(stream, "%-14s", "messages");
	FOR_RESULTS(model, result, result->messages);
}

static void print_needs(FILE *stream, const struct model *model)
{
	for (int a = 0; a < num_algorithms(model); a++) {
		const struct model_needs *needs = &model->needs[a];

		fprintf(stream,
			"\n%s, a rank: %.1f MiB for these rows, %.1f "
			"for any",
			algorithms[a],
			(needs->window_bytes + needs->private_bytes) /
				(1 << 20),
			needs->worst_bytes / (1 << 20));
		if (num_algorithms(model) > 1)
			fprintf(stream,
				", %.1f for the wire; %lld queue pairs, %lld "
				"registrations",
				needs->wire_bytes / (1 << 20),
				(long long)needs->queue_pairs,
				(long long)needs->registrations);
	}
	fputc('\n', stream);
}

void model_print(FILE *stream, const struct model *model)
{
	enum model_algorithm best = faster(model);

	print_job(stream, model);
	print_constants(stream, model);
	print_results(stream, model);
	print_needs(stream, model);
	fprintf(stream, "\nround trip: %s %.1f us", algorithms[best],
		model_roundtrip(model, best));
	if (num_algorithms(model) > 1)
		fprintf(stream, ", %s %.1f us: %s is %.2f times as fast",
			algorithms[!best],
			model_roundtrip(model, (enum model_algorithm) !best),
			algorithms[best],
			model_roundtrip(model, (enum model_algorithm) !best) /
				model_roundtrip(model, best));
	fputc('\n', stream);
}

/* ---- JSON ------------------------------------------------------------- */

static void add_parameters(cJSON *root, const struct model *model)
{
	cJSON *parameters = cJSON_AddObjectToObject(root, "parameters");
	cJSON *constants = cJSON_AddObjectToObject(root, "constants");
	/* Rows of both tables have offsets from here. */
	const void *base = &model->options;
	const struct option_row *row;
	size_t next = 0;

	while ((row = model_parameter(&next)))
		report_add_parameter(parameters, base, row);
	cJSON_AddStringToObject(
		parameters, "routing_set", model->options.bench.routing.set);
	for (size_t i = 0; i < model_num_rows; i++)
		if (model_rows[i].kind == OPTION_REAL)
			report_add_parameter(constants, base, &model_rows[i]);
}

static void add_result(
	cJSON *root, const char *name, const struct model_result *result)
{
	cJSON *to = cJSON_AddObjectToObject(root, name);
	char term[32];

	for (int i = 0; i < MODEL_NUM_TERMS; i++) {
		snprintf(term, sizeof(term), "%s_us", model_term_names[i]);
		cJSON_AddNumberToObject(to, term, result->us[i]);
	}
	cJSON_AddNumberToObject(to, "total_us", result->total_us);
	cJSON_AddNumberToObject(to, "copied_bytes", result->copied_bytes);
	cJSON_AddNumberToObject(to, "wire_bytes", result->wire_bytes);
	cJSON_AddNumberToObject(to, "counts_bytes", result->counts_bytes);
	cJSON_AddNumberToObject(to, "messages", result->messages);
	cJSON_AddNumberToObject(to, "signals", result->signals);
}

static void add_needs(cJSON *root, const struct model_needs *needs)
{
	cJSON *to = cJSON_AddObjectToObject(root, "rank");

	cJSON_AddNumberToObject(to, "window_bytes", needs->window_bytes);
	cJSON_AddNumberToObject(to, "private_bytes", needs->private_bytes);
	cJSON_AddNumberToObject(to, "worst_bytes", needs->worst_bytes);
	cJSON_AddNumberToObject(to, "wire_bytes", needs->wire_bytes);
	cJSON_AddNumberToObject(to, "queue_pairs", (double)needs->queue_pairs);
	cJSON_AddNumberToObject(
		to, "registrations", (double)needs->registrations);
}

static void add_algorithm(
	cJSON *root, const struct model *model, enum model_algorithm which)
{
	cJSON *to = cJSON_AddObjectToObject(root, algorithms[which]);

	for (int p = 0; p < MODEL_NUM_PHASES; p++)
		add_result(to, phases[p], &model->result[which][p]);
	cJSON_AddNumberToObject(
		to, "roundtrip_us", model_roundtrip(model, which));
	add_needs(to, &model->needs[which]);
}

static cJSON *make_json(const struct model *model)
{
	cJSON *root = cJSON_CreateObject(), *routing;

	cJSON_AddStringToObject(root, "version", shunt_version());
	add_parameters(root, model);
	routing = cJSON_AddObjectToObject(root, "routing");
	cJSON_AddNumberToObject(routing, "remote_hosts_per_token",
		model->remote_hosts_per_token);
	cJSON_AddNumberToObject(
		routing, "remote_rows_per_token", model->remote_rows_per_token);
	cJSON_AddNumberToObject(
		routing, "most_rows", (double)model->job.most_rows);
	for (int a = 0; a < num_algorithms(model); a++)
		add_algorithm(root, model, (enum model_algorithm)a);
	if (num_algorithms(model) == 1)
		cJSON_AddNullToObject(root, "hierarchy");
	cJSON_AddStringToObject(root, "faster", algorithms[faster(model)]);
	return root;
}

bool model_json(FILE *stream, const struct model *model)
{
	return report_print(stream, make_json(model));
}
