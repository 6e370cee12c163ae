# 2,000 steps, by both algorithms in turn, are exact and leave nothing behind.
# shellcheck shell=bash disable=SC2034,SC2154 # see case.sh and guest.sh
on="one-rxe one-siw two-rxe two-siw"
limit=900

host_a() { steps steps 2000; }
host_b() { steps steps 2000; }
