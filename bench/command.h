/* The commands of the shunt program; each returns the exit status. */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

/* Exit statuses, the same for all commands. */
enum {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,       /* it ran, and something went wrong */
	COMMAND_USAGE = 2,        /* options that make no sense */
	COMMAND_CANNOT_RUN = 126, /* the program is there, but does not start */
	COMMAND_NOT_FOUND = 127   /* there is no such program */
};

/* argv[0] is the whole name, such as "shunt bench". */
int bench_command(int argc, char **argv);
int model_command(int argc, char **argv);
int run_command(int argc, char **argv);
int doctor_command(int argc, char **argv);

#endif
