#!/bin/busybox sh
# Recordings inside the Linux guest: idle periods of its CPUs under sets of the governor's parameters, then by the other
# sources. The kernel's cpuidle counters are read before and after.
out=/run/inside
params=/sys/module/haltpoll/parameters

# For each CPU and idle state: name, number of entries, and time in microseconds; the uptime before and after.
# One process, so that the readings are close together.
counters() {
    cpuidle=/sys/devices/system/cpu/cpu*/cpuidle/state*
    # shellcheck disable=SC2086
    grep . /proc/uptime $cpuidle/name $cpuidle/usage $cpuidle/time /proc/uptime
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

# The defaults, and limits that did not grow under the setting before: those would shrink after long idle periods only.
start_over() {
    set_all 0 2 50000 0 Y
    sleep 0.5
    set_all 200000 2 50000 2 Y
}

# Debian's 6.1 is built without the governor.
has_governor() {
    mkdir -p /var/lib
    [ -d $params ] || {
        touch $out/without-governor
        return 1
    }
}

# A plan that polls against no polling, then the plan applied and undone.
proved() {
    has_governor || return 0
    start_over
    before=$(cat $params/* | md5sum)
    haltwise prove --a guest_halt_poll_ns=0 --plan /plan.json --rounds 2 --warm-up 0 --yes --json -- \
        guest-tool pipe 60 >$out/proof.json 2>$out/said || return 1
    [ "$(cat $params/* | md5sum)" = "$before" ] || return 1
    haltwise apply /plan.json --yes >>$out/said 2>&1 || return 1
    # shellcheck disable=SC2046 # in one line
    echo $(cat $params/*) >$out/applied
    haltwise undo >>$out/said 2>&1 || return 1
    [ "$(cat $params/* | md5sum)" = "$before" ]
}

# Records a load. If the emulator lost an event, haltwise returns 5, and the capture
# has the loss.
recorded() { # where to, the load
    haltwise record --guest -o "$1" -- sh -c "$2"
    code=$?
    [ $code = 0 ] || [ $code = 5 ]
}

# Records each load under the defaults, then proves the recommendation of `tune` against them.
tuned() {
    has_governor || return 0
    number=0
    while read -r load; do
        number=$((number + 1))
        into=$out/$number
        mkdir $into
        echo "$load" >$into/load
        start_over
        recorded $into/default "$load" >$into/said 2>&1 || return 1
        haltwise tune --json --plan $into/plan.json $into/default >$into/tune.json 2>>$into/said || [ $? = 5 ] || return 1
        grep -q '"settings": {}' $into/plan.json && continue
        defaults=$(cat $params/*)
        haltwise prove --plan $into/plan.json --rounds 2 --warm-up 0 --yes --json -- sh -c "$load" \
            >$into/proof.json 2>>$into/said || return 1
        [ "$(cat $params/*)" = "$defaults" ] || return 1
    done </loads
}

# Runs while a recording is made.
under_sets() { # size of each load
    counters >$out/before
    if [ -d $params ]; then
        while read -r set; do
            # shellcheck disable=SC2086
            set_all $set
            load "$1"
            # The recorder looks at parameters every 100 ms: a set that comes and goes unseen cannot be verified.
            sleep 0.3
        done </sets
    else
        # Half a second of it is too little for `tune --host` to tell one offset between the two clocks from others.
        for _ in 1 2 3 4 5; do
            load "$1"
            sleep 0.3
        done
    fi
    counters >$out/after
}

# One load, recorded by another source.
by_source() { # name, size of the load, arguments of record
    into=$out/$1
    mkdir $into
    counters >$into/first
    # shellcheck disable=SC2086
    haltwise record --guest $3 --json -o $into/capture -- sh /inside.sh once "$into" "$2" \
        >$into/record.json 2>$into/record.err || echo "record --guest $3 returned $?: $(cat $into/record.err)" >$out/failed
    counters >$into/last
}

# The same load as the guest is, then under other governors, by name.
joined() { # size, governors
    governor=/sys/devices/system/cpu/cpuidle/current_governor
    was=$(cat $governor) size=$1
    shift
    for name in guest "$@"; do
        [ $name = guest ] || echo $name >$governor 2>/dev/null || continue
        [ $name != guest ] || [ ! -d $params ] || start_over
        recorded $out/$name "sh /inside.sh load $size" >>$out/said 2>&1 || return 1
        cat $governor >$out/$name.governor
    done
    echo "$was" >$governor 2>/dev/null
    # Idle states that the governors choose from.
    (cd /sys/devices/system/cpu && grep . cpuidle/current_driver cpuidle/available_governors \
        cpu0/cpuidle/state*/name cpu0/cpuidle/state*/latency cpu0/cpuidle/state*/residency) >$out/states 2>/dev/null
    return 0
}

case $1 in
under-sets) under_sets "$2" ;;
once)
    counters >"$2/before"
    load "$3"
    counters >"$2/after"
    ;;
load) load "$2" ;;
joined)
    out=/run/joined
    mkdir $out
    shift
    joined "$@" || echo "$(tail -3 $out/said)" >$out/failed
    ;;
proved)
    out=/run/proved
    mkdir $out
    proved || echo "the guest has $(cat $params/*): $(tail -5 $out/said)" >$out/failed
    ;;
tuned)
    out=/run/tuned
    mkdir $out
    tuned || echo "load $(cat $out/*/load | tail -1): $(cat $out/*/said | tail -3)" >$out/failed
    [ ! -d $params ] || start_over
    ;;
*)
    counters >/run/first
    mkdir $out
    mv /run/first $out
    cat /sys/devices/system/cpu/cpuidle/current_governor >$out/governor
    haltwise record --guest --json -o $out/capture -- sh /inside.sh under-sets "$1" \
        >$out/record.json 2>$out/record.err || echo "record --guest returned $?: $(cat $out/record.err)" >$out/failed
    counters >$out/last
    [ ! -d $params ] || start_over
    by_source tracepoints 400 "--source tracepoints"
    by_source stats 60 "--mode stats --interval 200ms"
    ;;
esac
