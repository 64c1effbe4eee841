#!/bin/sh
# Start of a guest that is the host of a testbed, from an initramfs. The machine that remains has busybox as its first
# process and sshd as its only service. Disks: its root, the door (keys, as a tar), each root filesystem of instances and
# its tar, and the modules of its kernel unless they are built in.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
fail() { echo "lastro: $*"; poweroff -f; }

cgroups=v2 roots="" modules="" load=""
for word in $(cat /proc/cmdline); do
    case $word in
        lastro.cgroups=*) cgroups=${word#*=} ;;
        lastro.root=*) roots="$roots ${word#*=}" ;;
        lastro.modules=*) modules=${word#*=} ;;
        lastro.load=*) load=${word#*=} ;;   # modules, with commas; those of another processor do not load
    esac
done
modprobe -q -a $(cat /sys/bus/pci/devices/*/modalias 2>/dev/null | sort -u)
modprobe -q -a $(cat /sys/bus/virtio/devices/*/modalias 2>/dev/null | sort -u) ext4
await() { # DISK
    tries=0
    until [ -b "$1" ]; do
        [ $((tries += 1)) -lt 2000 ] || fail "its disk $1 did not appear"
        sleep 0.005
    done
}
# Mount a root filesystem of instances where Lastro looks for it. EPOCH is when it was built, COPY where Lastro looks for
# the disk of virtual machines, if it starts any.
put_root() { # DISK TAR TREE EPOCH [COPY]
    await "$1"
    await "$2"
    mkdir -p "./$3"
    mount -t ext4 "$1" "./$3" || fail "the root filesystem of instances cannot be mounted"
    rmdir "./$3/lost+found" # which a new ext4 has, and the root filesystem has not
    touch -d "@$4" "./$3"
    mount -o remount,ro "$1" "./$3"
    ln -s "$2" "./$3.tar" # beside the tree, as on every host
    if [ "$5" ]; then # kernel and initramfs came with the keys
        mkdir -p "./${5%/*}"
        ln -s "$1" "./$5"
        for file in lastro/kernel-* lastro/initramfs-*; do
            [ ! -e "$file" ] || mv "$file" "./${5%/*}"
        done
    fi
}
await /dev/vda
await /dev/vdb
mount -t ext4 /dev/vda /root || fail "its root cannot be mounted"
cd /root
mkdir -p lastro var/lib/lastro/rootfs/recipes
chmod 700 lastro
tar -x -f /dev/vdb -C lastro || fail "the keys cannot be read"
for root in $roots; do
    put_root $(echo "$root" | tr : ' ')
done
if [ -d lastro/programs ]; then # what the guest has itself stays as it is
    chroot . sh -c 'tar -c -C /lastro/programs . | tar -x -C / --skip-old-files --keep-directory-symlink'
fi
if [ "$modules" ]; then
    await "$modules"
    mkdir -p lib/modules
    mount -t ext4 -o ro,noload "$modules" lib/modules
fi

mount -t tmpfs -o mode=755 run run
mkdir -p -m 755 run/sshd
mount -o move /dev dev
mkdir -p dev/pts dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"; done
[ -c dev/net/tun ] || { mkdir -p dev/net; mknod dev/net/tun c 10 200; }
mount -o move /proc proc
mount -o move /sys sys
mount -t securityfs security sys/kernel/security
if [ "$cgroups" = v1 ]; then
    mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
    for group in cpu,cpuacct cpuset memory blkio pids devices freezer net_cls,net_prio perf_event hugetlb; do
        mkdir "sys/fs/cgroup/$group"
        mount -t cgroup -o "$group" cgroup "sys/fs/cgroup/$group" || { rmdir "sys/fs/cgroup/$group"; continue; }
        case $group in # each controller has a name of its own, as systemd gives it
            *,*) for one in "${group%,*}" "${group#*,}"; do ln -s "$group" "sys/fs/cgroup/$one"; done ;;
        esac
    done
else
    mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
# Each command inside starts several of these: on an emulated processor, they start in a third of the time without the
# dynamic linker. None starts another program: busybox would start its own, such as ip.
for tool in base64 cat chmod chown dirname head mkdir sleep true; do
    ln -sf busybox "usr/bin/$tool"
done
echo lastro-guest >proc/sys/kernel/hostname
echo "127.0.0.1 localhost lastro-guest" >etc/hosts
for module in $(echo "$load" | tr , ' '); do
    chroot . modprobe -q "$module" || :
done
ip link set lo up
ip address add 198.19.255.15/24 dev eth0
ip link set eth0 up
if [ -s lastro/profile ] && [ "$(cat sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then
    chroot . /sbin/apparmor_parser --add --skip-cache /lastro/profile || echo "lastro: the profile cannot be loaded"
fi
if [ -s lastro/start ]; then # of the daemons of a hypervisor
    chroot . sh /lastro/start || echo "lastro: the hypervisor's daemons do not start"
fi
echo "::respawn:/usr/sbin/sshd -D -e -f /lastro/sshd_config" >etc/inittab
echo "lastro: sshd starts"
exec switch_root /root /bin/busybox init
