/* Reading the command line of `shunt model`: rows of the bench's table, and
 * its own. */
#include <argp.h>
#include <stddef.h>
#include <string.h>

#include "model.h"
#include "options_table.h"

#define FIELD(member)    .offset = offsetof(struct model_options, member)
#define CONSTANT(member) OPTION_REAL, FIELD(constants.member)

/* What a job of the model has of the bench's. */
static const char *const bench_names[] = {"The job:", "ranks",
	"The model's shape:", "tokens", "hidden", "topk", "experts",
	"placement", "What travels:", "dtype", "x-scales", "quant",
	"scale-form", "expert-dtype", "out-dtype", "combine-quant",
	"Where it lies:", "depth", "fetch-tokens", "The load:", "routing",
	"seed"};

#define NUM_BENCH_NAMES (sizeof(bench_names) / sizeof(bench_names[0]))

const struct option_row model_rows[] = {
	{.help = "Hosts:", .kind = OPTION_GROUP},
	{"hosts", "M", "of as many ranks each, in their order (1)",
		OPTION_NUMBER, FIELD(num_hosts), .low = 1, .high = 4096},
	{"cores", "N",
		"of a host, that ranks can have (that of --from, else one for "
		"each rank)",
		OPTION_NUMBER, FIELD(cores), .low = 1, .high = 4096},
	{"lanes", "N", "queue pairs to each peer, 1 .. 64 (1)", OPTION_NUMBER,
		FIELD(lanes), .low = 1, .high = 64},
	{"devices", "N", "RDMA devices that each rank uses, 1 .. 64 (1)",
		OPTION_NUMBER, FIELD(devices), .low = 1, .high = 64},

	{.help = "Constants of a host:", .kind = OPTION_GROUP},
	{"from", "FILE",
		"take those that are not given here, and --cores, from what "
		"`shunt bench --json FILE' measured with the same rows",
		OPTION_TEXT, FIELD(from_path), .aside = true},
	{"signal-us", "US", "a signal from rank to rank, one way",
		CONSTANT(signal_us)},
	{"dispatch-gbs", "GBS",
		"what a core copies in dispatch, while all do; bytes read and "
		"written",
		CONSTANT(dispatch_gbs)},
	{"combine-gbs", "GBS", "the same in combine", CONSTANT(combine_gbs)},
	{"quant-us", "US", "what dispatch does with a token besides copying it",
		CONSTANT(quant_us)},
	{"sum-us", "US", "what combine does with a token besides copying",
		CONSTANT(sum_us)},
	{"home-us", "US", "with --combine-quant: to quantize a row",
		CONSTANT(home_us)},
	{"peer-us", "US",
		"signalling a peer and looking for its signal, in each phase "
		"(0)",
		CONSTANT(peer_us)},
	{"expert-ns", "NS", "what dispatch does for each expert of the job (0)",
		CONSTANT(expert_ns)},
	{"counts-gbs", "GBS",
		"how fast a rank reads the counts of all (as --dispatch-gbs)",
		CONSTANT(counts_gbs)},
	{"turn-us", "US",
		"where ranks share cores: until the next one has its turn",
		CONSTANT(turn_us)},

	{.help = "Constants of the wire:", .kind = OPTION_GROUP},
	{"wire-gbs", "GBS",
		"what the adapters of a host bring in each direction, in 10^9 "
		"bytes a second",
		CONSTANT(wire_gbs)},
	{"wire-us", "US",
		"until a small write of one host is seen on another, one way",
		CONSTANT(wire_us)},
	{"message-us", "US",
		"what a message to another host takes of the sender's core",
		CONSTANT(message_us)},
};

const size_t model_num_rows = sizeof(model_rows) / sizeof(model_rows[0]);

static const char text[] =
	"Predict what dispatch and combine take, term by term, from a routing "
	"that is drawn as the bench draws it and from constants."
	"\v"
	"With more than one host, fullmesh and hierarchy stand side by side. "
	"Constants that were neither measured (--from) nor given are asked "
	"for: there are no defaults that look like measurements. "
	"docs/scale.md has the formulas, the fields of the JSON, and how far "
	"off it is.\n\n"
	"Routings are those of `shunt bench --help'.\n\n"
	"Examples:\n"
	"  shunt bench --ranks 2 --json here.json && shunt model --ranks 2 "
	"--from here.json\n"
	"  shunt model --from here.json --cores 8 --ranks 64 --hosts 8 "
	"--wire-gbs 50 --wire-us 3 --message-us 0.2";

/* ---- the rows --------------------------------------------------------- */

static bool is_constant(const struct option_row *row)
{
	return row->kind == OPTION_REAL;
}

double model_constant(
	const struct model_options *options, const struct option_row *row)
{
	return *(const double *)(const void *)((const char *)options +
					       row->offset);
}

