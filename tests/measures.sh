#!/bin/bash
# What `shunt bench` measures besides the phases, and the scripts around it.
# Usage: measures.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

# measured OPTION...: a small run, its results in $work/json.
measured() {
	expect 0 "$shunt" bench "${small[@]}" "$@" --json "$work/json"
}

# holds CONDITION: in Python, of `j`, what was measured.
holds() {
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
assert $1, j"
}

a_signal_is_measured_between_the_first_and_the_last_rank() {
	measured
	holds "0 < j['signal_us']['best'] <= j['signal_us']['p50']"
	holds "j['signal_us']['p50'] <= j['signal_us']['p99']"
	measured --ranks 1
	holds "j['signal_us'] is None and j['dispatch_signals'] == 0"
	expect 0 "$shunt" bench "${small[@]:0:${#small[@]}-1}" --ranks 2
	says out "us one way, ranks 0 and 1"
}

what_is_above_the_floor_is_counted_in_signals() {
	local phase
	measured --launch threads
	for phase in dispatch combine; do
		holds "abs(j['${phase}_us']['p50'] - j['${phase}_floor_us']
			- j['${phase}_signals'] * j['signal_us']['p50']) < 1e-6"
	done
}

startup_times_and_sizes_are_of_all_creations_and_ranks() {
	measured --startup 4 --check
	holds "j['startup']['world_us'] > 0"
	holds "0 < j['startup']['exchange_us']['best']"
	holds "j['startup']['query_bytes'] > 3 * 2 * 7 * 2 * 96"
	expect 0 "$shunt" bench "${small[@]}" --ranks 4 --tp 2 --startup 2 \
		--check
	expect 0 "$shunt" bench "${small[@]:0:${#small[@]}-1}" --startup 4
	says out "median of 5"
	expect 2 "$shunt" bench --startup -1
}

an_exchange_takes_what_the_query_says() {
	local launch
	# Sanitizers have memory of their own beside each piece.
	if ldd "$shunt" | grep -qE 'lib[at]san'; then
		echo "skipped ${FUNCNAME[0]}"
		return
	fi
	for launch in processes threads; do
		measured --tokens 512 --hidden 2048 --launch $launch
		holds "abs(j['startup']['memory_bytes']
			/ j['startup']['query_bytes'] - 1) < 0.05"
	done
	# The more ranks, the more each knows of the others. What threads first
	# touch of their stacks in a creation, some 5 % here, is counted, too.
	measured --ranks 200 --experts 200 --tokens 2 --iters 1 --warmup 0 \
		--launch threads
	holds "abs(j['startup']['memory_bytes']
		/ j['startup']['query_bytes'] - 1) < 0.08"
}

the_curve_of_ranks_has_a_row_for_each() {
	expect 0 python3 "$here/../bench/scale.py" --shunt "$shunt" \
		--ranks 2,8 --iters 2 --warmup 0 --experts 16 --check
	[ "$(wc -l <"$work/out")" = 3 ] || fail "$(cat "$work/out")"
	# Ranks, bytes of counts, and how these have grown.
	grep -qE '^ +8 +512 +4\.0 ' "$work/out" || fail "$(cat "$work/out")"
	expect 1 python3 "$here/../bench/scale.py" --shunt "$shunt" --ranks 0
	says err "--ranks '0'"
}

# ------------------------------------------------------------------------

all_tests=(
	a_signal_is_measured_between_the_first_and_the_last_rank
	what_is_above_the_floor_is_counted_in_signals
	startup_times_and_sizes_are_of_all_creations_and_ranks
	an_exchange_takes_what_the_query_says
	the_curve_of_ranks_has_a_row_for_each
)

run_tests "${all_tests[@]}" -- "$@"
