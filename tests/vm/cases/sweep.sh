# Drawn cases of exchanges equal the reference: shapes, types, placements,
# layouts, masks, algorithms, overlaps, TP groups, over hosts. Where one guest is
# both hosts, also with ranks that are threads, of one process or of several.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=300

go() {
	sweep 1 0 30 &&
		SHUNT_RDMA_LANES=3 sweep 1 100 15 &&
		SHUNT_RDMA_QUEUE_DEPTH=4 sweep 1 200 15
}

host_a() {
	go || return
	[ "$hosts" = one ] || return 0
	SHUNT_TEST_RDMA=$own,$peer SHUNT_RDMA_ACK_TIMEOUT=$patience \
		SHUNT_TEST_SCALE=small "$build/tests/test_sweep" --hosts 0011
}
host_b() { go; }
