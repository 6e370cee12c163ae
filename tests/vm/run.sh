#!/bin/bash
# Runs test cases on two hosts with RDMA, in guests of QEMU:
#
#   run.sh [-v] all | list | CASE...
#
# A CASE is the name of a file in cases/, alone or with a configuration
# (wire.two-siw), or a pattern of such names ('*.two-*'). -v shows what the
# hosts wrote also of cases that succeed. Configurations are
#
#   one-rxe, one-siw    one guest that is both hosts, on a wire of its own
#   two-rxe, two-siw    two guests on one wire
#
# with Soft-RoCE (rxe) or Soft-iWARP (siw). A configuration's cases share a
# boot, but after a failure and after a case that kills a guest.
#
# SHUNT_VM_DIR (build/vm)     what setup.sh makes, kept from run to run
# SHUNT_BUILD_DIR (build)     the builds that the cases run
# SHUNT_VM_SECONDS (900)      what all may take together
# SHUNT_VM_REQUIRED=1         where no guest can run at all is a failure; else
#                             it is told, and the cases are skipped
set -uo pipefail
export LC_ALL=C

here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$(dirname "$here")")
build=${SHUNT_BUILD_DIR:-$top/build}
export SHUNT_VM_DIR=${SHUNT_VM_DIR:-$top/build/vm}
configurations=(one-rxe one-siw two-rxe two-siw)
budget_ends=${SHUNT_VM_SECONDS:-900}
verbose=
passed=0 failed=0 skipped=0

# shellcheck source=tests/vm/guests.sh
. "$here/guests.sh"
# shellcheck source=tests/vm/case.sh
. "$here/case.sh"

# ---- which cases -------------------------------------------------------

list_cases() {
	local file configuration on

	for configuration in "${configurations[@]}"; do
		for file in "$here"/cases/*.sh; do
			# shellcheck source=/dev/null
			on=$(. "$file" && echo "$on")
			[[ " $on " != *" $configuration "* ]] ||
				echo "$(basename "$file" .sh).$configuration"
		done
	done
}

# select_cases PATTERN...: fails if one of them names nothing.
select_cases() {
	local all pattern name found chosen=" "

	mapfile -t all < <(list_cases)
	for pattern in "$@"; do
		found=
		[ "$pattern" != all ] || pattern='*'
		for name in "${all[@]}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ $name == $pattern || ${name%.*} == $pattern ]] ||
				continue
			found=yes
			chosen+="$name "
		done
		[ -n "$found" ] || {
			echo "run.sh: no case is called '$pattern';" \
				"run.sh list has them all" >&2
			return 1
		}
	done
	for name in "${all[@]}"; do
		[[ $chosen != *" $name "* ]] || selected+=("$name")
	done
}

# ---- what became of them -----------------------------------------------

milliseconds() { echo $((${EPOCHREALTIME/./} / 1000)); }

# report RESULT NAME SINCE [REMARK]
report() {
	local took=$(($(milliseconds) - $3))

	printf '%-4s  %-28s %5d.%d s%s\n' "$1" "$2" $((took / 1000)) \
		$((took % 1000 / 100)) "${4:+  $4}"
	case $1 in
	ok) passed=$((passed + 1)) ;;
	FAIL) failed=$((failed + 1)) ;;
	skip) skipped=$((skipped + 1)) ;;
	esac
}

finish() {
	echo
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ]
	exit
}

# ---- can guests run here at all ----------------------------------------

# Says why not.
try_guest() {
	[ "$(uname -m)" = x86_64 ] || {
		echo "the guests are x86_64, this machine is $(uname -m)"
		return 1
	}
	"$here/setup.sh" "$SHUNT_VM_DIR" >"$work/setup" 2>&1 || {
		echo "setup.sh: $(tail -n 1 "$work/setup")"
		return 1
	}
	"$here/vm.sh" -t 60 -l "$work/console" -- true \
		>"$work/trial" 2>&1 || {
		echo "no guest runs: $(grep . "$work/console" \
			"$work/trial" | tail -n 1)"
		return 1
	}
}

probe() {
	local began reason name result=skip

	began=$(milliseconds)
	reason=$(try_guest) && return
	[ "${SHUNT_VM_REQUIRED:-}" != 1 ] || {
		result=FAIL
		cat "$work/setup" "$work/trial" "$work/console" 2>/dev/null
	}
	for name in "${selected[@]}"; do
		report $result "$name" "$began" "$reason"
		began=$(milliseconds)
	done
	finish
}

# ------------------------------------------------------------------------

run_one() { # NAME
	local began result=ok

	began=$(milliseconds)
	[ $SECONDS -lt $budget_ends ] || {
		report FAIL "$1" "$began" "no time is left for it"
		return
	}
	boot || {
		report FAIL "$1" "$began" "its guests did not boot"
		tail -n 50 "$work"/console.* "$work"/guest.*
		stop_guests
		return
	}
	began=$(milliseconds)
	run_case "$here/cases/${1%.*}.sh" || result=FAIL
	report $result "$1" "$began" "$(cat "$work/complaints")"
	[ $result = ok ] && [ -z "$verbose" ] || cat "$work/shown"
	# What a failure has left behind is not the next case's.
	[ $result = ok ] || stop_guests
}

run_configuration() { # CONFIGURATION
	local name

	hosts=${1%-*}
	kind=${1#*-}
	for name in "${selected[@]}"; do
		[ "${name#*.}" != "$1" ] || run_one "$name"
	done
	stop_guests
}

[ "${1:-}" != -v ] || {
	verbose=yes
	shift
}
case ${1:-} in
"" | -*)
	sed -n '2,/^set/s/^# \?//p' "$0" | sed '$d' >&2
	exit 2
	;;
list)
	list_cases
	exit
	;;
esac
selected=()
select_cases "$@" || exit 2
work=$(mktemp -d)
trap 'stop_guests; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/share"
probe
for configuration in "${configurations[@]}"; do
	run_configuration "$configuration"
done
finish
