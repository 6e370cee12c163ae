# What guest.sh starts as ranks has torchrun's variables, and a rank that is
# killed is told as such, while the others go on.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe two-rxe"
limit=60
expect_a=0
expect_b=137

# One rank's program.
be_rank() {
	echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE" \
		"$SHUNT_HOST_ID $MASTER_ADDR:$MASTER_PORT"
	tell "rank$RANK"
	await killed
}

host_a() { ranks 2 be_rank; }
host_b() { ranks 2 be_rank; }

meddle() {
	local rank

	for rank in 0 1 2 3; do
		await "rank$rank" || return
	done
	await_line a "rank 1: 1/4 1/2 a 10.78.0.1:29500" || return
	await_line b "rank 2: 2/4 0/2 b 10.78.0.1:29500" || return
	on_host b signal rank2 KILL || return
	tell killed
	await_line b "rank 2 ended: 137" &&
		await_line b "rank 3 ended: 0"
}
