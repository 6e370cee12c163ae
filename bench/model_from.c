/* Constants from what `shunt bench --json` has measured. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "model.h"
#include "options_table.h"
#include "report.h"

static bool fail(char error[MODEL_ERROR], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(char error[MODEL_ERROR], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, MODEL_ERROR, format, arguments);
	va_end(arguments);
	return false;
}

/* ---- the file --------------------------------------------------------- */

#define MOST_BYTES (64 << 20)

static cJSON *read_json(const char *path, char error[MODEL_ERROR])
{
	FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;
	cJSON *root = NULL;

	if (!stream) {
		fail(error, "%s", strerror(errno));
		return NULL;
	}
	text = malloc(MOST_BYTES + 1);
	if (text)
		bytes = fread(text, 1, MOST_BYTES, stream);
	if (text) {
		text[bytes] = '\0';
		root = cJSON_Parse(text);
	}
	if (!root || !cJSON_IsTrue(cJSON_GetObjectItem(root, "ok"))) {
		fail(error, "is no result of `shunt bench --json'");
		cJSON_Delete(root);
		root = NULL;
	}
	free(text);
	fclose(stream);
	return root;
}

/* A number by its path, such as "combine_us.p50"; negative if it is not
 * there. */
static double number(const cJSON *root, const char *path)
{
	char name[64];

	while (root && *path) {
		size_t length = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		root = cJSON_GetObjectItem(root, name);
		path += length + (path[length] == '.');
	}
	return cJSON_IsNumber(root) ? root->valuedouble : -1;
}

/* What a token takes depends on these. */
static bool same_rows(const cJSON *root, const struct model_options *options,
	char error[MODEL_ERROR])
{
	static const char *const names[] = {"hidden", "topk", "dtype", "quant",
		"scale-form", "expert-dtype", "out-dtype", "combine-quant"};
	const cJSON *theirs = cJSON_GetObjectItem(root, "parameters");
	cJSON *ours = cJSON_CreateObject();
	bool same = true;

	for (size_t i = 0; same && i < sizeof(names) / sizeof(names[0]); i++) {
		const cJSON *own;

		report_add_parameter(
			ours, &options->bench, model_bench_row(names[i]));
		own = cJSON_GetArrayItem(ours, (int)i);
		same = own &&
		       cJSON_Compare(own,
			       cJSON_GetObjectItem(theirs, own->string), true);
		if (!same)
			fail(error,
				"was measured with another --%s; measure with "
				"that of the model",
				names[i]);
	}
	cJSON_Delete(ours);
	return same;
}

/* ---- constants -------------------------------------------------------- */

static void set(double *constant, double value)
{
	if (*constant < 0)
		*constant = value;
}

/* What a token took beside copies, signals and what no row is to blame for. */
static double rest_us(const cJSON *root, const struct model_options *options,
	enum model_phase phase)
{
	const struct model_constants *given = &options->constants;
	struct model_constants constants = {
		.peer_us = given->peer_us > 0 ? given->peer_us : 0,
		.expert_ns = given->expert_ns > 0 ? given->expert_ns : 0,
		.counts_gbs = given->counts_gbs > 0 ? given->counts_gbs
						    : given->dispatch_gbs,
	};
	bool dispatch = phase == MODEL_DISPATCH;
	double us =
		number(root, dispatch ? "dispatch_us.p50" : "combine_us.p50");

	us -= number(root, dispatch ? "dispatch_floor_us" : "combine_floor_us");
	us -= (dispatch ? 2 : 1) * given->signal_us;
	us -= model_fixed_us(&constants, phase,
		number(root, "parameters.ranks"),
		number(root, "parameters.experts"));
	us /= number(root, "parameters.tokens");
	return us > 0 ? us : 0;
}

static bool take(const cJSON *root, struct model_options *options,
	char error[MODEL_ERROR])
{
	struct model_constants *constants = &options->constants;
	double ranks = number(root, "parameters.ranks");
	double floors[] = {number(root, "dispatch_floor_us"),
		number(root, "combine_floor_us")};
	double bytes[] = {
		number(root, "dispatch_bytes"), number(root, "combine_bytes")};

	if (!cJSON_IsTrue(cJSON_GetObjectItem(
		    cJSON_GetObjectItem(root, "machine"), "pinned")))
		return fail(error,
			"its ranks shared cores: measure with one rank per "
			"core");
	if (floors[0] <= 0 || floors[1] <= 0 || bytes[0] <= 0 ||
		bytes[1] <= 0 || ranks <= 0 ||
		number(root, "machine.cores") < 1)
		return fail(error, "has no copy speed: measure with --tokens");
	if (options->cores == 0)
		options->cores = (int64_t)number(root, "machine.cores");
	set(&constants->dispatch_gbs, bytes[0] / floors[0] / 1e3 / ranks);
	set(&constants->combine_gbs, bytes[1] / floors[1] / 1e3 / ranks);
	if (number(root, "signal_us.p50") > 0)
		set(&constants->signal_us, number(root, "signal_us.p50"));
	if (constants->signal_us < 0)
		return fail(error,
			"has no signal: measure with --ranks 2 or more, or "
			"give --signal-us");
	set(&constants->quant_us, rest_us(root, options, MODEL_DISPATCH));
	set(&constants->sum_us, rest_us(root, options, MODEL_COMBINE));
	return true;
}

bool model_from(struct model_options *options, char error[MODEL_ERROR])
{
	cJSON *root = read_json(options->from_path, error);
	bool done = root && same_rows(root, options, error) &&
		    take(root, options, error);

	cJSON_Delete(root);
	return done;
}
