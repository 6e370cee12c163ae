#!/bin/bash
# `shunt doctor`: each check made to speak by a limit or a variable, and what it
# says held against what the library does. doctor_rdma.sh has RDMA.
# Usage: doctor.sh SHUNT [TEST...]
# shellcheck source=tests/support/doctor.sh
. "$(dirname "$0")/support/doctor.sh"

program=$(dirname "$shunt")/../examples/first_step

# ---- limits ---------------------------------------------------------------

# under LIMITS...: `shunt doctor' with ulimits, each as "-v 1000".
under() {
	local limit
	(
		for limit in "$@"; do
			# shellcheck disable=SC2086
			ulimit $limit || exit 99
		done
		exec "$shunt" doctor
	)
}

limits_that_stop_a_rank_are_problems() {
	expect 1 under "-f 1000"
	finds problem "rlimit_fsize: 1000 KiB"
	finds problem "memfd: ftruncate failed: File too large"
	finds problem "trial: two ranks as processes: NO_MEMORY"
	remedy rlimit_fsize "ulimit -f unlimited"
	expect 1 under "-n 7"
	finds problem "descriptors: 7 open files"
	remedy descriptors "ulimit -n"
	SHUNT_RANK=0 SHUNT_NUM_RANKS=64 SHUNT_ADDRESS=127.0.0.1:1025 \
		expect 1 under "-n 60"
	finds problem "descriptors: 60 open files: enough for rank 0 to meet 54"
	expect 0 under "-n 60"
	finds note "descriptors: 60 open files"
}

# Sanitizers reserve more address space than any limit.
a_limit_on_address_space_is_a_problem() {
	if ldd "$shunt" | grep -qE 'lib[at]san'; then
		echo "skipped ${FUNCNAME[0]}"
		return
	fi
	expect 1 under "-d 200000"
	finds problem "rlimit_data: 195.3 MiB"
	SHUNT_SEGMENT_BYTES=1000000000 expect 1 under "-v 1500000"
	finds problem "can map the segments of a world of up to 1 rank"
	finds problem "trial: two ranks as processes: NO_MEMORY"
	remedy address_space "SHUNT_SEGMENT_BYTES"
	SHUNT_SEGMENT_BYTES=100000000 expect 0 under "-v 1500000"
	finds note "can map the segments of a world of up to 15 ranks"
}

# behind FILES SHUNT: its doctor, where control groups and overcommit are what the
# files of the folder FILES say, in a mount namespace of its own.
behind() {
	# shellcheck disable=SC2016 # for the shell inside
	unshare -rm bash -c '
		mount -t tmpfs none /sys/fs/cgroup || exit 99
		cp -r "$1/sys/fs/cgroup/." /sys/fs/cgroup/
		mount --bind "$1/proc/cgroup" /proc/$$/cgroup || exit 99
		mount --bind "$1/proc/overcommit" \
			/proc/sys/vm/overcommit_memory || exit 99
		exec "$2" doctor' - "$1" "$2"
}

# make_box CGROUP_LINE OVERCOMMIT: the files of behind(), without limits.
make_box() {
	rm -rf "$work/box"
	mkdir -p "$work/box/proc" "$work/box/sys/fs/cgroup/job/step" \
		"$work/box/sys/fs/cgroup/memory/job" \
		"$work/box/sys/fs/cgroup/cpu/job"
	echo "$1" >"$work/box/proc/cgroup"
	echo "$2" >"$work/box/proc/overcommit"
}

