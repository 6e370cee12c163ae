#!/bin/bash
# Builds Shunt and runs what belongs to it: ./build.sh help says what.
# Works from any directory. Installs Debian packages, but only missing ones.
# shellcheck disable=SC2317 # step() calls what it is given
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$top"
jobs=${SHUNT_JOBS:-$(nproc)}
# Tests are ranks that wait for each other: more at once would be timed out.
test_jobs=${SHUNT_TEST_JOBS:-2}
fuzz_seconds=${SHUNT_FUZZ_SECONDS:-20}

usage() {
	cat <<'HELP'
Usage: ./build.sh COMMAND [ARGUMENT...]

  bench [OPTION...]  build, then dispatch and combine OLMoE's real expert
                     loads on 4 ranks, checked against the reference; more
                     options go to `shunt bench'
  build              build the library and the program
  peers              the same, and the programs of `shunt bench --peers', for
                     Open MPI and MPICH, which are installed if missing
  test [REGEX]       build, then all tests, or those whose names match
  asan [REGEX]       the tests under AddressSanitizer and UBSan
  tsan [REGEX]       the tests under ThreadSanitizer
  gate               build, then compare the speed of this machine's runs
                     with what they are to reach (bench/gate.py)
  vm [CASE...]       build, then test cases on two hosts with RDMA, which are
                     guests of QEMU (tests/vm/run.sh)
  model [OPTION...]  build, then hold `shunt model' against steps over two
                     hosts, a guest of User-Mode Linux (tests/vm/model.sh)
  fuzz               each fuzzer for SHUNT_FUZZ_SECONDS (20); needs clang
  format             lay the sources out as .clang-format says
  format-check       fail if `format' would change anything
  lint               clang-tidy and shellcheck
  ci                 all of that but bench, model and format, as
                     .ci/run
  help               this text

Builds go to build/, build-asan/, build-tsan/ and build-fuzz/.
SHUNT_JOBS (processors) and SHUNT_TEST_JOBS (2) say how much at once;
CC chooses the compiler.
HELP
}

die() {
	echo "build.sh: $*" >&2
	exit 1
}

# step WHAT COMMAND...: runs it, and says what is done and how long it took.
step() {
	local what=$1 start=$SECONDS

	shift
	echo "==> $what"
	"$@" || die "failed after $((SECONDS - start)) s: $what"
	echo "    $((SECONDS - start)) s: $what"
}

# ---- packages ----------------------------------------------------------

# What each job needs: a program, a static one, a library as pkg-config calls
# it, a header, a file, or a run-time library of clang, and the package that
# has it.
needs_build=(cc:gcc header=stdio.h:libc6-dev make:make cmake:cmake
	pkg-config:pkg-config dpkg-source:dpkg-dev lib=libsodium:libsodium-dev
	lib=libcjson:libcjson-dev lib=libibverbs:libibverbs-dev
	lib=librdmacm:librdmacm-dev)
needs_test=(lib=cmocka:libcmocka-dev python3:python3 c++:g++
	clang-format:clang-format clang-tidy:clang-tidy
	run-clang-tidy:clang-tidy)
needs_format=(clang-format:clang-format git:git)
needs_lint=(clang-tidy:clang-tidy run-clang-tidy:clang-tidy
	lib=cmocka:libcmocka-dev shellcheck:shellcheck)
needs_peers=(mpicc.openmpi:libopenmpi-dev mpirun.openmpi:openmpi-bin
	mpicc.mpich:libmpich-dev mpirun.mpich:mpich)
needs_vm=(qemu-system-x86_64:qemu-system-x86 static=busybox:busybox-static
	cpio:cpio file=/sbin/modinfo:kmod xz:xz-utils ip:iproute2
	setpriv:util-linux rping:rdmacm-utils
	file=/etc/libibverbs.d/rxe.driver:ibverbs-providers gcc:gcc make:make)
