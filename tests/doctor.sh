#!/bin/bash
# `shunt doctor`: each check made to speak by a limit, a variable or a tree in
# place of /sys, and what it says held against what the library does.
# Usage: doctor.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

# The launcher of this test, if any, is not what is asked about.
for name in ${!SHUNT_*} ${!OMPI_*} ${!PMI_*} ${!SLURM_*} RANK WORLD_SIZE \
	LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT MPI_LOCALNRANKS \
	MPI_LOCALRANKID; do
	unset "$name"
done
program=$(dirname "$shunt")/../examples/first_step

# doctor STATUS [OPTION...]: the text to $work/out.
doctor() {
	local status=$1
	shift
	expect "$status" "$shunt" doctor "$@"
}

# finds VERDICT "NAME: TEXT": a line of the report that begins so.
finds() {
	grep -E "^  $1 +" "$work/out" | grep -qF -e "$2" ||
		fail "no $1 '$2': $(grep -E '^  (note|problem)' "$work/out")"
}

# remedy NAME TEXT: the remedy behind the finding has the text.
remedy() {
	grep -A1 -E "^  [a-z]+ +$1:" "$work/out" | grep -F -e "-> " |
		grep -qF -e "$2" || fail "no remedy '$2' of $1"
}

# ---- a tree in place of /sys ----------------------------------------------

put() { # FILE TEXT
	mkdir -p "$(dirname "$work/sys/$1")"
	printf '%s\n' "$2" >"$work/sys/$1"
}

put_port() { # DEVICE PORT STATE PHYS RATE LINK
	local port=class/infiniband/$1/ports/$2
	put "$port/state" "$3"
	put "$port/phys_state" "$4"
	put "$port/rate" "$5"
	put "$port/link_layer" "$6"
}

put_gid() { # DEVICE PORT INDEX GID TYPE NETDEV
	local port=class/infiniband/$1/ports/$2
	put "$port/gids/$3" "$4"
	[ -z "$5" ] || put "$port/gid_attrs/types/$3" "$5"
	[ -z "$6" ] || put "$port/gid_attrs/ndevs/$3" "$6"
}

put_device() { # DEVICE NODE_TYPE FIRMWARE GUID
	put "class/infiniband/$1/node_type" "$2"
	put "class/infiniband/$1/fw_ver" "$3"
	put "class/infiniband/$1/node_guid" "$4"
}

none=0000:0000:0000:0000:0000:0000:0000:0000

make_tree() {
	local local_gid=fe80:0000:0000:0000:0ac0:ebff:fe33:0001
	rm -rf "$work/sys"
	put_device mlx5_0 "1: CA" 22.31.1014 0ac0:eb03:0033:0001
	put_port mlx5_0 1 "4: ACTIVE" "5: LinkUp" "100 Gb/sec (4X EDR)" Ethernet
	put_gid mlx5_0 1 0 $local_gid "IB/RoCE v1" eth1
	put_gid mlx5_0 1 1 $local_gid "RoCE v2" eth1
	put_gid mlx5_0 1 2 0000:0000:0000:0000:0000:ffff:c0a8:0105 \
		"RoCE v2" eth1
	put_gid mlx5_0 1 3 2001:0db8:0000:0000:0000:0000:0000:0007 \
		"RoCE v2" eth1
	put_gid mlx5_0 1 10 $none "" ""
	put class/net/eth1/mtu 4200
	put_device mlx5_1 "1: CA" 22.31.1014 0ac0:eb03:0033:0002
	put_port mlx5_1 1 "1: DOWN" "2: Polling" "10 Gb/sec (4X SDR)" InfiniBand
	put_gid mlx5_1 1 0 fe80:0000:0000:0000:0ac0:eb03:0033:0002 \
		"IB/RoCE v1" ""
	put module/rdma_rxe/refcnt 0
}

# The report's part about RDMA, without what depends on this machine.
rdma_part() {
	sed -n '/^rdma$/,/^$/p' "$work/out" |
		grep -vE '^rdma$|^$|memlock|ulimit|soft_iwarp' |
		sed '/of the kernel that has it/d'
}