control_groups_and_overcommit_are_read() {
	local root=$work/box/sys/fs/cgroup
	if ! unshare -rm mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; then
		echo "skipped ${FUNCNAME[0]}: no mount namespaces"
		return
	fi
	make_box 0::/job/step 0
	echo max >"$root/job/step/memory.max"
	echo 100000000 >"$root/job/memory.max"
	echo "max 100000" >"$root/job/step/cpu.max"
	echo "50000 100000" >"$root/job/cpu.max"
	expect 0 behind "$work/box" "$shunt"
	finds note "cgroup: limit of the control group: 95.37 MiB"
	finds note "cpu_quota: control groups give 0.5 processors' time"
	remedy cpu_quota "bind the job to 1 core by taskset"
	make_box "$(printf '4:memory:/job\n3:cpu,cpuacct:/gone')" 2
	echo 200000000 >"$root/memory/job/memory.limit_in_bytes"
	echo 9223372036854771712 >"$root/memory/memory.limit_in_bytes"
	echo -1 >"$root/cpu/cpu.cfs_quota_us"
	echo 100000 >"$root/cpu/cpu.cfs_period_us"
	SHUNT_SEGMENT_BYTES=100000000 expect 0 behind "$work/box" "$shunt"
	finds note "cgroup: limit of the control group: 190.7 MiB"
	finds ok "cpu_quota: none"
	finds note "overcommit: vm.overcommit_memory 2"
}

locked_memory_has_its_amount_and_remedy() {
	local what
	expect 0 under "-l 64"
	says out "memlock: RLIMIT_MEMLOCK 64 KiB"
	what=$(grep -E "^  [a-z]+ +memlock:" "$work/out")
	case $what in
	*"CAP_IPC_LOCK lifts it"*) ;;
	*) remedy memlock "ulimit -l unlimited" ;;
	esac
}

cores_are_those_allowed() {
	local core
	core=$(taskset -pc $$ | sed 's/.*[: ]\([0-9]*\).*/\1/')
	expect 0 taskset -c "${core%%[-,]*}" "$shunt" doctor
	says out "cores: 1 of $(getconf _NPROCESSORS_ONLN) allowed"
	says out "up to 1 rank of them spin"
}

# ---- variables ------------------------------------------------------------

variables_of_the_library_are_checked() {
	SHUNT_SIMD=scalar doctor 0
	finds note "simd: scalar, as SHUNT_SIMD says"
	SHUNT_SIMD=sse9 doctor 1
	finds problem "simd: SHUNT_SIMD is \"sse9\""
	finds problem "trial: two ranks as processes: INVALID: SHUNT_SIMD"
	SHUNT_SEGMENT_BYTES=12k doctor 1
	finds problem "segment: SHUNT_SEGMENT_BYTES is \"12k\""
	SHUNT_SEGMENT_BYTES=17 doctor 1
	finds problem "INVALID: SHUNT_SEGMENT_BYTES is 17, must be"
	SHUNT_SEGMENT_BYTES=100000000 doctor 0
	finds ok "segment: 95.37 MiB of address space per rank"
}

# job STATUS VERDICT TEXT VARIABLE=VALUE...
job() {
	local status=$1 verdict=$2 text=$3
	shift 3
	expect "$status" env "$@" "$shunt" doctor
	finds "$verdict" "$text"
}

launchers_are_recognised() {
	local torch=(RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1)
	job 0 ok "launcher: no variables of a launcher" A=1
	job 0 ok "taken: torchrun: rank 1 of 3" "${torch[@]}" MASTER_PORT=29500
	says out "ranks meet at 127.0.0.1, port 29501 (127.0.0.1)"
	job 0 ok "port 4000 (" "${torch[@]}" MASTER_PORT=29500 SHUNT_PORT=4000
	job 0 ok "seen: Slurm; taken: Slurm: rank 1 of 2" SLURM_PROCID=1 \
		SLURM_NTASKS=2 SHUNT_ADDRESS="localhost:4001"
	job 0 ok "taken: Open MPI: rank 3 of 4" OMPI_COMM_WORLD_RANK=3 \
		OMPI_COMM_WORLD_SIZE=4 SHUNT_ADDRESS="127.0.0.1:4001"
	job 0 ok "seen: shunt run, Slurm; taken: shunt run: rank 1 of 2" \
		SHUNT_RANK=1 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=127.0.0.1:4001 \
		SLURM_PROCID=7 SLURM_NTASKS=9
	expect 0 "$shunt" run -n 1 -- "$shunt" doctor
	finds ok "seen: shunt run; taken: shunt run: rank 0 of 1"
}

