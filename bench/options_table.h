/* The list of options: what each is called, takes and sets. Parser, --help,
 * the table's headline and the JSON parameters are all made from it; `shunt
 * model` takes some of its rows. */
#ifndef BENCH_OPTIONS_TABLE_H
#define BENCH_OPTIONS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* A value that has a name on the command line. */
struct option_value {
	const char *name; /* NULL behind the last */
	int number;
};

/* What an option may be. */
struct option_choice {
	struct option_value values[16];
};

extern const struct option_choice options_launches, options_transports,
	options_algorithms, options_placements, options_dtypes,
	options_row_dtypes, options_gamma_dtypes, options_quants,
	options_scale_forms, options_statics, options_combine_quants,
	options_layouts, options_ys, options_weight_ways, options_id_types;

/* The name of a value; "?" if it has none. */
const char *option_value_name(const struct option_choice *choice, int number);

/* "a, b or c" */
void option_list_values(
	const struct option_choice *choice, char *list, size_t bytes);

#define OPTION_REAL_MOST 1e9

enum option_kind {
	OPTION_GROUP,  /* a heading */
	OPTION_FLAG,   /* bool */
	OPTION_NUMBER, /* int64_t in low .. high */
	OPTION_SHARE,  /* double in 0 .. 1 */
	OPTION_REAL,   /* double in 0 .. OPTION_REAL_MOST */
	OPTION_CHOICE, /* int */
	OPTION_TEXT    /* const char *, and `parse` if that is not all */
};

struct option_row {
	const char *name, *argument, *help;
	enum option_kind kind;
	size_t offset; /* in struct options */
	int64_t low, high;
	const struct option_choice *choice;
	/* On failure `error` says what is legal. */
	bool (*parse)(struct options *options, const char *text,
		char error[ROUTING_ERROR]);
	int key;     /* a letter that stands for it too */
	bool common; /* the headline has it anyway */
	bool aside;  /* no parameter of the measurement */
	bool own;    /* may differ from host to host */
};

extern const struct option_row options_rows[];
extern const size_t options_num_rows;
extern const struct options options_defaults;

/* A command line that is made of such rows. */
struct argp_state;
struct option_line {
	const struct option_row *(*row_at)(size_t i); /* NULL behind the last */
	/* Called once all is read; what does not go together it tells by
	 * argp_error(), which ends the process. */
	void (*settle)(struct argp_state *state, void *fields);
	const char *text; /* --help's, as argp's `doc` */
};

/* Sets the rows' fields of what is at `fields`, or ends the process as
 * options_init() does. */
void option_read_line(
	const struct option_line *line, int argc, char **argv, void *fields);

/* True if the field is as it is without any option. */
bool option_is_default(
	const struct options *options, const struct option_row *row);

/* --help's text behind the list. */
extern const char options_text[];

/* --hosts: who has started the ranks, and how many there are. */
bool options_settle_hosts(struct options *options, char error[ROUTING_ERROR]);

/* Parsers of OPTION_TEXT. */
bool options_parse_shared(
	struct options *options, const char *text, char error[ROUTING_ERROR]);
bool options_parse_special(
	struct options *options, const char *text, char error[ROUTING_ERROR]);
bool options_parse_x_scales(
	struct options *options, const char *text, char error[ROUTING_ERROR]);
bool options_parse_elastic(
	struct options *options, const char *text, char error[ROUTING_ERROR]);
bool options_parse_routing(
	struct options *options, const char *text, char error[ROUTING_ERROR]);

#endif
