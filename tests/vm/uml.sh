#!/bin/bash
# Runs a command in a guest of User-Mode Linux, which is both hosts on a wire of
# its own, with Soft-RoCE or Soft-iWARP:
#
#   uml.sh [OPTION...] -- COMMAND [ARGUMENT...]
#
# Programs run as fast as on the host, what the kernel does is slow. That is for
# measuring; cases run in the guests of vm.sh, whose kernel is Debian's. As there,
# the guest's root is the host's, what is written vanishes, but for /run/vm.
#
# -d DEVICE    rxe (default) or siw
# -b DIR       what uml_setup.sh made (build/uml, or SHUNT_UML_DIR)
# -s DIR       the shared folder (a temporary one)
# -l FILE      the console (shown only if the guest fails)
# -u MTU (9000)   -c CPUS (2)   -m MEMORY (2G)   -t SECONDS (120)
#
# The command's output comes on stdout, its exit status is uml.sh's; 125 if the
# guest did not come that far.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
boot_dir=${SHUNT_UML_DIR:-$here/../../build/uml}
device=rxe share='' console='' mtu=9000 cpus=2 memory=2G limit=120

usage() {
	sed -n '2,/^set/s/^# \?//p' "$0" | sed '$d' >&2
	exit 2
}

while getopts d:b:s:l:u:c:m:t: option; do
	case $option in
	d) device=$OPTARG ;;
	b) boot_dir=$OPTARG ;;
	s) share=$OPTARG ;;
	l) console=$OPTARG ;;
	u) mtu=$OPTARG ;;
	c) cpus=$OPTARG ;;
	m) memory=$OPTARG ;;
	t) limit=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
[ -x "$boot_dir/linux" ] || {
	echo "uml.sh: nothing to boot in $boot_dir; run" \
		"uml_setup.sh $boot_dir" >&2
	exit 125
}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
: "${share:=$temporary/share}" "${console:=$temporary/console}"
mkdir -p "$share"
share=$(realpath "$share")
rm -f "$share/status"
{
	printf 'bash %q/network.sh one %s %s || exit 125\n' \
		"$here" "$device" "$mtu"
	printf 'cd %q 2>/dev/null || cd /\nexec' "$PWD"
	printf ' %q' "$@"
	echo
} >"$share/command"

# The second serial line, descriptor 3, is for what the command writes.
setpriv --pdeathsig TERM timeout -k 5 "$limit" \
	"$boot_dir/linux" uml_dir="$temporary/" root=/dev/root \
	rootfstype=hostfs rootflags=/ ro init="$here/uml_init.sh" seccomp=on \
	ncpus="$cpus" mem="$memory" panic=-1 con=null con0=null,fd:1 \
	ssl=null ssl0=null,fd:3 VM_SHARE="$share" \
	3>&1 >"$console" 2>&1 </dev/null
kernel=$?
status=$(cat "$share/status" 2>/dev/null)
[ -n "$status" ] || {
	echo "uml.sh: the guest left no exit status (the kernel's: $kernel);" \
		"the end of its console:" >&2
	tail -n 50 "$console" >&2
	status=125
}
exit "$status"
