# A wire that loses packets and swaps others: steps are exact all the same.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=180
patience=17

go() {
	await shaped
	steps steps 100 || return
	[ "$(dropped)" -gt 0 ] || fail "netem has dropped nothing"
}
host_a() { go; }
host_b() { go; }

meddle() {
	shape loss 1% delay 1ms reorder 50% && tell shaped
}
