#!/usr/bin/env python3
"""What the pilot does to VMs of the lab, which can be given ceilings.

What is compared takes turns, a second each in an order drawn anew in each round: differences are medians over rounds, with 95 %
intervals. Costs are those of `haltwise record --mode counts`, by goal. Only ceilings of the lab's VMs are set. Needs root, /dev/kvm.
"""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import common

STATE = "/var/lib/haltwise/pilot.json"
# Times between wake-ups. The last never halts but for a moment: there is nothing to choose.
LOADS = {"idle": "20ms", "ticking": "4ms", "each 15 us": "15us", "each 50 us": "50us", "each 150 us": "150us", "busy": "5us"}
NAMES = list(LOADS)
PHASES = range(len(LOADS))
SWEEP_NS = [0, 30_000, 80_000, 400_000]
VMS = [f"phased-{number}" for number in range(4)]
# Left out at both ends of each phase: VMs do not begin at the very same moment, and a recorder needs its time.
EDGE = 2


def cost(switch_ns, parts, goal):
    """What a halt costs, in ms of CPU."""
    ns = parts["poll_ns"] + parts["slept"] * switch_ns + common.GOALS[goal] * parts["latency_ns"]
    return ns / max(parts["halts"], 1) / 1e6


def counted(args, seconds, names):
    """What the halts of these VMs consist of in this time."""
    with common.place() as capture:
        common.ask([args.haltwise, "record", "--mode", "counts", "--duration", f"{seconds}s", "-o", capture])
        vms = {vm["name"]: vm["account"] for vm in common.ask([args.haltwise, "report", capture, "--json"])["vms"]}
    for account in map(vms.get, names):
        parts, halts = account["parts"], account["halts"]
        yield {"seconds": seconds, "halts": halts, "slept": max(halts - account["poll"]["successful"], 0),
               "poll_ns": parts["poll_success_ns"] + parts["poll_fail_ns"], "latency_ns": parts["wake_latency_ns"]}


def tick(args, name, gap, *more):
    return common.vm(args, ["tick", "--gap", gap if ":" in gap else f"fixed:{gap}"], name, *more)


def in_turn(args, settings, names):
    """A second under each of several settings, round by round in a drawn order; a setting has a ceiling for each VM."""
    for _ in range(args.rounds):
        row = {}
        for at in common.shuffled({settings.index(it) for it in settings}):
            for ceiling in set(settings[at].values()):
                words = [word for vm, ns in settings[at].items() if ns == ceiling for word in ("--vm", vm)]
                common.ask([args.haltwise, "apply", "--yes", "--ceiling", ceiling, *words], ok=(0,))
            # Until the windows have found their length.
            time.sleep(0.1)
            row[at] = list(counted(args, 1, names))
        yield {at: row[settings.index(it)] for at, it in enumerate(settings)}


@contextlib.contextmanager
def pilot(args, *words):
    """The pilot for the time of a block; its state is in the dictionary that the block gets, at the end."""
    if os.path.exists(STATE):
        sys.exit(f"{STATE} is there: the pilot would go on with what it learned; move it away first")
    command = [args.haltwise, "pilot", "--json", *words, *args.calibration]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        state = {}
        try:
            yield state
            if "--for" not in words:
                process.send_signal(signal.SIGTERM)
            state.update(json.loads(process.communicate()[0]))
        finally:
            # One that goes on would set ceilings of whatever comes next, one that comes next would go on with this one's state.
            process.terminate()
            process.wait()
            with contextlib.suppress(FileNotFoundError):
                os.remove(STATE)


def cpu_percent(pid, seconds):
    """CPU time of a process from now on, in % of a CPU."""
    used = lambda: sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[11:13]))
    begun, before = time.monotonic(), used()
    time.sleep(seconds)
    return 100 * (used() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)


