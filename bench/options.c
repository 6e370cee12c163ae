/* Reading the command line of `shunt bench`. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "options_table.h"

const struct options options_defaults = {
	.num_tp = 1,
	.num_tokens = 128,
	.hidden = 7168,
	.num_experts = -1,
	.alignment = 1,
	.seed = 1,
	.num_iterations = 50,
	.num_warmup = 10,
	.num_peer_rounds = 3,
	.num_peer_seconds = 120,
	.depth = 2,
	.launch = LAUNCH_PROCESSES,
	.dtype = SHUNT_DTYPE_BF16,
	.quant = -1,
	.ids = SHUNT_INDEX_I64,
	.special_share = -1,
	.routing_text = "uniform",
};

bool option_is_default(
	const struct options *options, const struct option_row *row)
{
	static const size_t sizes[] = {
		[OPTION_FLAG] = sizeof(bool),
		[OPTION_NUMBER] = sizeof(int64_t),
		[OPTION_SHARE] = sizeof(double),
		[OPTION_REAL] = sizeof(double),
		[OPTION_CHOICE] = sizeof(int),
		[OPTION_TEXT] = sizeof(const char *),
	};

	return !memcmp((const char *)options + row->offset,
		(const char *)&options_defaults + row->offset,
		sizes[row->kind]);
}

static const struct option_row *row_at(size_t i)
{
	return i < options_num_rows ? &options_rows[i] : NULL;
}

static void settle(struct argp_state *state, void *fields)
{
	char error[ROUTING_ERROR];

	if (!options_settle(fields, error))
		argp_error(state, "%s", error);
}

void options_init(struct options *options, int argc, char **argv)
{
	static const struct option_line line = {row_at, settle, options_text};

	*options = options_defaults;
	option_read_line(&line, argc, argv, options);
}

/* FNV-1a; nobody tries to make two alike. */
static uint64_t mix_text(uint64_t digest, const char *text)
{
	for (; *text; text++)
		digest = (digest ^ (uint8_t)*text) * 0x100000001b3u;
	return digest * 0x100000001b3u;
}

static uint64_t mix_row(uint64_t digest, const struct options *options,
	const struct option_row *row)
{
	const void *field = (const char *)options + row->offset;
	char text[64];

	switch (row->kind) {
	case OPTION_FLAG:
		snprintf(text, sizeof(text), "%d", *(const bool *)field);
		break;
	case OPTION_NUMBER:
		snprintf(text, sizeof(text), "%lld",
			(long long)*(const int64_t *)field);
		break;
	case OPTION_SHARE:
	case OPTION_REAL:
		snprintf(text, sizeof(text), "%a", *(const double *)field);
		break;
	case OPTION_CHOICE:
		snprintf(text, sizeof(text), "%d", *(const int *)field);
		break;
	case OPTION_TEXT:
		if (*(const char *const *)field)
			return mix_text(digest, *(const char *const *)field);
		text[0] = '\0';
		break;
	case OPTION_GROUP:
		return digest;
	}
	return mix_text(digest, text);
}

uint64_t options_digest(const struct options *options)
{
	uint64_t digest = 0xcbf29ce484222325u;

	for (size_t i = 0; i < options_num_rows; i++)
		if (!options_rows[i].aside && !options_rows[i].own)
			digest = mix_row(digest, options, &options_rows[i]);
	return digest;
}

void options_fini(struct options *options)
{
	routing_fini(&options->routing);
}
