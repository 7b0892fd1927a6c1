# Functions for the scripts of checks with lab guests, and for the commands that run during a recording.
failed=0
wrong() {
    echo "check: $*"
    failed=1
}

lab() { # name, arguments: runs a guest inside the recording
    for _ in ${tries:-1 2}; do
        # shellcheck disable=SC2086
        haltwise-lab run $2 --timeout 8s --json >"/out/$1.json" 2>/run/lab.err && return 0
        # QEMU's emulation of SVM now and then loses an interrupt between two virtual CPUs, which
        # leaves a guest waiting for ever: try again.
        grep -q 'made no progress' /run/lab.err || break
        echo "check: $1: the emulated CPU lost an interrupt" >&2
    done
    # finish.sh reports an interrupt that is lost each time.
    ! grep -q 'made no progress' /run/lab.err || touch /run/lost
    echo "check: $1: $(cat /run/lab.err)" >&2
    exit 1
}

record() { # name, arguments: records while /run/NAME.sh runs
    mkdir "/out/$1"
    # shellcheck disable=SC2086
    haltwise record $2 --json -o "/out/$1/capture" -- sh "/run/$1.sh" >"/out/$1/record.json" || wrong "record $1 returned $?"
}

ask() { # name, report or one of its sections, options
    section=
    [ "$2" = report ] || section=--$2
    # shellcheck disable=SC2086
    haltwise report $section --json $3 "/out/$1/capture" >"/out/$1/$2.json" || wrong "$2 $1 returned $?"
}

# Sets the four parameters, in KVM's own order.
set_all() { # ceiling, grow, grow_start, shrink
    echo "$1" >/sys/module/kvm/parameters/halt_poll_ns
    echo "$2" >/sys/module/kvm/parameters/halt_poll_ns_grow
    echo "$3" >/sys/module/kvm/parameters/halt_poll_ns_grow_start
    echo "$4" >/sys/module/kvm/parameters/halt_poll_ns_shrink
}

# Has the kernel pair exits with entries by triggers of its tracepoints, and sum counts and times by
# reason, as `perf kvm stat` does with the same tracepoints.
second_count() {
    events=/sys/kernel/tracing/events
    begun='hist:keys=common_pid:at=common_timestamp,why=exit_reason'
    timed='hist:keys=common_pid:ns=common_timestamp-$at,reason=$why'
    timed="$timed:onmatch(kvm.kvm_exit).exit_time(\$ns,\$reason)"
    summed='hist:keys=reason:vals=ns'
    echo 'exit_time u64 ns; u32 reason' >/sys/kernel/tracing/synthetic_events
    echo "$begun" >$events/kvm/kvm_exit/trigger
    echo "$timed" >$events/kvm/kvm_entry/trigger
    echo "$summed" >$events/synthetic/exit_time/trigger
}

# Keeps the sums in a file, and takes the triggers away: a module whose tracepoints have some cannot be unloaded.
keep_second_count() { # file
    cat $events/synthetic/exit_time/hist >"$1"
    echo "!$summed" >$events/synthetic/exit_time/trigger
    echo "!$timed" >$events/kvm/kvm_entry/trigger
    echo "!$begun" >$events/kvm/kvm_exit/trigger
}
