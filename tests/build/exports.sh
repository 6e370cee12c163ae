#!/bin/bash
# The library defines shunt_* for others, and nothing else: above all no malloc.
# Usage: exports.sh LIBRARY
set -euo pipefail

names=$(nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//')
grep -qx shunt_version <<<"$names" || {
	echo "shunt_version is not exported" >&2
	exit 1
}
# SHUNT_0 is the name of the version itself.
others=$(grep -vE '^(shunt_[a-z0-9_]+|SHUNT_0)$' <<<"$names" || true)
private=$(grep -E '^shunt_je_' <<<"$names" || true)
[ -z "$others$private" ] || {
	echo "exported, but not ours to export: $others $private" >&2
	exit 1
}
