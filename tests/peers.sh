#!/bin/bash
# `shunt bench --peers`: what it refuses, what it believes, what it leaves
# behind. A stand-in for mpirun plays peers of any kind, so that no MPI is
# needed; where the real peers are built, they are run too.
# Usage: peers.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"
shunt=$(realpath "$shunt")
built=$(dirname "$shunt")
small=(--ranks 2 --tokens 5 --hidden 64 --topk 2 --experts 8 --iters 3
	--warmup 1 --peers --peer-rounds 2 --peer-seconds 20)

# ---- stand-ins -----------------------------------------------------------

# A copy of the program in a folder of its own, where we say what is beside it,
# and stand-ins for the launchers that are what $work/play says.
set_the_stage() {
	export LD_LIBRARY_PATH
	LD_LIBRARY_PATH=$(ldd "$shunt" |
		sed -n 's|.*libshunt[^ ]* => \(.*\)/[^/]* (.*|\1|p')
	mkdir -p "$work/stage" "$work/path"
	cp "$shunt" "$work/stage/shunt"
	cat >"$work/path/mpirun.openmpi" <<-END
		#!/bin/bash
		work=$work
		while [ \$# -gt 0 ]; do
			case \$1 in
			-n) ranks=\$2 ;;
			--ids) ids=\$2 ;;
			--variant) variant=\$2 ;;
			--hidden) hidden=\$2 ;;
			--quant) quant=\$2 ;;
			--iters) iters=\$2 ;;
			esac
			shift
		done
		. "\$work/play"
	END
	chmod +x "$work/path/mpirun.openmpi"
	stage_path=$work/path:$PATH
}

# Never run: the launcher is a stand-in.
put_a_peer() {
	echo '#!/bin/sh' >"$work/stage/shunt-peer-openmpi"
	chmod +x "$work/stage/shunt-peer-openmpi"
}

play() { cat >"$work/play"; }

staged() { # STATUS OPTION...
	local want=$1
	shift
	PATH=$stage_path expect "$want" "$work/stage/shunt" bench "${small[@]}" "$@"
}

# A peer whose times are known; FROM becomes TO in what it says.
play_well() { # [FROM TO]
	play <<-'END'
		case $variant in direct) us=4000 ;; *) us=9000 ;; esac
		cat "$ids" >"$work/ids"
		times="{\"best\": $us, \"p50\": $us, \"p99\": $us}"
		result="{\"library\": \"Play 1\", \"variant\": \"$variant\",
		\"ranks\": $ranks, \"tokens\": 5, \"hidden\": $hidden,
		\"topk\": 2, \"experts\": 8, \"quant\": \"$quant\",
		\"iters\": $iters, \"ok\": true, \"dispatch_us\": $times,
		\"combine_us\": $times}"
		echo "${result/$(cat "$work/from")/$(cat "$work/to")}"
	END
	printf '%s' "${1:-}" >"$work/from"
	printf '%s' "${2:-}" >"$work/to"
}

# ---- options -------------------------------------------------------------

refuses() { # TEXT OPTION...
	local text=$1
	shift
	expect 2 "$shunt" bench --experts 12 --topk 2 --peers "$@"
	says err "$text"
}

what_peers_cannot_do_is_refused_by_name() {
	local option
	for option in "--layout indexed" "--layout padded" "--tp 2" \
		"--elastic 1" "--shared 1:1" "--special 1:1:1" "--mask 0.5" \
		"--drop 0.1" "--bad 0.1" "--mask-choices 0.1" "--smooth" \
		"--align 4" "--combine-quant mxfp8" "--cached" "--residual" \
		"--shared-x" "--gamma f32" "--placement map" "--zero-tail"; do
		# shellcheck disable=SC2086
		refuses "cannot do ${option%% *}" $option
	done
	refuses "needs --quant none or int8" --quant mxfp8
	refuses "needs --dtype bf16" --dtype f16
	refuses "needs --out-dtype bf16" --out-dtype f32
	refuses "needs --expert-dtype bf16" --expert-dtype f32
	refuses "needs --weights dispatch or combine" --weights none
	refuses "needs --tokens of at least 1" --tokens 0
	refuses "a multiple of --ranks, 5" --ranks 5
	refuses "--peer-rounds '0': must be a number in 1 .. 99" --peer-rounds 0
	expect 2 "$shunt" bench --peer-rounds 2
	says err "--peer-rounds: needs --peers"
	expect 2 "$shunt" bench --peer-seconds 2
	says err "--peer-seconds: needs --peers"
}

peers_that_are_not_built_are_an_error_with_the_remedy() {
	rm -f "$work"/stage/shunt-peer-*
	staged 1
	says err "openmpi is not built: run ./build.sh peers"
	says err "mpich is not built: run ./build.sh peers"
	[ ! -s "$work/out" ] || fail "something was measured"
}

a_launcher_that_is_missing_is_an_error_with_the_remedy() {
	put_a_peer
	stage_path=/nonexistent staged 1
	says err "mpirun.openmpi: No such file"
	says err "run ./build.sh peers"
}

# ---- results -------------------------------------------------------------

ratios_are_those_of_the_fastest_peer() {
	put_a_peer
	play_well
	staged 0 --json "$work/json"
	says out "mpich: left out, not built"
	says out "the fastest peer, openmpi direct,"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
assert j['ok'] is True and j['parameters']['peers'] is True
assert j['parameters']['peer_rounds'] == 2
p = j['peers']
assert [r['variant'] for r in p['runs']] == [
    'alltoallv', 'pairwise', 'isend', 'direct'], p
assert all((r['mpi'], r['library']) == ('openmpi', 'Play 1') for r in p['runs'])
assert p['left_out'] == [{'mpi': 'mpich',
    'why': 'not built: run ./build.sh peers'}], p
for phase in 'dispatch', 'combine':
    q = p[phase]
    assert q['fastest'] == {'mpi': 'openmpi', 'variant': 'direct'}, q
    for s in 'best', 'p50', 'p99':
        want = 4000 / j[phase + '_us'][s]
        assert abs(q['ratio'][s] / want - 1) < 1e-9, (q, want)
    assert q['least_of_rounds'] <= q['most_of_rounds']
    # The median of two rounds is the lower one.
    assert abs(q['most_of_rounds'] / q['ratio']['p50'] - 1) < 1e-9, q"
}

