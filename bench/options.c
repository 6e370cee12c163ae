/* The options of `shunt bench`, checked. */
#include <argp.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"

enum {
	KEY_RANKS = 256,
	KEY_LAUNCH,
	KEY_TOKENS,
	KEY_HIDDEN,
	KEY_TOPK,
	KEY_EXPERTS,
	KEY_DTYPE,
	KEY_EXPERT_DTYPE,
	KEY_QUANT,
	KEY_SMOOTH,
	KEY_LAYOUT,
	KEY_ALGORITHM,
	KEY_TRANSPORT,
	KEY_ROUTING,
	KEY_SEED,
	KEY_MASK,
	KEY_DROP,
	KEY_DEPTH,
	KEY_WORST_ROWS,
	KEY_ITERS,
	KEY_WARMUP,
	KEY_CHECK,
	KEY_JSON,
	KEY_HOSTS,
	KEY_SHARED,
	KEY_SPECIAL
};

static const struct argp_option table[] = {
	{NULL, 0, NULL, 0, "The job:", 1},
	{"ranks", KEY_RANKS, "N", 0, "ranks, 1 .. 4096 (4)", 0},
	{"launch", KEY_LAUNCH, "KIND", 0,
		"ranks are `processes' (default) or `threads'", 0},
	{"transport", KEY_TRANSPORT, "NAME", 0,
		"`auto' (default) or `shm', shared memory", 0},
	{NULL, 0, NULL, 0, "The model's shape:", 2},
	{"tokens", KEY_TOKENS, "T", 0, "tokens per rank and step (128)", 0},
	{"hidden", KEY_HIDDEN, "H", 0, "elements of a token (7168)", 0},
	{"topk", KEY_TOPK, "K", 0,
		"experts of a token (8, or as the file of --routing says)", 0},
	{"experts", KEY_EXPERTS, "E", 0,
		"experts over all ranks (256, or as the file says)", 0},
	{"dtype", KEY_DTYPE, "TYPE", 0,
		"of the tokens: `bf16' (default), `f16' or `f32'", 0},
	{"expert-dtype", KEY_EXPERT_DTYPE, "TYPE", 0,
		"of the experts' rows and the result (as --dtype)", 0},
	{"quant", KEY_QUANT, "MODE", 0,
		"rows travel as `int8' with a scale per row (default), or "
		"unchanged, `none'",
		0},
	{"smooth", KEY_SMOOTH, NULL, 0,
		"multiply by smooth scales per expert before int8", 0},
	{"layout", KEY_LAYOUT, "NAME", 0, "`compact' (default)", 0},
	{"algorithm", KEY_ALGORITHM, "NAME", 0,
		"`auto' (default) or `fullmesh'", 0},
	{"depth", KEY_DEPTH, "N", 0,
		"steps that windows are made for, 1 .. 64 (2); the bench has "
		"one in flight",
		0},
	{"worst-rows", KEY_WORST_ROWS, NULL, 0,
		"make windows for the worst routing there could be, instead "
		"of for the most rows that this run needs",
		0},
	{NULL, 0, NULL, 0, "The load:", 3},
	{"routing", KEY_ROUTING, "HOW", 0,
		"which experts the tokens choose (uniform); see below", 0},
	{"seed", KEY_SEED, "S", 0, "of everything that is random (1)", 0},
	{"mask", KEY_MASK, "F", 0,
		"share of tokens that are masked out, 0 .. 1 (0)", 0},
	{"drop", KEY_DROP, "F", 0,
		"share of choices that are \"no expert\", 0 .. 1 (0)", 0},
	{NULL, 0, NULL, 0, "Measuring:", 4},
	{"iters", KEY_ITERS, "N", 0, "timed steps (50)", 0},
	{"warmup", KEY_WARMUP, "N", 0, "steps before those (10)", 0},
	{"check", KEY_CHECK, NULL, 0,
		"compare every output of every step with the reference", 0},
	{"json", KEY_JSON, "FILE", 0,
		"write the results as JSON; with `-' nothing else goes to "
		"standard output",
		0},
	{"quiet", 'q', NULL, 0, "print no table and no progress", 0},
	{"hosts", KEY_HOSTS, "M", OPTION_HIDDEN, NULL, 0},
	{"shared", KEY_SHARED, "S", OPTION_HIDDEN, NULL, 0},
	{"special", KEY_SPECIAL, "S", OPTION_HIDDEN, NULL, 0},
	{0},
};

