#!/bin/bash
# Lays the wire of a guest, from within:
#
#   network.sh HOST DEVICE MTU
#
# HOST a or b: the guest is that host, eth0 its end of the wire. HOST `one': it
# is both, at the two ends of a veth pair. An end is called va or vb, has the
# address 10.78.0.1 or .2, and an RDMA device rxea, rxeb, siwa or siwb.
set -euo pipefail

host=$1 device=$2 mtu=$3

raise() { # HOST NUMBER
	ip addr add "10.78.0.$2/24" dev "v$1"
	ip link set "v$1" mtu "$mtu" up
}

# Once its end has a carrier: siw keeps the state that it finds.
add_device() { # HOST
	local tries

	for ((tries = 100; tries > 0; tries--)); do
		[ "$(cat "/sys/class/net/v$1/carrier")" = 0 ] || break
		sleep 0.05
	done
	rdma link add "$device$1" type "$device" netdev "v$1"
}

# The kernel would deliver between its own addresses by itself. Rules that look
# where a packet comes from, before the table of own addresses, send it over
# the wire. (Two network namespaces would do, but not with rxe before 7.1.)
bend() { # HOST NUMBER OTHER'S NUMBER
	local conf=/proc/sys/net/ipv4/conf/v$1

	echo 1 >"$conf/accept_local"
	echo 0 >"$conf/rp_filter"
	echo 1 >"$conf/arp_ignore"
	echo 2 >"$conf/arp_announce"
	ip rule add pref 10 iif "v$1" lookup local
	ip rule add pref 20 from "10.78.0.$2" to "10.78.0.$3" lookup "10$2"
	ip route add "10.78.0.$3" dev "v$1" src "10.78.0.$2" table "10$2"
}

# Commands begin when the other host answers. And the first connection by RDMA
# would take 2 s where the neighbour's address is not known yet.
meet() { # NUMBER OTHER'S NUMBER
	local tries

	for ((tries = 60; tries > 0; tries--)); do
		busybox ping -q -c 1 -W 1 -I "10.78.0.$1" "10.78.0.$2" \
			>/dev/null && return
	done
	echo "network.sh: 10.78.0.$2 does not answer" >&2
	return 1
}

case $host in
one)
	ip link add va type veth peer name vb
	raise a 1
	raise b 2
	bend a 1 2
	bend b 2 1
	add_device a
	add_device b
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
	ip rule add pref 100 lookup local
	ip rule del pref 0
	meet 1 2
	meet 2 1
	;;
a | b)
	ip link set eth0 name "v$host"
	number=$((16#$host - 9))
	raise "$host" $number
	add_device "$host"
	meet $number $((3 - number))
	;;
esac
