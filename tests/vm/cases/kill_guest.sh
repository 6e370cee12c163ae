# A whole host dies: there is nobody who would tell the survivors, who are sure
# of it by what gets no answer. They name its ranks and go on without them. What
# runs after this case shows that a host can come back.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="two-rxe two-siw"
limit=120
expect_b=gone
patience=17

host_a() { steps lose 2,3; }
host_b() { steps lose 0,1; }

meddle() {
	await_line a "rank 0: step 20" || return
	kill_guest b
}