a_result_that_is_not_what_was_asked_for_is_refused() {
	local field
	put_a_peer
	for field in library variant ranks tokens hidden topk experts quant \
		iters dispatch_us combine_us; do
		play_well "\"$field\":" "\"other\":"
		staged 1
		says err "openmpi alltoallv: its result has no"
		says err "\"$field\""
	done
	play_well true false
	staged 1
	says err '"ok": true'
	play_well '"tokens": 5' '"tokens": 6'
	staged 1
	says err '"tokens": 5'
	play_well '"p50": 9000' '"p50": 8999'
	staged 1
	says err 'no times in "dispatch_us"'
	play_well '"best": 9000' '"best": -1'
	staged 1
	says err 'no times in "dispatch_us"'
	play <<<'echo "no { json"'
	staged 1
	says err "'no { json
', which is not JSON"
}

a_peer_that_fails_is_named_with_what_it_said() {
	put_a_peer
	play <<<'head -c 100000 /dev/zero | tr "\0" . >&2
		echo "the end of it" >&2; exit 3'
	staged 1 --json "$work/json"
	says err "openmpi alltoallv: exit status 3: ..."
	says err "the end of it"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
assert j['ok'] is False and 'the end of it' in j['error']
assert 'peers' not in j and 'dispatch_us' not in j"
}

peers_are_given_our_routing() {
	put_a_peer
	play_well
	staged 0 --routing one
	expect 0 python3 -c "
import struct
data = open('$work/ids', 'rb').read()
magic, *head = struct.unpack_from('<8s5q', data)
assert magic == b'shutids1' and head == [4, 2, 5, 2, 8], (magic, head)
ids = struct.unpack_from('<%di' % ((len(data) - 48) // 4), data, 48)
assert ids == (0, 1) * (4 * 2 * 5), ids"
}

# ---- what stays ----------------------------------------------------------

# A launcher with a child in a session of its own, and one that has lost its
# parent; none of them hears SIGTERM.
play_deaf() {
	rm -f "$work/pids"
	play <<-'END'
		trap '' TERM
		setsid bash -c 'sleep 1000 & echo $! >>"$0/pids"
			echo $$ >>"$0/pids"; wait' "$work" &
		(sleep 1000 & echo $! >>"$work/pids")
		echo $$ >>"$work/pids"
		sleep 1000
	END
}

four_pids() { [ -f "$work/pids" ] && [ "$(wc -l <"$work/pids")" -ge 4 ]; }

a_peer_that_hangs_is_ended_with_all_it_started() {
	put_a_peer
	play_deaf
	staged 1 --peer-seconds 1
	says err "openmpi alltoallv took more than --peer-seconds 1"
	four_pids || fail "the stand-in did not come up"
	all_gone "$work/pids" || fail "processes stay behind"
}

nothing_outlives_a_bench_that_is_ended() {
	local signal pid
	put_a_peer
	for signal in KILL TERM; do
		play_deaf
		PATH=$stage_path "$work/stage/shunt" bench "${small[@]}" \
			>"$work/out" 2>&1 &
		pid=$!
		wait_until four_pids || fail "no peer came up"
		kill -$signal $pid
		wait $pid 2>/dev/null
		wait_until all_gone "$work/pids" ||
			fail "processes stay behind SIG$signal"
	done
}

# ---- the real ones -------------------------------------------------------

real_peers_equal_the_reference_in_every_routing() {
	local routing quant
	if [ "${SHUNT_TEST_SCALE:-}" = small ]; then
		echo "skipped: the MPI libraries take minutes under sanitizers"
		return
	fi
	if [ ! -x "$built/shunt-peer-openmpi" ] &&
		[ ! -x "$built/shunt-peer-mpich" ]; then
		echo "skipped: no peers in $built; ./build.sh peers builds them"
		return
	fi
	for routing in uniform zipf:1.2 hot:2:0.7 one local balanced; do
		expect 0 "$shunt" bench "${small[@]}" --check --peer-rounds 1 \
			--routing "$routing"
	done
	for quant in none int8; do
		expect 0 "$shunt" bench "${small[@]}" --check --peer-rounds 1 \
			--quant "$quant" --hidden 97 --repeat 0.3
		expect 0 "$shunt" bench "${small[@]}" --check --peer-rounds 1 \
			--quant "$quant" --hidden 4096 --tokens 700 \
			--topk 8
	done
	expect 0 "$shunt" bench "${small[@]}" --check --ranks 4 --peer-rounds 1
	says out "mpich: left out"
	says out "ok"
}

# --------------------------------------------------------------------------

set_the_stage
run_tests \
	what_peers_cannot_do_is_refused_by_name \
	peers_that_are_not_built_are_an_error_with_the_remedy \
	a_launcher_that_is_missing_is_an_error_with_the_remedy \
	ratios_are_those_of_the_fastest_peer \
	a_result_that_is_not_what_was_asked_for_is_refused \
	a_peer_that_fails_is_named_with_what_it_said \
	peers_are_given_our_routing \
	a_peer_that_hangs_is_ended_with_all_it_started \
	nothing_outlives_a_bench_that_is_ended \
	real_peers_equal_the_reference_in_every_routing \
	-- "$@"
