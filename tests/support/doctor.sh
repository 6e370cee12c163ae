#!/bin/bash
# What the tests of `shunt doctor` have in common; sourced with the program as
# $1, as program.sh is.
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"

# The launcher of this test, if any, is not what is asked about.
for name in ${!SHUNT_*} ${!OMPI_*} ${!PMI_*} ${!SLURM_*} RANK WORLD_SIZE \
	LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT MPI_LOCALNRANKS \
	MPI_LOCALRANKID; do
	unset "$name"
done

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
