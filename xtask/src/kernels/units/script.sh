# The units of haltwise under a systemd that is the first process of this guest: they start with the rights that they
# are given, say that they are ready, are reloaded, watched, started again and stopped.
failed=0
wrong() { # each line of it has the prefix by which xtask repeats it
    printf '%s\n' "$*" | sed 's/^/check: units: /'
    failed=1
}
show() { # unit, property
    systemctl show -P "$2" "$1"
}
details() { # unit
    systemctl status "$1" --no-pager -n 0 2>&1
    tail -n 5 "/out/$1.log" 2>/dev/null
}
starts() { # unit
    systemctl start "$1" >/run/said 2>&1 || wrong "$1 does not start: $(cat /run/said) $(details "$1")"
    [ "$(show "$1" SubState)" = running ] || wrong "$1 is $(show "$1" SubState): $(details "$1")"
}
stops() { # unit
    systemctl stop "$1" || wrong "$1 does not stop: $(details "$1")"
    [ "$(show "$1" Result) $(show "$1" ExecMainStatus)" = "success 0" ] \
        || wrong "$1 ended with $(show "$1" Result), $(show "$1" ExecMainStatus)"
}
until_is() { # what, command that comes to succeed
    began=$(cut -d. -f1 /proc/uptime)
    until sh -c "$2"; do
        sleep 0.5
        [ $(($(cut -d. -f1 /proc/uptime) - began)) -lt 50 ] || {
            wrong "not within 50 s: $1"
            return 1
        }
    done
}
names_vm() { # port, file of the last answer
    echo "wget -q -O /out/$2 http://127.0.0.1:$1/metrics && grep -q '^haltwise_.*vm=\"web1\"' /out/$2"
}
# After it died it is started again. The count is asked first: a process that is gone, too, is another than before.
restarts() { # how often by now, what ended it
    until_is "a restart after $2" \
        "[ \"\$(systemctl show -P NRestarts haltwise-pilot)\" = $1 ] && [ \"\$(systemctl show -P SubState haltwise-pilot)\" = running ]" \
        || details haltwise-pilot
}
pilot=haltwise-pilot
haltwise-lab run tick --name web1 --gap fixed:2ms --duration 600s >/dev/null 2>&1 &
vm=$!
for unit in haltwise-record haltwise-metrics haltwise-costs $pilot; do
    mkdir -p "/run/systemd/system/$unit.service.d"
    printf '[Service]\nStandardOutput=append:/out/%s.log\nStandardError=append:/out/%s.log\n' $unit $unit \
        >"/run/systemd/system/$unit.service.d/test.conf"
done
# Times for people, in seconds here.
printf 'WatchdogSec=8s\nRestartSec=1s\n' >>/run/systemd/system/$pilot.service.d/test.conf
systemctl daemon-reload
for unit in haltwise-record haltwise-metrics haltwise-costs $pilot; do
    [ "$(show $unit LoadState)" = loaded ] || wrong "$unit is $(show $unit LoadState)"
done

# Without its configuration it is not started, and that is no failure.
mv /etc/haltwise/pilot.toml /run/
systemctl start $pilot
[ "$(show $pilot ActiveState) $(show $pilot ConditionResult)" = "inactive no" ] \
    || wrong "without a configuration it is $(show $pilot ActiveState), condition $(show $pilot ConditionResult)"
sed 's/^#listen/listen/' /run/pilot.toml >/etc/haltwise/pilot.toml
starts $pilot
first=$(show $pilot MainPID)
until_is "the VM in the pilot's state" "haltwise status --json | grep -q '\"vm\": \"web1\"'"
# The state on disk follows what the pilot knows, not once a minute.
until_is "a look in the pilot's state" "! haltwise status | grep -q 'not been looked at'"
until_is "the VM in the pilot's metrics" "$(names_vm 9478 pilot.prom)" || details $pilot
# CAP_SYS_ADMIN (bit 21) is given up; what remains is what SECURITY.md lists.
grep -E '^(Cap|NoNewPrivs|Seccomp)' "/proc/$first/status" >/out/rights
effective=0$(sed -n 's/^CapEff:[[:space:]]*//p' /out/rights)
[ $((0x$effective & ~0xc000080004)) = 0 ] || wrong "the pilot has the capabilities $effective"
grep -q '^NoNewPrivs:[[:space:]]*1' /out/rights && grep -q '^Seccomp:[[:space:]]*2' /out/rights \
    || wrong "the pilot is not confined: $(cat /out/rights)"

# Another goal, in the same process; a mistake changes nothing.
sed -i 's/^goal = .*/goal = "density"/' /etc/haltwise/pilot.toml
systemctl reload $pilot || wrong "it is not reloaded: $(details $pilot)"
until_is "the goal after a reload" "haltwise status --json | grep -q '\"goal\": \"density\"'"
echo 'goal = ' >>/etc/haltwise/pilot.toml
systemctl reload $pilot
until_is "what a mistake does" "grep -q 'What was in force before stays' /out/$pilot.log" || details $pilot
[ "$(show $pilot MainPID) $(show $pilot SubState)" = "$first running" ] || wrong "a mistake ended it: $(details $pilot)"
sed -i '$d' /etc/haltwise/pilot.toml

# One that stands still is ended and started again, as is one that is killed.
kill -STOP "$first"
restarts 1 watchdog
second=$(show $pilot MainPID)
kill -9 "$second"
restarts 2 signal
[ "$(show $pilot NRestarts)" = 2 ] || wrong "it was started again $(show $pilot NRestarts) times, not twice"
stops $pilot
[ ! -e /var/lib/haltwise/baseline.json ] || wrong "it has set something while it observed"

# Allowed to act, it sets the ceiling of the VM; undo restores it.
parameters=/sys/module/kvm/parameters
sed -i 's/^act = .*/act = true/' /etc/haltwise/pilot.toml
# Each halt is polled for: emulated, it lasts some ms.
echo 5000000 >$parameters/halt_poll_ns
before=$(cat $parameters/halt_poll_ns*)
starts $pilot
until_is "a ceiling that it tries" "grep -q '\"ceiling\"' /var/lib/haltwise/baseline.json 2>/dev/null" || wrong "$(haltwise status)"
stops $pilot
haltwise undo >/out/undo 2>&1 || wrong "undo returned $?: $(cat /out/undo)"
haltwise status --json >/out/status.json
grep -q '"ceiling_ns": 5000000' /out/status.json || wrong "after undo: $(haltwise status)"
[ "$(cat $parameters/halt_poll_ns*)" = "$before" ] || wrong "after undo: $(cat $parameters/halt_poll_ns*)"

# The recorder, its metrics, and costs of what it recorded.
starts haltwise-metrics
# A VM is named once it was found.
until_is "the VM in the metrics" "$(names_vm 9477 metrics.prom)" || details haltwise-metrics
stops haltwise-metrics
starts haltwise-record
until_is "a recording" "[ -e /var/lib/haltwise/ring/ring.json ]" || details haltwise-record
sleep 3
stops haltwise-record
systemctl start haltwise-costs || wrong "no costs were written: $(details haltwise-costs)"
find /var/lib/haltwise/lake -name '*.parquet' | grep -q . || wrong "no costs were written: $(details haltwise-costs)"
kill $vm
exit $failed
