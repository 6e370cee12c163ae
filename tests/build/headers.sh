#!/bin/bash
# Every header of a folder compiles alone, and twice in one file.
# Usage: headers.sh FOLDER COMPILER FLAG...
# A header named *_template.h is code that its folder includes several times
# with other macros; it is no interface, and left out.
set -u

folder=$1
shift
failures=0

for header in "$folder"/*.h; do
	[ -e "$header" ] || continue
	[[ $header != *_template.h ]] || continue
	printf '#include "%s"\n#include "%s"\nextern int empty;\n' \
		"$header" "$header" | "$@" -fsyntax-only - || {
		echo "$header does not compile alone" >&2
		failures=$((failures + 1))
	}
done
[ $failures = 0 ]
