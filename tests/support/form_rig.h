/* Rigs whose ranks are on simulated hosts of a form. What goes wrong here fails
 * the test. */
#ifndef SUPPORT_FORM_RIG_H
#define SUPPORT_FORM_RIG_H

#include "support/fake_forms.h"
#include "support/far_rig.h"

/* Starts the simulator and makes the ranks' configs, which may be changed
 * before the rig is opened. */
void form_rig_init(struct rig *rig, const struct fake_form *form, int num_ranks,
	uint64_t seed);

void form_rig_open(struct rig *rig);

/* All leave; nothing may be misused or hang. Ends the simulator. */
void form_rig_close(struct rig *rig);

#endif
