#!/bin/bash
# The shunt program from the outside: help, bad options, exit statuses, JSON,
# and every routing checked against the reference.
# Usage: cli.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

# ---- help and options --------------------------------------------------

help_has_an_example_for_each_command() {
	expect 0 "$shunt" --help
	says out "Examples:"
	expect 0 "$shunt" bench --help
	says out "shunt bench --ranks"
	expect 0 "$shunt" run --help
	says out "shunt run -n"
	expect 0 "$shunt" --version
	says out "shunt "
}

unknown_commands_and_options_exit_2() {
	expect 2 "$shunt"
	expect 2 "$shunt" nonsense
	says err "'nonsense' is not a command"
	expect 2 "$shunt" bench --nonsense
	expect 2 "$shunt" bench stray
	expect 2 "$shunt" run --nonsense true
}

bad_values_are_named_with_their_range() {
	expect 2 "$shunt" bench --ranks 0
	says err "--ranks '0': must be a number in 1 .. 4096"
	expect 2 "$shunt" bench --tokens 12x
	says err "--tokens '12x'"
	expect 2 "$shunt" bench --dtype int4
	says err "--dtype 'int4': must be bf16, f16, f32, int8,"
	expect 2 "$shunt" bench --topk 9 --experts 8
	says err "--topk 9: must be in 1 .. 8"
	expect 2 "$shunt" bench --mask 1.5
	says err "--mask '1.5'"
	expect 2 "$shunt" bench --smooth --quant none
	says err "--smooth"
	expect 2 "$shunt" bench --routing sideways
	says err "--routing 'sideways'"
	expect 2 "$shunt" bench --routing hot:0:0.5
	expect 2 "$shunt" bench --routing zipf:
	expect 2 "$shunt" bench --routing local --ranks 4 --experts 8 --topk 3
	says err "local: --topk 3"
	expect 2 "$shunt" bench --json /nonexistent/file
	says err "/nonexistent/file"
}

# refuses TEXT OPTION...: a bad option, and TEXT says what is legal.
refuses() {
	local text=$1
	shift
	expect 2 "$shunt" bench --experts 12 --topk 2 "$@"
	says err "$text"
}

values_of_features_are_named_with_their_range() {
	refuses "--shared 'x': must be s:S" --shared x
	refuses "1 <= s <= S < 4" --shared 1:4
	refuses "S a multiple of s" --shared 2:3
	refuses "--special '1:2': must be ZERO:COPY:CONST" --special 1:2
	refuses "--special-share: needs --special" --special-share 0.5
	refuses "--experts 0: must be in 1 .. 65536, or 0 with" --experts 0
	refuses "must be in 1 .. 2" --special 1:1:0 --experts 0 --topk 3
	refuses "--tp 3: must divide --ranks, 4" --tp 3
	refuses "--tp-rank-order: needs --tp" --tp-rank-order
	refuses "--elastic '1x': must be ranks" --elastic 1x
	refuses "rank 7: must be in 0 .. 3" --elastic 7
	refuses "must leave a rank with experts" --elastic 0,1,2,3
	refuses "share evenly" --elastic 1 --experts 13
	refuses "as many ranks of each" --elastic 0 --shared 1:1
	refuses "--x-scales '0:f32': must be N:TYPE" --x-scales 0:f32
	refuses "must be none, int8, e4m3, e5m2, int8-128" --quant int4
	refuses "must be f32, pow2 or e8m0" --scale-form f16
	refuses "must be one, hidden or experts" --static two
	refuses "needs --quant int8-static" --static hidden
	refuses "--smooth: needs --quant int8, e4m3" --smooth --quant mxfp8
	refuses "must be compact, padded or indexed" --layout loose
	refuses "--align '0': must be a number in 1" --align 0
	refuses "--rows-per-expert: needs --layout padded" --rows-per-expert 4
	refuses "must be at least" --rows-per-expert 1 --layout padded
	refuses "must be none, int8-8, int8-128" --combine-quant int8
	refuses "must be window, heap, own or rows" --y nowhere
	refuses "--feed: needs --y window, heap or own" --feed --y rows
	refuses "--expert-us: not with --compute-us" --expert-us 1 --compute-us 1
	refuses "--expert-us: not with --feed" --expert-us 1 --feed
	refuses "--expert-us: not with --feed" --expert-us 1 --y rows
	refuses "--expert-us: needs --experts" --expert-us 1 --experts 0 \
		--special 1:1:0 --topk 1
	refuses "must be dispatch, combine or none" --weights never
	refuses "--gamma: must be f32 or --out-dtype, bf16" --gamma f16
	refuses "must be even, ranges or map" --placement odd
	refuses "have no others" --routing local --shared 1:1
}

