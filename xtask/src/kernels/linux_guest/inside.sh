#!/bin/busybox sh
# What is recorded inside the Linux guest: its own idle CPUs, under sets of its governor's parameters. The kernel's own
# counters of cpuidle are read before and after.
out=/run/inside
params=/sys/module/haltpoll/parameters

# The time, and of each CPU and state: how often it was entered, for how many microseconds, and its name. One process, so
# that little happens meanwhile.
counters() {
    cpuidle=/sys/devices/system/cpu/cpu*/cpuidle/state*
    # shellcheck disable=SC2086
    grep . /proc/uptime $cpuidle/name $cpuidle/usage $cpuidle/time
}

set_all() { # guest_halt_poll_ns, grow, grow_start, shrink, allow_shrink
    echo "$1" >$params/guest_halt_poll_ns
    echo "$2" >$params/guest_halt_poll_grow
    echo "$3" >$params/guest_halt_poll_grow_start
    echo "$4" >$params/guest_halt_poll_shrink
    echo "$5" >$params/guest_halt_poll_allow_shrink
}

load() {
    guest-tool pipe "$1" >/dev/null
    guest-tool timer 1500 "$(($1 / 3))" >/dev/null
}

# While it is recorded.
under_sets() { # size of each load
    counters >$out/before
    if [ -d $params ]; then
        while read -r set; do
            # shellcheck disable=SC2086
            set_all $set
            load "$1"
        done </sets
    else
        load "$1"
    fi
    counters >$out/after
}

case $1 in
under-sets) under_sets "$2" ;;
*)
    counters >/run/first
    mkdir $out
    mv /run/first $out
    cat /sys/devices/system/cpu/cpuidle/current_governor >$out/governor
    haltwise record --guest --buffer 4 --json -o $out/capture -- sh /inside.sh under-sets "$1" \
        >$out/record.json 2>$out/record.err || echo "record --guest returned $?: $(cat $out/record.err)" >$out/failed
    counters >$out/last
    ;;
esac
