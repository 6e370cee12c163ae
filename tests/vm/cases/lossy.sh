# A wire that loses packets and swaps others: the data is right all the same.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=120
expect_b=143 # the client is ended by us, when enough was lost

host_a() {
	await shaped
	serve -V -S 8192
	[ "$(dropped)" -gt 0 ] || fail "netem has dropped nothing"
}

host_b() {
	await serving
	ping_by_rdma -V -S 8192
}

dropped_some() {
	[ "$(on_host a dropped)" -gt 0 ] && [ "$(on_host b dropped)" -gt 0 ]
}

meddle() {
	shape loss 1% delay 1ms reorder 50% || return
	tell shaped
	until_true "$(time_left)" dropped_some || {
		echo "too little was lost"
		return 1
	}
	on_host b signal client TERM
}
