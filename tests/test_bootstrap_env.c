/* Where a rank takes its place from: the config, and families of variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"

#define MAX_VARIABLES 10
#define MAX_WORDS     4

static const char *const all_variables[] = {
	"SHUNT_RANK",
	"SHUNT_NUM_RANKS",
	"SHUNT_ADDRESS",
	"SHUNT_PORT",
	"SHUNT_KEY",
	"SHUNT_JOB",
	"RANK",
	"WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"PMI_RANK",
	"PMI_SIZE",
	"SLURM_PROCID",
	"SLURM_NTASKS",
};

static void clear_environment(void)
{
	for (size_t i = 0; i < sizeof(all_variables) / sizeof(char *); i++)
		unsetenv(all_variables[i]);
}

static void set_environment(const char *const *variables)
{
	clear_environment();
	for (; *variables; variables++) {
		const char *equals = strchr(*variables, '=');
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)(equals - *variables),
			*variables);
		assert_int_equal(setenv(name, equals + 1, 1), 0);
	}
}

static enum shunt_status resolve(struct bootstrap *found)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;

	return bootstrap_resolve(&config, found);
}

/* ---- environments that give a place ------------------------------------ */

struct place {
	const char *name;
	const char *variables[MAX_VARIABLES];
	enum bootstrap_kind kind;
	int32_t rank;
	int32_t num_ranks;
	const char *address;
	uint16_t port;
	const char *job;
};

static const struct place places[] = {
	{
		.name = "nothing",
		.kind = BOOTSTRAP_SINGLE,
		.num_ranks = 1,
	},
	{
		.name = "an address alone",
		.variables = {"SHUNT_ADDRESS=h:1", "SHUNT_NUM_RANKS=7"},
		.kind = BOOTSTRAP_SINGLE,
		.num_ranks = 1,
	},
	{
		.name = "shunt",
		.variables = {"SHUNT_RANK=2", "SHUNT_NUM_RANKS=4",
			"SHUNT_ADDRESS=127.0.0.1:5000", "SHUNT_JOB=j"},
		.kind = BOOTSTRAP_TCP,
		.rank = 2,
		.num_ranks = 4,
		.address = "127.0.0.1",
		.port = 5000,
		.job = "j",
	},
	{
		.name = "shunt by IPv6",
		.variables = {"SHUNT_RANK=0", "SHUNT_NUM_RANKS=4096",
			"SHUNT_ADDRESS=[fe80::1%eth0]:65535"},
		.kind = BOOTSTRAP_TCP,
		.num_ranks = 4096,
		.address = "fe80::1%eth0",
		.port = 65535,
	},
	{
		.name = "shunt with one rank",
		.variables = {"SHUNT_RANK=0", "SHUNT_NUM_RANKS=1",
			"SHUNT_ADDRESS=localhost:1"},
		.kind = BOOTSTRAP_SINGLE,
		.num_ranks = 1,
		.address = "localhost",
		.port = 1,
	},
	{
		.name = "shunt inside others that disagree",
		.variables = {"SHUNT_RANK=1", "SHUNT_NUM_RANKS=2",
			"SHUNT_ADDRESS=localhost:9", "SLURM_PROCID=0",
			"SLURM_NTASKS=1", "RANK=junk", "PMI_RANK=5"},
		.kind = BOOTSTRAP_TCP,
		.rank = 1,
		.num_ranks = 2,
		.address = "localhost",
		.port = 9,
	},
	{
		.name = "torchrun",
		.variables = {"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node-0.x",
			"MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=run7"},
		.kind = BOOTSTRAP_TCP,
		.rank = 3,
		.num_ranks = 8,
		.address = "node-0.x",
		.port = 29501,
		.job = "run7",
	},
	{
		.name = "torchrun with a port and a job of ours",
		.variables = {"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=::1",
			"MASTER_PORT=65535", "SHUNT_PORT=4000",
			"TORCHELASTIC_RUN_ID=run7", "SHUNT_JOB=mine"},
		.kind = BOOTSTRAP_TCP,
		.rank = 3,
		.num_ranks = 8,
		.address = "::1",
		.port = 4000,
		.job = "mine",
	},
	{
		.name = "Open MPI",
		.variables = {"OMPI_COMM_WORLD_RANK=1",
			"OMPI_COMM_WORLD_SIZE=2", "SHUNT_ADDRESS=a:2",
			"TORCHELASTIC_RUN_ID=not-ours"},
		.kind = BOOTSTRAP_TCP,
		.rank = 1,
		.num_ranks = 2,
		.address = "a",
		.port = 2,
	},
	{
		.name = "Hydra",
		.variables = {"PMI_RANK=1", "PMI_SIZE=2", "SHUNT_ADDRESS=a:2"},
		.kind = BOOTSTRAP_TCP,
		.rank = 1,
		.num_ranks = 2,
		.address = "a",
		.port = 2,
	},
	{
		.name = "Slurm",
		.variables = {"SLURM_PROCID=1", "SLURM_NTASKS=2",
			"SHUNT_ADDRESS=a:2"},
		.kind = BOOTSTRAP_TCP,
		.rank = 1,
		.num_ranks = 2,
		.address = "a",
		.port = 2,
	},
	{
		.name = "one rank under Slurm without an address",
		.variables = {"SLURM_PROCID=0", "SLURM_NTASKS=1"},
		.kind = BOOTSTRAP_SINGLE,
		.num_ranks = 1,
	},
	{
		.name = "torchrun and Slurm that agree",
		.variables = {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m",
			"MASTER_PORT=10", "SLURM_PROCID=1", "SLURM_NTASKS=2"},
		.kind = BOOTSTRAP_TCP,
		.rank = 1,
		.num_ranks = 2,
		.address = "m",
		.port = 11,
	},
};

