#!/usr/bin/env python3
"""What the pilot does to VMs of the lab, which can be given ceilings. Costs are those of `haltwise record --mode counts`, by goal.

    bench/pilot.py published    two vCPUs that are woken each 125 us +-10 %, under the default ceiling, goal density: CPU time of
                                the VM in the first 12 s and in the last, and what the pilot predicted and measured
    bench/pilot.py stable       each load for itself: what the pilot chose against the ceiling found, and the best of a sweep
    bench/pilot.py neighbours   mean wake-up latency of a VM that ticks, while two others poll and while they do not
    bench/pilot.py own          what the pilot takes while it observes 25 VMs of two vCPUs, minute by minute
    bench/pilot.py phases       four VMs whose loads change: as many halts under the default, under static ceilings, under the best
                                of these for each VM and phase (the oracle), and under the pilot; then each phase as it was left

Options: [--haltwise BIN] [--lab BIN] [--seconds 75] [--rounds 12] [--phase 200] [--static-phase 10] [--goals density,balanced]
         [--gap GAP] [--calibration FILE] [--json FILE]

What is compared takes turns, a second each in an order drawn anew in each round: differences are medians over rounds, with 95 %
intervals. Only ceilings of the lab's VMs are set. The pilot must begin without the state of an earlier run. Needs root, /dev/kvm.
"""

import collections
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import common

STATE = "/var/lib/haltwise/pilot.json"
# Times between wake-ups. The last never halts but for a moment: there is nothing to choose.
LOADS = {"idle": "20ms", "ticking": "4ms", "each 15 us": "15us", "each 50 us": "50us", "each 150 us": "150us", "busy": "5us"}
NAMES = list(LOADS)
SWEEP_NS = [0, 30_000, 80_000, 400_000]
VMS = [f"phased-{number}" for number in range(4)]
# Left out at both ends of each phase: VMs do not begin at the very same moment, and a recorder needs its time.
EDGE = 2

Parts = collections.namedtuple("Parts", "seconds halts slept poll_ns latency_ns")


def cost(args, parts, goal):
    """What halts cost in nanoseconds of CPU, each."""
    return (parts.poll_ns + parts.slept * args.switch_ns + common.GOALS[goal] * parts.latency_ns) / max(parts.halts, 1)


def parts_of(args, seconds, names):
    """What the halts of these VMs consist of while they are counted."""
    with tempfile.TemporaryDirectory() as where:
        capture = os.path.join(where, "capture")
        common.ask([args.haltwise, "record", "--mode", "counts", "--duration", f"{seconds}s", "-o", capture])
        accounts = {vm["name"]: vm["account"] for vm in common.ask([args.haltwise, "report", capture, "--json"])["vms"]}
    for account in map(accounts.get, names):
        parts, halts = account["parts"], account["halts"]
        polled = parts["poll_success_ns"] + parts["poll_fail_ns"]
        yield Parts(seconds, halts, max(halts - account["poll"]["successful"], 0), polled, parts["wake_latency_ns"])


def tick(args, name, gap, *more):
    return common.vm(args, ["tick", "--gap", gap if ":" in gap else f"fixed:{gap}"], name, *more)


def in_turn(args, settings, names):
    """A second under each of several settings, round by round in a drawn order; a setting has a ceiling for each VM."""
    in_force = {}
    for _ in range(args.rounds):
        row = {}
        for at in common.shuffled(range(len(settings))):
            for ceiling in set(settings[at].values()):
                vms = [vm for vm, ns in settings[at].items() if ns == ceiling and in_force.get(vm) != ns]
                if vms:
                    words = [word for vm in vms for word in ("--vm", vm)]
                    common.ask([args.haltwise, "apply", "--yes", "--ceiling", ceiling, *words], ok=(0,))
            in_force = settings[at]
            # Until the windows have found their length.
            time.sleep(0.1)
            row[at] = list(parts_of(args, 1, names))
        yield row


