#!/bin/busybox sh
# First process of a test guest: mounts file systems and loads modules, then runs finish.sh.
/bin/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/ TERM=dumb
mkdir -p /proc /sys /dev /tmp /run /out /var/lib
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
ip link set lo up
hostname "stock-$(uname -r | cut -d. -f1,2)"
# Statistics of BPF programs stay on, so that no recorder has to change the kernel's code for them.
echo 1 >/proc/sys/kernel/bpf_stats_enabled
while read -r module; do
    insmod "/lib/modules/$module.ko" || echo "init: cannot load $module"
done </lib/modules/order
# Slowdown: an idle machine boots to this line within 8 s.
slower=$(($(cut -d. -f1 /proc/uptime) / 8 + 1))
echo $slower >/run/slower
# Pulse for the process outside, and a list of tasks if the script hangs.
while echo; do sleep 2; done >/dev/ttyS1 &
(
    patience=$(($(cat /patience) * slower))
    sleep "$patience"
    echo "init: still running after $patience s; its tasks:"
    for task in /proc/[0-9]*/task/*; do
        # Kernel threads have no command line.
        name=$(tr '\0' ' ' <"$task/cmdline" | cut -c1-60)
        [ -z "$name" ] || echo "init: $name $task $(cat "$task/wchan") $(cut -d' ' -f1-4 "$task/syscall")"
    done
) &
# In a guest with systemd a service runs the script.
[ -e /lib/systemd/systemd ] && exec /lib/systemd/systemd --unit=check.service
exec sh /finish