static void check_place(const struct place *place)
{
	struct bootstrap found;
	enum shunt_status status;

	set_environment(place->variables);
	status = resolve(&found);
	if (status != SHUNT_OK)
		fail_msg("%s: %s", place->name, shunt_error_message());
	if (found.kind != place->kind || found.rank != place->rank ||
		found.num_ranks != place->num_ranks ||
		found.port != place->port)
		fail_msg("%s: kind %d, rank %d of %d, port %d", place->name,
			(int)found.kind, found.rank, found.num_ranks,
			found.port);
	assert_string_equal(
		found.address, place->address ? place->address : "");
	assert_string_equal(found.job, place->job ? place->job : "");
	assert_true(found.origin[0] != '\0');
}

static void each_family_gives_a_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		check_place(&places[i]);
}

/* ---- environments that are refused ------------------------------------- */

struct refusal {
	const char *variables[MAX_VARIABLES];
	const char *words[MAX_WORDS]; /* the message has all of them */
};

#define SHUNT_PAIR "SHUNT_RANK=0", "SHUNT_NUM_RANKS=2"
#define TORCH_PAIR "RANK=1", "WORLD_SIZE=2"

static const struct refusal refusals[] = {
	/* a family that is not whole */
	{{"SHUNT_RANK=0"}, {"SHUNT_NUM_RANKS", "SHUNT_RANK"}},
	{{SHUNT_PAIR}, {"SHUNT_ADDRESS", "HOST:PORT"}},
	{{"SHUNT_RANK=0", "SHUNT_NUM_RANKS=1"}, {"SHUNT_ADDRESS"}},
	{{"RANK=0"}, {"WORLD_SIZE"}},
	{{TORCH_PAIR, "MASTER_PORT=1"}, {"MASTER_ADDR"}},
	{{TORCH_PAIR, "MASTER_ADDR=h"}, {"MASTER_PORT"}},
	{{"OMPI_COMM_WORLD_RANK=0"}, {"OMPI_COMM_WORLD_SIZE"}},
	{{"PMI_RANK=0", "PMI_SIZE=2"}, {"SHUNT_ADDRESS", "PMI_RANK"}},
	{{"SLURM_PROCID=0", "SLURM_NTASKS=2"}, {"SHUNT_ADDRESS"}},
	{{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"},
		{"SHUNT_ADDRESS"}},
	/* numbers */
	{{"SHUNT_RANK=", "SHUNT_NUM_RANKS=2"}, {"SHUNT_RANK is \"\""}},
	{{"SHUNT_RANK=1x", "SHUNT_NUM_RANKS=2"}, {"\"1x\"", "0 .. 1"}},
	{{"SHUNT_RANK= 1", "SHUNT_NUM_RANKS=2"}, {"\" 1\"", "0 .. 1"}},
	{{"SHUNT_RANK=+1", "SHUNT_NUM_RANKS=2"}, {"\"+1\"", "0 .. 1"}},
	{{"SHUNT_RANK=-1", "SHUNT_NUM_RANKS=2"}, {"\"-1\"", "0 .. 1"}},
	{{"SHUNT_RANK=2", "SHUNT_NUM_RANKS=2"}, {"\"2\"", "0 .. 1"}},
	{{"SHUNT_RANK=0", "SHUNT_NUM_RANKS=0"}, {"\"0\"", "1 .. 4096"}},
	{{"SHUNT_RANK=0", "SHUNT_NUM_RANKS=4097"}, {"\"4097\"", "1 .. 4096"}},
	{{"SHUNT_RANK=99999999999999999999999", "SHUNT_NUM_RANKS=2"},
		{"SHUNT_RANK", "0 .. 1"}},
	/* addresses */
	{{SHUNT_PAIR, "SHUNT_ADDRESS=h"}, {"\"h\"", "PORT"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=h:"}, {"\"h:\""}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=:1"}, {"\":1\""}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=h:0"}, {"\"h:0\"", "1 .. 65535"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=h:65536"}, {"1 .. 65535"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=::1:5"}, {"\"::1:5\"", "[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=[::1]"}, {"[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=[::1:5"}, {"[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=[:5"}, {"[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=[]:5"}, {"[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=[host]:5"}, {"[IPv6]"}},
	{{SHUNT_PAIR, "SHUNT_ADDRESS=tcp://h:5"}, {"tcp://h:5"}},
	{{TORCH_PAIR, "MASTER_ADDR=", "MASTER_PORT=1"}, {"MASTER_ADDR"}},
	{{TORCH_PAIR, "MASTER_ADDR=h:1", "MASTER_PORT=1"}, {"\"h:1\""}},
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=65535"}, {"SHUNT_PORT"}},
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=x"}, {"MASTER_PORT"}},
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=1", "SHUNT_PORT=0"},
		{"SHUNT_PORT", "1 .. 65535"}},
	/* families that disagree */
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=1", "SLURM_PROCID=0",
		 "SLURM_NTASKS=2"},
		{"RANK=1", "SLURM_PROCID=0", "disagree"}},
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=1", "PMI_RANK=1",
		 "PMI_SIZE=4"},
		{"WORLD_SIZE=2", "PMI_SIZE=4", "disagree"}},
	{{TORCH_PAIR, "MASTER_ADDR=h", "MASTER_PORT=1", "PMI_RANK=1"},
		{"PMI_SIZE"}},
};

