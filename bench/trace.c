/* Measured expert loads from a file; trace.h has the format. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "trace.h"

#define MAX_FILE_BYTES (64 << 20)
#define MAX_EXPERTS    65536

/* The layers that OLMoE's authors recorded, in the order of the file. */
static const int olmoe_layers[] = {0, 7, 15};

static bool fail(
	char *error, size_t error_bytes, const char *path, const char *why)
{
	snprintf(error, error_bytes, "%s: %s", path, why);
	return false;
}

/* The whole file, with a 0 behind it; NULL with errno set. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t got;

	if (!file)
		return NULL;
	text = malloc(MAX_FILE_BYTES + 1);
	if (text) {
		got = fread(text, 1, MAX_FILE_BYTES, file);
		text[got] = '\0';
		if (ferror(file) || got == MAX_FILE_BYTES) {
			errno = ferror(file) ? EIO : EFBIG;
			free(text);
			text = NULL;
		}
	}
	fclose(file);
	return text;
}

static const char *text_of(const cJSON *set, const char *field)
{
	const char *text =
		cJSON_GetStringValue(cJSON_GetObjectItem(set, field));

	return text ? text : "?";
}

static int layer_number(const cJSON *set, int index)
{
	int num_layers = sizeof(olmoe_layers) / sizeof(olmoe_layers[0]);

	if (!strncmp(text_of(set, "model"), "olmoe", 5) &&
		cJSON_GetArraySize(cJSON_GetObjectItem(set, "counts")) ==
			num_layers)
		return olmoe_layers[index];
	return index;
}

static void name_layer(
	const cJSON *set, int index, char *name, size_t name_bytes)
{
	snprintf(name, name_bytes, "%s-%s-%s-%d", text_of(set, "model"),
		text_of(set, "domain"), text_of(set, "kind"),
		layer_number(set, index));
}

/* Finds the layer by name, or the first; fills in trace->name and *set. */
static const cJSON *find_layer(const cJSON *sets, const char *name,
	struct trace *trace, const cJSON **found)
{
	const cJSON *set;

	cJSON_ArrayForEach(set, sets)
	{
		const cJSON *counts = cJSON_GetObjectItem(set, "counts");

		*found = set;
		for (int i = 0; i < cJSON_GetArraySize(counts); i++) {
			name_layer(set, i, trace->name, sizeof(trace->name));
			if (!name || !strcmp(name, trace->name))
				return cJSON_GetArrayItem(counts, i);
		}
	}
	return NULL;
}

/* "no set X; there are A, B, ..." as far as there is room. */
static bool fail_name(char *error, size_t error_bytes, const char *path,
	const char *name, const cJSON *sets)
{
	const cJSON *set;
	size_t used;
	char layer[128];

	used = (size_t)snprintf(error, error_bytes,
		"%s: there is no set '%s'; the sets are", path, name);
	cJSON_ArrayForEach(set, sets)
	{
		const cJSON *counts = cJSON_GetObjectItem(set, "counts");

		for (int i = 0; i < cJSON_GetArraySize(counts); i++) {
			name_layer(set, i, layer, sizeof(layer));
			if (used < error_bytes)
				used += (size_t)snprintf(error + used,
					error_bytes - used, "\n  %s", layer);
		}
	}
	return false;
}

static bool is_whole(const cJSON *number, double low, double high)
{
	return cJSON_IsNumber(number) && number->valuedouble >= low &&
	       number->valuedouble <= high &&
	       number->valuedouble == (double)(int64_t)number->valuedouble;
}

/* Fills everything but the name. */
static bool take_layer(
	struct trace *trace, const cJSON *set, const cJSON *layer)
{
	const cJSON *topk = cJSON_GetObjectItem(set, "topk");
	const cJSON *experts = cJSON_GetObjectItem(set, "num_experts");
	const cJSON *count;
	int64_t i = 0;

	if (!is_whole(experts, 1, MAX_EXPERTS) ||
		!is_whole(topk, 1, experts->valuedouble) ||
		cJSON_GetArraySize(layer) != (int)experts->valuedouble)
		return false;
	trace->num_experts = (int64_t)experts->valuedouble;
	trace->topk = (int64_t)topk->valuedouble;
	trace->counts =
		calloc((size_t)trace->num_experts, sizeof(trace->counts[0]));
	if (!trace->counts)
		return false;
	cJSON_ArrayForEach(count, layer)
	{
		if (!is_whole(count, 0, 1e15)) {
			free(trace->counts);
			return false;
		}
		trace->counts[i++] = count->valuedouble;
	}
	return true;
}

static bool take_set(struct trace *trace, const cJSON *root, const char *path,
	const char *name, char *error, size_t error_bytes)
{
	const cJSON *sets = cJSON_GetObjectItem(root, "sets");
	const cJSON *set = NULL;
	const cJSON *layer;

	if (!cJSON_IsArray(sets))
		return fail(error, error_bytes, path,
			"not a file of expert counts");
	layer = find_layer(sets, name, trace, &set);
	if (!layer)
		return fail_name(
			error, error_bytes, path, name ? name : "", sets);
	if (take_layer(trace, set, layer))
		return true;
	snprintf(error, error_bytes,
		"%s: set %s needs topk, num_experts and as many counts >= 0",
		path, trace->name);
	return false;
}

bool trace_read(struct trace *trace, const char *path, const char *name,
	char *error, size_t error_bytes)
{
	char *text = read_file(path);
	cJSON *root;
	bool taken;

	if (!text)
		return fail(error, error_bytes, path, strerror(errno));
	root = cJSON_Parse(text);
	free(text);
	if (!root)
		return fail(error, error_bytes, path, "not JSON");
	taken = take_set(trace, root, path, name, error, error_bytes);
	cJSON_Delete(root);
	return taken;
}