def published(args):
    """CPU time of a VM that is woken each 125 us, goal density, in the first 12 s and in the last; costs as predicted and measured."""
    common.price(args)
    edge = min(12, args.seconds // 3)
    for _ in range(args.rounds):
        with tick(args, "published", "uniform:112500ns:137500ns", "--vcpus", "2") as vm, \
                pilot(args, "--act", "--vm", "published", "--goal", "density", "--for", f"{args.seconds}s") as state:
            before = cpu_percent(vm.pid, edge)
            time.sleep(args.seconds - 2 * edge - 1)
            after = cpu_percent(vm.pid, edge)
        of = state["vms"][0]
        yield {"% of a CPU before": before, "after": after, "times less": before / after, "polling after": of["poll_cpu_percent"],
               **{name: of[name] and of[name]["value"] for name in ("predicted", "measured")}, "pilot's": state["own"]["cpu_percent"], "state": state}


def stable(args):
    """Each load for itself: cost of what the pilot chose against the ceiling found, and the best of a sweep."""
    switch_ns, _ = common.price(args)
    for load, gap in list(LOADS.items())[:-1]:
        chosen = {}
        for goal in args.goals.split(","):
            with tick(args, "stable", gap), \
                    pilot(args, "--act", "--vm", "stable", "--goal", goal, "--for", f"{args.seconds}s") as state:
                pass
            of = state["vms"][0]
            chosen[goal] = {"found_ns": of["found_ns"], "chosen_ns": of["ceiling_ns"], "state": of["state"],
                            "pilot's CPU, %": state["own"]["cpu_percent"]}
        ceilings = sorted({*SWEEP_NS, *(it[name] for it in chosen.values() for name in ("found_ns", "chosen_ns"))})
        with tick(args, "stable", gap):
            rounds = list(in_turn(args, [{"stable": ns} for ns in ceilings], ["stable"]))
        for goal, it in chosen.items():
            costs = {ns: [cost(switch_ns, row[at][0], goal) for row in rounds] for at, ns in enumerate(ceilings)}
            # The best is chosen in every other round and measured in the others: the least of several noisy figures is too low.
            best = min(ceilings, key=lambda ns: statistics.median(costs[ns][::2]))
            own, found = costs[it["chosen_ns"]], costs[it["found_ns"]]
            yield {"load": load, "goal": goal, **it, "against found": common.against(own, found),
                   "against best, other rounds": common.against(own[1::2], costs[best][1::2]), "best_ns": best, "costs": costs}


def neighbours(args):
    """Mean wake-up latency of a VM that ticks, while two others poll and while they do not."""
    beside = ["beside-0", "beside-1"]
    with tick(args, "ticking", "4ms"), tick(args, beside[0], "50us"), tick(args, beside[1], "50us"):
        rounds = list(in_turn(args, [{vm: ns for vm in beside} for ns in (0, 200_000)], ["ticking"]))
    off, on = ([row[at][0]["latency_ns"] / max(row[at][0]["slept"], 1) / 1e3 for row in rounds] for at in (0, 1))
    yield {"wakes late, us, others poll": common.shown(on, 1), "others do not": common.shown(off, 1),
           "difference": common.against(off, on), "rounds": [on, off]}


def own(args):
    """CPU time that the pilot takes while it observes 25 VMs of two vCPUs, minute by minute."""
    common.price(args)
    load = ["tick", "--gap", args.gap] if args.gap else ["ipi"]
    with contextlib.ExitStack() as vms:
        for number in range(25):
            words = [args.lab, "run", *load, "--vcpus", "2", "--duration", "7200s", "--name", f"own-{number}"]
            vms.enter_context(common.started(words))
        time.sleep(2)
        begun, last = time.monotonic(), (0, 0, 0)
        with pilot(args, "--observe", "--vm", "own-*", "--for", f"{args.seconds}s") as state:
            for minute in range(1, args.seconds // 60 + 1):
                time.sleep(max(0, begun + min(60 * minute, args.seconds - 5) - time.monotonic()))
                used = common.ask([args.haltwise, "status", "--json"])["pilot"]["own"]
                now = (time.monotonic() - begun, used["process_cpu_ns"] or 0, used["kernel_cpu_ns"] or 0)
                process, kernel = ((now[at] - last[at]) / 1e7 / (now[0] - last[0]) for at in (1, 2))
                yield {"minute": minute, "process, % of a CPU": process, "BPF programs": kernel}
                last = now
    own = state["own"]
    yield {"halts/s": sum(vm["halts_per_s"] or 0 for vm in state["vms"]), "process_ms": (own["process_cpu_ns"] or 0) / 1e6,
           "kernel_ms": (own["kernel_cpu_ns"] or 0) / 1e6, "state": state}


def phased(args, numbers, ceilings, seconds=7200):
    """VMs whose loads change with the phase, each by one load later than the VM before it."""
    stack = contextlib.ExitStack()
    for at, (vm, ceiling) in enumerate(zip(VMS, ceilings)):
        gaps = ",".join(f"fixed:{LOADS[NAMES[(phase + at) % len(NAMES)]]}" for phase in numbers)
        cap = [] if ceiling is None else ["--cap", f"{ceiling}ns"]
        words = ["run", "tick", "--name", vm, "--gaps", gaps, "--gaps-every", f"{seconds}s", "--duration", "7200s", *cap]
        stack.enter_context(common.started([args.lab, *words]))
    return stack


def still(args, phase, ceilings):
    """What the VMs' halts consist of in one phase under these ceilings."""
    with phased(args, [phase], ceilings):
        time.sleep(EDGE)
        return list(counted(args, args.static_phase - EDGE, VMS))


def piloted(args, goal):
    """What halts consist of phase by phase under the pilot, what it came to at the end of each, and its own CPU time."""
    rows, ends = [], []
    with phased(args, PHASES, [None] * len(VMS), args.phase), \
            pilot(args, "--act", "--vm", "phased-*", "--goal", goal) as state:
        begun = time.monotonic()
        for phase in PHASES:
            time.sleep(max(0, begun + phase * args.phase + EDGE - time.monotonic()))
            rows.append(list(counted(args, args.phase - 2 * EDGE, VMS)))
            vms = {vm["vm"]: vm for vm in common.ask([args.haltwise, "status", "--json"])["pilot"]["vms"]}
            found = [vms[name]["found_ns"] for name in VMS]
            # Nothing has been kept of a VM that is on trial.
            ends.append((found, [vms[name]["found_ns" if vms[name]["state"] == "trial" else "ceiling_ns"] for name in VMS]))
    return rows, ends, state["own"]["cpu_percent"]


def phases(args):
    """Cost of four VMs whose loads change, under the default, static ceilings, an oracle and the pilot; then each phase as it was left."""
    switch_ns, _ = common.price(args)
    fixed = {ceiling: [still(args, phase, [ceiling] * len(VMS)) for phase in PHASES] for ceiling in [None, *SWEEP_NS]}
    for goal in args.goals.split(","):
        # The best static ceiling of each VM and phase. Costs, in ms of CPU per second, are of as many halts as under the default.
        same = lambda rows: [[cost(switch_ns, parts, goal) * by["halts"] / by["seconds"] for parts, by in zip(row, base)]
                             for row, base in zip(rows, fixed[None])]
        total = lambda rows: sum(map(sum, rows)) / len(rows)
        swept = {ceiling: same(rows) for ceiling, rows in fixed.items()}
        best = [[min(swept, key=lambda ns: swept[ns][phase][vm]) for vm in range(len(VMS))] for phase in PHASES]
        oracle = same([still(args, phase, best[phase]) for phase in PHASES])
        rows, ends, own_percent = piloted(args, goal)
        own, default = same(rows), swept[None]
        of_vm = [min(sum(row[vm] for row in rows) / len(rows) for rows in swept.values()) for vm in range(len(VMS))]
        yield {"goal": goal, "default": total(default), "best ceiling": min(map(total, swept.values())), "best of each VM": sum(of_vm),
               "oracle": total(oracle), "pilot": total(own), "saved of the oracle's": (total(default) - total(own)) / (total(default) - total(oracle)),
               "pilot's CPU, %": own_percent, "rows": {"swept": {str(ns): it for ns, it in swept.items()}, "oracle": oracle, "pilot": own}}
        yield from as_left(args, switch_ns, goal, ends, best)


def as_left(args, switch_ns, goal, ends, best):
    """Each phase under what was found, what the pilot had come to at its end, and the oracle's ceilings: costs by load."""
    costs = {name: [[0, 0, 0] for _ in range(args.rounds)] for name in [*NAMES[:-1], "all"]}
    for phase, ((found, chosen), oracle) in enumerate(zip(ends, best)):
        settings = [found, chosen, [old if ns is None else ns for ns, old in zip(oracle, found)]]
        with phased(args, [phase], [None] * len(VMS)):
            time.sleep(EDGE)
            rounds = list(in_turn(args, [dict(zip(VMS, it)) for it in settings], VMS))
        for number, row in enumerate(rounds):
            for vm in range(len(VMS)):
                load = NAMES[(phase + vm) % len(NAMES)]
                for name in [load, "all"] if load != "busy" else []:
                    for at in range(3):
                        costs[name][number][at] += cost(switch_ns, row[at][vm], goal) * row[0][vm]["halts"]
    for name, rounds in costs.items():
        found, chosen, oracle = zip(*rounds)
        yield {"as it was left": name, "pilot against found": common.against(chosen, found),
               "oracle against found": common.against(oracle, found), "pilot against oracle": common.against(chosen, oracle), "ms": rounds}


if __name__ == "__main__":
    GOALS = ",".join(common.GOALS)
    common.main(__doc__, published=(published, {"seconds": 75, "rounds": 12}),
                stable=(stable, {"seconds": 75, "rounds": 12, "goals": GOALS}), neighbours=(neighbours, {"rounds": 12}),
                own=(own, {"seconds": 75, "gap": ""}),
                phases=(phases, {"rounds": 12, "phase": 200, "static_phase": 10, "goals": GOALS}))
