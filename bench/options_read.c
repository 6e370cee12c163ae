/* Reading a command line of which a table says what there is. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options_table.h"

/* What argp hands around. */
struct reading {
	const struct option_line *line;
	void *fields;
};

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
	const struct reading *reading = state->input;
	char error[ROUTING_ERROR];

	memcpy(field, &value, sizeof(value));
	if (row->parse && !row->parse(reading->fields, value, error))
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

static void parse_value(
	struct argp_state *state, const struct option_row *row, char *value)
{
	const struct reading *reading = state->input;
	void *field = (char *)reading->fields + row->offset;
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

/* ---- the line --------------------------------------------------------- */

/* Options have the key of their place in the table. */
#define KEY_FIRST 256

static int key_of(const struct option_row *row, size_t i)
{
	return row->key ? row->key : KEY_FIRST + (int)i;
}

static error_t parse_named(struct argp_state *state, int key, char *value)
{
	const struct reading *reading = state->input;
	const struct option_row *row;

	for (size_t i = 0; (row = reading->line->row_at(i)); i++)
		if (key_of(row, i) == key) {
			parse_value(state, row, value);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	const struct reading *reading = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': takes options only", value);
		return 0;
	case ARGP_KEY_END:
		reading->line->settle(state, reading->fields);
		return 0;
	default:
		return parse_named(state, key, value);
	}
}

/* argp's own form of the table; NULL: no memory. */
static struct argp_option *make_table(const struct option_line *line)
{
	const struct option_row *row;
	struct argp_option *table;
	size_t num_rows = 0;
	int group = 0;

	while (line->row_at(num_rows))
		num_rows++;
	table = calloc(num_rows + 1, sizeof(table[0]));
	for (size_t i = 0; table && (row = line->row_at(i)); i++) {
		bool heading = row->kind == OPTION_GROUP;

		table[i] = (struct argp_option){
			.name = row->name,
			.key = heading ? 0 : key_of(row, i),
			.arg = row->argument,
			.doc = row->help,
			.group = heading ? ++group : 0,
		};
	}
	return table;
}

void option_read_line(
	const struct option_line *line, int argc, char **argv, void *fields)
{
	struct reading reading = {line, fields};
	struct argp_option *table = make_table(line);
	struct argp argp = {
		.options = table, .parser = parse_option, .doc = line->text};

	if (!table) {
		perror(argv[0]);
		exit(COMMAND_FAILED);
	}
	argp_err_exit_status = COMMAND_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &reading);
	free(table);
}
