#!/bin/bash
# Holds `shunt model' against measurements over two hosts of a rank each, which
# are a guest of User-Mode Linux with a processor for each:
#
#   model.sh [OPTION...]
#
# Each boot measures the constants of its wire (vm_wire), those of its host
# (`shunt bench'), and steps over both hosts (model_guest.sh). The table has the
# medians of the boots and their spread (bench/model_check.py).
#
# -n BOOTS (3)   with each device
# -d DEVICES ("rxe siw")
# -T TOKENS ("1 8 64")   of a rank
# -x COMMAND     runs each boot, such as "chrt -r 1" where a machine has other
#                work, which would show: both processors are needed. Not -f,
#                with which threads of the guest keep each other from running.
# -o DIR (build/model)   what was measured, to look at; emptied first
#
# SHUNT_BUILD_DIR (build)     the builds
# SHUNT_UML_DIR (build/uml)   what uml_setup.sh makes, kept from run to run
set -euo pipefail
export LC_ALL=C

here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$(dirname "$here")")
build=$(realpath "${SHUNT_BUILD_DIR:-$top/build}")
export SHUNT_UML_DIR=${SHUNT_UML_DIR:-$top/build/uml}
boots=3 devices=(rxe siw) tokens=(1 8 64) before=() out=$top/build/model

usage() {
	sed -n '2,/^set/s/^# \?//p' "$0" | sed '$d' >&2
	exit 2
}

while getopts n:d:T:x:o: option; do
	case $option in
	n) boots=$OPTARG ;;
	d) read -ra devices <<<"$OPTARG" ;;
	T) read -ra tokens <<<"$OPTARG" ;;
	x) read -ra before <<<"$OPTARG" ;;
	o) out=$OPTARG ;;
	*) usage ;;
	esac
done
[ $OPTIND -gt $# ] && [[ $boots =~ ^[1-9][0-9]*$ ]] || usage

# In turns, so that what disturbs the machine for a while is not one device's.
measure() {
	local boot device

	for ((boot = 1; boot <= boots; boot++)); do
		for device in "${devices[@]}"; do
			echo "boot $boot of $boots with $device" >&2
			"${before[@]}" "$here/uml.sh" -d "$device" -t 120 \
				-s "$out/$device.$boot" -- \
				"$here/model_guest.sh" "$build" /run/vm \
				"$device" "${tokens[@]}" >&2
		done
	done
}

"$here/uml_setup.sh" "$SHUNT_UML_DIR"
rm -rf "$out"
measure
python3 "$top/bench/model_check.py" --shunt "$build/bin/shunt" \
	--boots "$out"/*.*
