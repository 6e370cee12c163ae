# The cable is cut: nothing arrives any more. It is mended, and the same
# connection goes on.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=90
expect_b=143 # the client is ended by us

host_a() {
	serve -V -S 1024
}

host_b() {
	await serving
	ping_by_rdma -V -S 1024
}

# arrived_more_than N: at both hosts.
arrived_more_than() {
	[ "$(on_host a received)" -gt $(($1 + before_a)) ] &&
		[ "$(on_host b received)" -gt $(($1 + before_b)) ]
}
count() {
	before_a=$(on_host a received)
	before_b=$(on_host b received)
}
pings_flow() {
	count
	until_true "$(time_left)" arrived_more_than 100 || {
		echo "$1"
		return 1
	}
}

meddle() {
	pings_flow "no pings at all" || return
	cut_cable || return
	count
	sleep 3
	! arrived_more_than 0 || {
		echo "packets came over a cable that is cut"
		return 1
	}
	mend_cable
	pings_flow "no pings over the mended cable" || return
	on_host b signal client TERM
}
