#!/bin/sh
# Load VirtualBox's kernel modules, which were built for this kernel with the userland. Each session has a service of its
# own.
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for module in vboxdrv vboxnetflt; do
    insmod /usr/lib/lastro/$module.ko*
done
