/* The meeting of threads of one process. */
#ifndef BOOTSTRAP_THREADS_H
#define BOOTSTRAP_THREADS_H

#include "bootstrap/meeting.h"

/* bootstrap_meet() for BOOTSTRAP_THREADS. */
enum shunt_status threads_meet(const struct meeting *meeting);

#endif
