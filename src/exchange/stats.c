/* The public side of what an exchange counts. */
#include <shunt/stats.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/config.h"
#include "base/error.h"
#include "exchange/exchange.h"

#define FIELD(name) offsetof(struct shunt_stats, name)

/* The counters among the fields of struct shunt_stats. */
static const struct {
	size_t offset;
	const char *name, *help;
	bool is_time; /* ns here, seconds in the text */
} counters[] = {
	{FIELD(dispatches), "dispatches", "Dispatches that ended well.", false},
	{FIELD(combines), "combines", "Combines that ended well.", false},
	{FIELD(failed_steps), "failed_steps",
		"Steps that ended otherwise, timeouts left out.", false},
	{FIELD(tokens), "tokens", "Tokens brought to dispatches.", false},
	{FIELD(sent_rows), "sent_rows",
		"Rows sent to experts, own ones included.", false},
	{FIELD(received_rows), "received_rows",
		"Rows received for the experts of this rank.", false},
	{FIELD(dropped_choices), "dropped_choices",
		"Choices dropped for their expert id.", false},
	{FIELD(dispatch_nan_elements), "dispatch_nan_elements",
		"NaN met by the quantization of dispatch.", false},
	{FIELD(dispatch_inf_elements), "dispatch_inf_elements",
		"Inf met by the quantization of dispatch.", false},
	{FIELD(combine_nan_elements), "combine_nan_elements",
		"NaN met by the quantization of combine.", false},
	{FIELD(combine_inf_elements), "combine_inf_elements",
		"Inf met by the quantization of combine.", false},
	{FIELD(dispatch_bytes), "dispatch_bytes",
		"Bytes of rows and scales written by dispatch.", false},
	{FIELD(combine_bytes), "combine_bytes",
		"Bytes of experts' rows read by combine.", false},
	{FIELD(dispatch_wire_bytes), "dispatch_wire_bytes",
		"Bytes that dispatch sent to other hosts.", false},
	{FIELD(dispatch_wire_requests), "dispatch_wire_requests",
		"Requests that took.", false},
	{FIELD(combine_wire_bytes), "combine_wire_bytes",
		"Bytes that combine sent to other hosts.", false},
	{FIELD(combine_wire_requests), "combine_wire_requests",
		"Requests that took.", false},
	{FIELD(ideal_wire_bytes), "ideal_wire_bytes",
		"Bytes of a row and its scales once for each other host that "
		"a token goes to.",
		false},
	{FIELD(dispatch_wait_ns), "dispatch_wait_seconds",
		"Time that dispatch waited for other ranks.", true},
	{FIELD(combine_wait_ns), "combine_wait_seconds",
		"Time that combine waited for other ranks.", true},
};

#define NUM_COUNTERS (sizeof(counters) / sizeof(*counters))

