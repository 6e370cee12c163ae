#!/bin/bash
# Fetches Debian's stock kernel of this release and makes what vm.sh boots:
#
#   setup.sh DIR     DIR/vmlinux and DIR/initramfs, with rdma_rxe and siw
#
# The kernel is unpacked, never installed. What is there already is kept, so
# that a second run costs nothing. The programs it needs are those of needs_vm
# in build.sh, which installs them.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
dir=${1:?usage: setup.sh DIR}
mkdir -p "$dir"
dir=$(realpath "$dir")
exec 9>"$dir/lock"
flock 9

# The name that a package depends on, of those that begin as told.
depends_on() { # PACKAGE BEGINNING
	apt-cache depends "$1" | sed -n "s/.*Depends: \($2[^ ]*\)/\1/p" |
		head -n 1
}

apt_update() {
	apt-get -qq update || echo "    apt-get update had errors; going on" >&2
}

# Lists may be missing, or be older than what the mirror still has.
download() { # PACKAGE[=VERSION]...
	local get=(apt-get -qq -o "APT::Sandbox::User=$(id -un)" download)

	(cd "$work" && "${get[@]}" "$@" 2>/dev/null) && return
	apt_update
	(cd "$work" && "${get[@]}" "$@")
}

unpack() { # INTO
	local deb

	for deb in "$work"/*.deb; do
		dpkg -x "$deb" "$1"
		rm "$deb"
	done
}

# Everything goes to a folder that takes its name when it is complete.
fetch_kernel() {
	local image release version headers series

	image=$(depends_on linux-image-amd64 linux-image-)
	[ -n "$image" ] || {
		apt_update
		image=$(depends_on linux-image-amd64 linux-image-)
	}
	[ -n "$image" ] || {
		echo "setup.sh: apt knows no linux-image-amd64" >&2
		return 1
	}
	release=${image#linux-image-}
	version=$(apt-cache show "$image" | sed -n 's/^Version: //p' |
		head -n 1)
	headers=linux-headers-$release
	series=$(cut -d. -f1,2 <<<"$release")
	download "$image=$version"
	unpack "$work/kernel"
	"$here/vmlinux.sh" "$work/kernel/boot/vmlinuz-$release" \
		"$work/kernel/vmlinux"
	download "$headers=$version" "linux-source-$series=$version" \
		"$(depends_on "$headers" linux-headers-)=$version" \
		"$(depends_on "$headers" linux-kbuild-)=$version"
	unpack "$work/source"
	"$here/siw.sh" "$work/source" "$release" "$work/kernel/siw.ko"
	mv "$work/kernel" "$dir/kernel"
}

is_current() {
	local from

	[ -f "$dir/initramfs" ] || return 1
	for from in "$dir/kernel" "$here/initramfs.sh" "$here/init.sh"; do
		[ "$dir/initramfs" -nt "$from" ] || return 1
	done
}

work=$(mktemp -d -p "$dir")
trap 'rm -rf "$work"' EXIT
[ -d "$dir/kernel" ] || fetch_kernel
ln -sf kernel/vmlinux "$dir/vmlinux"
is_current || "$here/initramfs.sh" "$dir/kernel" "$dir/initramfs"