rdma_devices_are_shown_line_by_line() {
	make_tree
	doctor 0 --sysfs "$work/sys"
	rdma_part | head -13 >"$work/got"
	sed "s|SYSFS|$work/sys|" >"$work/want" <<-'END'
	  ok       devices: 2 in SYSFS/class/infiniband
	  ok       device: mlx5_0: node type 1: CA, firmware 22.31.1014, GUID 0ac0:eb03:0033:0001
	  ok       port: mlx5_0 port 1: Ethernet, 4: ACTIVE, 5: LinkUp, 100 Gb/sec (4X EDR), MTU up to 4096 (eth1 has 4200), eth1
	  ok       gid: mlx5_0 port 1 GID 0: RoCE v1, IPv6 link-local fe80::ac0:ebff:fe33:1, eth1
	  ok       gid: mlx5_0 port 1 GID 1: RoCE v2, IPv6 link-local fe80::ac0:ebff:fe33:1, eth1
	  ok       gid: mlx5_0 port 1 GID 2: RoCE v2, IPv4 192.168.1.5, eth1
	  ok       gid: mlx5_0 port 1 GID 3: RoCE v2, IPv6 2001:db8::7, eth1
	  ok       device: mlx5_1: node type 1: CA, firmware 22.31.1014, GUID 0ac0:eb03:0033:0002
	  note     port: mlx5_1 port 1: InfiniBand, 1: DOWN, 2: Polling, 10 Gb/sec (4X SDR), MTU not in sysfs (ibv_devinfo has it)
	           -> look at cable and switch (ibstat)
	  ok       gid: mlx5_1 port 1 GID 0: IB, InfiniBand fe80::ac0:eb03:33:2
	  ok       use: ranks on other hosts are reached through mlx5_0 port 1 (RoCE v2, GID 2), address 192.168.1.5 of eth1: it is the first that a device has
	  ok       soft_roce: module rdma_rxe is loaded
	END
	diff "$work/want" "$work/got" >&2 || fail "another report"
	remedy soft_roce "rdma link add rxe0 type rxe netdev NETDEV"
}

states_of_ports_have_their_remedies() {
	make_tree
	put class/infiniband/mlx5_1/ports/1/state "2: INIT"
	put class/infiniband/mlx5_0/ports/1/state "1: DOWN"
	put class/net/eth1/mtu 1500
	doctor 0 --sysfs "$work/sys"
	says out "MTU up to 1024 (eth1 has 1500)"
	says out "-> ip link set eth1 up"
	says out "no subnet manager"
	make_tree
	rm "$work/sys/class/infiniband/mlx5_1/ports/1/gids/0"
	put_gid mlx5_0 1 1 $none "" ""
	put_gid mlx5_0 1 2 $none "" ""
	put_gid mlx5_0 1 3 $none "" ""
	doctor 0 --sysfs "$work/sys"
	finds note "gids: mlx5_1 port 1 has no GID"
	finds note "gids: mlx5_0 port 1 has no RoCE v2 GID"
	finds note "use: ranks on other hosts cannot be reached: no device has"
}

# As Soft-RoCE has it; a folder has no order.
the_first_of_a_thousand_gids_are_seen() {
	local index

	make_tree
	for index in {4..1023}; do
		echo "$none" >"$work/sys/class/infiniband/mlx5_0/ports/1/gids/$index"
	done
	doctor 0 --sysfs "$work/sys"
	! grep -q "mlx5_0 port 1 has no" "$work/out" || fail "GIDs are lost"
	says out "192.168.1.5"
}

small_packets_have_a_remedy() {
	make_tree
	put class/net/eth1/mtu 1500
	doctor 0 --sysfs "$work/sys"
	remedy port "ip link set eth1 mtu 4200"
}

# An address of this machine that is no loopback one, with its interface, and
# its bytes in two halves.
own_address() {
	python3 -c '
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _, name in socket.if_nameindex():
    try:
        own = fcntl.ioctl(s, 0x8915, struct.pack("256s", name.encode()))[20:24]
    except OSError:
        continue
    if own[0] != 127:
        print(name, socket.inet_ntoa(own), own[:2].hex(), own[2:].hex())
        break'
}

# chosen VERDICT TEXT VARIABLE=VALUE...: what of the tree would be used. The two
# ranks of the trial look at this machine, which may have no such device.
chosen() {
	local verdict=$1 text=$2
	shift 2
	env "$@" "$shunt" doctor --sysfs "$work/sys" >"$work/out" 2>"$work/err"
	[[ $? -le 1 ]] || fail "$*: $(cat "$work/err")"
	finds "$verdict" "$text"
}

