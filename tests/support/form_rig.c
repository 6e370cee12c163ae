#include "support/form_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

void form_rig_init(struct rig *rig, const struct fake_form *form, int num_ranks,
	uint64_t seed)
{
	assert_non_null(form);
	fake_form_start(form, seed);
	rig_init(rig, num_ranks);
	for (int r = 0; r < num_ranks; r++)
		fake_form_fill(form, r, &rig->configs[r]);
}

void form_rig_open(struct rig *rig)
{
	if (!rig_open(rig))
		fail_msg(
			"%s; %s", rig->ranks[0].message, rig->ranks[1].message);
}

void form_rig_close(struct rig *rig)
{
	assert_true(rig_close(rig));
	assert_int_equal(rig_hangs(), 0);
	assert_int_equal(fake_verbs_not_ready(), 0);
	/* Also of events that nobody acknowledged. */
	assert_int_equal(fake_verbs_finish(), 0);
}
