/* A whole small job, for whatever no single look would find. */
#ifndef BENCH_DOCTOR_TRIAL_H
#define BENCH_DOCTOR_TRIAL_H

#include <stdbool.h>

#define TRIAL_TEXT_BYTES 512

/*
 * Two ranks as processes meet on the loopback interface, send each other a row
 * through dispatch and combine, and leave. False with the reason in `text`, in
 * the library's words where they are its. Ends within a minute.
 */
bool trial_run(char text[TRIAL_TEXT_BYTES]);

#endif
