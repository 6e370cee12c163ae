/* `shunt doctor`: options, the order of the parts, and the exit status. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "command.h"
#include "doctor.h"

enum { OPTION_SYSFS = 256, OPTION_JSON };

struct doctor_options {
	const char *sysfs;
	const char *json; /* path, "-" for stdout, NULL for none */
};

static const struct argp_option options[] = {
	{"json", OPTION_JSON, "FILE", 0,
		"write the findings as JSON too; -: to standard output, in "
		"place of the text",
		0},
	{"sysfs", OPTION_SYSFS, "DIR", 0,
		"read RDMA devices, their network devices and kernel modules "
		"from DIR instead of /sys; for tests, and for a tree copied "
		"from another machine",
		0},
	{0},
};

static const char text[] =
	"Look whether this machine and environment serve Shunt, and say what "
	"to do where not.\n"
	"\v"
	"Run it where ranks are to run: with their limits, their environment "
	"and in their container. A problem makes something fail that this "
	"version can do; a note makes it slower or smaller, or is about what "
	"this job does not need, such as RDMA on one host. Nothing is changed; "
	"two ranks are started for a moment.\n\n"
	"Exit status: 0 if there is no problem, 1 if there is one, or the "
	"report cannot be written, 2 for bad options.\n\n"
	"Examples:\n"
	"  shunt doctor\n"
	"  srun -n 1 shunt doctor --json - > doctor.json";

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	struct doctor_options *given = state->input;

	switch (key) {
	case OPTION_JSON:
		given->json = value;
		return 0;
	case OPTION_SYSFS:
		given->sysfs = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool report_is_whole(const struct doctor *doctor)
{
	if (doctor->out_of_memory)
		fputs("shunt doctor: memory ran out; findings are missing\n",
			stderr);
	return !doctor->out_of_memory;
}

static int examine(struct doctor *doctor, FILE *json)
{
	doctor_look_at_cpu(doctor);
	doctor_look_at_rendezvous(doctor);
	doctor_look_at_memory(doctor);
	doctor_look_at_huge_pages(doctor);
	doctor_look_at_processes(doctor);
	doctor_look_at_rdma(doctor);
	if (json != stdout)
		doctor_print(doctor, stdout);
	if (json && !doctor_print_json(doctor, json)) {
		fprintf(stderr, "shunt doctor: --json: %s\n", strerror(errno));
		return COMMAND_FAILED;
	}
	return report_is_whole(doctor) && !doctor->num_problems
		       ? COMMAND_OK
		       : COMMAND_FAILED;
}

static FILE *open_json(const char *path)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "we") : stdout;

	if (!file)
		fprintf(stderr, "shunt doctor: --json '%s': %s\n", path,
			strerror(errno));
	return file;
}

int doctor_command(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options, .parser = parse_option, .doc = text};
	struct doctor_options given = {.sysfs = "/sys"};
	struct doctor doctor = {.num_ranks = 1};
	FILE *json = NULL;
	int status;

	argp_err_exit_status = COMMAND_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &given);
	if (given.json && !(json = open_json(given.json)))
		return COMMAND_USAGE;
	/* A file over ulimit -f shall be an error, which is reported. */
	signal(SIGXFSZ, SIG_IGN);
	doctor.sysfs = given.sysfs;
	doctor.checks = cJSON_CreateArray();
	doctor.devices = cJSON_CreateArray();
	status = examine(&doctor, json);
	cJSON_Delete(doctor.checks);
	cJSON_Delete(doctor.devices);
	if (json && json != stdout && fclose(json)) {
		fprintf(stderr, "shunt doctor: --json '%s': %s\n", given.json,
			strerror(errno));
		status = COMMAND_FAILED;
	}
	return status;
}
