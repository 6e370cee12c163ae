/* Copies of one row to many places: the same code in every kernel table,
 * because copying knows no instruction set but libc's. */
#ifndef QUANT_SCATTER_H
#define QUANT_SCATTER_H

#include <stdint.h>

/* struct quant_kernels.scatter */
void scatter_copy(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes);

/* struct quant_kernels.scatter_stream */
void scatter_stream(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes);

#endif
