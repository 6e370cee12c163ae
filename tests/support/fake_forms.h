/* Forms that devices may have, each a difficulty of its own; tests of the
 * transport run over all of them. */
#ifndef SUPPORT_FAKE_FORMS_H
#define SUPPORT_FAKE_FORMS_H

#include "support/fake_verbs.h"
#include "transport/far.h"

#define FAKE_FORM_HOSTS 3

struct fake_form {
	const char *name;
	struct fake_device_config device; /* all are alike */
	enum fake_policy policy;
	bool two_devices; /* on each host */
	int32_t lanes;
	int32_t queue_depth;
};

extern const struct fake_form fake_forms[];
extern const int fake_num_forms;

/* The form with the name; NULL: the first. */
const struct fake_form *fake_form_find(const char *name);

/* Starts the simulator with hosts of this form. */
void fake_form_start(const struct fake_form *form, uint64_t seed);

/* What a rank on the host asks for. */
void fake_form_fill(
	const struct fake_form *form, int host, struct far_config *config);

#endif
