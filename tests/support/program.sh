#!/bin/bash
# What the tests of the shunt program have in common; sourced by tests/*.sh
# with the program as $1. At the end they call run_tests.
# shellcheck disable=SC2034 # variables are for those that source this
set -u

shunt=${1:?usage: $0 SHUNT [TEST...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
small=(--ranks 3 --tokens 7 --hidden 96 --topk 2 --experts 12 --iters 3
	--warmup 1 --quiet)

fail() {
	echo "FAILED: ${FUNCNAME[1]}: $*" >&2
	failures=$((failures + 1))
}

# expect STATUS COMMAND...: runs it, output in $work/out and $work/err.
expect() {
	local want=$1 got
	shift
	"$@" >"$work/out" 2>"$work/err" </dev/null
	got=$?
	[ "$got" = "$want" ] && return
	echo "FAILED: ${FUNCNAME[1]}: '$*' gave $got, not $want" >&2
	cat "$work/err" >&2
	failures=$((failures + 1))
}

says() { # FILE TEXT
	grep -qF -e "$2" "$work/$1" ||
		fail "'$2' is not in $1: $(head -c 600 "$work/$1")"
}

# Waits up to 20 s until a command is true.
wait_until() {
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" && return 0
		sleep 0.1
	done
	return 1
}

lines_are() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
all_gone() { # FILE with pids
	local pid
	while read -r pid; do
		is_gone "$pid" || return 1
	done <"$1"
}

children_of() { tr ' ' '\n' <"/proc/$1/task/$1/children"; }
has_children() { [ "$(children_of "$1" | grep -c .)" -ge "$2" ]; }

# run_tests DEFAULT... -- GIVEN...: the given tests, or all.
run_tests() {
	local all=() name before

	while [ "$1" != -- ]; do
		all+=("$1")
		shift
	done
	shift
	[ $# -gt 0 ] || set -- "${all[@]}"
	for name in "$@"; do
		before=$failures
		$name
		[ $failures = "$before" ] && echo "ok $name"
	done
	[ $failures = 0 ] || echo "$failures failures" >&2
	[ $failures = 0 ]
}
