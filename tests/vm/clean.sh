#!/bin/bash
# Makes a guest as it was before a case: ends what still runs, mends the wire.
# What has not ended by itself soon after its case is named, and is an error.
# A job of agent.sh, whose process is AGENT.
set -u

mine=" 1 $AGENT $PPID $$ "

# Every process that has a command line, as the kernel's threads have not.
others() {
	local path _

	for path in /proc/[0-9]*; do
		[[ $mine != *" ${path#/proc/} "* ]] &&
			read -rd '' _ <"$path/cmdline" &&
			echo "${path#/proc/}"
	done 2>/dev/null
}

left=()
for ((tries = 20; tries > 0; tries--)); do
	others >/run/others
	mapfile -t left </run/others
	[ ${#left[@]} != 0 ] || break
	sleep 0.1
done
for pid in "${left[@]}"; do
	echo "left behind: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	kill -KILL "$pid"
done
for path in /sys/class/net/v[ab]; do
	tc qdisc del dev "${path##*/}" root 2>/dev/null
done
rm -rf /run/case
mkdir /run/case
[ ${#left[@]} = 0 ]
