#!/bin/busybox sh
# shellcheck shell=dash
# The guests' init, of busybox's shell: loads the modules, makes the host's root
# the guest's (read-only below, writes kept in memory above), runs the command
# of vm.sh, leaves its exit status in the shared folder and powers off. VM_NAME,
# from the kernel's command line, begins the names of its files there.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# First, and by its path: busybox's shell runs applets from /proc/self/exe.
/bin/busybox mount -t proc proc /proc

say() {
	echo "vm: $* at $(cut -d' ' -f1 /proc/uptime) s"
}

must() {
	"$@" && return
	say "failed: $*"
	poweroff -f
}

must mount -t sysfs sys /sys
must mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd
must mount -t devpts pts /dev/pts
must mount -t tmpfs shm /dev/shm
must mount -t tmpfs run /run
while read -r module; do
	must insmod "/modules/$module"
done </modules/list
say "modules are loaded"

root=/run/root
mkdir /run/host /run/rw $root
transport=trans=virtio,version=9p2000.L,msize=512000
must mount -t 9p -o $transport,cache=loose,ro host /run/host
must mount -t tmpfs rw /run/rw
mkdir /run/rw/upper /run/rw/work
must mount -t overlay -o \
	lowerdir=/run/host,upperdir=/run/rw/upper,workdir=/run/rw/work \
	root $root
for folder in proc sys dev; do
	must mount --rbind /$folder $root/$folder
done
must mount -t tmpfs run $root/run
mkdir $root/run/vm
# Both sides write here: nothing of it may be cached.
must mount -t 9p -o $transport,cache=none share $root/run/vm
must ip link set lo up
say "the host's root is mounted"

ulimit -l unlimited
ulimit -c 0
: >"$root/run/vm/$VM_NAME.began"
chroot $root /bin/bash "/run/vm/$VM_NAME.command" </dev/null \
	>/dev/vport0p1 2>&1
status=$?
say "exit status $status"
echo $status >"$root/run/vm/$VM_NAME.status"
sync
poweroff -f