what_does_not_go_together_the_library_says() {
	refuses "INVALID: dtype" --dtype int8 --quant int8
	refuses "INVALID: x_scales_per_row" --x-scales 3:f32
	refuses "INVALID: scale_form" --scale-form e8m0
	refuses "INVALID: column_major_scales" --column-major --quant none
	refuses "INVALID: elastic" --placement map --elastic 1
	expect 1 "$shunt" bench "${small[@]}" --ranks 4 --tp 2 --elastic 1
	says err "elastic (elastic_info) and tp_group do not go together"
}

algorithms_are_the_same_on_one_host() {
	local algorithm digest
	for algorithm in auto fullmesh hierarchy; do
		expect 0 "$shunt" bench "${small[@]}" --check --json - \
			--algorithm $algorithm
		digest=${digest:-$(grep digest "$work/out")}
		says out "$digest"
	done
}

# ---- traces ------------------------------------------------------------

write_trace() {
	cat >"$work/trace.json" <<-'END'
	{"sets": [
	 {"model": "olmoe", "domain": "a", "kind": "expert_counts", "topk": 2,
	  "num_experts": 6, "counts": [[1, 2, 3, 4, 5, 6], [1, 0, 0, 1, 0, 0],
	  [9, 1, 1, 1, 1, 1]]},
	 {"model": "other", "domain": "b", "kind": "k", "topk": 1,
	  "num_experts": 4, "counts": [[7, 0, 0, 0]]}]}
	END
}

a_trace_gives_experts_and_topk() {
	write_trace
	expect 0 "$shunt" bench --ranks 2 --tokens 5 --hidden 32 --iters 2 \
		--warmup 0 --check --routing "file:$work/trace.json" --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
p = json.load(open('$work/json'))['parameters']
assert (p['experts'], p['topk']) == (6, 2), p
assert p['routing_set'] == 'olmoe-a-expert_counts-0', p"
	expect 0 "$shunt" bench --ranks 2 --tokens 5 --hidden 32 --iters 2 \
		--warmup 0 --check --quiet \
		--routing "file:$work/trace.json:olmoe-a-expert_counts-7"
}

a_wrong_trace_is_told() {
	write_trace
	expect 2 "$shunt" bench --routing "file:$work/trace.json:nothing"
	says err "olmoe-a-expert_counts-15"
	says err "other-b-k-0"
	expect 2 "$shunt" bench --routing "file:$work/none.json"
	says err "No such file"
	echo "{" >"$work/bad.json"
	expect 2 "$shunt" bench --routing "file:$work/bad.json"
	says err "not JSON"
	expect 2 "$shunt" bench --experts 7 --routing "file:$work/trace.json"
	says err "has 6 experts"
	expect 2 "$shunt" bench --topk 3 --routing \
		"file:$work/trace.json:olmoe-a-expert_counts-7"
	says err "2 experts with tokens"
}

# ---- bench -------------------------------------------------------------

every_routing_equals_the_reference() {
	local routing
	write_trace
	for routing in uniform zipf:1.1 hot:2:0.7 one local balanced; do
		expect 0 "$shunt" bench "${small[@]}" --check \
			--routing "$routing"
	done
	expect 0 "$shunt" bench --ranks 3 --tokens 7 --hidden 96 --iters 3 \
		--warmup 1 --quiet --check --routing \
		"file:$work/trace.json:olmoe-a-expert_counts-15"
}

