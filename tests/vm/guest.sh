#!/bin/bash
# What cases find in a guest; sourced before the case. The driver sets
#
#   host      a or b, which this shell is, and other, the opposite one
#   hosts     one or two guests          kind      rxe or siw
#   build     the folder of builds       exchange  a folder that all hosts share
# shellcheck disable=SC2034,SC2154 # variables are for the cases, or of run.sh

number=$((16#$host - 9)) # 1 or 2
own=10.78.0.$number
peer=10.78.0.$((3 - number))
device=$kind$host
wire=v$host

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# wait_until COMMAND...: up to 30 s. A case's own limit comes on top.
wait_until() {
	local end=$((SECONDS + 30))

	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# ---- what hosts tell each other ----------------------------------------

tell() { : >"$exchange/$1"; }
was_told() { [ -e "$exchange/$1" ]; }
await() { wait_until was_told "$1" || fail "nobody told '$1'"; }

# ---- the wire ----------------------------------------------------------

# As tc-netem(8) has it: loss 100%, delay 5ms reorder 25%. Only what this host
# sends is meant; run.sh says it on both.
shape() { tc qdisc replace dev "$wire" root netem limit 100000 "$@"; }
unshape() { tc qdisc del dev "$wire" root 2>/dev/null || true; }
dropped() { # how many packets netem has dropped here
	tc -s qdisc show dev "$wire" | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p'
}
received() { cat "/sys/class/net/$wire/statistics/rx_packets"; }

# ---- processes ---------------------------------------------------------

# Names stand for processes of this guest: client, server, rank0 and so on.
signal() { # NAME SIGNAL
	kill "-$2" "$(cat "/run/case/$1")"
}

# start NAME PROGRAM...: in the background, its process is remembered.
start() {
	"${@:2}" &
	echo $! >"/run/case/$1"
}

# ranks N COMMAND...: N ranks on this host, as many on the other, with
# torchrun's variables, of a job of its own. Lines are marked with the rank. Each
# rank's end is told; the status is the first one, by rank, that is not 0.
#
# Packets are sent again after a second (rxe), where the retries of the default
# would be over before a loaded machine has emulated an answer. A case in which
# somebody must be missed says `patience=17'.
patience=18 jobs=0
ranks() {
	local count=$1 i rank status first=0 processes=()

	shift
	jobs=$((jobs + 1))
	for ((i = 0; i < count; i++)); do
		rank=$(((number - 1) * count + i))
		RANK=$rank WORLD_SIZE=$((2 * count)) LOCAL_RANK=$i \
			LOCAL_WORLD_SIZE=$count MASTER_ADDR=10.78.0.1 \
			MASTER_PORT=29500 SHUNT_KEY=secret SHUNT_JOB=$jobs \
			SHUNT_HOST_ID=$host SHUNT_RDMA_ADDRESS=$own \
			SHUNT_RDMA_ACK_TIMEOUT=$patience "$@" \
			> >(sed -u "s/^/rank $rank: /") 2>&1 &
		processes+=($!)
		echo $! >"/run/case/rank$rank"
	done
	for ((i = 0; i < count; i++)); do
		wait "${processes[i]}"
		status=$?
		echo "rank $(((number - 1) * count + i)) ended: $status"
		[ $first != 0 ] || first=$status
	done
	return "$first"
}

# The builds' programs; 2 ranks on each host.
bench() { ranks 2 "$build/bin/shunt" bench --hosts 2 --check "$@"; }
steps() { ranks 2 "$build/tests/vm_steps" "$@"; }
sweep() { ranks 2 "$build/tests/vm_sweep" "$@"; }

# ---- rping -------------------------------------------------------------

# connections STATE: how many the kernel's connection manager has at $device.
connections() {
	rdma resource show cm_id dev "$device" | grep -c "state $1" || true
}
listens() { [ "$(connections LISTEN)" -gt 0 ]; }

# serve [OPTION...]: an rping server, told as "serving" once it listens.
serve() {
	start server rping -s -a "$own" "$@"
	wait_until listens || fail "rping does not listen"
	tell serving
	wait $!
}

# ping_by_rdma [OPTION...]: its client. The source is named since one guest may
# be both hosts.
ping_by_rdma() {
	start client rping -c -a "$peer" -I "$own" "$@"
	wait $!
}
