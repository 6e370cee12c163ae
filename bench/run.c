/* `shunt run`: options and help; job.c does the work. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include "command.h"
#include "job.h"

#define MAX_RANKS 4096
#define MAX_GRACE 86400.0

enum { OPTION_TAG = 256, OPTION_GRACE };

static const struct argp_option options[] = {
	{"ranks", 'n', "N", 0, "number of ranks, 1 .. 4096 (required)", 0},
	{"tag", OPTION_TAG, NULL, 0,
		"print \"[rank] \" before each line that a rank prints", 0},
	{"grace", OPTION_GRACE, "SECONDS", 0,
		"after one rank has failed, let the others find out for this "
		"long, then end them with SIGTERM and at last SIGKILL "
		"(default 10)",
		0},
	{0},
};

static const char text[] =
	"Start N ranks of PROGRAM on this machine.\n"
	"\v"
	"Each rank finds in its environment SHUNT_RANK, SHUNT_NUM_RANKS, "
	"SHUNT_LOCAL_RANK, and SHUNT_ADDRESS, SHUNT_KEY and SHUNT_JOB, which "
	"shunt_world_create(NULL, ...) reads. SHUNT_KEY and SHUNT_JOB are "
	"made up unless they are set already.\n\n"
	"Standard input goes to rank 0 alone. SIGINT, SIGTERM, SIGHUP, "
	"SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to all ranks, once each, "
	"and to what they have started. Nothing of a job outlives it, even "
	"when `shunt run' itself is killed.\n\n"
	"Exit status: 0 if every rank ended well, else that of the rank that "
	"failed first (128 + N if signal N killed it); 127 if there is no "
	"such program, 126 if it cannot be started, 2 for bad options.\n\n"
	"Example:\n"
	"  shunt run -n 4 --tag -- ./my_program --its --options";

static void parse_ranks(
	struct argp_state *state, struct job_config *config, const char *value)
{
	char *end;
	long ranks;

	errno = 0;
	ranks = strtol(value, &end, 10);
	if (errno || end == value || *end || ranks < 1 || ranks > MAX_RANKS)
		argp_error(state, "-n '%s': must be a number in 1 .. %d", value,
			MAX_RANKS);
	config->num_ranks = (int32_t)ranks;
}

static void parse_grace(
	struct argp_state *state, struct job_config *config, const char *value)
{
	char *end;
	double grace = strtod(value, &end);

	if (end == value || *end || !(grace >= 0 && grace <= MAX_GRACE))
		argp_error(state,
			"--grace '%s': must be a number of seconds in 0 .. %g",
			value, MAX_GRACE);
	config->grace = grace;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	struct job_config *config = state->input;

	switch (key) {
	case 'n':
		parse_ranks(state, config, value);
		return 0;
	case OPTION_TAG:
		config->tag = true;
		return 0;
	case OPTION_GRACE:
		parse_grace(state, config, value);
		return 0;
	case ARGP_KEY_ARG:
		/* The rest is the program's, options and all. */
		config->program = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!config->program)
			argp_error(state, "which program? none was given");
		if (config->num_ranks == 0)
			argp_error(state, "how many ranks? -n N is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int run_command(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = text,
	};
	struct job_config config = {.grace = 10};

	argp_err_exit_status = COMMAND_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &config);
	return job_run(&config);
}
