#!/bin/sh
# Start of Xen's daemons in the domain that is the host of a testbed. Domains come and go by xl.
set -e
cd /usr/lib/xen-[0-9]*/bin
export PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PWD" XENSTORED_ROOTDIR=/run/xenstored
modprobe -q -a xen-evtchn xen-gntdev xen-privcmd xenfs xen-netback || : # a kernel file has them built in
mount -t xenfs xenfs /proc/xen
mkdir -p "$XENSTORED_ROOTDIR" /run/lock /var/log/xen /var/lib/xen
oxenstored --pid-file /run/xenstore.pid
tries=0
until xenstore-read -s / >/dev/null 2>&1; do
    [ $((tries += 1)) -lt 100 ] || { echo "xenstored does not answer"; exit 1; }
    sleep 0.1
done
xen-init-dom0
xenconsoled --pid-file /run/xenconsoled.pid
# Each domain gets a copy of the disk. Of a file, it takes a tenth of the time: only blocks in use are read.
for disk in /var/lib/lastro/guest/disk-*.img; do
    [ ! -h "$disk" ] || { e2image -ra "$disk" "$disk.file" && mv "$disk.file" "$disk"; }
done
