/* The shunt program: finds the command and hands over to it. */
#include <stdio.h>
#include <string.h>

#include <shunt/shunt.h>

#include "command.h"

struct command {
	const char *name;
	const char *full_name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct command commands[] = {
	{"bench", "shunt bench", bench_command,
		"time dispatch and combine against this machine's copy speed"},
	{"model", "shunt model", model_command,
		"predict dispatch and combine for many hosts"},
	{"run", "shunt run", run_command, "start a program on N local ranks"},
	{"doctor", "shunt doctor", doctor_command,
		"look whether this machine serves Shunt, and what to do"},
};

static void print_help(FILE *stream)
{
	fputs("Usage: shunt COMMAND [OPTION...]\n"
	      "Mixture-of-Experts dispatch and combine in host memory.\n\n"
	      "Commands:\n",
		stream);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(stream, "  %-8s %s\n", commands[i].name,
			commands[i].summary);
	fputs("\n      --help     this text; `shunt COMMAND --help' tells "
	      "more\n"
	      "      --version  the version of program and library\n\n"
	      "Examples:\n"
	      "  shunt bench --ranks 2 --check\n"
	      "  shunt run -n 4 ./my_program --its --options\n"
	      "  shunt doctor\n\n"
	      "Exit status: 0 all went well, 1 something failed, 2 bad "
	      "options.\n",
		stream);
}

static int print_version(void)
{
	printf("shunt %s\n", shunt_version());
	return COMMAND_OK;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* Closing stdout tells of a full disk, which exit() would hide. */
static int finish_output(int status)
{
	if (!fclose(stdout))
		return status;
	perror("shunt: standard output");
	return status ? status : COMMAND_FAILED;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_help(stderr);
		return COMMAND_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
		!strcmp(argv[1], "help")) {
		print_help(stdout);
		return finish_output(COMMAND_OK);
	}
	if (!strcmp(argv[1], "--version"))
		return finish_output(print_version());
	command = find_command(argv[1]);
	if (!command) {
		fprintf(stderr,
			"shunt: '%s' is not a command; `shunt --help' lists "
			"them\n",
			argv[1]);
		return COMMAND_USAGE;
	}
	/* argp shows argv[0] in its messages. */
	argv[1] = (char *)command->full_name;
	return finish_output(command->run(argc - 1, argv + 1));
}