static const char text[] =
	"Time dispatch and combine over local ranks, and hold them against "
	"the time that plain copies of the same bytes take in the same run."
	"\v"
	"Routings; the K experts of a token are always distinct:\n"
	"  uniform    K of the E experts, each as likely\n"
	"  zipf:A     drawn one by one, expert i with weight 1/(i+1)^A\n"
	"  hot:N:F    each choice falls with chance F among experts 0 .. N-1,\n"
	"             else among the others, as long as there are some left\n"
	"  one        every token of every rank to experts 0 .. K-1\n"
	"  local      as uniform, among the experts of the token's own rank\n"
	"  balanced   round robin, so that every expert gets the same\n"
	"  file:PATH[:SET]  drawn one by one with weight by the counts of a\n"
	"             set of PATH, such as olmoe-arxiv-expert_counts-15 "
	"(model,\n"
	"             domain, kind, layer); without SET the first. A SET that\n"
	"             is not there lists those that are.\n\n"
	"A phase begins for all ranks at one moment, when the last of them is "
	"ready; its time is that of the rank that ends last. The floor is the "
	"best of several copy loops (memcpy, wide stores, streaming stores), "
	"run by the same ranks in the same pattern, in turn with the real "
	"steps: for dispatch read x once and write each row once, for combine "
	"read each expert row once and write each token once. GB/s is bytes of "
	"all ranks over the median time. With --check the caches see more than "
	"a step's own data, in floor and step alike.\n\n"
	"Exit status: 0 if all went well, 1 if a rank failed or a result was "
	"wrong, 2 for bad options.\n\n"
	"Examples:\n"
	"  shunt bench --ranks 2 --check\n"
	"  shunt bench --ranks 4 --launch threads --routing zipf:1.2 --json -";

/* ---- named values ----------------------------------------------------- */

struct value {
	const char *name;
	int number;
};

/* What an option may be, and what other versions of us know for it. */
struct choice {
	const char *option;
	struct value values[4];
	const char *later[8];
};

static const struct choice launches = {"--launch",
	{{"processes", LAUNCH_PROCESSES}, {"threads", LAUNCH_THREADS}}, {NULL}};
static const struct choice dtypes = {"--dtype",
	{{"bf16", SHUNT_DTYPE_BF16}, {"f16", SHUNT_DTYPE_F16},
		{"f32", SHUNT_DTYPE_F32}},
	{NULL}};
static const struct choice expert_dtypes = {"--expert-dtype",
	{{"bf16", SHUNT_DTYPE_BF16}, {"f16", SHUNT_DTYPE_F16},
		{"f32", SHUNT_DTYPE_F32}},
	{NULL}};
static const struct choice quants = {"--quant",
	{{"int8", SHUNT_QUANT_INT8}, {"none", SHUNT_QUANT_NONE}},
	{"e4m3", "e5m2", "e4m3-128", "e5m2-128", "int8-128", "mxfp8", "nvfp4"}};
static const struct choice layouts = {
	"--layout", {{"compact", SHUNT_LAYOUT_COMPACT}}, {"padded", "indexed"}};
static const struct choice algorithms = {"--algorithm",
	{{"auto", SHUNT_ALGORITHM_AUTO},
		{"fullmesh", SHUNT_ALGORITHM_FULLMESH}},
	{"hierarchy"}};
static const struct choice transports = {"--transport",
	{{"auto", OPTIONS_TRANSPORT_AUTO}, {"shm", OPTIONS_TRANSPORT_SHM}},
	{"verbs"}};

