#!/usr/bin/env bash
# Every test that docs/origins.md and docs/testing.md name is there: a word of
# the form FILE: name, name, where tests/test_FILE.c has a test of that name.
#	names.sh TOP
set -euo pipefail
top=$1
wrong=0
total=0

# Lines "FILE NAME": a table's cells go one by one, a cell's parts by ";".
listed() {
	tr '|;' '\n\n' <"$1" | sed -nE \
		's/^ *([a-z0-9_]+): *([a-z0-9_]+(, *[a-z0-9_]+)*) *$/\1 \2/p' |
		while read -r file names; do
			for name in ${names//,/ }; do
				echo "$file $name"
			done
		done
}

for doc in origins testing; do
	while read -r file name; do
		total=$((total + 1))
		grep -qE "\b$name\(" \
			"$top/tests/test_$file.c" 2>/dev/null && continue
		echo "docs/$doc.md: tests/test_$file.c has no $name"
		wrong=1
	done < <(listed "$top/docs/$doc.md")
done
[[ $total -gt 40 ]] || { echo "only $total names found"; wrong=1; }
exit $wrong
