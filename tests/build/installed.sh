#!/bin/bash
# What `cmake --install` makes is enough to build and run a program elsewhere,
# through pkg-config and through CMake, and the installed shunt runs.
# Usage: installed.sh CMAKE BUILD_DIR PROGRAM_SOURCE_DIR CC VERSION
set -euo pipefail

cmake=$1
build=$2
source=$3
cc=$4
version=$5
# A space, so that nobody forgets his quotes.
work=$(mktemp -d "/tmp/shunt installed.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

expect() {
	local said
	said=$("${@:2}")
	[ "$said" = "$1" ] || {
		echo "'${*:2}' says '$said', not '$1'" >&2
		exit 1
	}
}

"$cmake" --install "$build" --prefix "$prefix" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
library=$(find "$prefix" -name libshunt.so)
lib=$(dirname "$library")
"$prefix/bin/shunt" --help | grep -q bench

export PKG_CONFIG_PATH=$lib/pkgconfig
expect "$version" pkg-config --modversion shunt
# pkg-config escapes spaces for a shell.
eval "flags=($(pkg-config --cflags --libs shunt))"
# shellcheck disable=SC2154 # set by eval
"$cc" "$source/program.c" -o "$work/by-pkg-config" "${flags[@]}" \
	-Wl,-rpath,"$lib"
expect "$version" "$work/by-pkg-config"

"$cmake" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$cc" \
	-DCMAKE_PREFIX_PATH="$prefix" >"$work/log"
"$cmake" --build "$work/build" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
expect "$version" "$work/build/program"
