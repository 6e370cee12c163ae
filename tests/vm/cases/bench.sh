# `shunt bench' over two hosts of two ranks: every output of every step is what
# the reference says, by either algorithm and whatever travels.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=180
load=(--experts 12 --topk 4 --warmup 1)

# exact OPTION...: with rank 0's report.
exact() {
	echo "bench $*"
	bench "${load[@]}" "$@" || fail "bench $*: $?"
}

go() {
	exact --tokens 32 --hidden 512 --iters 3 --stats
	exact --tokens 16 --hidden 256 --iters 3 --algorithm fullmesh \
		--quant none --combine-quant int8-128
	exact --tokens 16 --hidden 256 --iters 3 --algorithm hierarchy \
		--quant mxfp8 --split --feed --depth 3
	exact --tokens 16 --hidden 256 --iters 3 --algorithm hierarchy \
		--exact-sums --quant e4m3-128 --residual --gamma f32
}

host_a() {
	go > >(tee /run/case/said)
	# What went between hosts is told, and did go there.
	grep -q "2 hosts: ranks 0 1 | 2 3" /run/case/said ||
		fail "the report has no two hosts"
	[ "$(received)" -gt 100 ] || fail "only $(received) packets came"
}
host_b() { go; }
