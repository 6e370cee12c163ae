/* Copies of one row to many places, the same for all kernel tables: libc's
 * copy, and streaming stores that every x86-64 has. */
#ifndef QUANT_SCATTER_H
#define QUANT_SCATTER_H

#include <stdint.h>

#include "quant/ahead.h"

typedef void scatter_fn(void *const *dst, int64_t num_dst, const void *src,
	int64_t bytes, struct ahead ahead);

/* struct quant_kernels.scatter */
scatter_fn scatter_copy;

/* struct quant_kernels.scatter_stream */
scatter_fn scatter_stream;

/* The same for AVX-512, where that exists. */
scatter_fn scatter_stream_avx512;

/* Orders what scatter_stream() has stored before the atomic stores that follow.
 * Once for all rows: it waits for them to leave the core. */
void scatter_fence(void);

#endif
