# The pilot with VMs of a stock QEMU, of which one can be given a ceiling and one follows the host's parameters. Both are
# woken each 2 ms under a ceiling of 5 ms: polling until then costs much more than a block.
params=/sys/module/kvm/parameters
ceiling=$params/halt_poll_ns

# KVM's parameters, to the byte.
bytes() { (cd $params && od -An -tx1 halt_poll_ns halt_poll_ns_grow halt_poll_ns_grow_start halt_poll_ns_shrink); }

pilot() { # name of the step, VM, more options
    step=/out/piloted/$1 vm=$2
    shift 2
    # A pilot that finds that the one before it died in a trial waits before it tries again.
    rm -f /var/lib/haltwise/pilot.json
    haltwise pilot --act --goal density --wake-latency 30us --switch-cpu 10us --vm "$vm" --json "$@" >"$step.json" \
        2>"$step.log" &
    pilot=$!
}

until_said() { # kind of decision
    tenths=0
    until grep -q "^$1: " "$step.log"; do
        tenths=$((tenths + 1))
        if [ $tenths -gt 1800 ] || ! kill -0 $pilot 2>/dev/null; then
            fail "$step: no $1: $(tail -3 "$step.log") $(haltwise status | tail -12)"
            return
        fi
        sleep 0.1
    done
}

# Until a setting on trial is in force: the baseline names the VM's ceiling, or the parameter has another value.
until_set() {
    until_said try
    tenths=0
    until grep -q '"ceiling"' /var/lib/haltwise/baseline.json || [ "$(cat $ceiling)" != "$was" ]; do
        tenths=$((tenths + 1))
        [ $tenths -le 600 ] || {
            fail "$step: nothing was set"
            return
        }
        sleep 0.1
    done
}

# A moment of the trial.
tried_for() { # seconds
    until_said try
    sleep "$1"
}

undone() { # what the parameter must be then
    haltwise undo >"$step.undo" 2>&1 || grep -q 'nothing that is in force' "$step.undo" \
        || fail "$step: undo: $(cat "$step.undo")"
    [ "$(cat $ceiling)" = "$1" ] || fail "$step: undo left halt_poll_ns $(cat $ceiling), not $1"
    [ "$1" != "$was" ] || [ "$(bytes)" = "$before" ] || fail "$step: undo left $(bytes), not $before"
    haltwise status --json >"$step.status" 2>/run/said || fail "$step: status: $(cat /run/said)"
}

killed() { # name of the step, VM, the moment
    pilot "$1" "$2"
    shift 2
    "$@"
    kill -9 $pilot
    wait $pilot
    cp /var/lib/haltwise/baseline.json "$step.left" 2>/dev/null
    undone "$was"
}

# A setting that the pilot keeps stays in force after an ordinary stop.
kept() { # VM
    pilot "kept-$1" "$1"
    until_said keep
    kill -TERM $pilot
    wait $pilot || fail "$step: the pilot returned $?: $(tail -3 "$step.log")"
    haltwise status --json >"$step.kept" 2>/run/said || fail "$step: status: $(cat /run/said)"
    undone "$was"
}

# The pilot and undo leave externally modified parameters alone until --take-over.
foreign() { # VM
    pilot foreign "$1"
    until_set
    echo 3000000 >$ceiling
    until_said hands-off
    sleep 12
    [ "$(cat $ceiling)" = 3000000 ] || fail "$step: halt_poll_ns is $(cat $ceiling)"
    kill -TERM $pilot
    wait $pilot || fail "$step: the pilot returned $?: $(tail -3 "$step.log")"
    haltwise undo >"$step.undo" 2>&1
    [ "$(cat $ceiling)" = 3000000 ] || fail "$step: undo left halt_poll_ns $(cat $ceiling)"
    pilot taken-over "$1" --take-over
    until_set
    kill -9 $pilot
    wait $pilot
    undone 3000000
    echo "$was" >$ceiling
}

# A disk that is full when the pilot is killed does not keep undo from restoring.
full() { # VM
    rm -rf /var/lib/haltwise
    mkdir -p /var/lib/haltwise
    chmod 700 /var/lib/haltwise
    mount -t tmpfs -o size=256k,mode=700 tmpfs /var/lib/haltwise
    pilot full "$1"
    until_set
    dd if=/dev/zero of=/var/lib/haltwise/fill bs=1k 2>/dev/null
    sleep 3
    kill -9 $pilot
    wait $pilot
    haltwise undo >"$step.undo" 2>&1
    [ "$(bytes)" = "$before" ] || fail "$step: undo on a full disk left $(bytes), not $before: $(cat "$step.undo")"
    rm /var/lib/haltwise/fill
    # The restore that could not be recorded is recorded now.
    undone "$was"
    umount /var/lib/haltwise
}

piloted() { # VM: with what woke it, while the other one stands still
    qmp "$1" cont >/dev/null
    echo 'guest-tool timer 2000 100000000' | nc "$(address_of "$1")" 7 >/dev/null &
    load=$!
    killed "began-$1" "$1" sleep 5
    killed "said-$1" "$1" until_said try
    killed "set-$1" "$1" until_set
    for seconds in $2; do killed "at-$seconds-$1" "$1" tried_for "$seconds"; done
    killed "keep-$1" "$1" until_said keep
    kept "$1"
    [ "$1" != web2 ] || {
        foreign "$1"
        full "$1"
    }
    kill $load
    qmp "$1" stop >/dev/null
    say "piloted: $1, after $(cut -d' ' -f1 /proc/uptime) s"
}

mkdir /out/piloted
was=$(cat $ceiling)
before=$(bytes)
