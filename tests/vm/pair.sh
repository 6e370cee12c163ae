#!/bin/bash
# Runs two guests on one wire, as hosts a (10.78.0.1) and b (10.78.0.2):
#
#   pair.sh "OPTIONS OF VM.SH" "COMMAND ON A" "COMMAND ON B"
#
# Commands are of the shell. Lines are marked with their host; the exit status
# is the first that is not 0. The commands begin when both guests are there.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
[ $# = 3 ] || {
	sed -n '2,/^set/s/^# \?//p' "$0" | sed '$d' >&2
	exit 2
}
read -ra options <<<"$1"
wire=$(mktemp -d)
trap 'rm -rf "$wire"' EXIT

guest() { # HOST COMMAND
	"$here/vm.sh" "${options[@]}" -w "$1:$wire" -- bash -c "$2" 2>&1 |
		sed -u "s/^/$1: /"
}

guest a "$2" &
a=$!
guest b "$3" &
b=$!
wait $a
status_a=$?
wait $b
status_b=$?
[ $status_a = 0 ] || exit $status_a
exit $status_b
