#!/bin/bash
# A module can include the headers of the modules it may see, and no others.
# Usage: layers.sh CC "SEEN MODULES" FOLDER... -- INCLUDE_FLAG...
# A folder is named like its module. Tries one header of each folder.
set -u
export LC_ALL=C

cc=$1
seen=" $2 "
shift 2
folders=()
while [ "$1" != -- ]; do
	folders+=("$1")
	shift
done
shift
tried=0
failures=0

complain() {
	echo "$*" >&2
	failures=$((failures + 1))
}

# Compiles the one line; what the compiler says goes to $said.
can_include() {
	said=$(echo "#include \"$1\"" |
		"$cc" -fsyntax-only -D_GNU_SOURCE "${@:2}" -x c - 2>&1)
}

for folder in "${folders[@]}"; do
	module=$(basename "$folder")
	header=$(find "$folder/" -maxdepth 1 -name '*.h' \
		! -name '*_template.h' | sort | head -n 1)
	[ -n "$header" ] || continue
	include=$module/$(basename "$header")
	tried=$((tried + 1))
	if [[ $seen = *" $module "* ]]; then
		can_include "$include" "$@" ||
			complain "cannot include $include: $said"
	elif can_include "$include" "$@"; then
		complain "can include $include, but must not"
	elif ! grep -qE "$include.*(No such file|file not found)" \
		<<<"$said"; then
		complain "$include fails for another reason: $said"
	fi
done
[ $tried -gt 0 ] || complain "no header was tried"
[ $failures = 0 ]
