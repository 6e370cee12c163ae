# Drawn cases of exchanges equal the reference: shapes, types, placements,
# layouts, masks, algorithms, overlaps, TP groups, over hosts.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=120

go() {
	sweep 1 0 30 &&
		SHUNT_RDMA_LANES=3 sweep 1 100 15 &&
		SHUNT_RDMA_QUEUE_DEPTH=4 sweep 1 200 15
}
host_a() { go; }
host_b() { go; }
