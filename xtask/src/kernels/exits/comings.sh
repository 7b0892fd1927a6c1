# Each recording leaves the counts of the lab and of the recorder. A CPU is offline when the first one begins, and
# goes online and offline under the guests.
. /lab.sh
cpu=/sys/devices/system/cpu/cpu1/online
cat >/run/hotplug.sh <<'END'
. /lab.sh
tries=1
cpu=/sys/devices/system/cpu/cpu1/online
: >/run/turning
(
    turns=0
    while [ -e /run/turning ]; do
        sleep 0.3
        for to in 1 0; do
            echo $to >$cpu && turns=$((turns + 1))
            sleep 0.3
        done
    done
    echo 1 >$cpu
    echo $turns >/out/hotplug/turns
) &
lab hotplug/lab 'exits --rounds 12 --vms 2'
rm /run/turning
wait
END
cat >/run/short.sh <<'END'
. /lab.sh
tries=1
for nth in $(seq 1 VMS); do
    lab short/lab$nth "exits --rounds 1 --name short$nth"
done
END
cat >/run/hop.sh <<'END'
. /lab.sh
tries=1
lab hop/lab 'hop --rounds HOPS --gap fixed:2ms'
END
for what in hotplug short hop; do
    [ $what != hotplug ] || echo 0 >$cpu
    record $what '--source bpf --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid'
    ask $what exits '--by vcpu'
done
exit $failed
