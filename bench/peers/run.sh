#!/bin/bash
# Holds `shunt bench` against the same step by MPI: builds alltoallv.c for
# Open MPI and MPICH, runs all of them in turn, several times over, and prints
# what each took and the ratios. Installs what is missing with apt-get.
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$peers/../.." && pwd)
build=$top/build/peers
shunt=$top/build/bin/shunt
ranks=2
rounds=5
shape=(--tokens 128 --hidden 7168 --topk 8 --experts 256 --quant int8)
measure=(--seed 1 --iters 50 --warmup 10)
seconds=${SHUNT_PEERS_TIMEOUT:-300}

usage() {
	cat <<'HELP'
Usage: bench/peers/run.sh [OPTION VALUE]...

  --ranks N                                  ranks (2)
  --tokens T --hidden H --topk K --experts E the shape (128, 7168, 8, 256)
  --quant int8|none                          as it travels (int8)
  --seed S --iters N --warmup N              of each program's run (1, 50, 10)
  --rounds N                                 runs of each, in turn (5)
  --shunt FILE                               the program (build/bin/shunt)
  --build DIR                                for what is built (build/peers)

MPICH is left out where there are more ranks than cores: it spins, and does
not come to an end. SHUNT_PEERS_TIMEOUT is the time that a run gets (300 s).
Example: bench/peers/run.sh --tokens 8 --quant none
HELP
}

die() {
	echo "run.sh: $*" >&2
	exit 1
}

number() {
	[[ $2 =~ ^[0-9]+$ ]] || die "$1 '$2': must be a number"
	[ "$2" -ge "$3" ] || die "$1 '$2': must be at least $3"
}

parse_options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--help | -h)
			usage
			exit 0
			;;
		esac
		[ $# -gt 1 ] || die "$1: a value is missing; see --help"
		case $1 in
		--ranks) number "$1" "$2" 1 && ranks=$2 ;;
		--rounds) number "$1" "$2" 1 && rounds=$2 ;;
		--shunt) shunt=$2 ;;
		--build) build=$2 ;;
		--seed | --iters | --warmup) measure+=("$1" "$2") ;;
		--tokens | --hidden | --topk | --experts | --quant)
			shape+=("$1" "$2")
			;;
		*) die "$1: no such option; see --help" ;;
		esac
		shift 2
	done
}

install_missing() {
	local missing=() as_root=()

	command -v mpicc.openmpi >/dev/null || missing+=(libopenmpi-dev)
	command -v mpirun.openmpi >/dev/null || missing+=(openmpi-bin)
	command -v mpicc.mpich >/dev/null || missing+=(libmpich-dev)
	command -v mpirun.mpich >/dev/null || missing+=(mpich)
	command -v python3 >/dev/null || missing+=(python3)
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || as_root=(sudo)
	echo "==> installing ${missing[*]}"
	"${as_root[@]}" apt-get -qq update ||
		echo "    apt-get update had errors; going on" >&2
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq \
		install -y --no-install-recommends "${missing[@]}"
}

# -ffp-contract=off: so that the check is exact; it costs nothing here.
compile() {
	mkdir -p "$build"
	for mpi in openmpi mpich; do
		"mpicc.$mpi" -std=gnu17 -D_GNU_SOURCE -O3 -march=native \
			-ffp-contract=off -Wall -Wextra -I"$top/bench" \
			-o "$build/alltoallv.$mpi" "$peers"/*.c -lm
	done
}

# with_mpi openmpi|mpich ARGUMENT...: the programs bind themselves to cores.
with_mpi() {
	local mpi=$1 start

	shift
	start=(mpirun.mpich -bind-to none)
	[ "$mpi" = mpich ] || start=(mpirun.openmpi --bind-to none
		--oversubscribe)
	[ "$mpi" = mpich ] || [ "$(id -u)" != 0 ] ||
		start+=(--allow-run-as-root)
	timeout "$seconds" "${start[@]}" -n "$ranks" \
		"$build/alltoallv.$mpi" "$@"
}

# One run of each, to files NAME.ROUND.
run_round() {
	local mpi variant

	timeout "$seconds" "$shunt" bench --ranks "$ranks" "${shape[@]}" \
		"${measure[@]}" --json - >"$results/shunt.$1" ||
		die "shunt bench failed"
	for mpi in "${mpis[@]}"; do
		for variant in alltoallv pairwise isend; do
			with_mpi "$mpi" "${shape[@]}" "${measure[@]}" \
				--variant "$variant" \
				>"$results/$mpi-$variant.$1" ||
				die "$mpi, $variant: failed"
		done
	done
}

parse_options "$@"
[ -x "$shunt" ] || die "no $shunt: run ./build.sh build, or give --shunt"
install_missing
compile
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
mpis=(openmpi mpich)
[ "$ranks" -le "$(nproc)" ] || mpis=(openmpi)
load_before=$(cut -d' ' -f1 /proc/loadavg)
for ((round = 1; round <= rounds; round++)); do
	[ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
	run_round "$round"
done
[ ! -t 2 ] || printf '\r\033[K' >&2
python3 "$peers/table.py" "$results"
echo "load average $load_before before, $(cut -d' ' -f1 /proc/loadavg) after;" \
	"$(nproc) cores"
