/*
 * `shunt doctor`: what is found out about a machine, as a list of findings.
 * The parts (doctor_*.c) look and say; doctor_report.c keeps and prints.
 *
 * A problem is what makes something of this version fail, or a setting that it
 * refuses. A note is what makes it slower or smaller, or what it does not use.
 */
#ifndef BENCH_DOCTOR_H
#define BENCH_DOCTOR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "doctor_files.h"

enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_PROBLEM };

struct doctor {
	const char *sysfs;   /* root of the tree that RDMA is read from */
	const char *section; /* of the findings to come */
	cJSON *checks;       /* array of findings */
	cJSON *devices;      /* array of RDMA devices */
	int num_problems;
	int num_notes;
	bool out_of_memory; /* something of the report is missing */
	/* What one part finds and a later one needs. */
	uint64_t segment_bytes; /* address space of a rank's segment */
	int32_t num_ranks;      /* by the launcher's variables; 1 without */
	bool on_many_hosts;     /* by these, too */
	char reach[INET6_ADDRSTRLEN]; /* the address of this host that reaches
				       * rank 0; "": not known */
};

/* ---- findings (doctor_report.c) ---------------------------------------- */

#define DOCTOR_PRINTF(at) __attribute__((format(printf, at, at + 1)))

/* Adds a finding, whose name stays the same from version to version. The
 * findings' functions accept the NULL that it is when memory is out. */
DOCTOR_PRINTF(4)
cJSON *doctor_say(struct doctor *doctor, const char *name,
	enum doctor_verdict verdict, const char *format, ...);

/* What to do about a finding. */
DOCTOR_PRINTF(2) void doctor_remedy(cJSON *finding, const char *format, ...);

/* Values of a finding, for programs: only the JSON has them. */
void doctor_number(cJSON *finding, const char *name, double value);
void doctor_text(cJSON *finding, const char *name, const char *value);

void doctor_print(const struct doctor *doctor, FILE *stream);

/* False with errno if the stream has not taken it all. */
bool doctor_print_json(const struct doctor *doctor, FILE *stream);

/* "12.5 GiB" in `text`; "no limit" for UINT64_MAX. Returns text. */
#define DOCTOR_SIZE_BYTES 32
const char *doctor_size(char text[DOCTOR_SIZE_BYTES], uint64_t bytes);

/* ---- parts ------------------------------------------------------------- */

void doctor_look_at_cpu(struct doctor *doctor);
void doctor_look_at_rendezvous(struct doctor *doctor); /* num_ranks */
void doctor_look_at_memory(struct doctor *doctor);     /* segment_bytes */
void doctor_look_at_huge_pages(struct doctor *doctor);
void doctor_look_at_processes(struct doctor *doctor);
void doctor_look_at_rdma(struct doctor *doctor);

/* What of the RDMA devices is used; what that needs besides. */
void doctor_look_at_use(struct doctor *doctor);
void doctor_look_at_access(struct doctor *doctor);
void doctor_look_at_memlock(struct doctor *doctor);

/* The network device of an RDMA device with this GID; "" if it has none that can
 * be found. */
void doctor_find_netdev(const struct doctor *doctor, const char *device_path,
	const struct in6_addr *gid, char netdev[FILES_LINE_BYTES]);

/* Ports of an RDMA device at `path`, into the device's object. */
void doctor_look_at_ports(struct doctor *doctor, const char *device,
	const char *path, cJSON *object);

#endif