static void check_refusal(size_t i)
{
	struct bootstrap found = {.rank = -7};
	const struct refusal *refusal = &refusals[i];

	set_environment(refusal->variables);
	if (resolve(&found) != SHUNT_INVALID)
		fail_msg("refusal %zu: taken", i);
	assert_int_equal(found.rank, -7);
	for (int w = 0; w < MAX_WORDS && refusal->words[w]; w++) {
		if (!strstr(shunt_error_message(), refusal->words[w]))
			fail_msg("refusal %zu: no %s in: %s", i,
				refusal->words[w], shunt_error_message());
	}
}

static void what_is_not_whole_or_sound_is_refused_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		check_refusal(i);
}

static void a_text_too_long_is_refused_and_not_shown(void **state)
{
	struct bootstrap found;
	char text[400];

	(void)state;
	clear_environment();
	memset(text, 'k', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	setenv("SHUNT_KEY", text, 1);
	assert_int_equal(resolve(&found), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "SHUNT_KEY"));
	assert_null(strstr(shunt_error_message(), "kkk"));
	text[255] = '\0';
	setenv("SHUNT_KEY", text, 1);
	assert_int_equal(resolve(&found), SHUNT_OK);
	assert_string_equal(found.key, text);
	text[128] = '\0';
	setenv("SHUNT_JOB", text, 1);
	assert_int_equal(resolve(&found), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "SHUNT_JOB"));
	text[127] = '\0';
	setenv("SHUNT_JOB", text, 1);
	assert_int_equal(resolve(&found), SHUNT_OK);
}

/* ---- an explicit rendezvous -------------------------------------------- */