static int64_t *counter_of(struct shunt_stats *stats, size_t i)
{
	return (int64_t *)(void *)((char *)stats + counters[i].offset);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t num_local(const struct shunt_exchange *exchange)
{
	return exchange->layouts[exchange->rank].num_local;
}

void counters_reset(struct shunt_exchange *exchange)
{
	struct counters *all = &exchange->counters;

	all->base = all->now;
	all->base.since_ns = now_ns();
	memcpy(all->expert_rows_base, all->expert_rows,
		(size_t)num_local(exchange) * sizeof(*all->expert_rows));
}

/* ---- as a struct ------------------------------------------------------ */

static enum shunt_status fill(
	struct shunt_exchange *exchange, struct shunt_stats *stats)
{
	struct counters *all = &exchange->counters;
	int64_t experts = num_local(exchange);

	stats->since_ns = all->base.since_ns;
	stats->num_local_experts = experts;
	for (size_t i = 0; i < NUM_COUNTERS; i++)
		*counter_of(stats, i) =
			*counter_of(&all->now, i) - *counter_of(&all->base, i);
	if (!stats->expert_rows)
		return SHUNT_OK;
	if (stats->expert_capacity < experts)
		return error_set(SHUNT_INVALID,
			"expert_capacity is %lld, must be at least the %lld "
			"experts of this rank (rank %d)",
			(long long)stats->expert_capacity, (long long)experts,
			exchange->rank);
	for (int64_t l = 0; l < experts; l++)
		stats->expert_rows[l] =
			all->expert_rows[l] - all->expert_rows_base[l];
	return SHUNT_OK;
}

enum shunt_status shunt_stats_get(
	struct shunt_exchange *exchange, struct shunt_stats *out)
{
	struct shunt_stats stats;
	enum shunt_status status;

	if (!exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "exchange is NULL");
	status = config_read(&stats, sizeof(stats), out, "shunt_stats");
	if (status != SHUNT_OK)
		return status;
	status = exchange_enter_any(exchange);
	if (status != SHUNT_OK)
		return status;
	status = fill(exchange, &stats);
	exchange_leave(exchange);
	if (status == SHUNT_OK)
		config_write(out, &stats, sizeof(stats));
	return status;
}

enum shunt_status shunt_stats_reset(struct shunt_exchange *exchange)
{
	enum shunt_status status;

	status = exchange_enter_any(exchange);
	if (status != SHUNT_OK)
		return status;
	counters_reset(exchange);
	exchange_leave(exchange);
	return SHUNT_OK;
}

/* ---- as text ---------------------------------------------------------- */

/* Text that is cut where the room ends, and counted on. */
struct writer {
	char *text;
	size_t size, needed;
};

static void add(struct writer *writer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct writer *writer, const char *format, ...)
{
	size_t used =
		writer->needed < writer->size ? writer->needed : writer->size;
	va_list args;

	va_start(args, format);
	writer->needed +=
		(size_t)vsnprintf(writer->size ? writer->text + used : NULL,
			writer->size - used, format, args);
	va_end(args);
}

static void add_head(struct writer *writer, const char *name, const char *help)
{
	add(writer, "# HELP shunt_%s_total %s\n", name, help);
	add(writer, "# TYPE shunt_%s_total counter\n", name);
}

/* The id of a local expert: of a MoE expert its number, else "shared". */
static void add_expert_rows(
	struct writer *writer, const struct shunt_exchange *exchange)
{
	const struct placement *placement = &exchange->whole.placement;
	const int32_t *mine =
		placement->order + placement->first[exchange->ep_rank];

	add_head(writer, "expert_rows", "Rows received for each expert.");
	for (int64_t l = 0; l < num_local(exchange); l++) {
		add(writer,
			"shunt_expert_rows_total{exchange=\"%llu\",rank=\"%d\","
			"expert=\"",
			(unsigned long long)exchange->id, exchange->rank);
		if (mine[l] < exchange_shape(exchange)->num_experts)
			add(writer, "%d", mine[l]);
		else
			add(writer, "shared");
		add(writer, "\"} %lld\n",
			(long long)exchange->counters.expert_rows[l]);
	}
}

static void add_all(struct writer *writer, struct shunt_exchange *exchange)
{
	for (size_t i = 0; i < NUM_COUNTERS; i++) {
		int64_t value = *counter_of(&exchange->counters.now, i);

		add_head(writer, counters[i].name, counters[i].help);
		add(writer, "shunt_%s_total{exchange=\"%llu\",rank=\"%d\"} ",
			counters[i].name, (unsigned long long)exchange->id,
			exchange->rank);
		if (counters[i].is_time)
			add(writer, "%lld.%09lld\n",
				(long long)(value / 1000000000),
				(long long)(value % 1000000000));
		else
			add(writer, "%lld\n", (long long)value);
	}
	add_expert_rows(writer, exchange);
}

enum shunt_status shunt_stats_text(struct shunt_exchange *exchange, char *text,
	size_t size, size_t *needed)
{
	struct writer writer = {.text = text, .size = size};
	enum shunt_status status;

	if (!exchange || !needed || (!text && size > 0))
		return error_set(SHUNT_NULL_ARGUMENT, "%s is NULL",
			!exchange ? "exchange"
			: !needed ? "needed"
				  : "text");
	status = exchange_enter_any(exchange);
	if (status != SHUNT_OK)
		return status;
	add_all(&writer, exchange);
	exchange_leave(exchange);
	*needed = writer.needed;
	return SHUNT_OK;
}
