# The driver's side of the guests: boots and kills them, and has them run jobs.
# Sourced by run.sh. An agent is a guest's agent.sh: `one' where a guest is both
# hosts, else a and b.
# shellcheck shell=bash
# shellcheck disable=SC2154 # here, work, budget_ends, hosts, kind: of run.sh

declare -A guests=() # agent: the process of its vm.sh

agents() {
	case $hosts in
	one) echo one ;;
	two) echo a b ;;
	esac
}

agent_of() { # HOST
	case $hosts in
	one) echo one ;;
	two) echo "$1" ;;
	esac
}

is_alive() { # AGENT
	kill -0 "${guests[$1]:-none}" 2>/dev/null
}

# until_true SECONDS COMMAND...
until_true() {
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# ---- boot and death ----------------------------------------------------

# Not in a subshell: the guest dies with the shell that started it.
boot_guest() { # AGENT
	local options=(-d "$kind" -s "$work/share" -l "$work/console.$1"
		-t $((budget_ends - SECONDS)))

	case $1 in
	a | b) options+=(-w "$1:$work" -c 1) ;;
	esac
	rm -rf "$work/share/jobs.$1" "$work/console.$1" "$work/share/$1".*
	mkdir -p "$work/share/jobs.$1"
	setpriv --pdeathsig TERM "$here/vm.sh" "${options[@]}" -- \
		"$here/agent.sh" "/run/vm/jobs.$1" >"$work/guest.$1" 2>&1 &
	guests[$1]=$!
}

is_up() { # AGENT
	[ -e "$work/share/jobs.$1/up" ] || ! is_alive "$1"
}

# Boots the guests of a configuration that are not alive.
boot() {
	local agent

	for agent in $(agents); do
		is_alive "$agent" || boot_guest "$agent"
	done
	for agent in $(agents); do
		until_true 120 is_up "$agent" && is_alive "$agent" || return 1
	done
}

# The power cord. vm.sh sees QEMU's end, and ends.
stop_guest() { # AGENT
	local pid

	pid=$(cat "$work/share/$1.pid" 2>/dev/null) || return 0
	kill -KILL "$pid" 2>/dev/null
	until_true 10 is_dead "$1"
}
is_dead() { ! is_alive "$1"; }

stop_guests() {
	local agent

	for agent in "${!guests[@]}"; do
		is_alive "$agent" && stop_guest "$agent"
	done
	wait
	guests=()
}

# ---- jobs --------------------------------------------------------------

# submit AGENT: stdin is a script for its guest. Writes the job: the path that
# the names of its answers begin with.
submit() {
	local job

	job=$(mktemp "$work/share/jobs.$1/XXXXXXXX")
	cat >"$job"
	mv "$job" "$job.job"
	echo "$job"
}

has_ended() { # JOB AGENT
	[ -e "$1.status" ] || ! is_alive "$2"
}

# Waits for a job, shows what it wrote, returns its status; 125 if it did not
# end or its guest is dead.
await_job() { # JOB AGENT SECONDS
	until_true "$3" has_ended "$1" "$2"
	cat "$1.out" 2>/dev/null
	[ -e "$1.status" ] || return 125
	return "$(cat "$1.status")"
}