the_device_follows_from_variables_and_the_rendezvous() {
	local name own high low
	read -r name own high low < <(own_address)
	if [ -z "$own" ]; then
		echo "skipped ${FUNCNAME[0]}: there is no address but loopback"
		return
	fi
	make_tree
	put class/infiniband/mlx5_1/ports/1/link_layer Ethernet
	put class/infiniband/mlx5_1/ports/1/state "4: ACTIVE"
	put_gid mlx5_1 1 3 "0000:0000:0000:0000:0000:ffff:$high:$low" \
		"RoCE v2" "$name"
	chosen ok "mlx5_1 port 1 (RoCE v2, GID 3), address $own of $name: \
it is the address that reaches rank 0" SHUNT_RANK=1 SHUNT_NUM_RANKS=2 \
		SHUNT_ADDRESS="$own:4001" SHUNT_KEY=sesame
	chosen ok "address $own of $name: it is the first that a device" A=1
	chosen ok "address $own of $name: SHUNT_RDMA_DEVICE says so" \
		SHUNT_RDMA_DEVICE=mlx5_9,mlx5_1
	chosen ok "address 192.168.1.5 of eth1: SHUNT_RDMA_INTERFACE says so" \
		SHUNT_RDMA_INTERFACE=eth1
	chosen ok "address 2001:db8::7 of eth1: SHUNT_RDMA_ADDRESS says so" \
		SHUNT_RDMA_ADDRESS=2001:DB8:0::7
	chosen problem "fits SHUNT_RDMA_DEVICE=mlx5" SHUNT_RDMA_DEVICE=mlx5
	chosen problem "fits SHUNT_RDMA_PORT=2" SHUNT_RDMA_PORT=2
	remedy use "unset SHUNT_RDMA_PORT"
	put class/infiniband/mlx5_1/ports/1/state "1: DOWN"
	chosen problem "asks for mlx5_1 port 1, which is not active" \
		SHUNT_RDMA_DEVICE=mlx5_1
}

a_gid_that_is_chosen_has_to_be_there() {
	make_tree
	chosen ok "(RoCE v2, GID 3), address 2001:db8::7 of eth1: \
SHUNT_RDMA_GID_INDEX says so" SHUNT_RDMA_GID_INDEX=3
	# GID 10 is there and empty, 11 is not, 0 is of RoCE v1.
	chosen problem "use: SHUNT_RDMA_GID_INDEX=10: GID 10 of mlx5_0 port 1 \
is empty" SHUNT_RDMA_GID_INDEX=10
	remedy use "or set it to 2, the GID of 192.168.1.5"
	chosen problem "GID 11 of mlx5_0 port 1 is empty" \
		SHUNT_RDMA_GID_INDEX=11
	chosen problem "GID 0 of mlx5_0 port 1 is of no address that" \
		SHUNT_RDMA_GID_INDEX=0
	chosen problem "GID 2 of mlx5_0 port 1 is of no address that" \
		SHUNT_RDMA_GID_INDEX=2 SHUNT_RDMA_ADDRESS=2001:db8::7
	remedy use "or set it to 3, the GID of 2001:db8::7"
}

options_that_contradict_each_other_are_named() {
	make_tree
	chosen problem "fits SHUNT_RDMA_ADDRESS=192.168.1.5, \
SHUNT_RDMA_INTERFACE=eth2" SHUNT_RDMA_INTERFACE=eth2 \
		SHUNT_RDMA_ADDRESS=192.168.1.5
}

numbers_of_rdma_have_their_range() {
	make_tree
	chosen problem 'option: SHUNT_RDMA_LANES is "17", must be 1 .. 16' \
		SHUNT_RDMA_LANES=17
	chosen problem 'option: SHUNT_RDMA_GID_INDEX is "x"' \
		SHUNT_RDMA_GID_INDEX=x
	chosen problem 'option: SHUNT_RDMA_PORT is "0", must be 1' \
		SHUNT_RDMA_PORT=0
	chosen ok "use: " SHUNT_RDMA_QUEUE_DEPTH=4 SHUNT_RDMA_ACK_TIMEOUT=31
}