needs_uml=(static=busybox:busybox-static flex:flex bison:bison bc:bc xz:xz-utils
	ip:iproute2 setpriv:util-linux make:make gcc:gcc python3:python3
	file=/etc/libibverbs.d/rxe.driver:ibverbs-providers)
needs_fuzz=(clang:clang rt=fuzzer:libclang-rt-dev)

has() {
	case $1 in
	lib=*) pkg-config --exists "${1#lib=}" 2>/dev/null ;;
	header=*) cc -E -include "${1#header=}" -x c /dev/null \
		>/dev/null 2>&1 ;;
	rt=*) [ -n "$(find "$(clang -print-resource-dir 2>/dev/null)/lib/" \
		-name "libclang_rt.${1#rt=}*" 2>/dev/null)" ] ;;
	static=*) command -v "${1#static=}" >/dev/null &&
		! ldd "$(command -v "${1#static=}")" >/dev/null 2>&1 ;;
	file=*) [ -e "${1#file=}" ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

run_apt() {
	local as_root=()

	command -v apt-get >/dev/null ||
		die "apt-get is missing; install by hand what these hold: $*"
	if [ "$(id -u)" != 0 ]; then
		if ! command -v sudo >/dev/null ||
			{ [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
			die "not root, and sudo cannot be used here; have" \
				"someone run: apt-get install $*"
		fi
		as_root=(sudo)
	fi
	"${as_root[@]}" apt-get -qq update ||
		echo "    apt-get update had errors; going on" >&2
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq \
		install -y --no-install-recommends "$@"
}

need() {
	local missing=() item

	for item in "$@"; do
		has "${item%%:*}" || missing+=("${item#*:}")
	done
	[ ${#missing[@]} = 0 ] ||
		step "installing ${missing[*]}" run_apt "${missing[@]}"
}

# ---- building and testing ----------------------------------------------

configure() {
	cmake -S . -B "$@" >"$1.log" || {
		cat "$1.log"
		return 1
	}
	rm "$1.log"
}

# compile DIR TARGETS [CMAKE_OPTION...]; no targets means all.
compile() {
	local dir=$1 targets=$2

	shift 2
	step "configuring $dir" configure "$dir" "$@"
	# shellcheck disable=SC2086 # targets are words
	step "compiling in $dir" cmake --build "$dir" -j "$jobs" \
		${targets:+--target $targets}
}

# run_ctest DIR REGEX [PREFIX...]; an empty regex means all tests.
run_ctest() {
	"${@:3}" ctest --test-dir "$1" --output-on-failure -j "$test_jobs" \
		--no-tests=error ${2:+-R "$2"}
}

build() {
	local testing=ON

	need "${needs_build[@]}"
	# The tests' packages are no condition for building.
	has lib=cmocka && has python3 || testing=OFF
	compile build "shunt shunt_program" -DCMAKE_BUILD_TYPE=Release \
		-DBUILD_TESTING=$testing
}

peers() {
	build
	need "${needs_peers[@]}"
	compile build peers
	echo
	echo "Go on with: build/bin/shunt bench --ranks 2 --peers"
}

bench() {
	local traces=bench/traces/olmoe_mixtral_expert_counts.json
	local trace=olmoe-arxiv-expert_counts-15

	build
	step "4 ranks, int8, OLMoE layer 15" \
		build/bin/shunt bench --ranks 4 --launch processes \
		--tokens 128 --hidden 2048 --experts 64 --topk 8 \
		--routing "file:$traces:$trace" --quant int8 --check "$@"
	cat <<'NEXT'

Go on with:
  build/bin/shunt bench --help     other shapes, loads and formats
  build/bin/shunt run -n 4 PROGRAM start your program on 4 ranks
  ./build.sh test                  the tests
NEXT
}

run_tests() {
	need "${needs_build[@]}" "${needs_test[@]}"
	compile build "" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON
	step "testing" run_ctest build "${1:-}"
	echo
	echo "All tests passed. Go on with: ./build.sh asan, or ./build.sh ci"
}

run_gate() {
	need python3:python3
	build
	step "the regression gate" python3 bench/gate.py
}

run_asan() {
	need "${needs_build[@]}" "${needs_test[@]}"
	compile build-asan "" -DSHUNT_SANITIZE=address
	export SHUNT_TEST_SCALE=${SHUNT_TEST_SCALE:-small}
	step "testing with AddressSanitizer and UBSan" \
		run_ctest build-asan "${1:-}"
}

run_tsan() {
	need "${needs_build[@]}" "${needs_test[@]}"
	compile build-tsan "" -DSHUNT_SANITIZE=thread
	export SHUNT_TEST_SCALE=${SHUNT_TEST_SCALE:-small}
	# TSan's shadow is a multiple of what is mapped.
	export SHUNT_SEGMENT_BYTES=${SHUNT_SEGMENT_BYTES:-8589934592}
	# -R: TSan of this age cannot cope with very random address spaces.
	step "testing with ThreadSanitizer" \
		run_ctest build-tsan "${1:-}" setarch "$(uname -m)" -R
}

run_vm() {
	need "${needs_build[@]}" "${needs_test[@]}"
	# Where these cannot be had, run.sh tells and skips, or fails.
	(need "${needs_vm[@]}") || echo "    going on without" >&2
	compile build "" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON
	step "cases in guests" tests/vm/run.sh "${@:-all}"
}

run_model() {
	need "${needs_build[@]}" "${needs_test[@]}" "${needs_uml[@]}"
	compile build "shunt_program vm_wire" -DCMAKE_BUILD_TYPE=Release \
		-DBUILD_TESTING=ON
	step "the model against two hosts" tests/vm/model.sh "$@"
}

run_fuzz() {
	local source names=() name

	need "${needs_build[@]}" "${needs_fuzz[@]}" lib=cmocka:libcmocka-dev
	for source in tests/fuzz/*.c; do
		names+=("$(basename "$source" .c)")
	done
	CC=clang compile build-fuzz "${names[*]}" -DSHUNT_FUZZ=ON \
		-DSHUNT_SANITIZE=address \
		-DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link
	for name in "${names[@]}"; do
		mkdir -p "build-fuzz/corpus/$name"
		step "$name for $fuzz_seconds s" "build-fuzz/fuzz/$name" \
			-max_total_time="$fuzz_seconds" -verbosity=0 \
			-print_final_stats=1 -timeout=20 \
			-artifact_prefix="build-fuzz/$name-" \
			"build-fuzz/corpus/$name"
	done
}

# ---- looks -------------------------------------------------------------

cmake_target() {
	need "${needs_build[@]}"
	step "configuring build" configure build
	step "$1" cmake --build build --target "$1"
}

lint() {
	need "${needs_lint[@]}"
	step "shellcheck" shellcheck -S warning build.sh .ci/run cmake/*.sh \
		tests/*.sh tests/support/*.sh tests/build/*.sh \
		tests/vm/*.sh tests/vm/cases/*.sh
	cmake_target lint
}

# ------------------------------------------------------------------------

# Read to its end before anything is run, so that it may change meanwhile.
main() {
	local command=${1:-help}

	[ $# = 0 ] || shift
	case $command in
	bench) bench "$@" ;;
	build) build ;;
	peers) peers ;;
	test) run_tests "$@" ;;
	asan) run_asan "$@" ;;
	tsan) run_tsan "$@" ;;
	gate) run_gate ;;
	vm) run_vm "$@" ;;
	model) run_model "$@" ;;
	fuzz) run_fuzz ;;
	format | format-check)
		need "${needs_format[@]}"
		cmake_target "$command"
		;;
	lint) lint ;;
	ci) exec .ci/run ;;
	help | --help | -h) usage ;;
	*)
		usage >&2
		exit 2
		;;
	esac
}

main "$@"
exit
