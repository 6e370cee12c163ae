#!/bin/bash
# Runs in a guest what the driver, run.sh, puts in a folder that they share:
# NAME.job is a shell script, which becomes NAME.taken; NAME.out and, at its
# end, NAME.status are the answer. Jobs run beside each other.
set -u

dir=$1
export AGENT=$$
mkdir /run/case
mkfifo /run/nothing
exec 4<>/run/nothing

run() { # PATH WITHOUT SUFFIX
	setsid bash "$1.taken" >"$1.out" 2>&1 </dev/null
	echo $? >"$1.new"
	mv "$1.new" "$1.status"
}

: >"$dir/up"
while :; do
	for job in "$dir"/*.job; do
		[ -e "$job" ] || continue
		mv "$job" "${job%.job}.taken"
		run "${job%.job}" &
	done
	# A wait that takes no process: nothing ever comes here.
	read -rt 0.05 -u 4
done