# An iWARP device is told by its node type; its GID is its card's address.
iwarp_is_reached_by_its_cards_address() {
	local name own
	read -r name own _ < <(own_address)
	if [ -z "$own" ]; then
		echo "skipped ${FUNCNAME[0]}: there is no address but loopback"
		return
	fi
	rm -rf "$work/sys"
	put_device siw0 "4: RNIC" 0 0200:00ff:fe00:0001
	put_port siw0 1 "4: ACTIVE" "5: LinkUp" "10 Gb/sec" Ethernet
	put_gid siw0 1 0 0200:0000:0001:0000:0000:0000:0000:0000 "" ""
	put "class/net/$name/address" 02:00:00:00:00:01
	chosen ok "siw0 port 1 (iWARP), address $own of $name: it is" A=1
	finds ok "gid: siw0 port 1 GID 0: iWARP, MAC"
	says out "TCP, $name"
}

several_hosts_need_a_device() {
	local torch=(RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2
		MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)
	rm -rf "$work/sys"
	chosen note "use: ranks on other hosts cannot be reached" A=1
	chosen problem "use: ranks on other hosts cannot be reached" \
		"${torch[@]}"
	finds ok "hosts: the launcher spreads the 4 ranks"
	make_tree
	chosen ok "use: " "${torch[@]}"
}

no_device_is_a_note() {
	rm -rf "$work/sys"
	doctor 0 --sysfs "$work/sys"
	finds note "there is no $work/sys/class/infiniband"
	mkdir -p "$work/sys/class/infiniband"
	doctor 0 --sysfs "$work/sys"
	finds note "$work/sys/class/infiniband is empty"
	rmdir "$work/sys/class/infiniband"
	put class/infiniband text
	doctor 0 --sysfs "$work/sys"
	finds note "Not a directory"
	doctor 0 --sysfs "$(printf '/%.0s' {1..4090})longer"
	finds note "File name too long"
}

# Whatever a tree holds, a report comes, of short lines of printable text.
odd_trees_do_no_harm() {
	local port=$work/sys/class/infiniband/mlx5_0/ports/1 i
	make_tree
	head -c 100000 /dev/urandom >"$port/state"
	head -c 1000000 /dev/zero >"$port/rate"
	rm "$port/phys_state" "$port/gid_attrs/types/1" "$port/gids/3"
	mkdir "$port/phys_state" "$port/gids/3"
	mkfifo "$port/gid_attrs/types/1"
	ln -sf loop "$port/gid_attrs/ndevs/loop"
	mkdir "$work/sys/class/infiniband/"$'od\xffd\x1b'
	put_gid mlx5_0 1 0 "not a GID" "" ../../../../etc/passwd
	put_gid mlx5_0 1 99999999999999999999 \
		0000:0000:0000:0000:0000:ffff:0a00:0001 "RoCE v2" eth1
	for ((i = 20; i < 400; i++)); do
		put_gid mlx5_0 1 $i \
			0000:0000:0000:0000:0000:ffff:0a00:0001 "RoCE v2" eth1
	done
	printf '\xff\xfe\x00\x1b[31m' >"$work/sys/class/infiniband/mlx5_1/fw_ver"
	: >"$work/sys/class/infiniband/mlx5_1/node_type"
	put class/net/eth1/mtu -5
	put class/infiniband/stray text
	mkdir "$work/sys/class/infiniband/$(printf 'x%.0s' {1..255})"
	for ((i = 0; i < 80; i++)); do
		mkdir "$work/sys/class/infiniband/more$i"
	done
	for ((i = 2; i < 40; i++)); do
		mkdir "$port/../$i"
	done
	ln -s . "$port/../loop"
	doctor 0 --sysfs "$work/sys"
	finds note "ports: more0: no ports can be read"
	finds ok "first 64 follow"
	! LC_ALL=C grep -qP '[^\x20-\x7e]' "$work/out" ||
		fail "bytes that are no text"
	[ "$(wc -L <"$work/out")" -lt 1200 ] || fail "a long line"
	doctor 0 --sysfs "$work/sys" --json "$work/json"
	expect 0 python3 -m json.tool "$work/json"
}

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
	rdma_devices_are_shown_line_by_line
	states_of_ports_have_their_remedies
	the_first_of_a_thousand_gids_are_seen
	small_packets_have_a_remedy
	the_device_follows_from_variables_and_the_rendezvous
	a_gid_that_is_chosen_has_to_be_there
	options_that_contradict_each_other_are_named
	numbers_of_rdma_have_their_range
	iwarp_is_reached_by_its_cards_address
	several_hosts_need_a_device
	no_device_is_a_note
	odd_trees_do_no_harm
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
