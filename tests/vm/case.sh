# Runs one case; sourced by run.sh. A case is a file of tests/vm/cases:
#
#   on         the configurations that it runs in, of those in run.sh
#   limit      seconds that it may take, boots aside
#   host_a     what host a does, and host_b: functions that run in the guests,
#              with what is in guest.sh
#   expect_a   how host_a ends, a pattern of exit statuses (0), or `gone' for a
#   expect_b   host whose guest the case kills
#   meddle     optional: runs beside them, outside, with what is here from the
#              first line on; its failure is the case's
# shellcheck shell=bash
# shellcheck disable=SC2154 # here, work, build, hosts, kind: of run.sh

# ---- for meddle() ------------------------------------------------------

time_left() { echo $((case_ends > SECONDS ? case_ends - SECONDS : 0)); }

# on_host HOST COMMAND...: in its guest, to its end, with what is in guest.sh.
on_host() {
	local agent job

	agent=$(agent_of "$1")
	job=$(guest_script "$1" "${@:2}" | submit "$agent")
	await_job "$job" "$agent" "$(time_left)"
}

# Both ends of the wire, as guest.sh has it for one.
shape() { on_host a shape "$@" && on_host b shape "$@"; }
unshape() { on_host a unshape && on_host b unshape; }
cut_cable() { shape loss 100%; }
mend_cable() { unshape; }

# Pulls its power cord.
kill_guest() { # HOST
	: >"$work/killed.$1"
	stop_guest "$(agent_of "$1")"
}

# What hosts tell each other, and the lines that they write.
tell() { : >"$work/share/exchange/$1"; }
was_told() { [ -e "$work/share/exchange/$1" ]; }
# Nobody tells anything more once both have ended.
was_told_or_is_over() { was_told "$1" || both_ended; }
await() {
	until_true "$(time_left)" was_told_or_is_over "$1"
	was_told "$1" || {
		echo "nobody told '$1'"
		return 1
	}
}
has_written() { grep -qF -e "$2" "${main[$1]}.out" 2>/dev/null; }
has_written_or_is_over() { has_written "$@" || both_ended; }
await_line() { # HOST TEXT
	until_true "$(time_left)" has_written_or_is_over "$1" "$2"
	has_written "$1" "$2" || {
		echo "host $1 did not write '$2'"
		return 1
	}
}

# ---- running one -------------------------------------------------------

# guest_script HOST COMMAND...: what guest.sh needs to know, and the command.
guest_script() {
	printf '%s=%q\n' host "$1" hosts "$hosts" kind "$kind" \
		build "$build" exchange /run/vm/exchange
	printf '. %q\n' "$here/guest.sh" "$case_file"
	printf '%q ' "${@:2}"
}

both_ended() {
	has_ended "${main[a]}" "$(agent_of a)" &&
		has_ended "${main[b]}" "$(agent_of b)"
}

# How a host's function ended: an exit status, `gone', or what went wrong.
end_of() { # HOST
	if [ -e "${main[$1]}.status" ]; then
		cat "${main[$1]}.status"
	elif [ -e "$work/killed.$1" ]; then
		echo gone
	elif is_alive "$(agent_of "$1")"; then
		echo "still running"
	else
		echo "its guest died"
	fi
}

judge() { # HOST EXPECTED
	local end

	end=$(end_of "$1")
	# shellcheck disable=SC2053 # a pattern
	[[ $end == $2 ]] || complain "host $1: $end, expected $2"
}

complain() {
	complaints+=("$*")
}

clean_guests() {
	local agent job

	for agent in $(agents); do
		is_alive "$agent" || continue
		job=$(echo ". $(printf %q "$here/clean.sh")" | submit "$agent")
		await_job "$job" "$agent" 30 >"$work/left" ||
			complain "$agent: $(cat "$work/left")"
	done
}

# What the kernel of a guest has to say; drivers tell why they ended something.
show_kernel() { # AGENT
	local job

	is_alive "$1" || return 0
	job=$(echo "dmesg | tail -n 20" | submit "$1")
	await_job "$job" "$1" 10 || true
}

# What a failure leaves to look at.
show_case() {
	local name

	for name in a b; do
		echo "---- host $name wrote"
		tail -n 20 "${main[$name]}.out" 2>/dev/null
	done
	[ ! -s "$work/meddled" ] || {
		echo "---- meddle() wrote"
		cat "$work/meddled"
	}
	for name in $(agents); do
		echo "---- console of guest $name"
		tail -n 20 "$work/console.$name"
		[ ${#complaints[@]} = 0 ] || show_kernel "$name"
		cat "$work/guest.$name"
	done
	echo "----"
}

# run_case FILE, in a shell of its own: returns whether all was as expected,
# what was not in $work/complaints, everything else in $work/shown.
run_case() (
	case_file=$1
	complaints=()
	declare -A main=()
	expect_a=0 expect_b=0 limit=60
	# shellcheck source=/dev/null
	. "$case_file"
	case_ends=$((SECONDS + limit))
	rm -rf "$work"/killed.* "$work/meddled" "$work/share/exchange"
	mkdir "$work/share/exchange"
	for host in a b; do
		main[$host]=$(guest_script "$host" "host_$host" |
			submit "$(agent_of "$host")")
	done
	if declare -F meddle >/dev/null; then
		# Hosts may wait for ever for what it has not done.
		meddle >"$work/meddled" 2>&1 || {
			complain "meddle: $(tail -n 1 "$work/meddled")"
			case_ends=$SECONDS
		}
	fi
	until_true "$(time_left)" both_ended
	judge a "$expect_a"
	judge b "$expect_b"
	# After a failure they are stopped.
	[ ${#complaints[@]} != 0 ] || clean_guests
	show_case >"$work/shown"
	(IFS=';' && echo "${complaints[*]}") >"$work/complaints"
	[ ${#complaints[@]} = 0 ]
)
