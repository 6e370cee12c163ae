/*
 * The options of `shunt bench`, checked. options_table.c lists them all;
 * options_read.c reads a command line by such a list, options_values.c has the
 * names of values, options_rules.c what goes together.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "launch.h"
#include "launcher.h"
#include "routing.h"

enum options_transport { OPTIONS_TRANSPORT_AUTO, OPTIONS_TRANSPORT_SHM };

/* Where the experts put their rows. */
enum options_y {
	OPTIONS_Y_WINDOW, /* expert_rows of the dispatch */
	OPTIONS_Y_HEAP,   /* memory of shunt_alloc() */
	OPTIONS_Y_OWN,    /* any memory */
	OPTIONS_Y_ROWS    /* any memory, by a pointer to each row */
};

enum options_weights {
	OPTIONS_WEIGHTS_DISPATCH,
	OPTIONS_WEIGHTS_COMBINE,
	OPTIONS_WEIGHTS_NONE
};

enum options_placement {
	OPTIONS_PLACEMENT_EVEN,
	OPTIONS_PLACEMENT_RANGES, /* from the last rank to the first */
	OPTIONS_PLACEMENT_MAP     /* dealt out like cards */
};

struct options {
	/* The job: */
	int64_t num_ranks; /* of all EP groups; 0: not given */
	int64_t num_tp;    /* EP groups, P */
	int launch;        /* enum launch_kind */
	int64_t num_hosts; /* 0: not given */
	/* With --hosts: a launcher has started this process as one rank. */
	bool joined;
	struct launcher_job job;
	int transport; /* enum options_transport */
	int algorithm; /* enum shunt_algorithm */
	bool exact_sums, f32_partial_sums;
	const char *rdma_device, *rdma_interface, *rdma_address;
	bool tp_rank_order;
	const char *elastic_text;
	bool left_out[4096]; /* --elastic */

	/* The model's shape: */
	int64_t num_tokens, hidden, topk, num_experts;
	const char *shared_text, *special_text, *x_scales_text;
	int64_t num_shared, num_shared_ranks;
	int64_t num_zero, num_copy, num_constant;
	int placement; /* enum options_placement */

	/* What travels; enums of the library: */
	int dtype, expert_dtype, out_dtype;
	int quant, scale_form, static_shape, combine_quant;
	int64_t x_scales_per_row;
	int x_scale_dtype;
	bool smooth, column_major;

	/* Where it lies: */
	int layout;
	int64_t rows_per_expert, alignment, depth, fetch_tokens;
	bool zero_tail;
	bool worst_rows; /* windows for the worst case, not for the need */
	int y;           /* enum options_y */

	/* The calls: */
	int weights; /* enum options_weights */
	int ids;     /* enum shunt_index */
	bool prefix_nums, cached, split, feed;
	bool shared_x, residual;
	int gamma; /* enum shunt_dtype; NONE: no gamma */

	/* The load: */
	const char *routing_text;
	struct routing routing;
	int64_t seed;
	double mask;         /* share of tokens that are masked out */
	double mask_choices; /* of choices */
	double drop;         /* of choices that are -1 */
	double bad;          /* of choices that nobody has */
	double repeat;       /* of choices that are as the one before */
	double special_share;

	/* Measuring: */
	int64_t num_iterations, num_warmup;
	int64_t expert_us, compute_us; /* of an accelerator; 0: there is none */
	int64_t startup;               /* creations before the one that stays */
	bool check, stats, prometheus, performance_info, quiet;
	bool peers; /* run the MPI programs, too */
	int64_t num_peer_rounds, num_peer_seconds;
	const char *json_path; /* NULL: none, "-": stdout */
};

/*
 * Reads the command line. Ends the process where it cannot be used (exit
 * status 2, with a message) and after --help. Owes options_fini().
 */
void options_init(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

/* What only makes sense, or not, together, and defaults that depend on
 * others. On failure `error` says what is legal. */
bool options_settle(struct options *options, char error[ROUTING_ERROR]);

/* A digest of all that the ranks of a run must have alike. */
uint64_t options_digest(const struct options *options);

/* norm_eps of --gamma. */
#define OPTIONS_NORM_EPS 1e-6f

/* The host that a member acts to be on, where the ranks start here: each EP
 * group lies alike, so that TP stays within a host. */
static inline int32_t options_host_of(
	const struct options *options, int64_t member)
{
	int64_t group = options->num_ranks / options->num_tp;

	return (int32_t)(member % group * options->num_hosts / group);
}

/* Ranks of an EP group, W. */
static inline int64_t options_group_size(const struct options *options)
{
	return options->num_ranks / options->num_tp;
}

#endif
