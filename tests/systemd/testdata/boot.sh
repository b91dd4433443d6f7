#!/bin/sh
# Boots this machine's own systemd, with no unit of this machine's, on a copy of its file system that
# is thrown away: boot.sh SCRATCH, in namespaces of its own for processes, mounts and control groups.
# The network is the machine's.
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
# Nothing of this machine is started, nor set: a sysctl, say, is the machine's.
rm -rf root/etc/systemd/system root/usr/lib/systemd/system/*.wants
mkdir -p root/etc/systemd/system root/old
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount -t tmpfs -o mode=755 tmpfs root/run
mount -t tmpfs -o mode=1777 tmpfs root/tmp
mount -t sysfs sysfs root/sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 root/sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 tmpfs root/sys/fs/cgroup
	mkdir root/sys/fs/cgroup/systemd
	mount -t cgroup -o none,name=systemd cgroup root/sys/fs/cgroup/systemd
fi
# What units are ordered after is there at once, and starts nothing.
for target in default sysinit basic shutdown network network-online; do
	printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$target" >"root/etc/systemd/system/$target.target"
done
cd root
pivot_root . old
umount -l old
# Credentials are mounted for one unit, and seen by it through this.
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --log-target=console --log-level=warning --show-status=no