/* "a, b or c" */
static void list_values(const struct choice *choice, char *list, size_t bytes)
{
	size_t used = 0;

	list[0] = '\0';
	for (int i = 0; i < 4 && choice->values[i].name; i++) {
		bool last = i == 3 || !choice->values[i + 1].name;
		const char *joint = i == 0 ? "" : last ? " or " : ", ";

		used += (size_t)snprintf(list + used, bytes - used, "%s%s",
			joint, choice->values[i].name);
	}
}

static int parse_choice(struct argp_state *state, const struct choice *choice,
	const char *value)
{
	char list[128];

	for (int i = 0; i < 4 && choice->values[i].name; i++)
		if (!strcmp(choice->values[i].name, value))
			return choice->values[i].number;
	list_values(choice, list, sizeof(list));
	for (int i = 0; i < 8 && choice->later[i]; i++)
		if (!strcmp(choice->later[i], value))
			argp_error(state, "%s %s: not in this version; use %s",
				choice->option, value, list);
	argp_error(state, "%s '%s': must be %s", choice->option, value, list);
	return 0;
}

static const char *value_name(const struct choice *choice, int number)
{
	for (int i = 0; i < 4 && choice->values[i].name; i++)
		if (choice->values[i].number == number)
			return choice->values[i].name;
	return "?";
}

const char *options_dtype_name(int dtype)
{
	return value_name(&dtypes, dtype);
}

const char *options_quant_name(int quant)
{
	return value_name(&quants, quant);
}

const char *options_launch_name(int launch)
{
	return value_name(&launches, launch);
}

const char *options_transport_name(int transport)
{
	return value_name(&transports, transport);
}

const char *options_algorithm_name(int algorithm)
{
	return value_name(&algorithms, algorithm);
}

const char *options_layout_name(int layout)
{
	return value_name(&layouts, layout);
}

/* ---- numbers ---------------------------------------------------------- */

struct number {
	int key;
	const char *option;
	int64_t low, high;
	size_t offset; /* of an int64_t in struct options */
};

static const struct number numbers[] = {
	{KEY_RANKS, "--ranks", 1, 4096, offsetof(struct options, num_ranks)},
	{KEY_TOKENS, "--tokens", 0, 1 << 24,
		offsetof(struct options, num_tokens)},
	{KEY_HIDDEN, "--hidden", 1, 1 << 24, offsetof(struct options, hidden)},
	{KEY_TOPK, "--topk", 1, 4096, offsetof(struct options, topk)},
	{KEY_EXPERTS, "--experts", 1, 65536,
		offsetof(struct options, num_experts)},
	{KEY_SEED, "--seed", 0, INT64_MAX, offsetof(struct options, seed)},
	{KEY_DEPTH, "--depth", 1, 64, offsetof(struct options, depth)},
	{KEY_ITERS, "--iters", 1, 1000000,
		offsetof(struct options, num_iterations)},
	{KEY_WARMUP, "--warmup", 0, 1000000,
		offsetof(struct options, num_warmup)},
};

static const struct number *find_number(int key)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].key == key)
			return &numbers[i];
	return NULL;
}

static void parse_number(struct argp_state *state, const struct number *number,
	const char *value)
{
	char *field = (char *)state->input + number->offset;
	char *end;
	int64_t parsed;

	errno = 0;
	parsed = strtoll(value, &end, 10);
	if (errno || end == value || *end || parsed < number->low ||
		parsed > number->high)
		argp_error(state, "%s '%s': must be a number in %lld .. %lld",
			number->option, value, (long long)number->low,
			(long long)number->high);
	memcpy(field, &parsed, sizeof(parsed));
}

static double parse_share(
	struct argp_state *state, const char *option, const char *value)
{
	char *end;
	double share = strtod(value, &end);

	if (end == value || *end || !(share >= 0 && share <= 1))
		argp_error(state, "%s '%s': must be a number in 0 .. 1", option,
			value);
	return share;
}

/* ---- the whole -------------------------------------------------------- */

static void parse_routing(
	struct argp_state *state, struct options *options, const char *value)
{
	char error[ROUTING_ERROR];

