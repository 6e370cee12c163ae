/* Copies of one row to many places, the same for all kernel tables: libc's
 * copy, and streaming stores that every x86-64 has. */
#ifndef QUANT_SCATTER_H
#define QUANT_SCATTER_H

#include <stdint.h>

/* struct quant_kernels.scatter */
void scatter_copy(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes);

/* struct quant_kernels.scatter_stream */
void scatter_stream(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes);

/* The same for AVX-512, where that exists. */
void scatter_stream_avx512(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes);

/* Orders what scatter_stream() has stored before the atomic stores that follow.
 * Once for all rows: it waits for them to leave the core. */
void scatter_fence(void);

#endif
