# Debian's qemu-ga in the Linux guest, over virtio-serial: the emulated host sets a parameter of the guest's governor
# through it. The guest's own shell reads the parameter back.
start_agent() { # VM
    # shellcheck disable=SC2016 # the guest's shell expands it
    guest "$1" 'for port in /sys/class/virtio-ports/*; do
            [ "$(cat "$port/name")" != org.qemu.guest_agent.0 ] || path=/dev/${port##*/}
        done
        qemu-ga -d -m virtio-serial -p "$path" -t /run -f /run/qga.pid 2>&1'
}

# Checks the exit code and the output of haltwise.
said() { # code, text, arguments of haltwise
    expected=$1 text=$2
    shift 2
    haltwise "$@" >/run/said 2>&1
    code=$?
    # Lines are broken as for a terminal.
    tr -s '\n ' '  ' </run/said >/run/flat
    if [ $code != "$expected" ] || ! grep -q "$text" /run/flat; then
        fail "agent: haltwise $* returned $code: $(cat /run/said)"
    fi
}

agent() { # VM
    qmp "$1" cont >/dev/null
    begun=$(cut -d. -f1 /proc/uptime)
    inside='cd /sys/module/haltpoll/parameters && od -An -tx1 guest_halt_poll_ns guest_halt_poll_grow'
    case $(guest "$1" '[ -d /sys/module/haltpoll/parameters ] || echo none; [ -x /bin/qemu-ga ] || echo none') in
    *none*)
        say "agent: the guest has no governor haltpoll or no qemu-ga"
        qmp "$1" stop >/dev/null
        return
        ;;
    esac
    set_it="apply --vm $1 --set guest_halt_poll_ns=750000 --set guest_halt_poll_grow=4"
    before=$(guest "$1" "$inside")
    start_agent "$1"
    # shellcheck disable=SC2086
    said 0 'Set:' $set_it --yes
    values=$(guest "$1" 'cd /sys/module/haltpoll/parameters; echo $(cat guest_halt_poll_ns guest_halt_poll_grow)')
    [ "$values" = '750000 4' ] || fail "agent: the guest has $values: $(cat /run/said)"
    said 0 "guest_halt_poll_ns in $1" status
    guest "$1" 'kill $(cat /run/qga.pid)'
    # shellcheck disable=SC2086
    said 1 'did not answer in time' $set_it
    said 0 'not known' status
    said 5 'did not answer in time' undo
    start_agent "$1"
    said 0 'No setting of haltwise is in force' undo
    after=$(guest "$1" "$inside")
    [ "$after" = "$before" ] || fail "agent: undo left $after, not $before: $(cat /run/said)"
    guest "$1" 'kill $(cat /run/qga.pid)'
    qmp "$1" stop >/dev/null
    say "agent: the guest had $values, and what it had before after undo; $(($(cut -d. -f1 /proc/uptime) - begun)) s"
}
