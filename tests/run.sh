#!/bin/bash
# `shunt run` from the outside: environment, exit statuses, signals, terminals.
# Usage: run.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

# ---- run ---------------------------------------------------------------

ranks_find_their_environment() {
	# shellcheck disable=SC2016
	expect 0 "$shunt" run -n 3 sh -c 'echo $SHUNT_RANK $SHUNT_LOCAL_RANK \
$SHUNT_NUM_RANKS ${SHUNT_ADDRESS%:*} ${#SHUNT_KEY} ${SHUNT_JOB:+job}'
	sort "$work/out" >"$work/sorted"
	printf '%s 3 127.0.0.1 32 job\n' "0 0" "1 1" "2 2" |
		cmp -s - "$work/sorted" || fail "$(cat "$work/sorted")"
	# shellcheck disable=SC2016
	SHUNT_KEY=mine SHUNT_JOB=ours expect 0 "$shunt" run -n 1 \
		sh -c 'echo $SHUNT_KEY $SHUNT_JOB'
	says out "mine ours"
}

run_gives_the_status_of_the_first_failure() {
	expect 0 "$shunt" run -n 2 true
	# shellcheck disable=SC2016
	expect 7 "$shunt" run -n 3 --grace 0.2 -- \
		sh -c 'test $SHUNT_RANK = 1 && exit 7; exec sleep 60'
	says err "rank 1 failed, exit status 7"
	# shellcheck disable=SC2016
	expect 137 "$shunt" run -n 3 --grace 0.2 \
		sh -c 'test $SHUNT_RANK = 2 && kill -9 $$; exec sleep 60'
	expect 127 "$shunt" run -n 2 /nonexistent/program
	says err "cannot start '/nonexistent/program'"
	expect 126 "$shunt" run -n 2 /etc/passwd
	expect 2 "$shunt" run -n 0 true
	expect 2 "$shunt" run -n 5000 true
	expect 2 "$shunt" run true
	expect 2 "$shunt" run -n 2
	expect 2 "$shunt" run -n 2 --grace -1 true
}

ranks_that_ignore_sigterm_are_killed() {
	# shellcheck disable=SC2016
	expect 3 "$shunt" run -n 2 --grace 0.1 sh -c '
		trap "" TERM
		test $SHUNT_RANK = 0 && exit 3
		while :; do sleep 1; done'
	says err "SIGKILL"
}

only_rank_0_reads_stdin() {
	echo typed | "$shunt" run -n 3 cat >"$work/out"
	[ "$(cat "$work/out")" = typed ] || fail "$(cat "$work/out")"
}

tags_name_the_rank_of_each_line() {
	expect 0 "$shunt" run -n 2 --tag sh -c 'echo a; echo b >&2; printf c'
	sort "$work/out" | tr '\n' ' ' >"$work/sorted"
	grep -qF '[0] a [0] c [1] a [1] c' "$work/sorted" ||
		fail "$(cat "$work/out")"
	says err "[1] b"
}

# Ranks write their pid when they start, and each time they are signalled.
counting_rank='
	trap "echo $$ >>$WORK/signals" INT TERM HUP USR1
	echo $$ >>$WORK/ranks
	i=0
	while [ $i -lt 600 ] && [ ! -f $WORK/stop ]; do sleep 0.1; i=$((i+1)); done'

signalled_ranks_are() {
	[ -f "$work/signals" ] && [ "$(sort -u "$work/signals" | wc -l)" = "$1" ]
}

signals_reach_every_rank_once() {
	local launcher signal count=0
	rm -f "$work/ranks" "$work/signals" "$work/stop"
	WORK=$work "$shunt" run -n 3 sh -c "$counting_rank" 2>/dev/null &
	launcher=$!
	wait_until lines_are "$work/ranks" 3 || fail "no ranks came up"
	for signal in TERM HUP USR1; do # a background job of sh ignores INT
		kill -$signal $launcher
		count=$((count + 3))
		wait_until lines_are "$work/signals" $count ||
			fail "$signal did not reach 3 ranks"
	done
	touch "$work/stop"
	wait $launcher
	[ "$(wc -l <"$work/signals")" = 9 ] ||
		fail "signals came twice: $(wc -l <"$work/signals")"
}

signals_reach_ranks_in_groups_of_their_own() {
	local launcher
	rm -f "$work/ranks" "$work/signals" "$work/stop"
	WORK=$work "$shunt" run -n 2 timeout 60 sh -c "$counting_rank" \
		2>/dev/null &
	launcher=$!
	wait_until lines_are "$work/ranks" 2 || fail "no ranks came up"
	kill -HUP $launcher # timeout passes it on, to its group too
	wait_until signalled_ranks_are 2 || fail "the signal was lost"
	touch "$work/stop"
	wait $launcher
}

ctrl_c_reaches_every_rank_once() {
	local terminal
	rm -f "$work/ranks" "$work/signals" "$work/stop"
	WORK=$work python3 "$here/support/terminal.py" '\x03' "$work/ranks" 3 \
		"$shunt" run -n 3 sh -c "$counting_rank" >"$work/out" &
	terminal=$!
	wait_until lines_are "$work/signals" 3 || fail "Ctrl-C was lost"
	sleep 0.5
	touch "$work/stop"
	wait $terminal || fail "run failed: $(cat "$work/out")"
	[ "$(wc -l <"$work/signals")" = 3 ] ||
		fail "Ctrl-C came $(wc -l <"$work/signals") times to 3 ranks"
}

what_is_typed_reaches_rank_0() {
	echo >"$work/ready"
	# shellcheck disable=SC2016
	WORK=$work expect 0 python3 "$here/support/terminal.py" \
		'hello\r' "$work/ready" 1 "$shunt" run -n 2 sh -c \
		'read -r line && echo $line >$WORK/typed; true'
	[ "$(cat "$work/typed")" = hello ] || fail "rank 0 read nothing"
}

# Each rank leaves a process of its own in the background.
leaving_rank='sleep 300 & echo $! >>$WORK/ranks; echo $$ >>$WORK/ranks'

nothing_outlives_the_job() {
	rm -f "$work/ranks"
	WORK=$work expect 0 "$shunt" run -n 2 sh -c "$leaving_rank"
	wait_until all_gone "$work/ranks" || fail "processes stay behind"
}

nothing_outlives_a_killed_launcher() {
	local launcher
	rm -f "$work/ranks"
	WORK=$work "$shunt" run -n 3 sh -c "$leaving_rank; wait" \
		2>/dev/null &
	launcher=$!
	wait_until lines_are "$work/ranks" 6 || fail "no ranks came up"
	kill -9 $launcher
	wait $launcher 2>/dev/null
	wait_until all_gone "$work/ranks" || fail "processes stay behind"
}

# ------------------------------------------------------------------------

all_tests=(
	ranks_find_their_environment
	run_gives_the_status_of_the_first_failure
	ranks_that_ignore_sigterm_are_killed
	only_rank_0_reads_stdin
	tags_name_the_rank_of_each_line
	signals_reach_every_rank_once
	signals_reach_ranks_in_groups_of_their_own
	ctrl_c_reaches_every_rank_once
	what_is_typed_reaches_rank_0
	nothing_outlives_the_job
	nothing_outlives_a_killed_launcher
)

run_tests "${all_tests[@]}" -- "$@"