@contextlib.contextmanager
def pilot(args, *words):
    """The pilot for the time of a block; its state is in the list that the block gets, at the end."""
    command = [args.haltwise, "pilot", "--json", "--calibration", args.calibration, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        state = []
        try:
            yield state
            if "--for" not in words:
                process.send_signal(signal.SIGTERM)
            state.append(json.loads(process.communicate()[0]))
        finally:
            # One that goes on would set ceilings of whatever comes next.
            process.terminate()


def cpu_s(pid):
    """CPU time of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def published(args):
    print("VM's CPU before -> after, polling after, cost predicted / measured, pilot's CPU, load")
    for _ in range(args.rounds):
        series = []
        with tick(args, "published", "uniform:112500ns:137500ns", "--vcpus", "2") as vm, \
                pilot(args, "--act", "--vm", "published", "--goal", "density", "--for", f"{args.seconds}s") as state:
            for _ in range(args.seconds - 1):
                series.append((time.monotonic(), cpu_s(vm.process.pid)))
                time.sleep(1)
        of, reach = state[0]["vms"][0], min(12, len(series) - 1)
        percent = lambda a, b: 100 * (b[1] - a[1]) / (b[0] - a[0])
        before, after = percent(series[0], series[reach]), percent(series[-1 - reach], series[-1])
        share = lambda name: f"{of[name]['value']:+.0%}" if of[name] else "-"
        print(f"  {before:5.1f} % -> {after:5.1f} % ({before / after:.1f} times less), {of['poll_cpu_percent'] or 0:.1f} %, "
              f"{share('predicted')} / {share('measured')}, {state[0]['own']['cpu_percent']:.2f} %, {os.getloadavg()[0]:.1f}",
              flush=True)
        yield {"before_percent": before, "after_percent": after, "state": state[0]}


def stable(args):
    print(f"{'load':12} {'goal':9} {'found':>7} {'chosen':>7} {'chosen against found':>26}   against the best, in other rounds")
    for load, gap in list(LOADS.items())[:-1]:
        chosen = {}
        for goal in args.goals.split(","):
            words = ["--act", "--vm", "stable", "--goal", goal, "--for", f"{args.seconds}s"]
            with tick(args, "stable", gap), pilot(args, *words) as state:
                pass
            of = state[0]["vms"][0]
            chosen[goal] = {"found": of["found_ns"], "chosen": of["ceiling_ns"], "state": of["state"],
                            "own_percent": state[0]["own"]["cpu_percent"]}
        ceilings = sorted({*SWEEP_NS, *(it[name] for it in chosen.values() for name in ("found", "chosen"))})
        with tick(args, "stable", gap):
            rounds = list(in_turn(args, [{"stable": ns} for ns in ceilings], ["stable"]))
        for goal, it in chosen.items():
            costs = {ns: [cost(args, row[at][0], goal) for row in rounds] for at, ns in enumerate(ceilings)}
            # The best is chosen in every other round and measured in the others: the least of several noisy figures is too low.
            best = min(ceilings, key=lambda ns: statistics.median(costs[ns][::2]))
            own, found = costs[it["chosen"]], costs[it["found"]]
            print(f"{load:12} {goal:9} {it['found']:7} {it['chosen']:7} {common.against(own, found):>26}   "
                  f"{common.against(own[1::2], costs[best][1::2])} at {best} ns; {it['state']}, {it['own_percent']:.2f} % of a CPU",
                  flush=True)
            yield {"load": load, "goal": goal, **it, "costs_ns": costs}


def neighbours(args):
    beside = ["beside-0", "beside-1"]
    with tick(args, "ticking", "4ms"), tick(args, beside[0], "50us"), tick(args, beside[1], "50us"):
        rounds = list(in_turn(args, [{vm: ns for vm in beside} for ns in (0, 200_000)], ["ticking"]))
    off, on = ([row[at][0].latency_ns / max(row[at][0].slept, 1) for row in rounds] for at in (0, 1))
    print(f"a VM that ticks wakes up {common.shown(on, 1e3, 1)} us late while two others poll, {common.shown(off, 1e3, 1)} us "
          f"while they do not: {common.against(off, on)}")
    yield {"off_ns": off, "on_ns": on}


def own(args):
    with contextlib.ExitStack() as vms:
        for number in range(25):
            load = ["tick", "--gap", args.gap] if args.gap else ["ipi"]
            words = [args.lab, "run", *load, "--vcpus", "2", "--duration", "7200s", "--name", f"own-{number}"]
            vms.enter_context(common.Started(words))
        time.sleep(2)
        begun, series = time.monotonic(), [(0, 0, 0)]
        taken = lambda of: (time.monotonic() - begun, of["own"]["process_cpu_ns"] or 0, of["own"]["kernel_cpu_ns"] or 0)
        with pilot(args, "--observe", "--vm", "own-*", "--for", f"{args.seconds}s") as state:
            while time.monotonic() - begun + 60 < args.seconds:
                time.sleep(60)
                series.append(taken(common.ask([args.haltwise, "status", "--json"])["pilot"]))
        series.append(taken(state[0]))
    print(f"{sum(vm['halts_per_s'] or 0 for vm in state[0]['vms']):.0f} halts/s in all; minute, process, BPF programs (% of a CPU)")
    for number, (a, b) in enumerate(zip(series, series[1:]), 1):
        process, kernel = ((b[at] - a[at]) / 1e7 / (b[0] - a[0]) for at in (1, 2))
        print(f"  {number:3} {process:7.3f} {kernel:7.3f}")
    yield {"series": series, "state": state[0]}


def phased(args, seconds, ceilings, first=0, phases=len(LOADS)):
    """VMs whose loads change with the phase, each by one load later than the VM before it."""
    stack = contextlib.ExitStack()
    for number, (vm, ceiling) in enumerate(zip(VMS, ceilings)):
        gaps = ",".join(f"fixed:{LOADS[NAMES[(phase + number) % len(NAMES)]]}" for phase in range(first, first + phases))
        words = [args.lab, "run", "tick", "--name", vm, "--gaps", gaps, "--gaps-every", f"{seconds}s", "--duration", "7200s"]
        stack.enter_context(common.Started(words if ceiling is None else [*words, "--cap", f"{ceiling}ns"]))
    return stack


def slices(args, seconds, begun, at_end=lambda: None, phases=len(LOADS)):
    """What halts consist of, phase by phase and VM by VM; and what `at_end` says at each end."""
    for phase in range(phases):
        time.sleep(max(0, begun + phase * seconds + EDGE - time.monotonic()))
        yield list(parts_of(args, seconds - 2 * EDGE, VMS)), at_end()


def came_to(args):
    """Ceilings that the pilot has found and come to. Of a VM that is on trial nothing has been kept."""
    vms = {vm["vm"]: vm for vm in common.ask([args.haltwise, "status", "--json"])["pilot"]["vms"]}
    of = [vms[name] for name in VMS]
    return [it["found_ns"] for it in of], [it["found_ns" if it["state"] == "trial" else "ceiling_ns"] for it in of]


def phases(args):
    fixed = {}
    for ceiling in [None, *SWEEP_NS]:
        with phased(args, args.static_phase, [ceiling] * len(VMS)):
            fixed[ceiling] = [parts for parts, _ in slices(args, args.static_phase, time.monotonic())]
    # As many halts as under the default: a VM that waits less for others halts more often, which is no loss.
    same = lambda all_of, goal: [[cost(args, parts, goal) * by.halts / by.seconds / 1e6 for parts, by in zip(row, base)]
                                 for row, base in zip(all_of, fixed[None])]
    total = lambda rows: sum(map(sum, rows)) / len(rows)
    for goal in args.goals.split(","):
        swept = {ceiling: same(parts, goal) for ceiling, parts in fixed.items()}
        best = [[min(swept, key=lambda ns: swept[ns][phase][vm]) for vm in range(len(VMS))] for phase in range(len(LOADS))]
        oracle = []
        for phase in range(len(LOADS)):
            with phased(args, args.static_phase, best[phase], phase, 1):
                oracle += [parts for parts, _ in slices(args, args.static_phase, time.monotonic(), phases=1)]
        with phased(args, args.phase, [None] * len(VMS)), pilot(args, "--act", "--vm", "phased-*", "--goal", goal) as state:
            piloted = list(slices(args, args.phase, time.monotonic(), lambda: came_to(args)))
        oracle, own = same(oracle, goal), same([parts for parts, _ in piloted], goal)
        of_vm = lambda vm: min(sum(row[vm] for row in rows) / len(rows) for rows in swept.values())
        default, least = total(swept[None]), total(oracle)
        one_ceiling, own_ceilings = min(map(total, swept.values())), sum(map(of_vm, range(len(VMS))))
        print(f"goal {goal}: ms of CPU in a second\n  default {default:.1f}, best static ceiling {one_ceiling:.1f}, "
              f"best static for each VM {own_ceilings:.1f}, oracle {least:.1f}, pilot {total(own):.1f}\n"
              f"  the pilot saves {(default - total(own)) / (default - least):.0%} of what the oracle saves, and takes "
              f"{state[0]['own']['cpu_percent']:.2f} % of a CPU", flush=True)
        left = list(as_left(args, goal, [it for _, it in piloted], best))
        yield {"goal": goal, "static": {str(ns): rows for ns, rows in swept.items()}, "oracle": oracle, "pilot": own,
               "as_left": left}


def as_left(args, goal, ends, best):
    """Each phase under what was found, what the pilot had come to at its end, and the oracle's ceilings."""
    sums = {}
    for phase, ((found, chosen), oracle) in enumerate(zip(ends, best)):
        settings = [found, chosen, [old if ns is None else ns for ns, old in zip(oracle, found)]]
        different = [list(it) for it in sorted(set(map(tuple, settings)))]
        with phased(args, 7200, [None] * len(VMS), phase, 1):
            time.sleep(2)
            for number, row in enumerate(in_turn(args, [dict(zip(VMS, it)) for it in different], VMS)):
                for vm in range(len(VMS)):
                    load, by = NAMES[(phase + vm) % len(NAMES)], row[different.index(found)][vm]
                    costs = [cost(args, row[different.index(it)][vm], goal) * by.halts for it in settings]
                    yield [phase, number, load, costs]
                    for name in [load, "all"] if load != "busy" else []:
                        of = sums.setdefault(name, {}).setdefault(number, [0, 0, 0])
                        sums[name][number] = [a + b for a, b in zip(of, costs)]
    print(f"  {'as it was left':14} {'pilot against found':>28} {'oracle against found':>28} {'pilot against oracle':>28}")
    for name in [*NAMES[:-1], "all"]:
        found, chosen, oracle = zip(*sums[name].values())
        cells = [common.against(chosen, found), common.against(oracle, found), common.against(chosen, oracle)]
        print(f"  {name:14} " + " ".join(f"{cell:>28}" for cell in cells), flush=True)


def main():
    parts = {it.__name__: it for it in (published, stable, neighbours, own, phases)}
    goals = ",".join(common.GOALS)
    args = common.options(__doc__, parts, seconds=75, rounds=12, phase=200, static_phase=10, goals=goals, gap="", calibration="")
    if os.path.exists(STATE):
        sys.exit(f"{STATE} is there: the pilot would go on with what it learned; move it away first")
    with tempfile.TemporaryDirectory() as where:
        args.calibration, args.switch_ns, _ = common.calibrated(args, where)
        print(f"a sleep costs {args.switch_ns:.0f} ns; load average {os.getloadavg()[0]:.1f}: other tasks take CPUs that poll")
        try:
            common.keep(args, list(parts[args.what](args)))
        finally:
            # The state of the runs that this was.
            with contextlib.suppress(FileNotFoundError):
                os.remove(STATE)


if __name__ == "__main__":
    main()