every_format_equals_the_reference() {
	local dtype expert quant
	for dtype in bf16 f16 f32; do
		for expert in bf16 f16 f32; do
			for quant in none int8 "int8 --smooth"; do
				# shellcheck disable=SC2086
				expect 0 "$shunt" bench "${small[@]}" --check \
					--dtype $dtype --expert-dtype $expert \
					--quant $quant --iters 1 --warmup 0
			done
		done
	done
}

odd_shapes_equal_the_reference() {
	expect 0 "$shunt" bench "${small[@]}" --check --hidden 1
	expect 0 "$shunt" bench "${small[@]}" --check --hidden 127
	expect 0 "$shunt" bench "${small[@]}" --check --tokens 0
	expect 0 "$shunt" bench "${small[@]}" --check --ranks 1
	expect 0 "$shunt" bench "${small[@]}" --check --experts 2 --ranks 5
	expect 0 "$shunt" bench "${small[@]}" --check --mask 0.5 --drop 0.5
	expect 0 "$shunt" bench "${small[@]}" --check --mask 1
	expect 0 "$shunt" bench "${small[@]}" --check --drop 1
	expect 0 "$shunt" bench "${small[@]}" --check --depth 5 --worst-rows
}

# each OPTIONS...: every argument is a list of options for a small checked run.
each() {
	local options
	for options in "$@"; do
		# shellcheck disable=SC2086
		expect 0 "$shunt" bench "${small[@]}" --check $options
	done
}

every_quantization_equals_the_reference() {
	local mode
	for mode in none int8 e4m3 e5m2 int8-128 e4m3-128 e5m2-128 \
		int8-static e4m3-static mxfp8 mxfp8-e5m2 mxfp4 nvfp4; do
		each "--quant $mode" "--quant $mode --dtype f16 --hidden 299" \
			"--quant $mode --dtype f32 --hidden 1"
	done
	for mode in int8-128 e4m3-128 e5m2-128; do
		each "--quant $mode --hidden 300 --scale-form pow2 --smooth" \
			"--quant $mode --hidden 300 --scale-form e8m0 \
			--column-major"
	done
	for mode in one hidden experts; do
		each "--quant int8-static --static $mode" \
			"--quant e4m3-static --static $mode --smooth"
	done
	each "--quant mxfp4 --column-major" "--quant nvfp4 --column-major"
}

quantized_rows_pass_with_their_scales() {
	each "--dtype int8" "--dtype int8 --x-scales 1:f32" \
		"--dtype e4m3 --x-scales 3:e8m0 --column-major" \
		"--dtype e5m2 --x-scales 3:f32 --layout padded" \
		"--dtype e2m1 --x-scales 7:e4m3 --hidden 97" \
		"--dtype bf16 --quant none --x-scales 2:f32 --cached"
}

every_layout_equals_the_reference() {
	local layout
	for layout in compact padded indexed; do
		each "--layout $layout --quant none" "--layout $layout" \
			"--layout $layout --quant e4m3-128 --shared 1:1" \
			"--layout $layout --quant mxfp8 --zero-tail --align 4" \
			"--layout $layout --smooth --shared 1:1 --align 3" \
			"--layout $layout --quant none --worst-rows"
	done
	each "--layout padded --rows-per-expert 50 --zero-tail" \
		"--layout padded --worst-rows --repeat 0.6" \
		"--align 8 --quant e4m3-128 --column-major --zero-tail" \
		"--align 5 --prefix-nums" \
		"--layout indexed --quant none --dtype e2m1 --hidden 97"
}

shared_and_special_experts_equal_the_reference() {
	each "--shared 1:1" "--shared 1:2 --smooth" "--shared 2:2" \
		"--ranks 5 --shared 2:4 --quant mxfp8" "--shared 1:0" \
		"--special 2:1:1" "--special 0:1:0 --special-share 0.9" \
		"--special 2:1:1 --experts 0" "--special 2:0:3 --shared 1:1" \
		"--shared-x --mask 0.4" "--shared 1:1 --drop 0.7"
}

