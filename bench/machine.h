/* What the machine is that numbers were measured on. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine {
	char cpu[128];
	int num_cores;    /* that this process may use */
	const char *simd; /* shunt_simd() */
};

void machine_read(struct machine *machine);

/* Bytes that can be had without swapping; INT64_MAX if not known. */
int64_t machine_available_bytes(void);

/* Memory that this process has taken: its anonymous pages, and what lies in
 * memfds that it holds open. -1 if not known. */
int64_t machine_process_bytes(void);

/* Ties the calling thread to the `index`-th core of those allowed. */
void machine_pin(int index);

#endif
