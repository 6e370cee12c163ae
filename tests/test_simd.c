/* The choice of the instruction set, the variable that lowers it, and the
 * control word that kernels run under. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "base/fpenv.h"
#include "base/simd.h"
#include "combine/sum.h"
#include "quant/kernels.h"

static int forget(void **state)
{
	(void)state;
	return unsetenv("SHUNT_SIMD");
}

/* ---- SHUNT_SIMD --------------------------------------------------------- */

/* The level that a new process chooses when SHUNT_SIMD is `value`. */
static int level_of_a_process(const char *value)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		setenv("SHUNT_SIMD", value, 1);
		_exit((int)simd_level());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Must be the first test: simd_level() chooses once. */
static void each_level_of_the_machine_can_be_chosen(void **state)
{
	(void)state;
	for (int level = 0; level <= (int)simd_best(); level++) {
		const char *name = simd_name((enum simd_level)level);

		assert_int_equal(level_of_a_process(name), level);
		setenv("SHUNT_SIMD", name, 1);
		assert_int_equal(simd_check(), SHUNT_OK);
	}
}

static void the_best_level_is_the_default(void **state)
{
	(void)state;
	assert_int_equal(simd_check(), SHUNT_OK);
	assert_int_equal(level_of_a_process(""), simd_best());
	setenv("SHUNT_SIMD", "", 1);
	assert_int_equal(simd_check(), SHUNT_OK);
}

static void the_choice_does_not_change(void **state)
{
	enum simd_level level = simd_level();

	(void)state;
	setenv("SHUNT_SIMD", level == SIMD_SCALAR ? "avx2" : "scalar", 1);
	assert_int_equal(simd_level(), level);
}

static void an_unknown_level_is_named_with_the_legal_ones(void **state)
{
	static const char *const values[] = {
		"sse", "AVX2", "avx", "avx2 ", "avx5122", "1"};
	const char *message;

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		setenv("SHUNT_SIMD", values[i], 1);
		assert_int_equal(simd_check(), SHUNT_INVALID);
		message = shunt_error_message();
		assert_non_null(strstr(message, "SHUNT_SIMD"));
		assert_non_null(strstr(message, values[i]));
		assert_non_null(strstr(message, "scalar, avx2 and avx512"));
		assert_int_equal(level_of_a_process(values[i]), simd_best());
	}
}

static void a_level_that_the_machine_lacks_is_refused(void **state)
{
	(void)state;
	if (simd_best() == SIMD_AVX512)
		skip(); /* this machine lacks none */
	setenv("SHUNT_SIMD", "avx512", 1);
	assert_int_equal(simd_check(), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "lacks"));
	assert_int_equal(level_of_a_process("avx512"), simd_best());
}

static void the_tables_follow_the_level(void **state)
{
	enum simd_level level = simd_level();

	(void)state;
	assert_ptr_equal(quant_kernels(), quant_kernels_at(level));
	assert_ptr_equal(sum_kernels(), sum_kernels_at(level));
	for (int i = 0; i < SIMD_NUM_LEVELS; i++) {
		const struct quant_kernels *quant =
			quant_kernels_at((enum simd_level)i);
		const struct sum_kernels *sum =
			sum_kernels_at((enum simd_level)i);

		assert_int_equal(quant != NULL, i <= (int)simd_best());
		assert_int_equal(sum != NULL, i <= (int)simd_best());
		if (!quant)
			continue;
		assert_string_equal(quant->name, simd_name((enum simd_level)i));
		/* Sums have no kernels of their own for AVX-512. */
		assert_string_equal(sum->name,
			simd_name(i == SIMD_AVX512 ? SIMD_AVX2
						   : (enum simd_level)i));
	}
}

/* ---- the control word --------------------------------------------------- */

#if defined(__x86_64__)

#define ROUND_UP  0x4000u
#define FLUSH     0x8040u /* flush-to-zero, denormals-are-zero */
#define INEXACT   0x0020u /* a sticky flag */
#define NUM_WORDS (sizeof(words) / sizeof(words[0]))

static const unsigned int words[] = {FPENV_DEFAULT, FPENV_DEFAULT | INEXACT,
	FPENV_DEFAULT | FLUSH, FPENV_DEFAULT | ROUND_UP,
	FPENV_DEFAULT | ROUND_UP | FLUSH | INEXACT};

static void the_word_is_the_default_inside_and_the_callers_outside(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_WORDS; i++) {
		struct fpenv caller;
		unsigned int inside, outside;

		_mm_setcsr(words[i]);
		caller = fpenv_enter();
		inside = _mm_getcsr();
		fpenv_leave(&caller);
		outside = _mm_getcsr();
		_mm_setcsr(FPENV_DEFAULT);
		assert_int_equal(inside & ~FPENV_FLAGS, FPENV_DEFAULT);
		assert_int_equal(outside, words[i]);
	}
}

/* A caller that traps on division by zero is not trapped inside. */
static void traps_of_the_caller_are_off_inside(void **state)
{
	const float x = 0.0f;
	struct quant_tally tally = {0};
	struct fpenv caller;
	float scale = -1.0f;
	int8_t q = -1;

	(void)state;
	assert_true(feenableexcept(FE_DIVBYZERO | FE_INVALID) >= 0);
	caller = fpenv_enter();
	quant_kernels_scalar.row[SHUNT_QUANT_INT8][0][SHUNT_DTYPE_F32](
		&(struct quant_row){
			.q = &q,
			.scales = &scale,
			.x = &x,
			.hidden = 1,
			.tally = &tally,
		});
	fpenv_leave(&caller);
	assert_int_equal(fegetexcept(), FE_DIVBYZERO | FE_INVALID);
	fedisableexcept(FE_ALL_EXCEPT);
	assert_int_equal(q, 0);
	assert_true(scale == 0.0f);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			each_level_of_the_machine_can_be_chosen, forget),
		cmocka_unit_test_setup(the_best_level_is_the_default, forget),
		cmocka_unit_test_setup(
			an_unknown_level_is_named_with_the_legal_ones, forget),
		cmocka_unit_test_setup(
			a_level_that_the_machine_lacks_is_refused, forget),
		cmocka_unit_test_setup(the_choice_does_not_change, forget),
		cmocka_unit_test_setup(the_tables_follow_the_level, forget),
#if defined(__x86_64__)
		cmocka_unit_test(
			the_word_is_the_default_inside_and_the_callers_outside),
		cmocka_unit_test(traps_of_the_caller_are_off_inside),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
