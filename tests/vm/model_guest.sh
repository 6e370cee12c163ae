#!/bin/bash
# What model.sh measures in a guest that is two hosts of a rank each:
#
#	model_guest.sh BUILD OUT DEVICE TOKENS...
#
# Writes into OUT: device; wire, the constants of the wire as options of `shunt
# model'; QUANT-T.local, the bench without hosts; QUANT-T-ALGORITHM.hosts, the bench
# over both hosts.
set -euo pipefail

build=$1 out=$2 device=$3
tokens=("${@:4}")
jobs=0

# both PROGRAM...: as each host, on a processor of its own, with the variables of
# a launcher.
both() {
	local host processes=()

	jobs=$((jobs + 1))
	for host in 1 2; do
		RANK=$((host - 1)) WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
			MASTER_ADDR=10.78.0.1 MASTER_PORT=29500 SHUNT_KEY=secret \
			SHUNT_JOB=$jobs SHUNT_HOST_ID=$host \
			SHUNT_RDMA_ADDRESS=10.78.0.$host \
			SHUNT_RDMA_ACK_TIMEOUT=18 \
			taskset -c $((host - 1)) "$@" &
		processes+=($!)
	done
	wait "${processes[0]}"
	wait "${processes[1]}"
}


shape() { # QUANT T
	echo --quant "$1" --tokens "$2" --hidden 7168 --experts 256 --topk 8 \
		--iters $(($2 < 32 ? 100 : 30)) --warmup 5
}

wire() {
	taskset -c 0 "$build/tests/vm_wire" a 10.78.0.1 10.78.0.2 &
	taskset -c 1 "$build/tests/vm_wire" b 10.78.0.2 10.78.0.1
	wait $!
}

# alone NAME OPTION...: the bench without hosts, its two ranks on the processors
# that the hosts have.
alone() {
	"$build/bin/shunt" bench --ranks 2 "${@:2}" --quiet \
		--json "$out/$1.local"
}

over_hosts() { # NAME OPTION...
	both "$build/bin/shunt" bench --hosts 2 "${@:2}" --quiet \
		--json "$out/$1.hosts"
}

mkdir -p "$out"
echo "$device" >"$out/device"
wire >"$out/wire"
for quant in int8 none; do
	for count in "${tokens[@]}"; do
		read -ra words < <(shape $quant "$count")
		alone "$quant-$count" "${words[@]}"
		for algorithm in fullmesh hierarchy; do
			over_hosts "$quant-$count-$algorithm" "${words[@]}" \
				--algorithm $algorithm
		done
	done
done
