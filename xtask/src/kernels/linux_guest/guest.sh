#!/bin/busybox sh
# First process of the Linux guest: brings up the network and runs commands that the host sends to port 7.
/bin/busybox mkdir -p /proc /sys /dev /run
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
# Statistics of BPF programs stay on: a recorder that toggles them makes the kernel patch its code, and the emulator may
# run the old code.
echo 1 >/proc/sys/kernel/bpf_stats_enabled
while read -r module; do insmod "/lib/modules/$module.ko"; done </lib/modules/order
ip link set lo up
# shellcheck disable=SC2154 # from the kernel's command line
ip addr add "$address/24" dev eth0
ip link set eth0 up
arp -s "${address%2}1" 52:54:00:00:00:01
# Other VMs are reached through the host.
ip route add 10.9.0.0/16 via "${address%2}1"
idle=/sys/devices/system/cpu/cpuidle
echo "guest: up with $(cat $idle/current_driver), $(cat $idle/current_governor)"
nc -ll -p 7 -e sh