tp_groups_equal_the_reference() {
	each "--ranks 4 --tp 2" "--ranks 4 --tp 2 --tp-rank-order" \
		"--ranks 6 --tp 3 --shared 1:1 --zero-tail --align 4" \
		"--ranks 4 --tp 2 --layout padded --combine-quant mxfp8" \
		"--ranks 4 --tp 2 --layout indexed --quant none" \
		"--ranks 4 --tp 2 --layout indexed --smooth" \
		"--ranks 2 --tp 2 --cached --feed --y heap" \
		"--ranks 4 --tp 2 --launch threads --stats"
}

steps_with_a_table_equal_the_reference() {
	each "--elastic 1" "--ranks 4 --elastic 0,3 --cached" \
		"--ranks 4 --elastic 0 --shared 1:2 --experts 12 --feed" \
		"--ranks 4 --elastic 2 --routing local --stats" \
		"--elastic 2 --special 1:1:1 --performance-info --residual"
}

every_combine_equals_the_reference() {
	local y mode
	for y in window heap own rows; do
		each "--y $y" "--y $y --combine-quant int8-128 --align 4" \
			"--y $y --layout padded --split"
		[ $y = rows ] || each "--y $y --feed" \
			"--y $y --feed --split --layout indexed --quant none"
	done
	for mode in int8-8 int8-128 e4m3-128 mxfp8; do
		each "--combine-quant $mode --hidden 299" \
			"--combine-quant $mode --expert-dtype f32 --shared 1:1"
	done
	each "--residual" "--gamma f32" "--residual --gamma bf16 --mask 0.3" \
		"--residual --gamma f32 --out-dtype f32 --special 1:1:1" \
		"--gamma f16 --out-dtype f16 --expert-dtype f32 --feed"
}

steps_while_an_accelerator_works_equal_the_reference() {
	each "--expert-us 5" "--expert-us 5 --y own --combine-quant mxfp8" \
		"--expert-us 5 --ranks 4 --tp 2 --shared 1:1" \
		"--expert-us 5 --ranks 4 --elastic 1 --cached --stats" \
		"--compute-us 50" "--compute-us 50 --feed --layout indexed" \
		"--compute-us 50 --residual --gamma f32 --y heap"
	expect 0 "$shunt" bench "${small[@]}" --expert-us 200 --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
o = j['combine_overlap']
assert 'dispatch_overlap' not in j and o['accelerator_us'] % 200 == 0, o
assert abs(o['alone_us'] - o['exposed_us']['p50'] - o['hidden_us']) < 1e-6, o
assert j['combine_us']['p50'] == o['alone_us'] > 0, o
assert j['parameters']['expert_us'] == 200, o"
}

weights_ids_and_masks_equal_the_reference() {
	each "--weights combine" "--weights none" "--weights combine --cached" \
		"--weights none --cached --layout padded" "--cached --smooth" \
		"--ids i32" "--ids i32 --bad 0.3 --drop 0.2 --repeat 0.3" \
		"--bad 0.5 --cached --stats" "--repeat 0.5 --worst-rows" \
		"--mask-choices 0.5" "--mask 0.5 --mask-choices 0.5 --shared 1:1" \
		"--placement ranges" "--placement map --shared 1:1 --smooth"
}

# moves DISPATCH COMBINE OPTION...: bytes that the floor and the report take.
moves() {
	local dispatch=$1 combine=$2
	shift 2
	expect 0 "$shunt" bench --ranks 2 --tokens 8 --hidden 256 --topk 2 \
		--experts 4 --routing balanced --iters 1 --warmup 0 --json - "$@"
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
got = j['dispatch_bytes'], j['combine_bytes']
assert got == ($dispatch, $combine), ('$*', got)"
}

