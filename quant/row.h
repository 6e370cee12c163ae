/* One row on its way through a kernel of quantization. */
#ifndef QUANT_ROW_H
#define QUANT_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/types.h>

#define QUANT_NUM_DTYPES 4 /* SHUNT_DTYPE_NONE .. SHUNT_DTYPE_BF16 */
#define QUANT_NUM_MODES  (SHUNT_QUANT_NVFP4_E2M1 + 1)
#define QUANT_NUM_FORMS  (SHUNT_SCALE_E8M0 + 1)

/* Elements that were not finite; kernels add to it. */
struct quant_tally {
	uint64_t nan_elements;
	uint64_t inf_elements;
};

/* x becomes q and its scales. */
struct quant_row {
	void *q;             /* row_bytes, any alignment */
	void *scales;        /* num_scales, any alignment; NULL: none */
	float *row_scale;    /* NVFP4; any alignment */
	const void *x;       /* `hidden` elements of the type of the kernel */
	const float *smooth; /* (hidden) or NULL */
	const float *fixed;  /* static modes: the scales ... */
	bool fixed_is_one;   /* ... one for all, or (hidden) */
	int64_t hidden;
	struct quant_tally *tally; /* kernels add to it */
	int64_t scale_step;        /* from a scale to the next; 0: dense */
	const void *next; /* the x to ask memory for meanwhile; NULL: none */
};

/*
 * Reads x from memory once (what is read again is in the first-level cache),
 * writes q and the scales once, and nothing else.
 */
typedef void quant_row_fn(const struct quant_row *row);

/* The way back: q and its scales become x. */
struct quant_codes {
	void *x; /* `hidden` elements of the type of the kernel */
	const void *q;
	const void *scales; /* as above; static modes: f32 ... */
	bool fixed_is_one;  /* ... one for all, or (hidden) */
	float row_scale;    /* NVFP4 */
	int64_t hidden;
	int64_t scale_step; /* as above */
};

typedef void quant_codes_fn(const struct quant_codes *codes);

#endif
