#!/bin/bash
# `shunt bench --hosts`: ranks that a launcher has started, and what goes
# between hosts. What needs an RDMA device is tested in tests/vm.
# Usage: hosts.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

for name in ${!SHUNT_*} ${!OMPI_*} ${!PMI_*} ${!SLURM_*} RANK WORLD_SIZE \
	LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT; do
	unset "$name"
done
load=(--tokens 7 --hidden 96 --topk 2 --experts 12 --iters 3 --warmup 1)

# holds CONDITION: in Python, of `j`, what was measured.
holds() {
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
assert $1, j"
}

# joined STATUS OPTION...: three ranks that `shunt run' has started.
joined() {
	local status=$1
	shift
	expect "$status" "$shunt" run -n 3 --grace 20 -- "$shunt" bench \
		"${load[@]}" "$@"
}

# No RDMA device can be had here: neither by name nor by address.
has_device() { [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; }

joined_ranks_report_once() {
	joined 0 --hosts 1 --check --json "$work/json"
	says out "1 host: ranks 0 1 2; pairs of ranks by transport: shm 3"
	[ "$(grep -c '^ok$' "$work/out")" = 1 ] || fail "$(cat "$work/out")"
	holds "j['ok'] and j['parameters']['ranks'] == 3"
	holds "j['parameters']['hosts'] == 1"
	# There is no memory in common for copies or signals.
	holds "j['dispatch_floor_us'] is None and j['signal_us'] is None"
	holds "0 < j['dispatch_us']['p50'] and 0 < j['combine_us']['p50']"
	holds "j['startup']['query_bytes'] > 0 < j['startup']['world_us']"
}

torchruns_variables_join_ranks() {
	local rank port
	port=$(python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
	for rank in 2 1; do
		RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 \
			MASTER_ADDR=127.0.0.1 MASTER_PORT=1 SHUNT_PORT=$port \
			"$shunt" bench "${load[@]}" --hosts 1 --stats \
			>"$work/out.$rank" 2>&1 &
	done
	RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 SHUNT_PORT=$port \
		MASTER_ADDR=127.0.0.1 MASTER_PORT=1 \
		expect 0 "$shunt" bench "${load[@]}" --hosts 1 --stats \
		--json "$work/json"
	wait
	# Every rank's numbers have come to rank 0.
	holds "[s['tokens'] for s in j['stats']] == 3 * [j['stats'][0]['tokens']]"
	holds "all(s['dispatches'] > 0 for s in j['stats'])"
	[ ! -s "$work/out.1" ] || fail "rank 1 reports: $(cat "$work/out.1")"
}

joined_and_forked_ranks_get_the_same_bits() {
	local digest
	joined 0 --hosts 1 --check --json - --tp 3 --experts 4
	digest=$(grep digest "$work/out")
	expect 0 "$shunt" bench --ranks 3 "${load[@]}" --check --json - --tp 3 \
		--experts 4
	[ "$digest" = "$(grep digest "$work/out")" ] || fail "another digest"
}

ranks_with_other_options_are_turned_away() {
	expect 1 "$shunt" run -n 2 -- sh -c \
		"exec '$shunt' bench ${load[*]} --hosts 1 --seed \$SHUNT_RANK"
	says err "rank 1 of 2 was started with other options"
	says err "rank 0 turns this rank away: it was started with other"
	# Those of a host's own devices may differ: what then is refused is a
	# device that is not there.
	has_device || expect 1 "$shunt" run -n 2 -- sh -c "exec '$shunt' bench \
		${load[*]} --hosts 1 --rdma-interface none\$SHUNT_RANK"
	! grep -q "other options" "$work/err" || fail "$(cat "$work/err")"
}

a_rank_with_another_key_is_turned_away() {
	# Rank 0 waits on for one that has the right key: it is ended.
	expect 1 "$shunt" run -n 2 --grace 0.1 -- sh -c "SHUNT_KEY=k\$SHUNT_RANK \
		exec '$shunt' bench ${load[*]} --hosts 1"
	says err "rank 0 turns this rank away: it has another SHUNT_KEY"
}

strangers_do_not_disturb_joined_ranks() {
	expect 0 "$shunt" run -n 2 -- sh -c "
		if [ \$SHUNT_RANK = 1 ]; then
			python3 -c '
import os, socket, time
port = int(os.environ[\"SHUNT_ADDRESS\"].rsplit(\":\", 1)[1])
def call():
    while True:
        try:
            return socket.create_connection((\"127.0.0.1\", port))
        except OSError:
            time.sleep(0.01)
for text in (b\"\", b\"GET / HTTP/1.0\\r\\n\\r\\n\" + bytes(200), bytes(120)):
    s = call()
    s.sendall(text)
    s.close()'
		fi
		exec '$shunt' bench ${load[*]} --hosts 1 --quiet"
}

# Whose end is seen first by the launcher is chance.
the_end_of_a_rank_is_told_by_the_others() {
	"$shunt" run -n 3 --grace 20 -- sh -c "
		if [ \$SHUNT_RANK = 1 ]; then
			(sleep 0.3; kill -9 \$\$) &
		fi
		exec '$shunt' bench ${load[*]} --hosts 1 --iters 1000000" \
		>"$work/out" 2>"$work/err" </dev/null &&
		fail "a killed rank is no failure"
	grep -qE 'rank 1 is gone|PEER_LOST' "$work/err" ||
		fail "$(cat "$work/err")"
}

the_number_of_hosts_is_checked() {
	joined 1 --hosts 2
	grep -qE -- "--hosts 2: the ranks are on 1 host|UNSUPPORTED" \
		"$work/err" || fail "$(cat "$work/err")"
}

local_ranks_act_as_hosts_only_with_a_device() {
	if has_device; then
		echo "skipped ${FUNCNAME[0]}: there is an RDMA device"
		return
	fi
	expect 1 "$shunt" bench --ranks 4 --hosts 2 "${load[@]}" --json "$work/json"
	says err "UNSUPPORTED"
	holds "not j['ok'] and 'UNSUPPORTED' in j['error']"
	expect 0 "$shunt" bench --ranks 4 --hosts 1 "${load[@]}" --check \
		--json "$work/json"
	holds "j['hosts']['num'] == 1 and j['hosts']['of_rank'] == [0, 0, 0, 0]"
	holds "j['hosts']['pairs'] == {'self': 4, 'threads': 0, 'shm': 12,
		'verbs': 0}"
	holds "j['hosts']['dispatch']['wire_bytes'] == 0"
	# 4 ranks x 7 tokens, 2 choices each: int8 with a scale, and bf16 home.
	holds "j['hosts']['dispatch']['memory_bytes'] == 56 * 100"
	holds "j['hosts']['combine']['memory_bytes'] == 56 * 192"
	expect 0 "$shunt" bench --ranks 4 "${load[@]}" --json "$work/json"
	holds "j['hosts'] is None"
}

options_of_hosts_are_checked() {
	local torch=(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1)
	expect 2 "$shunt" bench --hosts 5
	says err "--hosts 5: must be in 1 .. 4, the ranks of a group"
	expect 2 "$shunt" bench --hosts 3 --tp 2
	says err "--hosts 3: must be in 1 .. 2"
	expect 2 "$shunt" bench --exact-sums
	says err "--exact-sums: needs --hosts"
	expect 2 "$shunt" bench --f32-partial-sums
	says err "--f32-partial-sums: needs --hosts"
	expect 2 "$shunt" bench --rdma-device mlx5_0
	says err "--rdma-device: needs --hosts"
	expect 2 "$shunt" bench --transport shm --hosts 2
	says err "--transport shm: reaches no other host"
	expect 2 "$shunt" bench --hosts 2 --peers
	says err "cannot do --hosts"
	expect 2 env "${torch[@]}" "$shunt" bench --hosts 2
	says err "MASTER_PORT is not"
	expect 2 env "${torch[@]}" MASTER_PORT=29500 "$shunt" bench --hosts 2 \
		--ranks 4
	says err "--ranks 4: torchrun has started 2"
	expect 2 env "${torch[@]}" MASTER_PORT=29500 "$shunt" bench --hosts 2 \
		--launch threads
	says err "--launch threads: torchrun has started processes"
}

# ------------------------------------------------------------------------

run_tests joined_ranks_report_once \
	torchruns_variables_join_ranks \
	joined_and_forked_ranks_get_the_same_bits \
	ranks_with_other_options_are_turned_away \
	a_rank_with_another_key_is_turned_away \
	strangers_do_not_disturb_joined_ranks \
	the_end_of_a_rank_is_told_by_the_others \
	the_number_of_hosts_is_checked \
	local_ranks_act_as_hosts_only_with_a_device \
	options_of_hosts_are_checked -- "$@"
