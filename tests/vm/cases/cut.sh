# The cable is cut, for longer than anybody tries: both sides name the ranks that
# they do not reach, and go on by themselves. Mended, it carries a new job.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=150
patience=17

# go RANKS: those that will be missing.
go() {
	steps lose "$1" || fail "ranks of host $host: not as expected"
	tell "$host-is-through"
	await mended
	patience=18
	steps steps 20
}
host_a() { go 2,3; }
host_b() { go 0,1; }

meddle() {
	await_line a "rank 0: step 20" || return
	cut_cable || return
	await a-is-through && await b-is-through || return
	mend_cable
	tell mended
}
