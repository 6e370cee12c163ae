#!/bin/bash
# Runs a command in a guest with Soft-RoCE or Soft-iWARP, whose root is the
# host's: programs built on the host run as they are, and what they write
# vanishes, but for /run/vm, a folder that guest and host share.
#
#   vm.sh [OPTION...] -- COMMAND [ARGUMENT...]
#
# -w HOST:DIR  the guest is host a or b of two on one wire, whose sockets are
#              in DIR; without it, it is both hosts on a wire of its own
# -d DEVICE    rxe (default) or siw
# -b DIR       what setup.sh made (build/vm, or SHUNT_VM_DIR)
# -s DIR       the shared folder (a temporary one)
# -l FILE      the console (shown only if the guest fails)
# -u MTU (9000)   -c CPUS (2)   -m MEMORY (1G)   -t SECONDS (120)
#
# The command's output comes on stdout as it is written, its exit status is
# vm.sh's; 125 if the guest did not come that far. DIR/HOST.pid, of the shared
# folder, has QEMU's process (HOST is `one' without -w).
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
boot_dir=${SHUNT_VM_DIR:-$here/../../build/vm}
host=one wire='' device=rxe share='' console='' mtu=9000 cpus=2 memory=1G
limit=120

usage() {
	sed -n '2,/^set/s/^# \?//p' "$0" | sed '$d' >&2
	exit 2
}

while getopts w:d:b:s:l:u:c:m:t: option; do
	case $option in
	w)
		host=${OPTARG%%:*}
		wire=${OPTARG#*:}
		;;
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
case $host:$wire in
one: | a:?* | b:?*) ;;
*) usage ;;
esac
[ -f "$boot_dir/vmlinux" ] && [ -f "$boot_dir/initramfs" ] || {
	echo "vm.sh: nothing to boot in $boot_dir; run setup.sh $boot_dir" >&2
	exit 125
}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
: "${share:=$temporary/share}" "${console:=$temporary/console}"
mkdir -p "$share"
share=$(realpath "$share")
rm -f "$share/$host".{status,began,pid}
{
	printf 'bash %q/network.sh %s %s %s || exit 125\n' \
		"$here" "$host" "$device" "$mtu"
	printf 'cd %q 2>/dev/null || cd /\nexec' "$PWD"
	printf ' %q' "$@"
	echo
} >"$share/$host.command"

net=()
if [ "$host" != one ]; then
	other=$(tr ab ba <<<"$host")
	net=(-netdev "dgram,id=wire,local.type=unix,local.path=$wire/$host,\
remote.type=unix,remote.path=$wire/$other"
		-device "virtio-net-pci,netdev=wire,romfile=,\
mac=52:54:00:00:00:0$((16#$host - 9))")
fi
kernel_arguments="VM_NAME=$host console=ttyS0 quiet panic=-1 mitigations=off
	no5lvl nokaslr nomodeset audit=0 tsc=reliable no_timer_check
	random.trust_cpu=on cryptomgr.notests rcupdate.rcu_expedited=1"

# Always emulated: /dev/kvm may open and yet hang the guest. Whatever ends
# vm.sh ends the guest. Output goes to the inherited descriptor 3, since a
# serial port on stdio blocks once stdin has ended.
boot() {
	setpriv --pdeathsig TERM timeout -k 5 "$limit" \
		setpriv --pdeathsig KILL \
		qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max \
		-smp "$cpus" -m "$memory" -nodefaults -no-user-config \
		-display none -no-reboot -pidfile "$share/$host.pid" \
		-kernel "$boot_dir/vmlinux" -initrd "$boot_dir/initramfs" \
		-append "${kernel_arguments//$'\n'/ }" \
		-serial "file:$console" -device virtio-serial-pci \
		-add-fd fd=3,set=1 \
		-chardev file,id=out,path=/dev/fdset/1,append=on \
		-device virtserialport,chardev=out \
		-virtfs "local,path=/,mount_tag=host,security_model=none,\
readonly=on,multidevs=remap" \
		-virtfs "local,path=$share,mount_tag=share,\
security_model=none" \
		"${net[@]}" 3>&1 </dev/null
}

# A guest that died before its command began (an emulated processor's rare
# slip, of 1 in some hundred boots) is booted again; no other is.
for _ in 1 2 3; do
	boot
	emulator=$?
	[ ! -e "$share/$host.began" ] && [ "$emulator" -gt 124 ] || break
done
status=$(cat "$share/$host.status" 2>/dev/null)
[ -n "$status" ] || {
	echo "vm.sh: host $host left no exit status (QEMU's: $emulator);" \
		"the end of its console:" >&2
	tail -n 50 "$console" >&2
	status=125
}
exit "$status"
