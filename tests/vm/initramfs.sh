#!/bin/bash
# Makes the initramfs of the guests: init.sh, busybox, and kernel modules in
# the order in which they are to be loaded. All else is the host's root.
#
#   initramfs.sh KERNEL OUT
#
# KERNEL is an unpacked linux-image package with siw.ko beside its folders.
set -euo pipefail

PATH+=:/sbin # modinfo
here=$(dirname "$(readlink -f "$0")")
kernel=$1 out=$2
# rxe gets its CRC from the crypto API, which pulls nothing in by itself.
wanted=(virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay veth
	sch_netem crc32_generic crc32c_generic ib_uverbs rdma_cm rdma_ucm
	rdma_rxe "$kernel/siw.ko")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,run,modules}

modules=$(echo "$kernel"/lib/modules/*)
declare -A files=() added=()
while IFS= read -r file; do
	name=${file##*/}
	name=${name%%.ko*}
	files[${name//-/_}]=$file
done < <(find "$modules/kernel" -name '*.ko*')

builtin_module() {
	tr - _ <"$modules/modules.builtin" | grep -q "/$1\.ko$"
}

# add NAME-OR-FILE: what it depends on first.
add() {
	local name file copy dependency

	name=${1##*/}
	name=${name%%.ko*}
	name=${name//-/_}
	[ -z "${added[$name]:-}" ] || return 0
	added[$name]=yes
	case $1 in
	*/*) file=$1 ;;
	*) file=${files[$name]:-} ;;
	esac
	[ -n "$file" ] || {
		builtin_module "$name" && return
		echo "initramfs.sh: no module $name in $modules" >&2
		return 1
	}
	copy=$root/modules/$name.ko
	case $file in
	*.xz) xz -dc "$file" >"$copy" ;;
	*.zst) zstd -dcq "$file" >"$copy" ;;
	*) cp "$file" "$copy" ;;
	esac
	for dependency in $(modinfo -F depends "$copy" | tr , ' '); do
		add "$dependency"
	done
	echo "$name.ko" >>"$root/modules/list"
}

for module in "${wanted[@]}"; do
	add "$module"
done
install -m 755 "$here/init.sh" "$root/init"
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for applet in $(busybox --list); do
	[ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
(cd "$root" && find . -print0 |
	cpio -0 -o -H newc --quiet --owner=0:0) >"$out.new"
mv "$out.new" "$out"