bytes_are_those_that_the_case_must_move() {
	# 2 ranks x 8 tokens of 512 B; 32 rows.
	moves "16*512 + 32*260" "32*512 + 16*512"
	moves "16*512 + 32*512" "32*512 + 16*512" --quant none
	moves "16*512 + 32*(256 + 2*4)" "32*512 + 16*512" --quant int8-128
	moves "16*512 + 32*(256 + 2)" "32*512 + 16*512" --quant e4m3-128 \
		--scale-form e8m0
	moves "16*512 + 32*(256 + 8)" "32*512 + 16*512" --quant mxfp8
	moves "16*512 + 32*(128 + 16 + 4)" "32*512 + 16*512" --quant nvfp4
	moves "16*512 + 16*512" "32*512 + 16*512" --quant none --layout indexed
	moves "16*512 + 32*260" "32*512 + 16*512" --layout indexed --smooth
	moves "16*512 + 2*32*260" "2*32*512 + 16*512" --ranks 2 --tp 2
	moves "16*512 + 2*32*260" "32*(256 + 8) + 16*512" --tp 2 \
		--combine-quant int8-128
	moves "16*512 + (32 + 32)*260" "32*512 + 16*512" --align 16
	moves "16*512 + (32 + 16)*260" "(32 + 16)*512 + 16*512" --shared 1:1 \
		--align 1 --rows-per-expert 99 --layout padded
	moves "16*512 + 32*260" "32*(256 + 8) + 16*512" --combine-quant int8-128
	moves "16*512 + 32*260" "32*(256 + 64) + 16*512" --combine-quant int8-8
	moves "16*512 + 32*260" "32*512 + 3*16*512" --residual --gamma f32 \
		--layout padded
	moves "16*512 + 32*260" "32*512 + 16*512 + 16*1024" --shared-x \
		--out-dtype f32
	moves "16*(256 + 4) + 32*(256 + 4)" "32*512 + 16*512" --dtype int8 \
		--x-scales 1:f32
}

the_layer_example_gives_the_sum_of_all_terms() {
	expect 0 "$(dirname "$shunt")/../examples/fp8_layer"
	[ "$(sort "$work/out")" = "$(for rank in 0 1 2 3; do
		echo "rank $rank: token 3 was 4, became 16, normalised 1"
	done)" ] || fail "$(cat "$work/out")"
}

stats_and_waiting_are_shown() {
	expect 0 "$shunt" bench "${small[@]:0:${#small[@]}-1}" --check \
		--prometheus --performance-info --mask 0.5
	says out "counted by the library"
	says out "# TYPE shunt_"
	says out "us per step that a rank waited"
	says out "--mask 0.5"
	expect 0 "$shunt" bench "${small[@]}" --check --stats \
		--performance-info --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
# A warm-up, and three blocks of a step with eight before it.
steps = 1 + 3 * 9
assert [s['dispatches'] for s in j['stats']] == [steps] * 3, j['stats']
assert sum(s['received_rows'] for s in j['stats']) == steps * 3 * 7 * 2
for phase in 'dispatch', 'combine':
    waits = j['performance_info_us'][phase]
    assert [len(row) for row in waits] == [3, 3, 3], waits"
}

json_has_stable_field_names() {
	expect 0 "$shunt" bench "${small[@]}" --check --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
for phase in 'dispatch', 'combine', 'roundtrip':
    t = j[phase + '_us']
    assert 0 < t['best'] <= t['p50'] <= t['p99'], t
    assert j['gbps'][phase] > 0
for phase in 'dispatch', 'combine':
    assert j[phase + '_floor_us'] > 0
    assert j[phase + '_ratio'] > 0
assert j['ok'] is True and len(j['digest']) == 16
assert j['machine']['cores'] >= 1 and j['machine']['simd'] and j['machine']['cpu']
assert j['version'].count('.') == 2
p = j['parameters']
for name in ('ranks launch hosts transport algorithm exact_sums '
        'f32_partial_sums rdma_device rdma_interface rdma_address tp tp_rank_order elastic tokens '
        'hidden topk experts shared special placement dtype x_scales quant '
        'scale_form column_major smooth static expert_dtype out_dtype '
        'combine_quant layout rows_per_expert align zero_tail y depth '
        'worst_rows weights ids prefix_nums cached split feed shared_x '
        'residual gamma routing routing_set seed mask mask_choices drop bad '
        'repeat special_share iters warmup startup check stats prometheus '
        'performance_info').split():
    assert name in p, name
assert (p['ranks'], p['tokens'], p['hidden'], p['seed']) == (3, 7, 96, 1)
# 3 ranks x 7 tokens, 2 choices each, none dropped: bf16 in, int8 + scale out
assert j['dispatch_bytes'] == 21 * 192 + 42 * 100, j['dispatch_bytes']
assert j['combine_bytes'] == 42 * 192 + 21 * 192, j['combine_bytes']"
	expect 0 "$shunt" bench "${small[@]}" --json "$work/file.json"
	[ ! -s "$work/out" ] || fail "--quiet --json FILE printed something"
	expect 0 python3 -m json.tool "$work/file.json"
}

