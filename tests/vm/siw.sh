#!/bin/bash
# Builds Soft-iWARP, which Debian's kernel leaves out, as a module of its own:
#
#   siw.sh TREE RELEASE OUT
#
# TREE holds the unpacked packages linux-source, linux-headers-RELEASE, its
# -common and linux-kbuild; OUT is the siw.ko that fits kernel RELEASE.
set -euo pipefail

tree=$(realpath "$1") release=$2 out=$(realpath -m "$3")
headers=$tree/usr/src/linux-headers-$release
path=drivers/infiniband/sw/siw

tar xJf "$tree"/usr/src/linux-source-*.tar.xz -C "$tree" \
	--strip-components 1 --wildcards "*/$path/*"
# The headers name each other as if they were installed.
sed -i "s,/usr/src/,$tree/usr/src/," "$headers/Makefile"
make -s -j2 -C "$headers" M="$tree/$path" CONFIG_RDMA_SIW=m modules \
	>"$tree/siw.log" 2>&1 || {
	cat "$tree/siw.log" >&2
	exit 1
}
strip -g -o "$out" "$tree/$path/siw.ko"
