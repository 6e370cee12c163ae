#!/bin/bash
# `shunt doctor` about RDMA: a tree in place of /sys, and what follows from it.
# Usage: doctor_rdma.sh SHUNT [TEST...]
# shellcheck source=tests/support/doctor.sh
. "$(dirname "$0")/support/doctor.sh"

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
)

run_tests "${all_tests[@]}" -- "$@"
