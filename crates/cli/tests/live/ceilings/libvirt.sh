#!/bin/sh
# A libvirtd with nothing of the host's: its directories are new and in memory, its network is empty, and its processes end
# with this one. Starts the domain $2 paused, with the emulator $3, until stdin is closed. Leaves in $1 what libvirt says of
# itself and of the emulators, before and after.
set -eu
out=$1 domain=$2 emulator=$3
for dir in /etc/libvirt /run/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do
    mkdir -p "$dir"
    mount -t tmpfs none "$dir"
done
ip link set lo up 2>/dev/null || true
cat >/etc/libvirt/qemu.conf <<CONF
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
CONF
libvirtd >"$out/libvirtd.log" 2>&1 &
ask() { virsh -q -c qemu:///system "$@"; }
tries=0
until ask version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 1
    sleep 0.1
done
ask capabilities >"$out/before"
stock=$(command -v qemu-system-x86_64)
for which in "$stock" "$emulator"; do
    ask domcapabilities --machine microvm --virttype kvm --emulatorbin "$which" |
        grep -v '^  <path>' >"$out/of-$([ "$which" = "$stock" ] && echo stock || echo link)"
done
cat >"$out/domain.xml" <<XML
<domain type='kvm'>
  <name>$domain</name>
  <memory unit='MiB'>64</memory>
  <os><type arch='x86_64' machine='microvm'>hvm</type></os>
  <devices>
    <emulator>$emulator</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
XML
ask create --paused "$out/domain.xml" >/dev/null
ask domuuid "$domain" >"$out/uuid"
read -r _ || true
ask domstate "$domain" >"$out/state"
ask destroy "$domain" >/dev/null
ask capabilities >"$out/after"
cp "/var/log/libvirt/qemu/$domain.log" "$out/log"
