# One end of a connection is killed: the other is told and ends by itself.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=60
expect_a=137

host_a() {
	serve -V -S 1024
}

# For ever, but for the death of the server.
host_b() {
	await serving
	ping_by_rdma -V -S 1024
}

meddle() {
	until_true "$(time_left)" connected || return
	on_host a signal server KILL
}

connected() { [ "$(on_host b connections CONNECT)" -gt 0 ]; }