where_ranks_meet_is_tried() {
	local two=(SHUNT_RANK=0 SHUNT_NUM_RANKS=2)
	# Too long for a label of a name, so nobody is asked.
	job 1 problem "address: looking up \"xxx" "${two[@]}" \
		SHUNT_ADDRESS="$(printf 'x%.0s' {1..70}):4001"
	job 1 problem "port: \"192.0.2.1\" is no address of this host" \
		"${two[@]}" SHUNT_ADDRESS=192.0.2.1:4001
	finds problem "key: SHUNT_KEY is not set"
	job 1 ok "key: SHUNT_KEY is set" "${two[@]}" SHUNT_KEY=sesame \
		SHUNT_ADDRESS=192.0.2.1:4001
	! grep -q sesame "$work/out" || fail "the key is shown"
	finds problem "port: \"192.0.2.1\" is no address"
	job 0 ok "is no address of this host, so rank 0 is on another" \
		SHUNT_RANK=1 SHUNT_NUM_RANKS=2 SHUNT_KEY=sesame \
		SHUNT_ADDRESS=192.0.2.1:4001
	job 1 ok "hosts: the launcher spreads the 2 ranks" SLURM_PROCID=0 \
		SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 \
		SHUNT_ADDRESS=127.0.0.1:4001
}

