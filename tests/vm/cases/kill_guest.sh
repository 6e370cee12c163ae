# A whole host dies: there is nobody who would tell the survivor, who is sure of
# it only by what gets no answer. What runs after this case shows that a host
# can come back.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="two-rxe two-siw"
limit=60
expect_b=gone

is_silent() {
	! busybox ping -q -c 1 -W 1 "$peer" >/dev/null
}

host_a() {
	await dead
	is_silent || fail "a dead host answers"
	! timeout 8 rping -c -a "$peer" -I "$own" -C 1 ||
		fail "a dead host takes connections"
}

host_b() {
	busybox ping -q -c 1 "$peer" >/dev/null || fail "no wire"
	tell alive
	sleep 1000
}

meddle() {
	await alive || return
	kill_guest b && tell dead
}
