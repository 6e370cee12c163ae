#!/bin/busybox sh
# shellcheck shell=dash
# The init of uml.sh's guests, of busybox's shell: makes the host's root the
# guest's (read-only below, writes kept in memory above), runs the command that
# uml.sh left in VM_SHARE, from the kernel's command line, leaves its exit status
# there and powers off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# First, and by its path: busybox's shell runs applets from /proc/self/exe.
/bin/busybox mount -t proc proc /proc

must() {
	"$@" && return
	echo "vm: failed: $*"
	poweroff -f
}

must mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd
must mount -t devpts pts /dev/pts
must mount -t tmpfs shm /dev/shm
must mount -t tmpfs run /run
root=/run/root
mkdir /run/rw $root
must mount -t tmpfs rw /run/rw
mkdir /run/rw/upper /run/rw/work
must mount -t overlay -o \
	lowerdir=/,upperdir=/run/rw/upper,workdir=/run/rw/work root $root
for folder in proc sys dev; do
	must mount --rbind /$folder $root/$folder
done
must mount -t tmpfs run $root/run
mkdir $root/run/vm
must mount -t hostfs -o "$VM_SHARE" share $root/run/vm
must chroot $root ip link set lo up

stty -F /dev/ttyS0 raw
ulimit -l unlimited
ulimit -c 0
chroot $root /bin/bash /run/vm/command </dev/null >/dev/ttyS0 2>&1
status=$?
echo $status >"$root/run/vm/status"
sync
poweroff -f
