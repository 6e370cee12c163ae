/* Reading the command line of `shunt bench`. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options_table.h"

/* Options have the key of their place in the table. */
#define KEY_FIRST 256

const struct options options_defaults = {
	.num_tp = 1,
	.num_tokens = 128,
	.hidden = 7168,
	.num_experts = -1,
	.alignment = 1,
	.seed = 1,
	.num_iterations = 50,
	.num_warmup = 10,
	.num_peer_rounds = 3,
	.num_peer_seconds = 120,
	.depth = 2,
	.launch = LAUNCH_PROCESSES,
	.dtype = SHUNT_DTYPE_BF16,
	.quant = -1,
	.ids = SHUNT_INDEX_I64,
	.special_share = -1,
	.routing_text = "uniform",
};

bool option_is_default(
	const struct options *options, const struct option_row *row)
{
	static const size_t sizes[] = {
		[OPTION_FLAG] = sizeof(bool),
		[OPTION_NUMBER] = sizeof(int64_t),
		[OPTION_SHARE] = sizeof(double),
		[OPTION_REAL] = sizeof(double),
		[OPTION_CHOICE] = sizeof(int),
		[OPTION_TEXT] = sizeof(const char *),
	};

	return !memcmp((const char *)options + row->offset,
		(const char *)&options_defaults + row->offset,
		sizes[row->kind]);
}

/* ---- values ----------------------------------------------------------- */

static void parse_number(struct argp_state *state, const struct option_row *row,
	const char *value, void *field)
{
	char *end;
	int64_t parsed;

	errno = 0;
	parsed = strtoll(value, &end, 10);
	if (errno || end == value || *end || parsed < row->low ||
		parsed > row->high)
		argp_error(state, "--%s '%s': must be a number in %lld .. %lld",
			row->name, value, (long long)row->low,
			(long long)row->high);
	memcpy(field, &parsed, sizeof(parsed));
}

static void parse_share(struct argp_state *state, const struct option_row *row,
	const char *value, void *field)
{
	char *end;
	double share = strtod(value, &end);

	if (end == value || *end || !(share >= 0 && share <= 1))
		argp_error(state, "--%s '%s': must be a number in 0 .. 1",
			row->name, value);
	memcpy(field, &share, sizeof(share));
}

static void parse_choice(struct argp_state *state, const struct option_row *row,
	const char *value, void *field)
{
	const struct option_choice *choice = row->choice;
	char list[256];

	for (const struct option_value *at = choice->values; at->name; at++)
		if (!strcmp(at->name, value)) {
			memcpy(field, &at->number, sizeof(at->number));
			return;
		}
	option_list_values(choice, list, sizeof(list));
	argp_error(state, "--%s '%s': must be %s", row->name, value, list);
}

static void parse_text(struct argp_state *state, const struct option_row *row,
	const char *value, void *field)
{
	char error[ROUTING_ERROR];

	memcpy(field, &value, sizeof(value));
	if (row->parse && !row->parse(state->input, value, error))
		argp_error(state, "--%s %s", row->name, error);
}

static void parse_real(struct argp_state *state, const struct option_row *row,
	const char *value, void *field)
{
	char *end;
	double real = strtod(value, &end);

	if (end == value || *end || !(real >= 0 && real <= OPTION_REAL_MOST))
		argp_error(state, "--%s '%s': must be a number in 0 .. %g",
			row->name, value, OPTION_REAL_MOST);
	memcpy(field, &real, sizeof(real));
}

void option_parse(
	struct argp_state *state, const struct option_row *row, char *value)
{
	void *field = (char *)state->input + row->offset;
	bool yes = true;

	switch (row->kind) {
	case OPTION_FLAG:
		memcpy(field, &yes, sizeof(yes));
		return;
	case OPTION_NUMBER:
		parse_number(state, row, value, field);
		return;
	case OPTION_SHARE:
		parse_share(state, row, value, field);
		return;
	case OPTION_REAL:
		parse_real(state, row, value, field);
		return;
	case OPTION_CHOICE:
		parse_choice(state, row, value, field);
		return;
	case OPTION_TEXT:
		parse_text(state, row, value, field);
		return;
	case OPTION_GROUP:
		return;
	}
}

/* ---- the whole -------------------------------------------------------- */

static int key_of(size_t i)
{
	return options_rows[i].key ? options_rows[i].key : KEY_FIRST + (int)i;
}

static error_t parse_named(struct argp_state *state, int key, char *value)
{
	for (size_t i = 0; i < options_num_rows; i++)
		if (key_of(i) == key) {
			option_parse(state, &options_rows[i], value);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	char error[ROUTING_ERROR];

	switch (key) {
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': takes options only", value);
		return 0;
	case ARGP_KEY_END:
		if (!options_settle(state->input, error))
			argp_error(state, "%s", error);
		return 0;
	default:
		return parse_named(state, key, value);
	}
}

/* argp's own form of the table. */
static void fill_table(struct argp_option *table)
{
	int group = 0;

	for (size_t i = 0; i < options_num_rows; i++) {
		const struct option_row *row = &options_rows[i];
		bool heading = row->kind == OPTION_GROUP;

		table[i] = (struct argp_option){
			.name = row->name,
			.key = heading ? 0 : key_of(i),
			.arg = row->argument,
			.doc = row->help,
			.group = heading ? ++group : 0,
		};
	}
}

void options_init(struct options *options, int argc, char **argv)
{
	struct argp argp = {.parser = parse_option, .doc = options_text};
	struct argp_option *table =
		calloc(options_num_rows + 1, sizeof(table[0]));

	if (!table) {
		perror("shunt bench");
		exit(COMMAND_FAILED);
	}
	*options = options_defaults;
	fill_table(table);
	argp.options = table;
	argp_err_exit_status = COMMAND_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, options);
	free(table);
}

/* FNV-1a; nobody tries to make two alike. */
static uint64_t mix_text(uint64_t digest, const char *text)
{
	for (; *text; text++)
		digest = (digest ^ (uint8_t)*text) * 0x100000001b3u;
	return digest * 0x100000001b3u;
}

static uint64_t mix_row(uint64_t digest, const struct options *options,
	const struct option_row *row)
{
	const void *field = (const char *)options + row->offset;
	char text[64];

	switch (row->kind) {
	case OPTION_FLAG:
		snprintf(text, sizeof(text), "%d", *(const bool *)field);
		break;
	case OPTION_NUMBER:
		snprintf(text, sizeof(text), "%lld",
			(long long)*(const int64_t *)field);
		break;
	case OPTION_SHARE:
	case OPTION_REAL:
		snprintf(text, sizeof(text), "%a", *(const double *)field);
		break;
	case OPTION_CHOICE:
		snprintf(text, sizeof(text), "%d", *(const int *)field);
		break;
	case OPTION_TEXT:
		if (*(const char *const *)field)
			return mix_text(digest, *(const char *const *)field);
		text[0] = '\0';
		break;
	case OPTION_GROUP:
		return digest;
	}
	return mix_text(digest, text);
}

uint64_t options_digest(const struct options *options)
{
	uint64_t digest = 0xcbf29ce484222325u;

	for (size_t i = 0; i < options_num_rows; i++)
		if (!options_rows[i].aside && !options_rows[i].own)
			digest = mix_row(digest, options, &options_rows[i]);
	return digest;
}

void options_fini(struct options *options)
{
	routing_fini(&options->routing);
}
