#!/usr/bin/env python3
"""What a verb takes that reads a capture: time, CPU time and most memory, and its time as a multiple of that of `check`, which
only reads. Verbs take turns; printed are medians. The capture is an import of VMs of one vCPU whose gaps are exponential.

    bench/reading.py [--vms 4] [--halts 2500000] [--gap-us 60] [--rounds 3] [--verbs "check;report;tune"]

--vms 100000 --halts 30 is a host of many VMs.
"""

import heapq
import os
import random
import subprocess
import tempfile
import time

import common

VERBS = "check;report;report --json;replay --policy kvm:max=50us;tune;tune --goal density;explain;verify;top --once"


def halts(args, vm):
    """The lines of a VM, with their times: it sleeps, is woken after its gap, and runs 20 us later."""
    draw, pid = random.Random(vm), 1000 + 4 * vm
    now, thread = draw.randrange(1_000_000), f"CPU 0/KVM {pid}/{pid + 1} [{vm % 60_000:03}]"
    at = lambda ns: f"{1000 + ns // 10**9}.{ns % 10**9:09}"
    for _ in range(args.halts):
        woken = now + int(draw.expovariate(1 / args.gap_us) * 1000)
        ran = woken + 20_000
        yield now + 900, (f"{thread} {at(now + 900)}: sched:sched_switch: prev_comm=CPU 0/KVM prev_pid={pid + 1} prev_prio=120 "
                          "prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120\n")
        yield woken, (f"vhost-{pid} {pid}/{pid + 2} [{vm % 60_000:03}] {at(woken)}: sched:sched_waking: comm=CPU 0/KVM pid={pid + 1} "
                      "prio=120 target_cpu=000\n")
        yield ran, f"{thread} {at(ran)}: kvm:kvm_vcpu_wakeup: wait time {ran - now} ns, polling valid\n"
        now = ran + 5_000


def write(args, capture):
    """Imports the halts of all VMs, recorded without polling."""
    given = "--kernel 6.12 --max 0 --grow 2 --grow-start 10us --shrink 2 -"
    words = [args.haltwise, "import", "-o", capture, *given.split()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as made:
        made.stdin.writelines(line for _, line in heapq.merge(*(halts(args, vm) for vm in range(args.vms))))
        made.stdin.close()


def run(words):
    """Seconds, seconds of CPU and MB of a command."""
    start = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 5):
        raise SystemExit(f"{' '.join(words)}: exit {child.returncode}")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main():
    args = common.options(__doc__, vms=4, halts=2_500_000, gap_us=60, rounds=3, verbs=VERBS)
    verbs = args.verbs.split(";")
    taken = {verb: [] for verb in verbs}
    with tempfile.TemporaryDirectory() as where:
        capture = os.path.join(where, "capture")
        write(args, capture)
        for _ in range(args.rounds):
            for verb in common.shuffled(verbs):
                first, *rest = verb.split()
                taken[verb].append(run([args.haltwise, first, capture, *rest]))
    base = common.estimate([one[0] for one in taken[verbs[0]]])[0]
    print(f"{'verb':32}  seconds  of {verbs[0]}     CPU       MB   ({args.vms} VMs, {args.halts} halts each)")
    for verb, all in taken.items():
        seconds, cpu, memory = (common.estimate([one[field] for one in all])[0] for field in range(3))
        print(f"{verb:32} {seconds:8.2f} {seconds / base:9.1f} {cpu:8.2f} {memory:8.0f}")
    common.keep(args, taken)


if __name__ == "__main__":
    main()