static void set_constant(struct model_options *options,
	const struct option_row *row, double value)
{
	memcpy((char *)options + row->offset, &value, sizeof(value));
}

const struct option_row *model_bench_row(const char *name)
{
	for (size_t i = 0; i < options_num_rows; i++) {
		const struct option_row *row = &options_rows[i];

		if (!strcmp(row->name ? row->name : row->help, name))
			return row;
	}
	return NULL;
}

static const struct option_row *row_at(size_t i)
{
	static const char *const last[] = {"json", "quiet"};

	if (i < NUM_BENCH_NAMES)
		return model_bench_row(bench_names[i]);
	i -= NUM_BENCH_NAMES;
	if (i < model_num_rows)
		return &model_rows[i];
	i -= model_num_rows;
	return i < 2 ? model_bench_row(last[i]) : NULL;
}

const struct option_row *model_parameter(size_t *next)
{
	const struct option_row *row;

	while ((row = row_at((*next)++)))
		if (row->kind != OPTION_GROUP && !row->aside &&
			!is_constant(row))
			return row;
	return NULL;
}

/* ---- together --------------------------------------------------------- */

static void settle_cores(
	struct argp_state *state, struct model_options *options)
{
	char error[MODEL_ERROR];

	if (options->bench.num_ranks % options->num_hosts)
		argp_error(state, "--hosts %lld: must divide --ranks, %lld",
			(long long)options->num_hosts,
			(long long)options->bench.num_ranks);
	if (options->from_path && !model_from(options, error))
		argp_error(state, "--from %s: %s", options->from_path, error);
	if (options->cores == 0)
		options->cores = options->bench.num_ranks / options->num_hosts;
}

/* "--a, --b" of those that are needed and not there. */
static void list_missing(
	struct model_options *options, char *list, size_t bytes)
{
	const struct model_constants *constants = &options->constants;
	bool shares =
		options->bench.num_ranks > options->num_hosts * options->cores;
	bool hosts = options->num_hosts > 1;
	const struct {
		const char *name;
		double value;
		bool needed;
	} all[] = {
		{"--signal-us", constants->signal_us, true},
		{"--dispatch-gbs", constants->dispatch_gbs, true},
		{"--combine-gbs", constants->combine_gbs, true},
		{"--quant-us", constants->quant_us, true},
		{"--sum-us", constants->sum_us, true},
		{"--home-us", constants->home_us,
			options->bench.combine_quant !=
				SHUNT_COMBINE_QUANT_NONE},
		{"--turn-us", constants->turn_us, shares},
		{"--wire-gbs", constants->wire_gbs, hosts},
		{"--wire-us", constants->wire_us, hosts},
		{"--message-us", constants->message_us, hosts},
	};

	list[0] = '\0';
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t used = strlen(list);

		if (all[i].needed && all[i].value < 0)
			snprintf(list + used, bytes - used, "%s%s",
				used ? ", " : "", all[i].name);
	}
}

static void settle_constants(
	struct argp_state *state, struct model_options *options)
{
	struct model_constants *constants = &options->constants;
	char list[256];

	list_missing(options, list, sizeof(list));
	if (list[0])
		argp_error(state,
			"needs %s; those of a host can come --from a run of "
			"`shunt bench' on one core per rank",
			list);
	if (constants->dispatch_gbs == 0 || constants->combine_gbs == 0 ||
		constants->wire_gbs == 0 || constants->counts_gbs == 0)
		argp_error(state,
			"--dispatch-gbs, --combine-gbs, --counts-gbs, "
			"--wire-gbs: must be more than 0");
	if (constants->counts_gbs < 0)
		constants->counts_gbs = constants->dispatch_gbs;
	for (size_t i = 0; i < model_num_rows; i++)
		if (is_constant(&model_rows[i]) &&
			model_constant(options, &model_rows[i]) < 0)
			set_constant(options, &model_rows[i], 0);
}

/* ---- the whole -------------------------------------------------------- */

static void settle(struct argp_state *state, void *fields)
{
	struct model_options *options = fields;
	char error[ROUTING_ERROR];

	if (!options_settle(&options->bench, error))
		argp_error(state, "%s", error);
	settle_cores(state, options);
	settle_constants(state, options);
}

void model_options_init(struct model_options *options, int argc, char **argv)
{
	static const struct option_line line = {row_at, settle, text};

	*options = (struct model_options){
		.bench = options_defaults,
		.num_hosts = 1,
		.lanes = 1,
		.devices = 1,
	};
	for (size_t i = 0; i < model_num_rows; i++)
		if (is_constant(&model_rows[i]))
			set_constant(options, &model_rows[i], -1);
	option_read_line(&line, argc, argv, options);
}
