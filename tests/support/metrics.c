/* Reading metrics; see metrics.h. */
#include "support/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalpha((uint8_t)text[i]) && text[i] != '_' &&
			!(i > 0 && isdigit((uint8_t)text[i])))
			return false;
	return length > 0;
}

/* label="value"; returns what is behind it. */
static const char *parse_label(
	struct seat *seat, const char *at, struct sample *sample)
{
	const char *equals = strstr(at, "=\"");
	const char *end = equals ? strchr(equals + 2, '"') : NULL;
	size_t length;
	char *to;

	SEAT_CHECK(seat, end && is_name(at, (size_t)(equals - at)),
		"no label at: %.40s", at);
	length = (size_t)(end - equals - 2);
	to = strncmp(at, "rank=", 5) == 0       ? sample->rank
	     : strncmp(at, "expert=", 7) == 0   ? sample->expert
	     : strncmp(at, "exchange=", 9) == 0 ? sample->exchange
						: NULL;
	SEAT_CHECK(seat, to && length < 16, "unknown label: %.40s", at);
	memcpy(to, equals + 2, length);
	return end + 1;
}

/* name{label="value",...} number */
static void parse_sample(struct seat *seat, const char *line, size_t length,
	struct metrics *metrics)
{
	struct sample *sample = &metrics->samples[metrics->count++];
	size_t name = strcspn(line, "{ ");
	const char *at = line + name;
	char *end;

	SEAT_CHECK(seat, metrics->count < MAX_SAMPLES, "too many samples");
	SEAT_CHECK(seat,
		is_name(line, name) && name > 6 &&
			name < sizeof(sample->name) &&
			memcmp(line + name - 6, "_total", 6) == 0,
		"no counter's name: %.*s", (int)length, line);
	memcpy(sample->name, line, name);
	if (*at == '{')
		do
			at = parse_label(seat, at + 1, sample);
		while (*at == ',');
	SEAT_CHECK(seat, *at == '}' && at[1] == ' ', "no labels: %.*s",
		(int)length, line);
	at += 2;
	strtod(at, &end);
	SEAT_CHECK(seat, end > at && end == line + length, "no number: %.*s",
		(int)length, line);
	memcpy(sample->value, at, (size_t)(end - at));
}

/* Samples of a metric follow its HELP and TYPE, each given once. */
void metrics_parse(struct seat *seat, const char *text, struct metrics *metrics)
{
	char help[64] = "", type[64] = "", kind[16];
	const char *line = text;

	memset(metrics, 0, sizeof(*metrics));
	while (*line) {
		size_t length = strcspn(line, "\n");

		SEAT_CHECK(seat, line[length] == '\n', "the last line ends");
		if (strncmp(line, "# HELP ", 7) == 0) {
			SEAT_CHECK(seat, sscanf(line, "# HELP %63s", help) == 1,
				"HELP");
			for (int i = 0; i < metrics->count; i++)
				SEAT_CHECK(seat,
					strcmp(metrics->samples[i].name,
						help) != 0,
					"%s comes twice", help);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			SEAT_CHECK(seat,
				sscanf(line, "# TYPE %63s %15s", type, kind) ==
						2 &&
					strcmp(kind, "counter") == 0 &&
					strcmp(type, help) == 0,
				"TYPE of %s", help);
		} else {
			parse_sample(seat, line, length, metrics);
			SEAT_CHECK(seat,
				strcmp(metrics->samples[metrics->count - 1]
						.name,
					type) == 0,
				"a sample of %s under %s",
				metrics->samples[metrics->count - 1].name,
				type);
		}
		line += length + 1;
	}
}

const char *metrics_value(struct seat *seat, const struct metrics *metrics,
	const char *name, const char *expert)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "shunt_%s_total", name);
	for (int i = 0; i < metrics->count; i++)
		if (strcmp(metrics->samples[i].name, whole) == 0 &&
			strcmp(metrics->samples[i].expert, expert) == 0)
			return metrics->samples[i].value;
	seat_fail(seat, __FILE__, __LINE__, "no %s{expert=\"%s\"}", whole,
		expert);
}
