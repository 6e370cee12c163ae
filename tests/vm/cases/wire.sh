# Both hosts ping each other by RDMA, the data is checked, and the packets went
# over the wire.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=60
pings=50

device_is_up() {
	rdma link show "$device/1" | grep -q "state ACTIVE"
}

# A ping is a read, a write and two messages, of a packet each or more.
check_wire() {
	[ "$(received)" -ge $((4 * pings)) ] ||
		fail "only $(received) packets came over the wire"
}

host_a() {
	device_is_up || fail "$(rdma link)"
	serve -V -S 8192 -C $pings || fail "server: $?"
	await swapped
	ping_by_rdma -V -S 8192 -C $pings || fail "client: $?"
	check_wire
}

host_b() {
	device_is_up || fail "$(rdma link)"
	await serving
	ping_by_rdma -V -S 8192 -C $pings || fail "client: $?"
	rm "$exchange/serving"
	(await serving && tell swapped) &
	serve -V -S 8192 -C $pings || fail "server: $?"
	check_wire
}
