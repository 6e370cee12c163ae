/* Copies of one row to many places, of every kind and instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "quant/kernels.h"
#include "support/fence.h"

#define MAX_BYTES  7169
#define MAX_COPIES 9
#define NUM_SIZES  (sizeof(sizes) / sizeof(sizes[0]))

static const size_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 191, 192,
	193, 1536, 4095, 7168, 7169};

/* What is asked for ahead is a hint: no address is too wild for it. */
static struct ahead wild_ahead(int64_t num_dst)
{
	return (struct ahead){(const char *)(uintptr_t)16, num_dst * 1000};
}

static void check_scatter(struct fence *fence, scatter_fn *scatter,
	int64_t num_dst, const uint8_t *data, size_t bytes)
{
	struct moat moats[MAX_COPIES];
	void *dst[MAX_COPIES];
	const void *src = fence_put(fence, data, bytes, 0);

	for (int64_t i = 0; i < num_dst; i++) {
		moat_init(&moats[i], bytes);
		dst[i] = moat_open(&moats[i], bytes,
			(size_t)(i * 7 + (int64_t)bytes) & 63);
	}
	scatter(dst, num_dst, src, (int64_t)bytes, wild_ahead(num_dst));
	for (int64_t i = 0; i < num_dst; i++) {
		moat_check(&moats[i]);
		assert_memory_equal(dst[i], data, bytes);
		moat_fini(&moats[i]);
	}
}

static void check_every_size(scatter_fn *scatter)
{
	static uint8_t data[MAX_BYTES];
	struct fence fence;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 251);
	fence_init(&fence, MAX_BYTES);
	for (size_t i = 0; i < NUM_SIZES; i++)
		for (int64_t n = 0; n <= MAX_COPIES; n++)
			check_scatter(&fence, scatter, n, data, sizes[i]);
	fence_fini(&fence);
}

static void scatter_copies_to_each_place_and_nowhere_else(void **state)
{
	(void)state;
	for (int level = 0; level <= (int)simd_best(); level++)
		check_every_size(
			quant_kernels_at((enum simd_level)level)->scatter);
}

static void scatter_stream_copies_to_each_place_and_nowhere_else(void **state)
{
	(void)state;
	for (int level = 0; level <= (int)simd_best(); level++)
		check_every_size(quant_kernels_at((enum simd_level)level)
					 ->scatter_stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scatter_copies_to_each_place_and_nowhere_else),
		cmocka_unit_test(
			scatter_stream_copies_to_each_place_and_nowhere_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
