/* The findings of `shunt doctor`: kept as JSON objects, printed from them. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "doctor.h"

#define TEXT_BYTES 1024

static const char *const verdict_names[] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_NOTE] = "note",
	[DOCTOR_PROBLEM] = "problem",
};

/* ---- keeping ----------------------------------------------------------- */

cJSON *doctor_say(struct doctor *doctor, const char *name,
	enum doctor_verdict verdict, const char *format, ...)
{
	cJSON *finding = cJSON_CreateObject();
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	doctor->num_problems += verdict == DOCTOR_PROBLEM;
	doctor->num_notes += verdict == DOCTOR_NOTE;
	if (!cJSON_AddStringToObject(finding, "section", doctor->section) ||
		!cJSON_AddStringToObject(finding, "name", name) ||
		!cJSON_AddStringToObject(
			finding, "verdict", verdict_names[verdict]) ||
		!cJSON_AddStringToObject(finding, "text", text) ||
		!cJSON_AddItemToArray(doctor->checks, finding)) {
		cJSON_Delete(finding);
		doctor->out_of_memory = true;
		return NULL;
	}
	return finding;
}

void doctor_remedy(cJSON *finding, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cJSON_AddStringToObject(finding, "remedy", text);
}

/* The object of a finding's values, made for the first. */
static cJSON *values_of(cJSON *finding)
{
	cJSON *values = cJSON_GetObjectItem(finding, "values");

	return values ? values : cJSON_AddObjectToObject(finding, "values");
}

void doctor_number(cJSON *finding, const char *name, double value)
{
	cJSON_AddNumberToObject(values_of(finding), name, value);
}

void doctor_text(cJSON *finding, const char *name, const char *value)
{
	cJSON_AddStringToObject(values_of(finding), name, value);
}

const char *doctor_size(char text[DOCTOR_SIZE_BYTES], uint64_t bytes)
{
	static const char *const units[] = {
		"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	int unit = 0;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (bytes == UINT64_MAX)
		snprintf(text, DOCTOR_SIZE_BYTES, "no limit");
	else
		snprintf(
			text, DOCTOR_SIZE_BYTES, "%.4g %s", value, units[unit]);
	return text;
}

/* ---- printing ---------------------------------------------------------- */

static const char *field(const cJSON *finding, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(finding, name));
}

static void print_finding(FILE *stream, const cJSON *finding)
{
	const char *remedy = field(finding, "remedy");

	fprintf(stream, "  %-8s %s: %s\n", field(finding, "verdict"),
		field(finding, "name"), field(finding, "text"));
	if (remedy)
		fprintf(stream, "           -> %s\n", remedy);
}

void doctor_print(const struct doctor *doctor, FILE *stream)
{
	const char *section = "";
	const cJSON *finding;

	fprintf(stream, "shunt %s doctor\n", shunt_version());
	cJSON_ArrayForEach(finding, doctor->checks)
	{
		if (strcmp(section, field(finding, "section")))
			fprintf(stream, "\n%s\n", field(finding, "section"));
		section = field(finding, "section");
		print_finding(stream, finding);
	}
	fprintf(stream, "\n%d problem%s, %d note%s\n", doctor->num_problems,
		doctor->num_problems == 1 ? "" : "s", doctor->num_notes,
		doctor->num_notes == 1 ? "" : "s");
}

bool doctor_print_json(const struct doctor *doctor, FILE *stream)
{
	cJSON *root = cJSON_CreateObject();
	char *text = NULL;
	bool done = false;

	cJSON_AddStringToObject(root, "version", shunt_version());
	cJSON_AddBoolToObject(root, "ok", doctor->num_problems == 0);
	cJSON_AddNumberToObject(root, "problems", doctor->num_problems);
	cJSON_AddNumberToObject(root, "notes", doctor->num_notes);
	cJSON_AddItemReferenceToObject(root, "checks", doctor->checks);
	cJSON_AddItemReferenceToObject(root, "rdma_devices", doctor->devices);
	errno = ENOMEM;
	text = cJSON_Print(root);
	if (text)
		done = fputs(text, stream) >= 0 && fputc('\n', stream) >= 0 &&
		       !fflush(stream);
	cJSON_free(text);
	cJSON_Delete(root);
	return done;
}
