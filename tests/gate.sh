#!/bin/bash
# The regression gate (bench/gate.py): made-up runs that it must let pass, fail
# or skip. Usage: gate.sh SHUNT
set -u

shunt=${1:?usage: gate.sh SHUNT}
gate=$(cd "$(dirname "$0")/.." && pwd)/bench/gate.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
	echo "FAILED: ${FUNCNAME[2]}: $*: $(cat "$work/out")" >&2
	failures=$((failures + 1))
}

# gives STATUS TEXT ARGUMENT...: what the gate answers, and says.
gives() {
	local want=$1 text=$2 got
	shift 2
	python3 "$gate" --shunt "$shunt" "$@" >"$work/out" 2>&1
	got=$?
	[ $got = "$want" ] || fail "gave $got, not $want"
	grep -qF -e "$text" "$work/out" || fail "does not say '$text'"
}

table() { cat >"$work/cases"; }

# The noise of a signal is given by SIGNAL.
SIGNAL=0.2

# a_run NAME DISPATCH FLOOR BEST: a run's JSON; combine is 10 of 10 us.
a_run() {
	cat >"$work/runs/$1.json" <<-END
	{"dispatch_us": {"p50": $2}, "dispatch_floor_us": $3,
	 "dispatch_floor_best_us": $4, "dispatch_signals": 7,
	 "signal_us": {"p50": 0.2, "best": $SIGNAL},
	 "combine_us": {"p50": 10}, "combine_floor_us": 10,
	 "combine_floor_best_us": 10, "combine_signals": 3,
	 "startup": {"exchange_us": {"p50": 60000}, "query_bytes": 1000,
	 "memory_bytes": 900}}
	END
}

machine() { echo "{\"foreign\": $1, \"stolen\": $2}" >"$work/runs/machine"; }

# Three runs at 1.0, 1.3 and 9 times their floors on a quiet machine.
made_up() {
	rm -rf "$work/runs"
	mkdir "$work/runs"
	machine 0.01 0.001
	a_run a.0 100 100 95
	a_run a.1 130 100 95
	a_run a.2 900 100 95
	table <<<"case a 3 --ranks 2
check a dispatch/floor 1.2"
}

judged() { gives "$1" "$2" --cases "$work/cases" --judge "$work/runs"; }

the_median_within_one_and_a_half_targets_passes() {
	made_up
	judged 0 "gate: all within their limits"
}

a_median_over_that_is_a_regression_with_its_name() {
	made_up
	a_run a.1 190 100 95
	judged 1 "REGRESSION: a dispatch/floor is 1.90, over 1.80"
}

what_is_held_below_its_target_is_compared_with_that() {
	made_up
	a_run a.1 190 100 95
	table <<<"case a 3 --ranks 2
check a dispatch/floor 1.2 1.3"
	judged 0 "gate: all within their limits"
	a_run a.1 200 100 95
	judged 1 "is 2.00, over 1.95"
}

a_noisy_machine_skips_what_is_over_and_says_why() {
	made_up
	a_run a.1 190 100 95
	machine 0.3 0
	judged 0 "NOTICE: 1 of 1 checks skipped"
	judged 0 "other programs took 30% of the processors"
	machine 0 0.05
	judged 0 "5.0% of the time was stolen"
}

floors_that_are_apart_skip_their_case_only() {
	made_up
	a_run b.0 190 100 95
	a_run a.0 300 150 145
	a_run a.1 300 100 95
	table <<<"case a 3 --ranks 2
case b 1 --ranks 2
check a dispatch/floor 1.2
check b dispatch/floor 1.2"
	judged 1 "floor varied by 1.50, more than 1.3"
	judged 1 "REGRESSION: b dispatch/floor"
	a_run b.0 190 100 70
	judged 0 "floor varied by 1.43"
	a_run b.0 100 100 95
	a_run b.1 100 400 390
	a_run a.0 300 100 95
	a_run a.1 300 100 95
	table <<<"case a 2 --ranks 2
case b 2 --ranks 2
check a dispatch/floor:b 0.5"
	judged 0 "floor varied by 4.00"
	SIGNAL=0.1 a_run a.0 300 150 145
	SIGNAL=0.1 a_run a.1 300 150 145
	table <<<"case a 3 --ranks 2
check a dispatch/signals 1"
	judged 0 "signal varied by 2.00"
}

noise_does_not_matter_to_what_is_within() {
	made_up
	machine 0.9 0.5
	judged 0 "gate: all within their limits"
}

every_measure_is_what_it_says() {
	made_up
	a_run b.0 40 50 50
	table <<<"case a 3 --ranks 2
case b 1 --ranks 2
check a dispatch/signals 0.01
check a combine/signals 0.01
check a dispatch/time:b 0.01
check a dispatch/floor:b 0.01
check a combine/floor 0.01
check a startup/ms 0.01
check a startup/memory 0.01"
	judged 1 "a dispatch/signals is 7.00"
	judged 1 "a combine/signals is 3.00"
	judged 1 "a dispatch/time:b is 3.25"
	judged 1 "a dispatch/floor:b is 2.60"
	judged 1 "a combine/floor is 1.00"
	judged 1 "a startup/ms is 60.00"
	judged 1 "a startup/memory is 0.10"
}

a_wrong_table_or_folder_is_told() {
	made_up
	table <<<"check a dispatch/floor 1.2"
	judged 2 "needs the case a"
	table <<<"case a three"
	judged 2 "neither a case nor a check"
	table <<<"case a 1
check a dispatch/speed 1"
	judged 2 "'dispatch/speed' is no measure"
	table <<<"case a 3 --ranks 2
check a dispatch/floor inf"
	judged 2 "neither a case nor a check"
	table <<<"case a 3 --ranks 2
case a 3 --ranks 4
check a dispatch/floor 1"
	judged 2 "neither a case nor a check"
	table <<<"# nothing"
	judged 2 "has no check"
	table <<<"case a 3 --ranks 2
check a dispatch/floor 1.2"
	rm "$work"/runs/a.*
	judged 2 "has no run of a"
}

the_table_in_use_is_sound() {
	made_up
	gives 2 "has no run of t1" --judge "$work/runs"
}

# The limit is out of reach: other tests may run at the same time.
it_runs_the_bench() {
	made_up
	table <<<"case a 2 --ranks 2 --tokens 4 --hidden 64 --iters 20
check a dispatch/floor 1e9
check a combine/signals 1e9
check a startup/ms 1e9
check a startup/memory 1e9"
	gives 0 "all within" --cases "$work/cases" --anyway --keep "$work/kept"
	gives 0 "all within" --cases "$work/cases" --judge "$work/kept"
	table <<<"case a 1 --ranks none
check a dispatch/floor 1"
	gives 2 "must be a number" --cases "$work/cases" --anyway
}

for name in the_median_within_one_and_a_half_targets_passes \
	a_median_over_that_is_a_regression_with_its_name \
	what_is_held_below_its_target_is_compared_with_that \
	a_noisy_machine_skips_what_is_over_and_says_why \
	floors_that_are_apart_skip_their_case_only \
	noise_does_not_matter_to_what_is_within every_measure_is_what_it_says \
	a_wrong_table_or_folder_is_told the_table_in_use_is_sound \
	it_runs_the_bench; do
	before=$failures
	$name
	[ $failures = "$before" ] && echo "ok $name"
done
[ $failures = 0 ]