static enum shunt_status resolve_explicit(const char *rendezvous, int32_t rank,
	int32_t num_ranks, struct bootstrap *found)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;

	config.rendezvous = rendezvous;
	config.rank = rank;
	config.num_ranks = num_ranks;
	return bootstrap_resolve(&config, found);
}

static void a_rendezvous_wins_over_the_environment(void **state)
{
	static const char *const variables[] = {"SHUNT_RANK=junk",
		"SHUNT_KEY=k", "RANK=0", "TORCHELASTIC_RUN_ID=r", NULL};
	struct bootstrap found;

	(void)state;
	set_environment(variables);
	assert_int_equal(
		resolve_explicit("tcp://[::1]:70", 1, 3, &found), SHUNT_OK);
	assert_int_equal(found.kind, BOOTSTRAP_TCP);
	assert_int_equal(found.rank, 1);
	assert_int_equal(found.num_ranks, 3);
	assert_string_equal(found.address, "::1");
	assert_int_equal(found.port, 70);
	assert_string_equal(found.key, "k");
	assert_string_equal(found.job, "");
}

static void key_and_job_of_the_config_win(void **state)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	static const char *const variables[] = {
		"SHUNT_KEY=k", "SHUNT_JOB=j", NULL};
	struct bootstrap found;

	(void)state;
	set_environment(variables);
	config.key = "";
	config.job = "other";
	assert_int_equal(bootstrap_resolve(&config, &found), SHUNT_OK);
	assert_string_equal(found.key, "");
	assert_string_equal(found.job, "other");
}

static void a_name_for_threads_is_any_text(void **state)
{
	struct bootstrap found;

	(void)state;
	clear_environment();
	assert_int_equal(
		resolve_explicit("threads://a b:/", 0, 2, &found), SHUNT_OK);
	assert_int_equal(found.kind, BOOTSTRAP_THREADS);
	assert_string_equal(found.address, "a b:/");
	assert_int_equal(
		resolve_explicit("threads://a", 0, 1, &found), SHUNT_OK);
	assert_int_equal(found.kind, BOOTSTRAP_SINGLE);
}

static void a_rendezvous_that_is_none_is_refused(void **state)
{
	static const char *const texts[] = {"", "threads://", "tcp://",
		"tcp://h", "tcp://h:0", "tcp://:1", "TCP://h:1", "h:1",
		"udp://h:1", "tcp://h:1/", "tcp://a b:1", "tcp://::1:1"};
	struct bootstrap found;

	(void)state;
	clear_environment();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (resolve_explicit(texts[i], 0, 2, &found) != SHUNT_INVALID)
			fail_msg("\"%s\" was taken", texts[i]);
		assert_non_null(strstr(shunt_error_message(), "rendezvous"));
	}
}

static void a_rendezvous_needs_rank_and_size(void **state)
{
	struct bootstrap found;

	(void)state;
	clear_environment();
	assert_int_equal(
		resolve_explicit("tcp://h:1", 0, 0, &found), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "num_ranks is 0"));
	assert_int_equal(
		resolve_explicit("tcp://h:1", 0, 4097, &found), SHUNT_INVALID);
	assert_int_equal(
		resolve_explicit("tcp://h:1", 2, 2, &found), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "0 .. 1"));
	assert_int_equal(
		resolve_explicit("tcp://h:1", -1, 2, &found), SHUNT_INVALID);
}

static void a_size_without_a_rendezvous_is_refused(void **state)
{
	struct bootstrap found;

	(void)state;
	clear_environment();
	assert_int_equal(resolve_explicit(NULL, 0, 2, &found), SHUNT_INVALID);
	assert_int_equal(resolve_explicit(NULL, 1, 0, &found), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "rendezvous"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_family_gives_a_place),
		cmocka_unit_test(what_is_not_whole_or_sound_is_refused_by_name),
		cmocka_unit_test(a_text_too_long_is_refused_and_not_shown),
		cmocka_unit_test(a_rendezvous_wins_over_the_environment),
		cmocka_unit_test(key_and_job_of_the_config_win),
		cmocka_unit_test(a_name_for_threads_is_any_text),
		cmocka_unit_test(a_rendezvous_that_is_none_is_refused),
		cmocka_unit_test(a_rendezvous_needs_rank_and_size),
		cmocka_unit_test(a_size_without_a_rendezvous_is_refused),
	};

	return cmocka_run_group_tests_name("bootstrap_env", tests, NULL, NULL);
}
