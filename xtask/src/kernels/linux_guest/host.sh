# Host side of the tests with a Linux guest: functions for the phases.
say() { echo "check: $*"; }
seconds() { cut -d. -f1 /proc/uptime; }
begun=$(seconds)
failed=0 instance=
fail() {
    say "$*"
    failed=1
}

# Complaints of a VM's QEMU, without the one about an emulated host with one CPU.
complaints() { # VM
    grep -v 'exceeds the recommended cpus' "/out/$1.qemu"
}

qmp() { # VM, commands
    name=$1
    shift
    guest-tool qmp "/run/$name.qmp" "$@"
}

# Address of a VM, on its own network.
address_of() { echo "10.9.${1#web}.2"; }

launch() { # VM, options of its kernel, QEMU, memory in MiB, its root, further options of QEMU
    number=${1#web}
    tunctl -t "tap$number" >/dev/null
    ip addr add "10.9.$number.1/24" dev "tap$number"
    ip link set "tap$number" address 52:54:00:00:00:01
    ip link set "tap$number" up
    # Static ARP entries: a VM without CPU time for three seconds would not answer an ARP request.
    arp -s "$(address_of "$1")" 52:54:00:00:00:02
    dd if=/dev/zero of="/run/$1.disk" bs=1M count=4 2>/dev/null
    while vm "$@"; do sleep 1; done &
}

# After a VM has ended, commands that wait for its answer wait for ever.
trap 'exit "$(cat /run/ended)"' TERM
give_up() { # what the script returns
    echo "$1" >/run/ended
    kill $$
    while kill -0 $$; do
        killall -q nc
        sleep 1
    done
}

# A VM ends if its guest panics or is reset; QEMU then prints nothing.
ended() { # VM, what QEMU returned
    say "$1 ended by itself, QEMU with $2: $(tail -3 "/out/$1.console") $(complaints "$1")"
    # 75 is STOOD_STILL.
    [ "$2" = 0 ] && [ -z "$(complaints "$1")" ] && give_up 75 || give_up 1
}

silent() { # VM: whether it runs, and does not answer
    timeout 20 guest-tool qmp "/run/$1.qmp" query-status | grep -q '"running": *true' || return 1
    ! echo 'echo here' | timeout 30 nc "$(address_of "$1")" 7 | grep -q here
}

# A VM whose interrupt the emulator lost stands still for ever. A request would wake it, so requests begin only when the script is late;
# and there are several, since the script pauses VMs.
watch_over() { # how long nothing is asked, VMs
    sleep "$1"
    shift
    while sleep 10 && [ ! -e /run/over ]; do
        for vm in "$@"; do
            if silent "$vm" && silent "$vm" && silent "$vm"; then
                say "$vm runs, and does not answer"
                give_up 75
            fi
        done
    done
}

# shellcheck disable=SC2086 # options are words
vm() { # as launch; whether it is to be started again, since the emulator had it reset before its first word
    "$3" -name "guest=$1,debug-threads=on" -machine q35,accel=kvm -cpu host -smp 2 -m "$4" \
        -nodefaults -display none -no-reboot -L /firmware -kernel "/guest/${kernel-kernel}" -initrd "/guest/$5" \
        -append "console=ttyS0 quiet panic=-1 tsc=reliable iomem=relaxed address=$(address_of "$1") $2" \
        -serial "file:/out/$1.console" -qmp "unix:/run/$1.qmp,server=on,wait=off" \
        -netdev "tap,id=n0,ifname=tap$number,script=no,downscript=no,vhost=on" \
        -device virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:00:00:02 \
        -fw_cfg "name=opt/org.haltwise/haltpoll,string=guest_halt_poll_ns=750000 guest_halt_poll_grow=4" \
        -chardev "socket,path=/run/$1.agent,server=on,wait=off,id=agent" -device virtio-serial-pci \
        -device virtserialport,chardev=agent,name=org.qemu.guest_agent.0 \
        -drive "id=d0,file=/run/$1.disk,format=raw,if=none" -device virtio-blk-pci,drive=d0 \
        -pidfile "/run/$1.pid" ${6-} 2>"/out/$1.qemu"
    returned=$?
    [ ! -e /run/over ] || return 1
    if grep -q 'guest: up' "/out/$1.console"; then
        ended "$1" $returned
        return 1
    fi
}

wait_for() { # VM: until its first process has come so far
    until grep -q 'guest: up' "/out/$1.console" 2>/dev/null; do
        [ "$(seconds)" -lt $((begun + ${patience:-150} * $(cat /run/slower))) ] || {
            say "$1 does not boot: $(tail -3 "/out/$1.console") $(complaints "$1")"
            exit 75 # as STOOD_STILL
        }
        sleep 0.3
    done
    say "$1: $(grep -o 'up with .*' "/out/$1.console"), after $(cut -d' ' -f1 /proc/uptime) s"
}

guest() { # VM, command: runs it inside
    echo "$2" | nc "$(address_of "$1")" 7
}

# KVM's counters of a stopped VM, and the thread of each vCPU.
counters() { # VM
    qmp "$1" query-cpus-fast '{"execute": "query-stats", "arguments": {"target": "vcpu"}}'
}

# Has other tools record the events that `haltwise import` reads, while a phase runs: ftrace in its own instance, and perf
# and trace-cmd where they are installed.
phase_beside_tools() { # as phase
    events="kvm/kvm_vcpu_wakeup kvm/kvm_halt_poll_ns sched/sched_waking sched/sched_switch"
    instance=/sys/kernel/tracing/instances/beside
    mkdir $instance
    echo mono >$instance/trace_clock
    echo 8192 >$instance/buffer_size_kb
    echo 1 >$instance/options/record-tgid
    options=
    for event in $events; do
        echo 1 >$instance/events/$event/enable
        options="$options -e $(echo $event | tr / :)"
    done
    tools=
    [ -x /bin/trace-cmd ] && tools="trace-cmd record -q -C mono -b 8192 $options -o /run/trace.dat"
    [ -x /bin/perf ] && tools="$tools perf record -q -a -k CLOCK_MONOTONIC -m 2048 $options -o /run/perf.data --"
    phase "$1" "$2" "$3" "$4" "$5" "$tools"
    for event in $events; do echo 0 >$instance/events/$event/enable; done
    cat $instance/trace >"/out/$1/ftrace"
    rmdir $instance
    instance=
    if [ -x /bin/perf ]; then
        perf script --ns -F comm,pid,tid,cpu,time,event,trace -i /run/perf.data >"/out/$1/perf" \
            2>/run/perf.err || fail "perf script returned $?: $(cat /run/perf.err)"
    fi
    if [ -x /bin/trace-cmd ]; then
        trace-cmd report -t -i /run/trace.dat >"/out/$1/trace-cmd" 2>/run/trace.err \
            || fail "trace-cmd report returned $?: $(cat /run/trace.err)"
    fi
}

# A VM that is never started, like one that waits for an incoming migration.
launch_unstarted() {
    qemu-system-x86_64 -S -name guest=unstarted,debug-threads=on -machine q35,accel=kvm -cpu host -smp 2 -m 16 -nodefaults \
        -display none -L /firmware -qmp unix:/run/unstarted.qmp,server=on,wait=off 2>/out/unstarted.qemu &
    until [ -S /run/unstarted.qmp ]; do sleep 0.1; done
    qmp unstarted query-status >/dev/null
}

# An idle VM, a paused VM and a VM that was never started, recorded by every source.
paused() { # VM that is to run
    launch_unstarted
    haltwise status --check --json >/out/settings/paused.json 2>/run/said || fail "status --check: $(cat /run/said)"
    qmp "$1" cont >/dev/null
    for source in bpf tracepoints; do
        haltwise record --source $source -o /out/settings/$source --duration 1s >/run/said 2>&1 \
            || fail "record --source $source: $(cat /run/said)"
    done
    for mode in counts stats; do
        haltwise record --mode $mode -o /out/settings/$mode --duration 1s >/run/said 2>&1 \
            || fail "record --mode $mode: $(cat /run/said)"
    done
    haltwise top --once --json --interval 1s >/out/settings/top.json 2>/run/said || fail "top: $(cat /run/said)"
}

# Sets and restores the ceiling of a VM whose QEMU haltwise-exec started, while the host's parameter changes.
ceilings() { # VM
    haltwise apply --vm "$1" --ceiling 1ms --yes >/run/said 2>&1 || fail "apply --vm: $(cat /run/said)"
    echo 3000000 >$ceiling
    haltwise status --json >/out/settings/ceiling.json 2>/run/said || fail "status: $(cat /run/said)"
    haltwise undo >/run/said 2>&1 || fail "undo of a ceiling: $(cat /run/said)"
    haltwise status --json >/out/settings/restored.json 2>/run/said || fail "status: $(cat /run/said)"
    [ "$(cat $ceiling)" = 3000000 ] || fail "undo of a ceiling set halt_poll_ns to $(cat $ceiling)"
    echo "$was" >$ceiling
    haltwise apply --vm web2 --ceiling 0 --yes >/run/said 2>&1
    [ $? = 3 ] || fail "apply --vm of a VMM without the library: $(cat /run/said)"
    [ -z "$(complaints "$1")" ] || fail "$1: $(complaints "$1")"
}

# Applies, shows, proves and restores settings while one VM runs and the other is paused.
settings() { # VM
    mkdir /out/settings
    ceiling=/sys/module/kvm/parameters/halt_poll_ns
    was=$(cat $ceiling)
    paused "$1"
    echo 'guest-tool timer 2000 100000' | nc "$(address_of "$1")" 7 &
    load=$!
    haltwise status --check --json >/out/settings/running.json 2>/run/said || fail "status --check: $(cat /run/said)"
    haltwise apply --set halt_poll_ns=2ms --yes --json >/out/settings/apply.json 2>/run/said
    # The paused VM's guest disabled host polling, and does not follow.
    [ $? = 5 ] || fail "apply: $(cat /run/said)"
    [ "$(cat $ceiling)" = 2000000 ] || fail "apply set $(cat $ceiling)"
    haltwise status --json >/out/settings/status.json 2>/run/said || fail "status: $(cat /run/said)"
    haltwise prove --a off --b kvm:max=4ms --rounds 2 --duration 1s --vm "$1" --yes --json \
        >/out/settings/prove.json 2>/run/said || fail "prove returned $?: $(cat /run/said)"
    [ "$(cat $ceiling)" = 2000000 ] || fail "prove left $(cat $ceiling)"
    haltwise undo >/run/said 2>&1 || fail "undo: $(cat /run/said)"
    [ "$(cat $ceiling)" = "$was" ] || fail "undo left $(cat $ceiling)"
    ceilings "$1"
    kill $load
    qmp "$1" stop >/dev/null
}

# Resumes a stopped VM, records while it runs a load, and stops it. Leaves KVM's counters and the guest's interrupts from
# before and after.
phase() { # name, VM, arguments of record, the guest's load, the host's part of it, what runs the recorder
    mkdir "/out/$1"
    cat >"/run/$1.sh" <<END
guest-tool qmp /run/$2.qmp cont >/dev/null
echo 'cat /proc/interrupts >/run/before; $4; cat /proc/interrupts >/run/after' | nc $(address_of "$2") 7 &
$5
wait
guest-tool qmp /run/$2.qmp stop >/dev/null
# In stats mode, until the counters have been read once more.
sleep 0.5
END
    counters "$2" >"/out/$1/kvm.before"
    # shellcheck disable=SC2086
    $6 haltwise record $3 --json -o "/out/$1/capture" -- sh "/run/$1.sh" >"/out/$1/record.json" \
        2>"/out/$1/record.err" || fail "record $1 returned $?: $(cat "/out/$1/record.err")"
    counters "$2" >"/out/$1/kvm.after"
    [ -z "$instance" ] || echo 0 >"$instance/tracing_on"
    qmp "$2" cont >/dev/null
    guest "$2" 'cat /run/before' >"/out/$1/interrupts.before"
    guest "$2" 'cat /run/after' >"/out/$1/interrupts.after"
    qmp "$2" stop >/dev/null
}

# Has the guest run a part of inside.sh, and fetches its results.
left_inside() { # VM, part
    mkdir "/out/$2"
    qmp "$1" cont >/dev/null
    part=$(seconds)
    guest "$1" "sh /inside.sh $2" >"/out/$2/said"
    guest "$1" "tar -c -C /run/$2 ." | tar -x -C "/out/$2" || fail "$2: no results: $(cat "/out/$2/said")"
    [ ! -e "/out/$2/failed" ] || fail "$2: $(cat "/out/$2/failed")"
    qmp "$1" stop >/dev/null
    say "$2: $(($(seconds) - part)) s"
}

# Has the guest apply the parameters of fw_cfg, and restore its own.
specified() { # VM
    qmp "$1" cont >/dev/null
    said=$(guest "$1" '
        cd /sys/module/haltpoll/parameters 2>/dev/null || { echo no governor; exit; }
        all() { echo "$(cat guest_halt_poll_ns) $(cat guest_halt_poll_grow)"; }
        before=$(all)
        sh /haltwise-haltpoll start >/run/specified 2>&1
        meanwhile=$(all)
        sh /haltwise-haltpoll stop
        [ "$(all)" = "$before" ] && echo "$meanwhile" || echo "restored $(all), not $before: $(cat /run/specified)"')
    case $said in
    '750000 4' | 'no governor') say "fw_cfg: $said" ;;
    *) fail "fw_cfg: $said" ;;
    esac
    qmp "$1" stop >/dev/null
}

