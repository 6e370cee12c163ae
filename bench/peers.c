/* Who takes part beside us, and the runs of a round. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command.h"
#include "options_table.h"
#include "peers.h"
#include "peers/ids.h"

/* What Debian calls the launchers; each MPI's program has the name of ours,
 * "shunt", with "-peer-" and the MPI's name behind it. */
struct mpi {
	const char *name;
	const char *start[8]; /* before -n N; NULL-terminated */
	/* It spins: with more ranks than cores it gets nowhere. */
	bool needs_cores;
};

static const struct mpi mpis[PEERS_MPIS] = {
	{
		.name = "openmpi",
		/* The ranks bind themselves, as ours do. */
		.start = {"mpirun.openmpi", "--allow-run-as-root",
			"--oversubscribe", "--bind-to", "none"},
	},
	{
		.name = "mpich",
		.start = {"mpirun.mpich", "-bind-to", "none"},
		.needs_cores = true,
	},
};

static const char *const variants[PEERS_VARIANTS] = {
	"alltoallv", "pairwise", "isend", "direct"};

static bool fail(struct peers *peers, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(struct peers *peers, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(peers->error, sizeof(peers->error), format, arguments);
	va_end(arguments);
	return false;
}

/* ---- finding them ----------------------------------------------------- */

/* The program of an MPI, beside ours. */
static bool find_program(const struct mpi *mpi, char *path, size_t room)
{
	char self[3072];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (length < 0)
		return false;
	self[length] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0';
	snprintf(path, room, "%sshunt-peer-%s", self, mpi->name);
	return access(path, X_OK) == 0;
}

static void leave_out(struct peers *peers, const char *mpi, const char *why)
{
	peers->absent[peers->num_absent++] = (struct peers_absent){mpi, why};
}

static bool add_peers(
	struct peers *peers, const struct mpi *mpi, const char *program)
{
	for (int i = 0; i < PEERS_VARIANTS; i++) {
		struct peer *peer = &peers->peers[peers->num_peers++];

		peer->mpi = mpi->name;
		peer->variant = variants[i];
		snprintf(peer->program, sizeof(peer->program), "%s", program);
		peer->rounds = calloc(
			(size_t)peers->num_rounds, sizeof(peer->rounds[0]));
		if (!peer->rounds)
			return fail(peers, "out of memory");
	}
	return true;
}

static bool find_peers(struct peers *peers)
{
	const struct bench *bench = peers->bench;
	char program[4096];

	for (int i = 0; i < PEERS_MPIS; i++) {
		const struct mpi *mpi = &mpis[i];

		if (!find_program(mpi, program, sizeof(program)))
			leave_out(peers, mpi->name,
				"not built: run ./build.sh peers");
		else if (mpi->needs_cores && !bench->pinned)
			leave_out(
				peers, mpi->name, "needs a core for each rank");
		else if (!add_peers(peers, mpi, program))
			return false;
	}
	if (peers->num_peers > 0)
		return true;
	return fail(peers, "--peers: %s is %s, %s is %s", mpis[0].name,
		peers->absent[0].why, mpis[1].name, peers->absent[1].why);
}

/* ---- the routing ------------------------------------------------------ */

static bool write_all(int file, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t written = write(file, at, bytes);

		if (written < 0)
			return false;
		at += written;
		bytes -= (size_t)written;
	}
	return true;
}

static bool write_member(
	const struct load *load, int64_t step, int32_t member, int file)
{
	size_t num = (size_t)(load->num_tokens * load->topk);
	const int64_t *ids = load_at(load, LOAD_IDS, step, member);
	int32_t *narrow = malloc(num * sizeof(narrow[0]));
	bool done;

	if (!narrow)
		return false;
	for (size_t i = 0; i < num; i++)
		narrow[i] = (int32_t)ids[i];
	done = write_all(file, narrow, num * sizeof(narrow[0]));
	free(narrow);
	return done;
}

/* A file without a name: the peers read it by way of our descriptor, and it
 * is gone when we are. */
