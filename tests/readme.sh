#!/bin/bash
# The program in README.md is examples/first_step.c, and does what it says.
# Usage: readme.sh SHUNT
set -euo pipefail

shunt=$1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
example=$(dirname "$shunt")/../examples/first_step

sed -n '/^```c$/,/^```$/p' "$top/README.md" | sed '1d;$d' |
	diff - "$top/examples/first_step.c"
"$shunt" run -n 4 -- "$example" | sort |
	diff - <(for rank in 0 1 2 3; do
		echo "rank $rank of 4: token 3 was 4, came back as 8"
	done)
echo "README.md's program works"
