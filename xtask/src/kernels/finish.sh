# Runs /script, and writes what it left in /out to the disk as a tar archive. Then the guest powers off.
cd /out
sh /script
code=$?
# As STOOD_STILL: the emulator lost an interrupt each time that a VM was run.
[ ! -e /run/lost ] || code=75
echo $code >/out/exit_code
dmesg >/out/dmesg
sync
tar -c -f /dev/vda -C /out . && echo "init: results are on the disk"
sync
poweroff -f