a_taken_port_is_told() {
	local port
	coproc server { exec python3 -c '
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
sys.stdin.read()'; }
	# shellcheck disable=SC2154 # coproc sets it
	read -r -t 20 port <&"${server[0]}" || fail "no server"
	job 1 problem "port: port $port is in use" SHUNT_RANK=0 \
		SHUNT_NUM_RANKS=2 SHUNT_ADDRESS="127.0.0.1:$port"
	job 0 note "port: port $port is in use" SHUNT_RANK=1 \
		SHUNT_NUM_RANKS=2 SHUNT_ADDRESS="127.0.0.1:$port"
	# shellcheck disable=SC2154
	kill "$server_PID"
	wait
}

# What the doctor calls a problem of the launcher the library refuses, and a
# world of one that it accepts the doctor does not complain about.
doctor_and_library_agree_on_variables() {
	local variables long
	long=$(printf 'k%.0s' {1..300})
	for variables in "RANK=0" "RANK=0 WORLD_SIZE=x" "RANK=2 WORLD_SIZE=2" \
		"RANK=0 WORLD_SIZE=1" "RANK=-0 WORLD_SIZE=1" \
		"RANK=0 WORLD_SIZE=1 MASTER_ADDR=a" \
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a/b MASTER_PORT=1" \
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65535" \
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 SHUNT_PORT=0" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=1" "SHUNT_RANK=0" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=4097 SHUNT_ADDRESS=a:1" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=a" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=:1" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=a:65536" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=[::1:1" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=[a]:1" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=2 SHUNT_ADDRESS=::1:1" \
		"SLURM_PROCID=0 SLURM_NTASKS=2" \
		"PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=0 SLURM_NTASKS=2" \
		"PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=0" \
		"SHUNT_KEY=$long" "SHUNT_JOB=$long"; do
		# shellcheck disable=SC2086
		expect 1 env $variables "$program"
		# shellcheck disable=SC2086
		expect 1 env $variables "$shunt" doctor
	done
	for variables in "SLURM_PROCID=0 SLURM_NTASKS=1" "A=1" \
		"PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=0 SLURM_NTASKS=1" \
		"RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=65534" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=1 SHUNT_ADDRESS=[::1]:1" \
		"SHUNT_RANK=0 SHUNT_NUM_RANKS=1 SHUNT_ADDRESS=a:1 RANK=9" \
		"WORLD_SIZE=7"; do
		# shellcheck disable=SC2086
		expect 0 env $variables "$program"
		# shellcheck disable=SC2086
		expect 0 env $variables "$shunt" doctor
	done
}

# ---- the report -----------------------------------------------------------

json_has_stable_names() {
	make_tree
	doctor 0 --sysfs "$work/sys" --json "$work/file.json"
	finds ok "trial: two ranks as processes met"
	doctor 0 --sysfs "$work/sys" --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
assert j['ok'] is True and j['problems'] == 0 and j['notes'] >= 2
assert j['version'].count('.') == 2
names = {(c['section'], c['name']) for c in j['checks']}
for wanted in ('library.version library.simd cpu.model cpu.cores cpu.cpu_quota '
        'cpu.l2 rendezvous.launcher memory.available memory.cgroup memory.memfd '
        'memory.populate memory.segment memory.address_space memory.rlimit_data '
        'memory.rlimit_fsize memory.overcommit memory.huge_pages_threads '
        'memory.huge_pages_processes processes.sockets processes.robust_futex '
        'processes.descriptors processes.threads processes.trial rdma.use '
        'rdma.devices rdma.device rdma.port rdma.gid rdma.memlock '
        'rdma.soft_roce rdma.soft_iwarp').split():
    assert tuple(wanted.split('.')) in names, wanted
assert all(c['verdict'] in ('ok', 'note', 'problem') and c['text']
    for c in j['checks'])
value = {c['name']: c.get('values') for c in j['checks']}
assert value['cores']['allowed'] >= 1
assert value['descriptors']['max_ranks'] >= 2
roce, ib = j['rdma_devices']
assert (roce['device'], ib['device']) == ('mlx5_0', 'mlx5_1')
port = roce['ports'][0]
assert port['port'] == 1 and port['netdev'] == 'eth1'
assert port['roce_mtu'] == 4096 and port['netdev_mtu'] == 4200
assert [g['index'] for g in port['gids']] == [0, 1, 2, 3]
assert port['gids'][2] == {'index': 2, 'type': 'RoCE v2', 'kind': 'IPv4',
    'address': '192.168.1.5', 'netdev': 'eth1'}
assert ib['ports'][0]['state'] == '1: DOWN'
assert 'roce_mtu' not in ib['ports'][0]"
	SHUNT_SIMD=sse9 doctor 1 --json -
	cp "$work/out" "$work/json"
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
wrong = [c for c in j['checks'] if c['verdict'] == 'problem']
assert j['ok'] is False and len(wrong) == j['problems'] == 2
assert all(c['remedy'] for c in wrong)"
}

options_are_checked() {
	expect 0 "$shunt" doctor --help
	says out "--sysfs=DIR"
	expect 2 "$shunt" doctor --nonsense
	expect 2 "$shunt" doctor stray
	expect 2 "$shunt" doctor --json /nonexistent/file
	says err "/nonexistent/file"
	expect 1 "$shunt" doctor --json /dev/full
	says err "No space left"
}

nothing_stays_behind() {
	local process
	doctor 0
	[ ! -s "$work/err" ] || fail "noise on stderr: $(cat "$work/err")"
	for process in /proc/[0-9]*; do
		[ "$(readlink "$process/exe")" = "$(realpath "$shunt")" ] &&
			grep -qsazx doctor "$process/cmdline" &&
			fail "$process stays"
	done
}

# ------------------------------------------------------------------------

all_tests=(
	limits_that_stop_a_rank_are_problems
	a_limit_on_address_space_is_a_problem
	control_groups_and_overcommit_are_read
	locked_memory_has_its_amount_and_remedy
	cores_are_those_allowed
	variables_of_the_library_are_checked
	launchers_are_recognised
	where_ranks_meet_is_tried
	a_taken_port_is_told
	doctor_and_library_agree_on_variables
	json_has_stable_names
	options_are_checked
	nothing_stays_behind
)

run_tests "${all_tests[@]}" -- "$@"