static bool write_ids(struct peers *peers)
{
	const struct load *load = &peers->bench->load;
	const struct ids_head head = {
		.magic = IDS_MAGIC,
		.steps = LOAD_STEPS,
		.ranks = peers->bench->options.num_ranks,
		.tokens = load->num_tokens,
		.topk = load->topk,
		.experts = peers->bench->options.num_experts,
	};
	bool done;

	peers->ids = memfd_create("shunt-peers-ids", MFD_CLOEXEC);
	if (peers->ids < 0)
		return fail(peers, "memfd_create: %s", strerror(errno));
	snprintf(peers->ids_path, sizeof(peers->ids_path), "/proc/%d/fd/%d",
		getpid(), peers->ids);
	done = write_all(peers->ids, &head, sizeof(head));
	for (int64_t step = 0; step < LOAD_STEPS; step++)
		for (int32_t m = 0; m < head.ranks && done; m++)
			done = write_member(load, step, m, peers->ids);
	if (!done)
		return fail(peers, "cannot hand the routing to the peers: %s",
			strerror(errno));
	return true;
}

bool peers_init(struct peers *peers, const struct bench *bench)
{
	peers->bench = bench;
	peers->ids = -1;
	peers->num_rounds = bench->options.num_peer_rounds;
	peers->ours = calloc((size_t)peers->num_rounds, sizeof(peers->ours[0]));
	if (!peers->ours)
		return fail(peers, "out of memory");
	return find_peers(peers) && write_ids(peers);
}

void peers_fini(struct peers *peers)
{
	if (!peers->bench)
		return;
	if (peers->ids >= 0)
		close(peers->ids);
	for (int i = 0; i < peers->num_peers; i++)
		free(peers->peers[i].rounds);
	free(peers->ours);
}

/* ---- running ---------------------------------------------------------- */

#define MOST_ARGUMENTS 32

/* What is run: pointers, and the texts of numbers. */
struct arguments {
	const char *argv[MOST_ARGUMENTS];
	char numbers[MOST_ARGUMENTS][24];
	int num;
};

static void add(struct arguments *to, const char *name, const char *value)
{
	to->argv[to->num++] = name;
	if (value)
		to->argv[to->num++] = value;
}

static void add_number(struct arguments *to, const char *name, int64_t value)
{
	char *text = to->numbers[to->num];

	snprintf(text, sizeof(to->numbers[0]), "%lld", (long long)value);
	add(to, name, text);
}

static void fill_arguments(struct arguments *to, const struct peers *peers,
	const struct peer *peer)
{
	const struct options *options = &peers->bench->options;

	for (int i = 0; i < PEERS_MPIS; i++)
		for (const char *const *word = mpis[i].start;
			!strcmp(mpis[i].name, peer->mpi) && *word; word++)
			add(to, *word, NULL);
	add_number(to, "-n", options->num_ranks);
	add(to, peer->program, NULL);
	add(to, "--ids", peers->ids_path);
	add_number(to, "--hidden", options->hidden);
	add(to, "--quant", option_value_name(&options_quants, options->quant));
	add(to, "--variant", peer->variant);
	add_number(to, "--seed", options->seed);
	add_number(to, "--iters", options->num_iterations);
	add_number(to, "--warmup", options->num_warmup);
}

static bool run_peer(
	struct peers *peers, struct peer *peer, struct peers_command *command)
{
	struct arguments arguments = {.num = 0};
	char why[PEERS_ERROR];
	int status;

	fill_arguments(&arguments, peers, peer);
	command->argv = (char *const *)arguments.argv;
	status = peers_command_run(command);
	if (status < 0)
		return fail(peers, "cannot start %s: %s", arguments.argv[0],
			strerror(errno));
	if (command->timed_out)
		return fail(peers, "%s %s took more than --peer-seconds %g: %s",
			peer->mpi, peer->variant, command->seconds,
			command->errors);
	if (status)
		return fail(peers, "%s %s: exit status %d: %s%s", peer->mpi,
			peer->variant, status, command->errors,
			status == COMMAND_NOT_FOUND ? "run ./build.sh peers"
						    : "");
	if (peers_result_read(&peer->rounds[peers->round], command->output,
		    peer, &peers->bench->options, why))
		return true;
	return fail(peers, "%s %s: %.1024s", peer->mpi, peer->variant, why);
}

bool peers_run_round(struct peers *peers, const struct results *ours,
	void (*tick)(void *context), void *context)
{
	struct peers_command command = {
		.seconds = (double)peers->bench->options.num_peer_seconds,
		.tick = tick,
		.context = context,
	};

	peers->ours[peers->round] = *ours;
	for (int i = 0; i < peers->num_peers; i++)
		if (!run_peer(peers, &peers->peers[i], &command))
			return false;
	peers->round++;
	return true;
}