# Records idle periods inside the guest, and at the same time its halts in KVM. KVM's counters are read while the VM
# is stopped.
inside() { # VM, size of each load
    mkdir /out/inside
    counters "$1" >/out/inside/kvm.before
    cat >/run/inside.sh <<END
guest-tool qmp /run/$1.qmp cont >/dev/null
echo 'sh /inside.sh $2' | nc $(address_of "$1") 7 >/out/inside/said
guest-tool qmp /run/$1.qmp stop >/dev/null
END
    haltwise record --source bpf --vm "$1" --json -o /out/inside/host -- sh /run/inside.sh >/out/inside/host.json \
        2>/out/inside/host.err || fail "inside: record of the host returned $?: $(cat /out/inside/host.err)"
    counters "$1" >/out/inside/kvm.after
    qmp "$1" cont >/dev/null
    guest "$1" 'tar -c -C /run/inside .' | tar -x -C /out/inside || fail "inside: no results: $(cat /out/inside/said)"
    [ ! -e /out/inside/failed ] || fail "inside: $(cat /out/inside/failed)"
    qmp "$1" stop >/dev/null
}

# Records several loads inside the guest; the host records all the time, so that the halts of both can be
# matched.
joined() { # VM, size of each load, governors
    mkdir /out/joined
    cat >/run/joined.sh <<END
guest-tool qmp /run/$1.qmp cont >/dev/null
echo 'sh /inside.sh joined $2 $3' | nc $(address_of "$1") 7 >/out/joined/said
guest-tool qmp /run/$1.qmp stop >/dev/null
END
    haltwise record --source bpf --exits -o /out/joined/host -- sh /run/joined.sh >/run/said 2>&1 \
        || fail "record of the host: $(cat /run/said)"
    qmp "$1" cont >/dev/null
    guest "$1" 'tar -c -C /run/joined .' | tar -x -C /out/joined || fail "joined: no results: $(cat /out/joined/said)"
    [ ! -e /out/joined/failed ] || fail "joined: $(cat /out/joined/failed)"
    qmp "$1" stop >/dev/null
}

# Records one load repeatedly under the current parameters, and then under other ceilings.
stable() { # VM, load, recordings, ceilings
    for n in $(seq "$3"); do phase "$1-$n" "$1" '--source bpf' "$2" '' ''; done
    ceiling=/sys/module/kvm/parameters/halt_poll_ns
    was=$(cat $ceiling)
    for ns in $4; do
        echo "$ns" >$ceiling
        phase "$1-at-$ns" "$1" '--source bpf' "$2" '' ''
    done
    echo "$was" >$ceiling
    say "stable: $1, after $(cut -d' ' -f1 /proc/uptime) s"
}