	routing_fini(&options->routing);
	if (!routing_init(&options->routing, value, error))
		argp_error(state, "--routing %s", error);
	options->routing_text = value;
}

/* What only makes sense, or not, together. */
static void finish(struct argp_state *state, struct options *options)
{
	char error[ROUTING_ERROR];
	struct routing *routing = &options->routing;

	if (options->num_experts == 0)
		options->num_experts =
			routing->file_experts ? routing->file_experts : 256;
	if (options->topk == 0)
		options->topk = routing->file_topk ? routing->file_topk : 8;
	if (options->expert_dtype == SHUNT_DTYPE_NONE)
		options->expert_dtype = options->dtype;
	if (options->topk > options->num_experts)
		argp_error(state,
			"--topk %lld: must be in 1 .. %lld (--experts), the "
			"choices of a token are distinct",
			(long long)options->topk,
			(long long)options->num_experts);
	if (options->smooth && options->quant != SHUNT_QUANT_INT8)
		argp_error(state, "--smooth: needs --quant int8");
	if (!routing_prepare(routing, (int32_t)options->num_ranks,
		    options->num_experts, options->topk, error))
		argp_error(state, "--routing %s", error);
}

static error_t parse_choices(struct argp_state *state, int key, char *value)
{
	struct options *options = state->input;

	switch (key) {
	case KEY_LAUNCH:
		options->launch = parse_choice(state, &launches, value);
		return 0;
	case KEY_DTYPE:
		options->dtype = parse_choice(state, &dtypes, value);
		return 0;
	case KEY_EXPERT_DTYPE:
		options->expert_dtype =
			parse_choice(state, &expert_dtypes, value);
		return 0;
	case KEY_QUANT:
		options->quant = parse_choice(state, &quants, value);
		return 0;
	case KEY_LAYOUT:
		options->layout = parse_choice(state, &layouts, value);
		return 0;
	case KEY_ALGORITHM:
		options->algorithm = parse_choice(state, &algorithms, value);
		return 0;
	case KEY_TRANSPORT:
		options->transport = parse_choice(state, &transports, value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_others(struct argp_state *state, int key, char *value)
{
	struct options *options = state->input;

	switch (key) {
	case KEY_SMOOTH:
		options->smooth = true;
		return 0;
	case KEY_WORST_ROWS:
		options->worst_rows = true;
		return 0;
	case KEY_ROUTING:
		parse_routing(state, options, value);
		return 0;
	case KEY_MASK:
		options->mask = parse_share(state, "--mask", value);
		return 0;
	case KEY_DROP:
		options->drop = parse_share(state, "--drop", value);
		return 0;
	case KEY_CHECK:
		options->check = true;
		return 0;
	case KEY_JSON:
		options->json_path = value;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	const struct number *number = find_number(key);

	if (number) {
		parse_number(state, number, value);
		return 0;
	}
	switch (key) {
	case KEY_HOSTS:
	case KEY_SHARED:
	case KEY_SPECIAL:
		argp_error(state, "%s: not in this version",
			key == KEY_HOSTS    ? "--hosts"
			: key == KEY_SHARED ? "--shared"
					    : "--special");
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': takes options only", value);
		return 0;
	case ARGP_KEY_END:
		finish(state, state->input);
		return 0;
	default:
		if (!parse_choices(state, key, value))
			return 0;
		return parse_others(state, key, value);
	}
}

void options_init(struct options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.doc = text,
	};

	*options = (struct options){
		.num_ranks = 4,
		.num_tokens = 128,
		.hidden = 7168,
		.seed = 1,
		.num_iterations = 50,
		.num_warmup = 10,
		.depth = 2,
		.launch = LAUNCH_PROCESSES,
		.dtype = SHUNT_DTYPE_BF16,
		.quant = SHUNT_QUANT_INT8,
		.routing_text = "uniform",
	};
	argp_err_exit_status = COMMAND_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, options);
}

void options_fini(struct options *options)
{
	routing_fini(&options->routing);
}
