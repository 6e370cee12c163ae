/* The root's judgement, see judge.h. */
#include "bootstrap/judge.h"

#include "bootstrap/report.h"

#define MAX_NAMED 8 /* ranks that a message spells out */

static int32_t own_num_ranks(const struct judge *judge)
{
	return judge->tcp->meeting->bootstrap->num_ranks;
}

static const struct wire_client *hello_of(const struct judge *judge, int slot)
{
	const struct guest *guest = guests_rank(judge->guests, slot);

	return guest ? &guest->visitor.hello : NULL;
}

void judge_look(struct judge *judge)
{
	for (int32_t rank = 0; rank < BOOTSTRAP_MAX_RANKS; rank++)
		judge->slots[rank] = JUDGE_ABSENT;
	judge->slots[0] = JUDGE_ROOT;
	judge->num_here = 1;
	judge->num_expected = own_num_ranks(judge);
	for (int slot = 0; slot < judge->guests->num_slots; slot++) {
		const struct wire_client *hello = hello_of(judge, slot);

		if (!hello)
			continue;
		judge->left[hello->rank] = false;
		if ((int32_t)hello->num_ranks > judge->num_expected)
			judge->num_expected = (int32_t)hello->num_ranks;
		if (judge->slots[hello->rank] != JUDGE_ABSENT)
			continue;
		judge->slots[hello->rank] = slot;
		judge->num_here++;
	}
}

/* One way to be out of line, and how to say so. */
struct fault {
	enum shunt_status status;
	bool (*applies)(const struct judge *judge, int slot);
	void (*introduce)(struct judge *judge);
	void (*describe)(struct judge *judge, const struct wire_client *hello);
};

static bool is_other_version(const struct judge *judge, int slot)
{
	return !visitor_is_akin(
		&judge->guests->list[slot].visitor, &judge->guests->terms);
}

static void introduce_version(struct judge *judge)
{
	const struct wire_version *own = &judge->tcp->version;

	report_start(&judge->report,
		"%s: ranks of different versions: rank 0 is %u.%u (protocol "
		"%u, hello of %u bytes)",
		judge->tcp->where, own->major, own->minor, own->protocol,
		judge->guests->terms.blob_bytes);
}

static void describe_version(
	struct judge *judge, const struct wire_client *hello)
{
	report_append(&judge->report, ", rank %u is %u.%u (protocol %u, %u)",
		hello->rank, hello->version.major, hello->version.minor,
		hello->version.protocol, hello->blob_bytes);
}

static bool is_other_size(const struct judge *judge, int slot)
{
	return (int32_t)hello_of(judge, slot)->num_ranks !=
	       own_num_ranks(judge);
}

static void introduce_size(struct judge *judge)
{
	report_start(&judge->report,
		"%s: num_ranks must be the same on all ranks: rank 0 has %d",
		judge->tcp->where, own_num_ranks(judge));
}

static void describe_size(struct judge *judge, const struct wire_client *hello)
{
	report_append(&judge->report, ", rank %u has %u", hello->rank,
		hello->num_ranks);
}

static bool is_double(const struct judge *judge, int slot)
{
	return judge->slots[hello_of(judge, slot)->rank] != slot;
}

static void introduce_double(struct judge *judge)
{
	report_start(&judge->report, "%s: each rank must come once",
		judge->tcp->where);
}

static void describe_double(
	struct judge *judge, const struct wire_client *hello)
{
	report_append(
		&judge->report, ", rank %u came more than once", hello->rank);
}

/* In the order of precedence. */
static const struct fault faults[] = {
	{
		.status = SHUNT_VERSION,
		.applies = is_other_version,
		.introduce = introduce_version,
		.describe = describe_version,
	},
	{
		.status = SHUNT_MISMATCH,
		.applies = is_other_size,
		.introduce = introduce_size,
		.describe = describe_size,
	},
	{
		.status = SHUNT_MISMATCH,
		.applies = is_double,
		.introduce = introduce_double,
		.describe = describe_double,
	},
};
#define NUM_FAULTS (sizeof(faults) / sizeof(faults[0]))

static bool applies_to_any(const struct judge *judge, const struct fault *fault)
{
	for (int slot = 0; slot < judge->guests->num_slots; slot++) {
		if (hello_of(judge, slot) && fault->applies(judge, slot))
			return true;
	}
	return false;
}

static void report_fault(struct judge *judge, const struct fault *fault)
{
	int num_found = 0;

	judge->status = fault->status;
	fault->introduce(judge);
	for (int slot = 0; slot < judge->guests->num_slots; slot++) {
		const struct wire_client *hello = hello_of(judge, slot);

		if (!hello || !fault->applies(judge, slot))
			continue;
		report_add_rank(&judge->report, (int32_t)hello->rank);
		if (num_found++ < MAX_NAMED)
			fault->describe(judge, hello);
	}
	if (num_found > MAX_NAMED)
		report_append(
			&judge->report, ", and %d more", num_found - MAX_NAMED);
}

bool judge_disagreement(struct judge *judge)
{
	judge->status = SHUNT_OK;
	for (size_t i = 0; i < NUM_FAULTS; i++) {
		if (applies_to_any(judge, &faults[i])) {
			report_fault(judge, &faults[i]);
			return true;
		}
	}
	return false;
}

static bool is_here(const struct judge *judge, int32_t rank)
{
	return judge->slots[rank] != JUDGE_ABSENT;
}

static bool all_came_once(const struct judge *judge)
{
	for (int32_t rank = 0; rank < own_num_ranks(judge); rank++) {
		if (!is_here(judge, rank) && !judge->left[rank])
			return false;
	}
	return true;
}

void judge_missing(struct judge *judge)
{
	bool all_came = all_came_once(judge);
	int num_missing = 0;

	judge->status = SHUNT_TIMEOUT;
	report_start(&judge->report,
		"%s: %d of %d ranks were there at the deadline; missing: rank",
		judge->tcp->where, judge->num_here, own_num_ranks(judge));
	for (int32_t rank = 0; rank < own_num_ranks(judge); rank++) {
		if (is_here(judge, rank) || (judge->left[rank] && !all_came))
			continue;
		report_add_rank(&judge->report, rank);
		if (num_missing++ < MAX_NAMED)
			report_append(&judge->report, " %d", rank);
	}
	if (num_missing > MAX_NAMED)
		report_append(&judge->report, " and %d more",
			num_missing - MAX_NAMED);
}
