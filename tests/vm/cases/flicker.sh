# The cable is cut, for a shorter time than is tried: that costs time and
# nothing else.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=120
patience=19
# With the rests these take 5 s at least, so that the cable is cut meanwhile.
count=250

host_a() { steps steps $count 20; }
host_b() { steps steps $count 20; }

# By the guest's own clock: a loaded machine takes its time to tell it.
flicker() {
	shape loss 100% && sleep 1.5 && dropped >/run/case/dropped.$host &&
		unshape && [ "$(cat /run/case/dropped.$host)" -gt 0 ] ||
		fail "nothing was lost on the cable that was cut"
}

meddle() {
	local at_a

	await_line a "rank 0: step 20" || return
	on_host a flicker &
	at_a=$!
	on_host b flicker && wait $at_a
}
