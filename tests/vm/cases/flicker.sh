# The cable is cut, for a shorter time than is tried: that costs time and
# nothing else.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=120
# With the rests these take 3 s at least, so that the cable is cut meanwhile.
count=150

host_a() { steps steps $count 20; }
host_b() { steps steps $count 20; }

# All lines of steps, by all ranks.
progress() { cat "${main[a]}.out" "${main[b]}.out" | grep -c ": step "; }

meddle() {
	local before

	await_line a "rank 0: step 20" || return
	cut_cable || return
	sleep 0.3 # packets that were under way
	before=$(progress)
	sleep 1
	[ "$(progress)" = "$before" ] || {
		echo "steps go on over a cable that is cut"
		return 1
	}
	! has_written a "rank 0 ended" && ! has_written b "rank 2 ended" || {
		echo "the steps were over before the cable was cut"
		return 1
	}
	mend_cable
	await_line a "rank 0: step $((count / 20 * 20))" &&
		await_line b "rank 3: step $((count / 20 * 20))"
}
