#!/bin/bash
# Builds the kernel of uml.sh's guests, of Debian's newest source package:
#
#   uml_setup.sh DIR     DIR/linux, with rdma_rxe and siw built in
#
# User-Mode Linux has several processors from 6.19 on, which this release of
# Debian does not have: the source comes from the backports of the next one, by
# lists of packages in a folder of their own. Nothing is installed. It takes
# 170 MB, 3 GB while it builds, and about nine minutes of a processor. What is
# there already is kept. The programs it needs are those of needs_uml in
# build.sh, which installs them.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
dir=${1:?usage: uml_setup.sh DIR}
suite=trixie-backports
mirror=http://deb.debian.org/debian
mkdir -p "$dir"
dir=$(realpath "$dir")
exec 9>"$dir/lock"
flock 9
[ ! -x "$dir/linux" ] || exit 0

work=$(mktemp -d -p "$dir")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/tree"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
	"$mirror $suite main" >"$work/sources"
options=(-qq -o "Dir::Etc::sourcelist=$work/sources"
	-o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
	-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
	-o "APT::Sandbox::User=$(id -un)")

apt-get "${options[@]}" update
package=$(apt-cache "${options[@]}" search --names-only '^linux-source-[0-9]' |
	cut -d' ' -f1 | sort -V | tail -n 1)
[ -n "$package" ] || {
	echo "uml_setup.sh: $mirror has no linux-source in $suite" >&2
	exit 1
}
(cd "$work" && apt-get "${options[@]}" download "$package")
dpkg -x "$work"/*.deb "$work/package"
tar xf "$work"/package/usr/src/linux-source-*.tar.xz -C "$work/tree" \
	--strip-components 1
rm -r "$work"/*.deb "$work/package"
make -s -C "$work/tree" ARCH=um KCONFIG_ALLCONFIG="$here/uml.config" \
	allnoconfig
make -s -C "$work/tree" ARCH=um -j"${SHUNT_JOBS:-$(nproc)}" linux \
	>"$dir/build.log" 2>&1 || {
	tail -n 20 "$dir/build.log" >&2
	exit 1
}
strip -o "$work/linux" "$work/tree/linux"
mv "$work/linux" "$dir/linux"
