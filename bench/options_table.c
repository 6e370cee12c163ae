/* The list of options. */
#include "options_table.h"

#define FIELD(member) .offset = offsetof(struct options, member)

const struct option_row options_rows[] = {
	{.help = "The job:", .kind = OPTION_GROUP},
	{"ranks", "N", "ranks, 1 .. 4096 (4)", OPTION_NUMBER, FIELD(num_ranks),
		.low = 1, .high = 4096, .common = true},
	{"launch", "KIND", "ranks are `processes' (default) or `threads'",
		OPTION_CHOICE, FIELD(launch), .choice = &options_launches,
		.common = true},
	{"hosts", "M",
		"the ranks are on M hosts, by RDMA between them; see below",
		OPTION_NUMBER, FIELD(num_hosts), .low = 1, .high = 4096},
	{"transport", "NAME",
		"`auto' (default), or `shm': shared memory, and nothing else",
		OPTION_CHOICE, FIELD(transport), .choice = &options_transports},
	{"algorithm", "NAME",
		"between hosts: `auto' (default), `fullmesh', or `hierarchy', "
		"each token to each host once",
		OPTION_CHOICE, FIELD(algorithm), .choice = &options_algorithms},
	{"exact-sums", NULL,
		"combine gives the bits of one host: no partial sums",
		OPTION_FLAG, FIELD(exact_sums)},
	{"f32-partial-sums", NULL, "partial sums stay in f32", OPTION_FLAG,
		FIELD(f32_partial_sums)},
	{"rdma-device", "LIST",
		"RDMA devices to other hosts, such as mlx5_0,mlx5_1 (that of "
		"the address); this and the next two may differ by host",
		OPTION_TEXT, FIELD(rdma_device), .own = true},
	{"rdma-interface", "NAME",
		"network interface whose address is used, such as ib0",
		OPTION_TEXT, FIELD(rdma_interface), .own = true},
	{"rdma-address", "ADDRESS",
		"address that is used (the one that reaches rank 0)",
		OPTION_TEXT, FIELD(rdma_address), .own = true},
	{"tp", "P",
		"the ranks are P groups (1), over whose ranks of the same "
		"number TP shares each expert: --ranks 4 --tp 2",
		OPTION_NUMBER, FIELD(num_tp), .low = 1, .high = 4096},
	{"tp-rank-order", NULL,
		"rows of an expert in the order of TP ranks, not own ones "
		"first",
		OPTION_FLAG, FIELD(tp_rank_order)},
	{"elastic", "LIST",
		"a table leaves these ranks out of every step: --elastic 1,3",
		OPTION_TEXT, FIELD(elastic_text),
		.parse = options_parse_elastic},

	{.help = "The model's shape:", .kind = OPTION_GROUP},
	{"tokens", "T", "tokens per rank and step (128)", OPTION_NUMBER,
		FIELD(num_tokens), .low = 0, .high = 1 << 24, .common = true},
	{"hidden", "H", "elements of a token (7168)", OPTION_NUMBER,
		FIELD(hidden), .low = 1, .high = 1 << 24, .common = true},
	{"topk", "K",
		"expert choices of a token (8, or as the file of --routing "
		"says)",
		OPTION_NUMBER, FIELD(topk), .low = 1, .high = 4096,
		.common = true},
	{"experts", "E",
		"experts over all ranks (256, or as the file says); 0 with "
		"--special",
		OPTION_NUMBER, FIELD(num_experts), .low = 0, .high = 65536,
		.common = true},
	{"shared", "s:S", "s shared experts on the first S ranks: --shared 1:2",
		OPTION_TEXT, FIELD(shared_text), .parse = options_parse_shared},
	{"special", "ZERO:COPY:CONST",
		"experts without a rank, of each kind: --special 2:1:1",
		OPTION_TEXT, FIELD(special_text),
		.parse = options_parse_special},
	{"placement", "HOW",
		"experts lie `even' (default), in `ranges' from the last rank "
		"to the first, or by a `map' that deals them out",
		OPTION_CHOICE, FIELD(placement), .choice = &options_placements},

	{.help = "What travels:", .kind = OPTION_GROUP},
	{"dtype", "TYPE",
		"of the tokens: `bf16' (default), `f16', `f32'; quantized "
		"already: `int8', `e4m3', `e5m2', `e2m1'",
		OPTION_CHOICE, FIELD(dtype), .choice = &options_row_dtypes,
		.common = true},
	{"x-scales", "N:TYPE",
		"tokens bring N scales of `f32', `e8m0' or `e4m3' each: "
		"--dtype e4m3 --x-scales 56:f32",
		OPTION_TEXT, FIELD(x_scales_text),
		.parse = options_parse_x_scales},
	{"quant", "MODE",
		"what dispatch makes of rows: `none' (default where --dtype "
		"is quantized), a scale per row `int8' (else default), `e4m3', "
		"`e5m2'; per 128 `int8-128', `e4m3-128', "
		"`e5m2-128'; by given scales `int8-static', `e4m3-static'; "
		"`mxfp8', `mxfp8-e5m2', `mxfp4', `nvfp4'",
		OPTION_CHOICE, FIELD(quant), .choice = &options_quants,
		.common = true},
	{"scale-form", "FORM",
		"scales per 128 are `f32' (default), powers of two `pow2', or "
		"those as bytes `e8m0'",
		OPTION_CHOICE, FIELD(scale_form),
		.choice = &options_scale_forms},
	{"column-major", NULL, "scales lie group by group, not row by row",
		OPTION_FLAG, FIELD(column_major)},
	{"smooth", NULL,
		"multiply by smooth scales per expert before quantization",
		OPTION_FLAG, FIELD(smooth)},
	{"static", "SHAPE",
		"given scales are `one' (default), per element `hidden', or "
		"also per expert `experts': --quant int8-static --static "
		"hidden",
		OPTION_CHOICE, FIELD(static_shape), .choice = &options_statics},
	{"expert-dtype", "TYPE",
		"of the experts' rows: `bf16', `f16' or `f32' (as --dtype, or "
		"bf16)",
		OPTION_CHOICE, FIELD(expert_dtype), .choice = &options_dtypes,
		.common = true},
	{"out-dtype", "TYPE", "of the result (as --expert-dtype)",
		OPTION_CHOICE, FIELD(out_dtype), .choice = &options_dtypes,
		.common = true},
	{"combine-quant", "MODE",
		"what combine makes of rows: `none' (default), `int8-8', "
		"`int8-128', `e4m3-128' or `mxfp8'",
		OPTION_CHOICE, FIELD(combine_quant),
		.choice = &options_combine_quants},

	{.help = "Where it lies:", .kind = OPTION_GROUP},
	{"layout", "NAME",
		"of received rows: `compact' (default), `padded' or `indexed'",
		OPTION_CHOICE, FIELD(layout), .choice = &options_layouts},
	{"rows-per-expert", "M",
		"with --layout padded: room for an expert's rows (as many as "
		"this run needs)",
		OPTION_NUMBER, FIELD(rows_per_expert), .low = 1,
		.high = INT32_MAX},
	{"align", "N",
		"pad each expert's rows to a multiple of N (1): --align 16",
		OPTION_NUMBER, FIELD(alignment), .low = 1, .high = 1 << 20},
	{"zero-tail", NULL, "rows behind the last one become zero", OPTION_FLAG,
		FIELD(zero_tail)},
	{"y", "WHERE",
		"experts write to the `window' (default), the library's "
		"`heap', memory of their `own', or to `rows' here and there: "
		"--y heap",
		OPTION_CHOICE, FIELD(y), .choice = &options_ys},
	{"depth", "N",
		"steps that windows are made for, 1 .. 64 (2); the bench has "
		"one in flight",
		OPTION_NUMBER, FIELD(depth), .low = 1, .high = 64},
	{"fetch-tokens", "N",
		"steps of so few tokens are sent in one phase: rows are kept "
		"and fetched; -1: none, 0: by the rows' size (0)",
		OPTION_NUMBER, FIELD(fetch_tokens), .low = -1, .high = 1 << 20},
	{"worst-rows", NULL,
		"make windows for the worst routing there could be, instead "
		"of for the most rows that this run needs",
		OPTION_FLAG, FIELD(worst_rows)},

	{.help = "The calls:", .kind = OPTION_GROUP},
	{"weights", "WHEN",
		"given to `dispatch' (default), to `combine', or `none': a "
		"plain sum",
		OPTION_CHOICE, FIELD(weights), .choice = &options_weight_ways},
	{"ids", "TYPE", "of expert ids: `i64' (default) or `i32'",
		OPTION_CHOICE, FIELD(ids), .choice = &options_id_types},
	{"prefix-nums", NULL, "rows per expert as prefix sums", OPTION_FLAG,
		FIELD(prefix_nums)},
	{"cached", NULL,
		"each dispatch but the first repeats the first one's routing",
		OPTION_FLAG, FIELD(cached)},
	{"split", NULL, "call start and finish, not the whole", OPTION_FLAG,
		FIELD(split)},
	{"feed", NULL, "combine expert by expert", OPTION_FLAG, FIELD(feed)},
	{"shared-x", NULL, "combine adds a row that each token brings",
		OPTION_FLAG, FIELD(shared_x)},
	{"residual", NULL,
		"combine adds a residual to each token: --residual "
		"--gamma f32 is the fused tail",
		OPTION_FLAG, FIELD(residual)},
	{"gamma", "TYPE",
		"combine normalises with a gamma of --out-dtype or `f32'; "
		"`none' (default)",
		OPTION_CHOICE, FIELD(gamma), .choice = &options_gamma_dtypes},

	{.help = "The load:", .kind = OPTION_GROUP},
	{"routing", "HOW",
		"which experts the tokens choose (uniform); see below",
		OPTION_TEXT, FIELD(routing_text),
		.parse = options_parse_routing, .common = true},
	{"seed", "S", "of everything that is random (1)", OPTION_NUMBER,
		FIELD(seed), .low = 0, .high = INT64_MAX, .common = true},
	{"mask", "F", "share of tokens that are masked out, 0 .. 1 (0)",
		OPTION_SHARE, FIELD(mask)},
	{"mask-choices", "F", "the same for choices: --mask-choices 0.2",
		OPTION_SHARE, FIELD(mask_choices)},
	{"drop", "F", "share of choices that are \"no expert\", 0 .. 1 (0)",
		OPTION_SHARE, FIELD(drop)},
	{"bad", "F",
		"share of choices that nobody has, and that are dropped (0)",
		OPTION_SHARE, FIELD(bad)},
	{"repeat", "F",
		"share of choices that are the same as the one before (0)",
		OPTION_SHARE, FIELD(repeat)},
	{"special-share", "F",
		"share of choices that are special experts (their share of "
		"the experts)",
		OPTION_SHARE, FIELD(special_share), .common = true},

	{.help = "Measuring:", .kind = OPTION_GROUP},
	{"iters", "N", "timed steps (50)", OPTION_NUMBER, FIELD(num_iterations),
		.low = 1, .high = 1000000, .common = true},
	{"warmup", "N", "steps before those (10)", OPTION_NUMBER,
		FIELD(num_warmup), .low = 0, .high = 1000000, .common = true},
	{"startup", "N",
		"exchanges that are created and destroyed before the one that "
		"is measured (0), for the time that it takes",
		OPTION_NUMBER, FIELD(startup), .low = 0, .high = 10000},
	{"check", NULL, "compare every output of every step with the reference",
		OPTION_FLAG, FIELD(check), .common = true},
	{"stats", NULL, "print what the library has counted", OPTION_FLAG,
		FIELD(stats)},
	{"prometheus", NULL, "print it as text for Prometheus too", OPTION_FLAG,
		FIELD(prometheus)},
	{"performance-info", NULL, "print how long each rank waited for each",
		OPTION_FLAG, FIELD(performance_info)},
	{"expert-us", "N",
		"an accelerator needs N us for each local expert, and combine "
		"is measured behind the last one and fed one by one",
		OPTION_NUMBER, FIELD(expert_us), .low = 1, .high = 1000000},
	{"compute-us", "N",
		"dispatch and combine are measured by themselves and while an "
		"accelerator computes for N us between start and finish",
		OPTION_NUMBER, FIELD(compute_us), .low = 1, .high = 1000000},
	{"peers", NULL,
		"run the same step by Open MPI and MPICH in turns with ours, "
		"and print the ratios; ./build.sh peers builds the programs",
		OPTION_FLAG, FIELD(peers)},
	{"peer-rounds", "N",
		"with --peers: how often each takes its turn, 1 .. 99 (3)",
		OPTION_NUMBER, FIELD(num_peer_rounds), .low = 1, .high = 99},
	{"peer-seconds", "S",
		"with --peers: the most seconds of a peer's turn (120)",
		OPTION_NUMBER, FIELD(num_peer_seconds), .low = 1,
		.high = 86400},
	{"json", "FILE",
		"write the results as JSON; with `-' nothing else goes to "
		"standard output",
		OPTION_TEXT, FIELD(json_path), .aside = true},
	{"quiet", NULL, "print no table and no progress", OPTION_FLAG,
		FIELD(quiet), .key = 'q', .aside = true},
};

