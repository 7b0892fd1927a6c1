# haltwise applies and restores settings of a real kernel while VMs run. The test guest's init runs this
# script. Each step states what it expects.
P=/sys/module/kvm/parameters
failed=0 vms=
mkdir -p /etc/modprobe.d /etc/tmpfiles.d /out/knob
wrong() { # each line of it has the prefix by which xtask repeats it
    printf '%s\n' "$*" | sed 's/^/check: knob: /'
    failed=1
}
is() { # parameter, value, after what
    [ "$(cat $P/"$1")" = "$2" ] || wrong "$1 is $(cat $P/"$1"), not $2, after $3"
}
run() { # name, exit code, arguments: what it says is kept
    name=$1 code=$2
    shift 2
    haltwise "$@" >"/out/knob/$name" 2>"/out/knob/$name.err"
    got=$?
    [ $got = "$code" ] || wrong "haltwise $* returned $got, not $code: $(cat "/out/knob/$name.err")"
}
is_running() { # process
    [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"
}
# Ends VMs; prints the threads of a VM that does not end.
end() { # processes
    kill "$@"
    tries=0
    for pid in "$@"; do
        while is_running "$pid" && [ $tries -lt 100 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        is_running "$pid" || continue
        wrong "VM $pid does not end:" "$(cd "/proc/$pid/task" && head -n 20 */comm */syscall */stack)"
    done
}
# Ends the check where KVM counts no HLT of a VM within two seconds. Timers wake both guests every 3 ms at most, so that the
# emulator has lost an interrupt of one of them.
give_up_if_still() {
    hlts() { grep . /sys/kernel/debug/kvm/*-*/halt_exits; }
    { hlts && sleep 2 && hlts; } >/run/hlts
    [ -n "$(sort /run/hlts | uniq -d)" ] || return
    umount /sys/kernel/btf 2>/dev/null
    haltwise undo >/dev/null 2>&1
    # shellcheck disable=SC2086
    kill -9 $vms
    exit 75 # as STOOD_STILL
}
# Records until each VM has halted: the emulator may withhold an interrupt for more than a second.
record_of_both() { # name
    tries=0
    while [ $tries -lt 4 ]; do
        tries=$((tries + 1))
        rm -rf "/out/knob/$1"
        haltwise record --source bpf --duration 1s -o "/out/knob/$1" >/dev/null 2>&1 || wrong "record returned $?"
        run "$1.json" 0 report "/out/knob/$1" --json
        # Ceilings of all, of two VMs, and of their vCPUs; one of a VM that did not halt has no halts.
        [ "$(grep -c '"ceilings": \[$' "/out/knob/$1.json")" = 5 ] \
            && ! grep -q '"halts": 0,' "/out/knob/$1.json" && return
        echo "knob: a VM did not halt, try $tries"
    done
    give_up_if_still
    wrong "a VM does not halt:" "$(head -n 20 /proc/[0-9]*/task/*/stack | grep -B 2 -A 12 kvm)"
}
values() {
    cat $P/halt_poll_ns $P/halt_poll_ns_grow $P/halt_poll_ns_grow_start $P/halt_poll_ns_shrink
}
echo 200000 >$P/halt_poll_ns
before=$(values)

# Woken by timers: QEMU's emulation of SVM now and then loses an interrupt between two virtual CPUs,
# and a guest that waits for one would wait for ever.
for vm in "--name free" "--name capped --cap 70us"; do
    # shellcheck disable=SC2086
    haltwise-lab run tick $vm --rounds 1000000 --gap uniform:50us:3ms --timeout 900s >/dev/null 2>&1 &
    vms="$vms $!"
done
sleep 2

# A dry run changes nothing, and leaves nothing.
run dry.json 0 apply --set halt_poll_ns=80us --json
is halt_poll_ns 200000 "a dry run"
[ -e /var/lib/haltwise ] && wrong "a dry run left a record"

# The running VM sees the write, as the recorder does.
cat >/run/knob.sh <<'END'
sleep 3
haltwise apply --set halt_poll_ns=80us --yes --json >/out/knob/apply.json
echo $? >/out/knob/apply.code
sleep 3
END
haltwise record --source bpf --json -o /out/knob/capture -- sh /run/knob.sh >/out/knob/record.json \
    || wrong "record returned $?"
# One of the two VMs has a ceiling of its own: it is warned of, and the exit code says so.
[ "$(cat /out/knob/apply.code)" = 5 ] || wrong "apply returned $(cat /out/knob/apply.code), not 5"
grep -q 'halt_poll_ns does not apply to 1 of 2 running VMs: capped' /out/knob/apply.json \
    || wrong "apply did not warn: $(cat /out/knob/apply.json)"
is halt_poll_ns 80000 "apply"
run report.json 0 report /out/knob/capture --json
run verify.json 0 verify /out/knob/capture --json
# A guest that disables host polling by its MSR, as Linux' cpuidle driver haltpoll does.
haltwise-lab run poller --name haltpoll --rounds 1000000 --gap fixed:5ms --timeout 600s >/dev/null 2>&1 &
poller=$!
sleep 2
run status.json 0 status --json
kill $poller
wait $poller
# Where the kernel's types cannot be read, halts tell: the VM with a cap goes on as before.
mount -t tmpfs tmpfs /sys/kernel/btf
# A VM need not have a halt that tells, in the time that apply looks; then apply says so.
tries=0
while :; do
    haltwise apply --set halt_poll_ns=2ms --yes --json >/out/knob/halts.json 2>/out/knob/halts.json.err
    got=$?
    tries=$((tries + 1))
    grep -q '"not-told"' /out/knob/halts.json && [ $tries -lt 4 ] || break
    echo "knob: no halt told, try $tries"
    # The report about the VMs is as uncertain.
    haltwise apply --set halt_poll_ns=80us --yes >/dev/null 2>&1
    is halt_poll_ns 80000 "apply after one that told nothing"
done
grep -q '"not-told"' /out/knob/halts.json && give_up_if_still
[ $got = 5 ] || wrong "apply by halts returned $got, not 5: $(cat /out/knob/halts.json)" \
    "$(head -n 20 /proc/[0-9]*/task/*/stack | grep -B 2 -A 12 kvm)"
umount /sys/kernel/btf
run halts-back 5 apply --set halt_poll_ns=80us --yes
is halt_poll_ns 80000 "a third apply"

# Measured in turn on the running VM; afterwards all settings are restored.
run prove-dry 2 prove --a off --b kvm:max=400us --rounds 2 --duration 1s --vm free
is halt_poll_ns 80000 "a prove without --yes"
run prove.json 0 prove --a off --b kvm:max=400us,grow=4 --rounds 2 --duration 1s --vm free --yes --json
is halt_poll_ns 80000 "prove"
[ "$(cat $P/halt_poll_ns_grow)" = 2 ] || wrong "prove left halt_poll_ns_grow at $(cat $P/halt_poll_ns_grow)"
# Killed in the middle: its settings can be restored.
haltwise prove --a off --b kvm:max=400us --rounds 9 --duration 2s --vm free --yes >/dev/null 2>&1 &
prove=$!
tries=0
while [ "$(cat $P/halt_poll_ns)" = 80000 ] && [ $tries -lt 200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -9 $prove
wait $prove
[ "$(cat $P/halt_poll_ns)" = 80000 ] && wrong "prove had set nothing before it was killed"
run undo-prove 0 undo
is halt_poll_ns 200000 "undo of a prove that was killed, and of the apply before it"

# A plan of parameters and ceilings, applied and undone as one; what holds is recorded in between and afterwards.
cat >/run/plan.json <<'END'
{"schema": "haltwise-plan", "version": 1, "tool": {"name": "haltwise", "version": "0.1.0"},
 "capture": {"hostname": null, "kernel_release": "any", "arch": "x86_64", "started_unix_ns": 0,
  "ended_unix_ns": null, "halts": 0},
 "goal": {"name": "balanced", "lambda": 1.0, "max_poll_cpu_percent": null},
 "scope": "host-and-vms", "before": {}, "settings": {"halt_poll_ns": 90000, "halt_poll_ns_grow": 4},
 "ceilings": [{"vm": "free", "halt_poll_ns": 0, "goal": "density", "lambda": 0.0},
  {"vm": "capped", "halt_poll_ns": 50000, "goal": "latency", "lambda": 10.0}],
 "expected": null, "reason": "by hand"}
END
run plan-apply.json 0 apply /run/plan.json --yes --json
is halt_poll_ns 90000 "a plan"
is halt_poll_ns_grow 4 "a plan"
record_of_both planned
run plan-again.json 0 apply /run/plan.json --yes --json
run plan-undo.json 0 undo --json
[ "$(values)" = "$before" ] || wrong "after undo of a plan parameters are $(values), and were $before"
record_of_both unplanned
run plan-nothing 1 undo

# Without the kernel's types no BPF program can be loaded: the fallback works, and is reported once.
mount -t tmpfs none /sys/kernel/btf
# The emulator may withhold interrupts for as long as it looks.
saw_halts() { grep -q '"halts_per_s": [1-9]' /out/knob/by-tracepoints; }
for _ in 1 2 3; do
    run by-tracepoints 0 pilot --dry-run --json --wake-latency 30us --switch-cpu 10us
    saw_halts && break
done
umount /sys/kernel/btf
[ "$(grep -c 'recording through tracepoints' /out/knob/by-tracepoints.err)" = 1 ] \
    || wrong "the pilot without BPF says: $(cat /out/knob/by-tracepoints.err)"
saw_halts || wrong "the pilot without BPF saw no halt: $(grep -B 8 '"halts_per_s"' /out/knob/by-tracepoints)"
# shellcheck disable=SC2086
end $vms

# Killed between the record and the parameter, then between the two parameters.
# This script writes the state that such an apply leaves: no kill from outside hits that moment.
intent() { # parameter, value
    echo "{\"target\": {\"parameter\": \"$1\"}, \"before\": \"$(cat $P/$1)\", \"ours\": null, \"intent\": {\"set\": \"$2\"}," \
        "\"boot\": \"$(cat /proc/sys/kernel/random/boot_id)\", \"step\": 99, \"who\": \"killed\", \"unix_ns\": 1}"
}
baseline=/var/lib/haltwise/baseline.json
echo "{\"schema\": 1, \"step\": 99, \"held\": [$(intent halt_poll_ns 50000)]}" >$baseline
run open.json 0 status --json
echo "{\"schema\": 1, \"step\": 99, \"held\": [$(intent halt_poll_ns_shrink 4), $(intent halt_poll_ns 50000)]}" >$baseline
echo 4 >$P/halt_poll_ns_shrink
run undo-killed 0 undo
is halt_poll_ns 200000 "undo of what a kill cut off"
[ "$(values)" = "$before" ] || wrong "parameters are $(values), and were $before"

# Parameters that were modified externally are left alone.
run again 0 apply --set halt_poll_ns=80us --yes
echo 70000 >$P/halt_poll_ns
run refused 1 apply --set halt_poll_ns=60us --yes
is halt_poll_ns 70000 "a refused apply"
grep -q 'modified externally' /out/knob/refused.err || wrong "$(cat /out/knob/refused.err)"
run taken 0 apply --set halt_poll_ns=60us --yes --take-over --persist
is halt_poll_ns 60000 "taking over"
grep -q '^options kvm halt_poll_ns=60000$' /etc/modprobe.d/haltwise.conf || wrong "no boot file"

# A value that the kernel refuses is reported, and not taken for applied.
run negative 2 apply --set halt_poll_ns=-1 --yes
run undo-taken 0 undo
is halt_poll_ns 70000 "undo of a take-over"
[ -e /etc/modprobe.d/haltwise.conf ] && wrong "undo left the boot file"
echo 200000 >$P/halt_poll_ns
[ "$(values)" = "$before" ] || wrong "parameters are $(values), and were $before"
run nothing 1 undo
# The module is loaded again with the option of the boot file.
run persist 0 apply --set halt_poll_ns=90us --persist --yes
rmmod kvm_amd && rmmod kvm || wrong "KVM cannot be unloaded"
run without-kvm 3 apply --set halt_poll_ns=1us
options=$(sed -n 's/^options kvm //p' /etc/modprobe.d/haltwise.conf)
# shellcheck disable=SC2086
insmod /lib/modules/kvm.ko $options && insmod /lib/modules/kvm_amd.ko || wrong "KVM does not load"
is halt_poll_ns 90000 "loading the module with the boot file's options"
run end 0 undo
is halt_poll_ns 200000 "the last undo"
cp /var/lib/haltwise/baseline.json /out/knob/
exit $failed
