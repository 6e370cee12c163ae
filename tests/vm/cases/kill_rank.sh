# A rank is killed: the others are told so, and which, and go on without it;
# those who come after find nothing in the way.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=180

go() {
	steps lose 2
	[ $? = "$1" ] || fail "ranks of host $host: not as expected"
	tell "$host-is-through"
	await a-is-through
	await b-is-through
	steps steps 20
}
host_a() { go 0; }
host_b() { go 137; }

meddle() {
	await_line b "rank 2: step 20" || return
	on_host b signal rank2 KILL
}
