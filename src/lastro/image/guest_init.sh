#!/bin/sh
# Start of a guest, from an initramfs. PID 1 stays here, with the kernel's modules and its modprobe, which so serve a
# root filesystem that has neither; the agent and all that it runs see the root filesystem alone.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1

hostname=lastro root="" ports="" modules=""
for word in $(cat /proc/cmdline); do
    case $word in
        lastro.hostname=*) hostname=${word#*=} ;;
        lastro.root=*) root=${word#*=} ;;       # the block device, if not the first disk
        lastro.ports=*) ports=${word#*=} ;;     # how many virtio ports to wait for, or tty devices by name
        lastro.modules=*) modules=${word#*=} ;; # loaded at boot rather than on demand
    esac
done

# Drivers for what is here: first the controllers, then what they bring.
modprobe -q -a $(cat /sys/bus/pci/devices/*/modalias /sys/bus/acpi/devices/*/modalias /sys/bus/platform/devices/*/modalias 2>/dev/null | sort -u)
modprobe -q -a $(cat /sys/bus/virtio/devices/*/modalias /sys/bus/xen/devices/*/modalias 2>/dev/null | sort -u) ext4
[ ! -d /sys/class/scsi_host ] || [ -z "$(ls /sys/class/scsi_host)" ] || modprobe -q sd_mod
[ -z "$modules" ] || modprobe -a $(echo "$modules" | tr , ' ')

tries=0
until [ -n "$root" ] && [ -b "$root" ]; do
    for disk in /dev/vda /dev/sda /dev/xvda; do
        [ -n "$root" ] || [ ! -b $disk ] || root=$disk
    done
    [ -n "$root" ] && [ -b "$root" ] && break
    [ $((tries += 1)) -lt 2000 ] || { echo "lastro: no disk appeared"; poweroff -f; }
    sleep 0.005
done
mount -t ext4 -o rw "$root" /root || { echo "lastro: $root cannot be mounted"; poweroff -f; }
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mount -t tmpfs -o mode=755 run /root/run
# Nodes and links that udev would make; opening the first loads its module.
mkdir -p /dev/pts /dev/shm /dev/net
mknod /dev/net/tun c 10 200
ln -s /proc/self/fd /dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "/dev/${number#*:}"; done
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs -o mode=1777 shm /root/dev/shm
echo "$hostname" > /proc/sys/kernel/hostname
ip link set lo up
echo "$ports" > /ports
exec /bin/init
