#include "support/fake_forms.h"

#include <stdlib.h>
#include <string.h>

const struct fake_form fake_forms[] = {
	{.name = "roce"},
	{.name = "infiniband", .device = {.infiniband = true}},
	{.name = "iwarp", .device = {.iwarp = true, .max_inline = 64}},
	{.name = "iwarp_bounced", .device = {.iwarp = true, .max_inline = -1}},
	{.name = "relaxed", .device = {.relaxed = true}},
	{.name = "relaxed_lanes", .device = {.relaxed = true}, .lanes = 3},
	{.name = "bounced", .device = {.max_inline = -1}},
	{.name = "short",
		.device = {.max_queue = 4, .max_sge = 1},
		.policy = FAKE_AT_POLL},
	{.name = "short_lanes_bounced",
		.device = {.max_queue = 4, .max_inline = -1, .relaxed = true},
		.lanes = 4},
	{.name = "at_post", .policy = FAKE_AT_POST},
	{.name = "at_post_short_lanes",
		.policy = FAKE_AT_POST,
		.lanes = 3,
		.queue_depth = 4},
	{.name = "at_poll_lanes", .policy = FAKE_AT_POLL, .lanes = 2},
	{.name = "few_completions", .device = {.max_cqe = 64}, .lanes = 2},
	{.name = "iwarp_relaxed_lanes",
		.device = {.iwarp = true, .relaxed = true},
		.lanes = 2,
		.queue_depth = 5},
	{.name = "two_devices", .two_devices = true},
	{.name = "two_devices_lanes",
		.device = {.relaxed = true},
		.two_devices = true,
		.lanes = 5,
		.queue_depth = 6},
};
const int fake_num_forms = sizeof(fake_forms) / sizeof(*fake_forms);

/* By host, the second devices behind the first. */
static const char *const names[] = {
	"fake0", "fake1", "fake2", "twin0", "twin1", "twin2"};
static const char *const pairs[] = {
	"fake0,twin0", "fake1,twin1", "fake2,twin2"};
static const char *const addresses[] = {
	"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.2.0.1", "10.2.0.2", "10.2.0.3"};

const struct fake_form *fake_form_find(const char *name)
{
	for (int f = 0; name && f < fake_num_forms; f++)
		if (strcmp(fake_forms[f].name, name) == 0)
			return &fake_forms[f];
	return name ? NULL : &fake_forms[0];
}

void fake_form_start(const struct fake_form *form, uint64_t seed)
{
	struct fake_config config = {
		.policy = form->policy,
		.seed = seed,
		.num_devices = (form->two_devices ? 2 : 1) * FAKE_FORM_HOSTS,
	};

	for (int d = 0; d < config.num_devices; d++) {
		config.devices[d] = form->device;
		config.devices[d].name = names[d];
		config.devices[d].address = addresses[d];
		config.devices[d].host = d % FAKE_FORM_HOSTS;
	}
	fake_verbs_start(&config);
}

void fake_form_fill(
	const struct fake_form *form, int host, struct far_config *config)
{
	if (form->two_devices)
		config->device = pairs[host];
	else
		config->fallback_address = addresses[host];
	config->lanes = form->lanes;
	config->queue_depth = form->queue_depth;
}
