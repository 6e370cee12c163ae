/* Limits that control groups set on this process, of either version. */
#ifndef BENCH_DOCTOR_CGROUP_H
#define BENCH_DOCTOR_CGROUP_H

#include <stdint.h>

/* The tightest memory limit at any level above; UINT64_MAX without one. */
uint64_t cgroup_memory_bytes(void);

/* The tightest quota of processor time, in processors; 0 without one. */
double cgroup_processors(void);

#endif
