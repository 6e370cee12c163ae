# `shunt bench --hosts` over both hosts: every output of every step is exact, by
# either algorithm, and rank 0 tells what went over the wire.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=120

# bench OPTION...: as a rank.
bench() {
	"$build/bin/shunt" bench --hosts 2 --tokens 16 --hidden 512 --topk 4 \
		--experts 16 --iters 10 --warmup 2 --check \
		--rdma-interface "$wire" "$@"
}

# A guest that has to wait for a processor is slow to answer, not dead.
both() {
	local algorithm

	export SHUNT_KEY=sesame SHUNT_RDMA_ACK_TIMEOUT=18
	for algorithm in fullmesh hierarchy; do
		ranks 2 bench --algorithm "$algorithm" || fail "$algorithm: $?"
	done
}
host_a() { both; }
host_b() { both; }