too_little_memory_is_told_before_it_is_taken() {
	expect 1 "$shunt" bench --ranks 64 --tokens 100000 --worst-rows
	says err "are available"
}

digest_does_not_depend_on_launch() {
	local launch digest
	for launch in threads processes; do
		expect 0 "$shunt" bench "${small[@]}" --check --json - \
			--launch $launch
		cp "$work/out" "$work/$launch"
	done
	digest=$(grep '"digest"' "$work/threads")
	[ -n "$digest" ] && [ "$digest" = "$(grep '"digest"' \
		"$work/processes")" ] || fail "digests differ: $digest"
	expect 0 "$shunt" bench "${small[@]}" --check --json - --seed 2
	[ "$digest" != "$(grep '"digest"' "$work/out")" ] ||
		fail "the digest is the same for another seed"
}

the_table_is_for_people() {
	expect 0 "$shunt" bench "${small[@]:0:${#small[@]}-1}" --check
	says out "round trip"
	says out "floor"
	says out "ok"
	[ ! -s "$work/err" ] || fail "noise on stderr in a pipe"
}

a_killed_rank_is_named_and_nothing_stays() {
	local launcher rank
	"$shunt" bench --iters 1000000 --tokens 8 --quiet \
		>"$work/out" 2>"$work/err" &
	launcher=$!
	wait_until has_children $launcher 4 || fail "no ranks came up"
	children_of $launcher >"$work/pids"
	sleep 0.5
	rank=$(sed -n 2p "$work/pids")
	kill -9 "$rank"
	wait $launcher
	[ $? = 1 ] || fail "the exit status is not 1"
	says err "was ended by signal 9"
	wait_until all_gone "$work/pids" || fail "ranks stay behind"
}

a_killed_bench_leaves_nothing() {
	local launcher
	"$shunt" bench --iters 1000000 --tokens 8 --quiet >/dev/null 2>&1 &
	launcher=$!
	wait_until has_children $launcher 4 || fail "no ranks came up"
	children_of $launcher >"$work/pids"
	kill -9 $launcher
	wait $launcher 2>/dev/null
	wait_until all_gone "$work/pids" || fail "ranks stay behind"
}

# ------------------------------------------------------------------------

all_tests=(
	help_has_an_example_for_each_command
	unknown_commands_and_options_exit_2
	bad_values_are_named_with_their_range
	values_of_features_are_named_with_their_range
	what_does_not_go_together_the_library_says
	algorithms_are_the_same_on_one_host
	a_trace_gives_experts_and_topk
	a_wrong_trace_is_told
	every_routing_equals_the_reference
	every_format_equals_the_reference
	odd_shapes_equal_the_reference
	every_quantization_equals_the_reference
	quantized_rows_pass_with_their_scales
	every_layout_equals_the_reference
	shared_and_special_experts_equal_the_reference
	tp_groups_equal_the_reference
	steps_with_a_table_equal_the_reference
	every_combine_equals_the_reference
	steps_while_an_accelerator_works_equal_the_reference
	weights_ids_and_masks_equal_the_reference
	bytes_are_those_that_the_case_must_move
	stats_and_waiting_are_shown
	the_layer_example_gives_the_sum_of_all_terms
	json_has_stable_field_names
	too_little_memory_is_told_before_it_is_taken
	digest_does_not_depend_on_launch
	the_table_is_for_people
	a_killed_rank_is_named_and_nothing_stays
	a_killed_bench_leaves_nothing
)

run_tests "${all_tests[@]}" -- "$@"
