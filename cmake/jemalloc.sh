#!/bin/bash
# Makes the private jemalloc: fetches the source package of the machine's own
# distribution, verified by apt, and builds it under another name, so that
# libshunt.so can be loaded by dlopen and the process keeps its own malloc.
#
#	cmake/jemalloc.sh CACHE_DIR COMPILER
#
# Prints the directory that has include/shunt_jemalloc.h and
# lib/libshunt_jemalloc.a; all else goes to stderr. A second call finds it in
# the cache. Calls at the same time, and calls that are cut off, do no harm:
# one builds at a time, in a directory of its own, and what is complete is
# renamed into place.
set -euo pipefail

say() {
	echo "jemalloc: $*" >&2
}

die() {
	say "$@"
	exit 1
}

# Copies the distribution's entries of apt's sources to $1, as source entries.
# What is not known to be the distribution's stays out, to ask nobody in vain;
# if nothing is known (no apt-get update yet), all entries are taken.
write_sources() {
	local origins='^(Debian|Ubuntu|Raspbian|Devuan|Kali)[^ ]* '
	local files file
	# shellcheck disable=SC2016 # apt expands it
	local format='$(ORIGIN) $(SOURCESENTRY)'

	mkdir "$1"
	files=$(apt-get indextargets --format "$format" 'Created-By: Packages' |
		sed -nE "s/$origins//; T; s/:[0-9]+\$//p" | sort -u)
	if [ -z "$files" ]; then
		files=$(find /etc/apt/sources.list /etc/apt/sources.list.d \
			-name '*.list' -o -name '*.sources' 2>/dev/null) ||
			true # one of the two need not be there
	fi
	while read -r file; do
		case "$file" in
		*.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
		*.list) sed -nE 's/^deb[[:space:]]/deb-src /p' "$file" ;;
		esac >"$1/$(basename "$file")"
	done <<<"$files"
}

# Fetches and unpacks the source package below $1, with lists of its own, so
# that it needs no root and leaves the machine's lists alone.
fetch() {
	local apt=(apt-get -qq
		-o Dir::Etc::sourcelist=/dev/null
		-o Dir::Etc::sourceparts="$1/sources"
		-o Dir::State::Lists="$1/lists"
		-o Dir::Cache="$1/cache"
		-o APT::Sandbox::User="$(id -un)"
		-o Acquire::AllowInsecureRepositories=false
		-o Acquire::Retries=3)

	write_sources "$1/sources"
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/source"
	# One list that cannot be had need not matter; the source tells.
	"${apt[@]}" update >&2 || say "apt-get update had errors"
	(cd "$1/source" && "${apt[@]}" source jemalloc >&2) || die \
		"apt-get source jemalloc failed (see above). It needs the" \
		"network, and a mirror with source packages for the entries" \
		"in /etc/apt. Where there is none, build jemalloc >= 5.3" \
		"elsewhere with this script, and copy its cache directory" \
		"($cache) here."
}

# shellcheck disable=SC2054 # jemalloc's own commas
configure_options=(
	--with-jemalloc-prefix=shunt_je_
	--with-private-namespace=shunt_je_private_
	--with-install-suffix=_shunt
	--without-export
	# The only users are arenas made by hand: no thread caches, and no
	# arena per core for the rest.
	--with-malloc-conf=tcache:false,narenas:1
	--disable-initial-exec-tls
	--disable-cache-oblivious
	--disable-shared
	--disable-cxx
	--disable-doc
	--disable-stats
	--disable-fill
	--disable-libdl
)

# Builds the source below $1 to $2. Paths may hold spaces in $2, not in $1:
# make cannot.
build() {
	cd "$1"/source/jemalloc-*/
	[ -x configure ] || autoconf >&2
	CC=$compiler CFLAGS="-g -O2 -fPIC -fvisibility=hidden" \
		./configure "${configure_options[@]}" >&2
	make -s -j"$(nproc)" lib/libjemalloc_shunt.a >&2
	mkdir -p "$2/include" "$2/lib"
	cp include/jemalloc/jemalloc_shunt.h "$2/include/shunt_jemalloc.h"
	cp lib/libjemalloc_shunt.a "$2/lib/libshunt_jemalloc.a"
	cp COPYING "$2/"
}

# A jemalloc that defines malloc itself would replace the process's.
check_names() {
	local defined

	defined=$(nm --defined-only "$1/lib/libshunt_jemalloc.a")
	grep -q ' T shunt_je_mallocx$' <<<"$defined" ||
		die "the build lacks shunt_je_mallocx"
	! grep -qE ' [TWV] (malloc|free|calloc|realloc|posix_memalign)$' \
		<<<"$defined" || die "the build would replace malloc"
}

[ $# = 2 ] || die "usage: $0 CACHE_DIR COMPILER"
mkdir -p "$1"
cache=$(cd "$1" && pwd)
compiler=$2
key=$(sha256sum <"$0" | cut -c1-12)-$(uname -m)-$(getconf PAGESIZE)
result=$cache/jemalloc-$key

exec 9>"$cache/jemalloc.lock"
flock -n 9 || {
	say "another build makes it; waiting"
	flock 9
}
# Shows the end of the log if the build failed, and cleans up. stderr is the
# log by then; 3 is where people read.
finish() {
	local status=$?

	if [ $status != 0 ]; then
		tail -n 40 "$work/log" >&3
		echo "jemalloc: the build failed (see above)" >&3
	fi
	rm -rf "$work" "$staging"
}

if [ ! -d "$result" ]; then
	for tool in apt-get dpkg-source make nm; do
		command -v "$tool" >/dev/null ||
			die "$tool is missing: install dpkg-dev and make"
	done
	say "fetching and building it, once (about a minute)"
	rm -rf "$cache"/staging.*
	work=$(mktemp -d /tmp/shunt-jemalloc.XXXXXX)
	staging=$(mktemp -d "$cache/staging.XXXXXX")
	trap finish EXIT
	exec 3>&2 2>"$work/log"
	fetch "$work"
	build "$work" "$staging"
	check_names "$staging"
	exec 2>&3
	chmod 755 "$staging"
	mv -T "$staging" "$result"
	say "done: $result"
fi
echo "$result"