const size_t options_num_rows = sizeof(options_rows) / sizeof(options_rows[0]);

const char options_text[] =
	"Time dispatch and combine over local ranks, and hold them against "
	"the time that plain copies of the same bytes take in the same run."
	"\v"
	"Routings; the K experts of a token are distinct:\n"
	"  uniform    K of the E experts, each as likely\n"
	"  zipf:A     drawn one by one, expert i with weight 1/(i+1)^A\n"
	"  hot:N:F    each choice falls with chance F among experts 0 .. N-1,\n"
	"             else among the others, as long as there are some left\n"
	"  one        every token of every rank to experts 0 .. K-1\n"
	"  local      as uniform, among the experts of the token's own rank\n"
	"  balanced   round robin, so that every expert gets the same\n"
	"  file:PATH[:SET]  drawn one by one with weight by the counts of a\n"
	"             set of PATH, such as olmoe-arxiv-expert_counts-15 "
	"(model,\n"
	"             domain, kind, layer); without SET the first. A SET that\n"
	"             is not there lists those that are.\n\n"
	"With --hosts the report has what went between hosts. Ranks that a "
	"launcher has started, one `shunt bench' each with the same options "
	"(torchrun, srun, mpirun, `shunt run'), meet by its variables, of "
	"which --ranks comes, and must be on M hosts; rank 0 reports. Off "
	"loopback SHUNT_KEY must be set, the same for all. Where no launcher "
	"has, the ranks start here, in M blocks that act as hosts, and need a "
	"device that reaches itself. SHUNT_RDMA_PORT, _GID_INDEX, "
	"_SERVICE_LEVEL, _TRAFFIC_CLASS, _LANES, _ACK_TIMEOUT and "
	"_QUEUE_DEPTH count too.\n\n"
	"A phase begins for all ranks at one moment, when the last of them is "
	"ready; its time is that of the rank that ends last. The floor is the "
	"best of several copy loops (memcpy, wide stores, streaming stores), "
	"run by the same ranks in the same pattern, in turn with the real "
	"steps: for dispatch read x once and write each row and its scales "
	"once (with --tp to each of the P ranks, with --layout indexed each "
	"token once), and what must become zero; for combine read each row "
	"once, as it travels, and what else is added, and write each token "
	"once. GB/s is bytes of all ranks over the median time. With --check "
	"the caches see more than a step's own data, in floor and step "
	"alike.\n\n"
	"With --peers, times and floors are medians over the rounds, of "
	"medians, bests and p99s alike. A peer does the same by messages: "
	"`alltoallv', `pairwise' and `isend' tell sizes and then bring each "
	"rank its rows in one block; `direct' brings blocks without telling, "
	"and each expert's rows home from where they are. Only bf16 tokens and "
	"rows, --quant none or int8, and plain routings go with it.\n\n"
	"Exit status: 0 if all went well, 1 if a rank failed or a result was "
	"wrong, 2 for bad options.\n\n"
	"Examples:\n"
	"  shunt bench --ranks 2 --check\n"
	"  shunt bench --ranks 4 --launch threads --routing zipf:1.2 --json -\n"
	"  shunt bench --shared 1:1 --special 2:1:1 --quant mxfp8 --check\n"
	"  shunt bench --quant e4m3-128 --scale-form e8m0 --layout indexed\n"
	"  shunt bench --ranks 4 --tp 2 --combine-quant int8-128 --stats\n"
	"  shunt bench --quant none --layout padded --residual --gamma f32\n"
	"  shunt bench --cached --feed --y heap --performance-info\n"
	"  shunt bench --ranks 2 --tokens 8 --iters 200 --peers\n"
	"  shunt bench --ranks 4 --hosts 2 --algorithm hierarchy --check\n"
	"  torchrun --nnodes 2 --nproc-per-node 8 --no-python ... \\\n"
	"      shunt bench --hosts 2 --check --json out.json";
