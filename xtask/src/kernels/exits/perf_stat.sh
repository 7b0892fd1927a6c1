# Watchers on one CPU, the vCPU on the other: neither interrupts what it measures.
. /lab.sh
cat >/run/guest.sh <<'END'
. /lab.sh
tries=1
lab "$1" 'exits --rounds 11 --pin 1'
END
guest="sh /run/guest.sh"
perf="taskset 1 perf kvm stat record -a -m 2048"
ours="taskset 1 haltwise record --source bpf --exits --json"
mkdir /out/first /out/second
$ours -o /out/first/capture -- $perf -o /run/first.data $guest first/lab >/out/first/record.json \
    || wrong "the first run returned $?"
$perf -o /run/second.data $ours -o /out/second/capture -- $guest second/lab >/out/second/record.json \
    || wrong "the second run returned $?"
for run in first second; do
    perf kvm -i /run/$run.data stat report --event=vmexit >/out/$run/perf 2>&1 \
        || wrong "perf returned $?: $(cat /out/$run/perf)"
    ask $run exits
done
exit $failed
