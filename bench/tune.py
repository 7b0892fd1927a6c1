#!/usr/bin/env python3
"""What `haltwise tune` predicts and recommends, against what is measured.

Nothing of this machine is set: ceilings are those of the lab's own VMs (KVM_CAP_HALT_POLL). Needs root, /dev/kvm and two CPUs.
"""

import contextlib
import os
import statistics
import tempfile

import common

# Loads of the lab: name, words of `haltwise-lab run`, mean gap in us. Replies that the host sees, then timers.
LOADS = [
    ("reply 20us", ["pingpong", "--gap", "fixed:20us", *common.SPIN], 20),
    ("reply 80us", ["pingpong", "--gap", "fixed:80us", *common.SPIN], 80),
    ("reply exp 60us", ["pingpong", "--gap", "exp:60us", *common.SPIN], 60),
    ("reply 5-400us", ["pingpong", "--gap", "uniform:5us:400us", *common.SPIN], 202),
    ("bimodal", ["pingpong", "--gap", "bimodal:0.8:15us:2ms", *common.SPIN], 412),
    ("phases", ["pingpong", "--gap", "phases:20us*200:3ms*50", *common.SPIN], 616),
    ("sparse 1ms", ["pingpong", "--gap", "exp:1ms", *common.SPIN], 1000),
    ("timer 60us", ["tick", "--gap", "fixed:60us"], 60),
    ("timer 20-300us", ["tick", "--gap", "uniform:20us:300us"], 160),
]
SETTINGS = ["0", "20us", "50us", "100us", "200us", "500us"]
WORLDS = ["from_zero", "from_ceiling"]
FIGURES = {"met": ("successful, %", 100), "poll_ns": ("polled, us", 1e-3), "trip": ("round trip, us", 1e-3)}
SWEEP_NS = [0, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000, 500_000]
# Repetitions of one setting differ by as much; how near the best of the sweep a recommendation should come.
EQUAL, NEAR = 1.02, 1.10
# VMs that wake themselves: their gaps do not depend on what other threads of the host get.
VMS = {"web": "exp:80us", "batch": "uniform:20us:300us", "idle": "fixed:1ms"}
GOALS = {**{goal: [goal] for goal in common.GOALS}, "a goal for each VM": ["density", "web=latency"]}


def in_turn(args, cells):
    """Each cell in each round, in an order drawn anew, and a place for its capture."""
    for _ in range(args.rounds):
        for cell in common.shuffled(cells):
            with common.place() as capture:
                yield *cell, capture


def run(args, load, trips, capture, ceiling=None):
    """Figures of one run of a load, by halt; polling and sleeps are KVM's own counters, wake-up latency is the recorder's."""
    cap = [] if ceiling is None else ["--cap", ceiling]
    _, lab = common.recorded(args, ["-o", capture], [*load[1], "--rounds", trips, *cap], True)
    vm, account = lab["vms"][0], common.ask([args.haltwise, "report", capture, "--json"])["vms"][0]["account"]
    vcpu = vm["vcpus"][0]
    halts, stats = max(vcpu["halts"], 1), vcpu["stats"]
    polled = stats["halt_poll_success_ns"] + stats["halt_poll_fail_ns"]
    return {"met": stats["halt_successful_poll"] / halts, "blocks": vcpu["voluntary_switches"] / halts, "poll_ns": polled / halts,
            "trip": vm["round_trip_ns"] and vm["round_trip_ns"]["p50"],
            "latency_ns": account["parts"]["wake_latency_ns"] / max(account["halts"], 1)}


def predicted(args, capture, measured):
    """What a capture says of each setting."""
    asked = [word for setting in SETTINGS for word in ("--policy", f"kvm:cap={setting}")]
    host = common.ask([args.haltwise, "tune", capture, "--json", *asked])["host"]
    halts = max(host["halts"], 1)
    for played in host["played"]:
        of = played["from_zero"]
        shares = [played[world]["successful_polls"] / halts for world in WORLDS if played[world]]
        trip = measured["trip"] and measured["trip"] - host["recorded"]["latency_p50_ns"] + of["latency_p50_ns"]
        yield {"met": of["successful_polls"] / halts, "poll_ns": of["poll_ns"] / halts, "bistable": played["bistable"],
               "range": [min(shares), max(shares)], "trip": trip}


def predictions(args):
    """How near predictions come: each load under each ceiling, predicted from its captures under the others.

    Printed are medians, measured -> predicted; ! where their ranges do not meet; and by how much the measured successful polls lie
    outside the range that a single recording predicts. Cells with two steady states are judged by that range alone: chance chooses.
    """
    common.price(args)
    cells = [(load, setting) for load in LOADS if args.only in load[0] for setting in SETTINGS]
    measured, said = ({(load[0], setting): [] for load, setting in cells} for _ in range(2))
    for load, setting, capture in in_turn(args, cells):
        one = run(args, load, args.trips, capture, setting)
        measured[load[0], setting].append(one)
        for other, prediction in zip(SETTINGS, predicted(args, capture, one)):
            if other != setting:
                said[load[0], other].append({"from": setting, **prediction})
    rows = [judge_cell(*cell, runs, said[cell]) for cell, runs in measured.items()]
    yield from rows
    for states in (1, 2):
        of = [row for row in rows if row["states"] == states]
        yield {"states": states, "cells": len(of), "ranges that do not meet": sum(row["apart"] == "!" for row in of),
               "most outside of range": max((row["outside of range"] for row in of), default=None)}
    for name, (title, _) in FIGURES.items():
        errors = [row["errors"][name] for row in rows if row["states"] == 1 and name in row["errors"]]
        if errors:
            yield {"error": title, "half of the cells within": common.at(errors, 0.5), "nine in ten within": common.at(errors, 0.9),
                   "worst": max(errors)}


def judge_cell(load, setting, measured, predicted):
    cells, is_apart, errors = {}, False, {}
    for name, (title, scale) in FIGURES.items():
        truth, said = ([run[name] * scale for run in of if run[name] is not None] for of in (measured, predicted))
        cells[title] = None
        if truth:
            middle, middle_said = statistics.median(truth), statistics.median(said)
            cells[title] = f"{middle:8.2f} -> {middle_said:7.2f}"
            errors[name] = abs(middle_said - middle)
            is_apart |= min(said) > max(truth) or max(said) < min(truth)
    met = statistics.median(run["met"] for run in measured)
    outside = max(max(said["range"][0] - met, met - said["range"][1], 0) for said in predicted)
    states = 2 if sum(said["bistable"] for said in predicted) * 6 > len(predicted) else 1
    return {"load": load, "ceiling": setting, **cells, "outside of range": outside, "states": states, "apart": "!" if is_apart else "",
            "errors": errors, "measured": measured, "predicted": predicted}


def sweep(args):
    """Cost of a halt under the ceilings that tune recommends for each goal, against a sweep of ceilings.

    Printed are costs in us, and ratios within each round with 95 % intervals; what is below its line by all of its interval, in six
    rounds or more, is so "for sure". The best of the sweep is picked and measured in the same runs, which favours it. `law` is what
    the rule of docs/tuning.md gives for not polling, as a share of the cost in force; some loads lie near that rule's threshold.
    """
    with open("/sys/module/kvm/parameters/halt_poll_ns", encoding="utf-8") as file:
        in_force_ns = int(file.read())
    trips = lambda load, ms: max(500, round(ms * 1000 / (load[2] + 50)))
    switch_ns, latency_ns = price = common.price(args)
    every, advised, runs = list(LOADS), {}, {}
    for goal, weight in common.GOALS.items():
        for gap in (round(side * (switch_ns + weight * latency_ns)) for side in (1.5, 2.5)):
            if gap + latency_ns <= in_force_ns:
                every.append((f"reply {gap} ns, {goal}", ["pingpong", "--gap", f"fixed:{gap}ns", *common.SPIN], gap / 1e3))
    every = [load for load in every if args.only in load[0]]
    for load in every:
        with common.place() as capture:
            run(args, load, trips(load, args.seen_ms), capture)
            tuned = common.ask([args.haltwise, "tune", capture, "--ceiling-only", "--json", *args.calibration])
        advised[load[0]] = {it["goal"]["name"]: it for it in tuned["played"]["goals"]}
        chosen = [it["setting"]["halt_poll_ns"] for it in advised[load[0]].values()]
        runs[load[0]] = {ns: [] for ns in sorted({*SWEEP_NS, in_force_ns, *chosen})}
    for load, ns, capture in in_turn(args, [(load, ns) for load in every for ns in runs[load[0]]]):
        runs[load[0]][ns].append(run(args, load, trips(load, args.run_ms), capture, f"{ns}ns"))
    rows = [judge_goal(name, goal, advised[name][goal], runs[name], in_force_ns, *price)
            for name, *_ in every for goal in common.GOALS]
    yield from rows
    for other, line, what in [("in force", EQUAL, "no more than the ceiling in force"), ("best", NEAR, "within 10 % of the best")]:
        ends = [(*common.estimate(row["ratios"][other]), len(row["ratios"][other]) >= 6) for row in rows]
        yield {"recommendations": len(rows), "cost": what, "by the median": sum(middle <= line for middle, *_ in ends),
               "for sure": sum(is_sure and high <= line for _, _, high, is_sure in ends),
               "surely not": sum(is_sure and low > line for _, low, _, is_sure in ends)}
    twice = [common.estimate(row["ratios"]["in force"])[0] <= 0.5 for row in rows if row["law"] <= 0.5]
    yield {"not polling is twice as cheap, by the law": len(twice), "so is what was recommended": sum(twice)}


def judge_goal(load, goal, advised, runs, in_force_ns, switch_ns, latency_ns):
    weight = common.GOALS[goal]
    cost = lambda of: (of["poll_ns"] + of["blocks"] * switch_ns + weight * of["latency_ns"]) / 1e3
    costs = {ns: [cost(of) for of in all_of] for ns, all_of in runs.items()}
    median = {ns: statistics.median(values) for ns, values in costs.items()}
    best, own = min(median, key=median.get), advised["setting"]["halt_poll_ns"]
    ratios = lambda ns: [a / b for a, b in zip(costs[own], costs[ns])]
    mean = lambda name: statistics.mean(of[name] for of in runs[in_force_ns])
    break_even = switch_ns + weight * latency_ns
    return {
        "load": load, "goal": goal, "in force, us": median[in_force_ns], "off": median[0], "best": median[best], "at, ns": best,
        "recommended": median[own], "its ns": own, "said": advised["cost_share"] and 1 + advised["cost_share"]["value"],
        "/ in force": common.shown(ratios(in_force_ns)), "/ best": common.shown(ratios(best)),
        "law": break_even / (mean("poll_ns") + mean("blocks") * break_even),
        "ratios": {"in force": ratios(in_force_ns), "best": ratios(best)}, "advised": advised, "costs_us": costs,
    }


def ceilings(args):
    """Cost of a halt under ceilings of single VMs and under the best ceiling for all, of three unlike VMs.

    tune predicts both from one capture, `haltwise prove` measures the plan (B) against the one ceiling (A). No policy costs less than
    the oracle. Where ceilings are not worth a plan, nothing is measured. Other VMs must not run.
    """
    common.price(args)
    with tempfile.TemporaryDirectory() as where, contextlib.ExitStack() as vms:
        for seed, (name, gap) in enumerate(VMS.items(), 1):
            vms.enter_context(common.vm(args, ["tick", "--gap", gap, "--seed", seed], name))
        capture, plan = os.path.join(where, "capture"), os.path.join(where, "plan.json")
        common.ask([args.haltwise, "record", "--duration", args.seen, "-o", capture])
        for goal in GOALS:
            yield judge_plan(args, goal, capture, plan)


def judge_plan(args, goal, capture, plan):
    goals = [word for it in GOALS[goal] for word in ("--goal", it)]
    words = ["tune", capture, "--ceiling-only", "--json", "--plan", plan, *goals, *args.calibration]
    caps = common.ask([args.haltwise, *words])["played"]["caps"]
    one, own, oracle = (caps and caps["costs"][name] for name in ("one_ns", "own_ns", "oracle_ns"))
    row = {"goal": goal, "one_ns": one, "own_ns": own, "oracle_ns": oracle, "caps": caps}
    if None in (one, own, oracle) or caps["withheld"]:
        return {**row, "not in the plan": caps and caps["withheld"] or "no ceilings are considered"}
    words = ["--plan", plan, "--a", f"kvm:max={caps['one_setting']['halt_poll_ns']}ns", "--rounds", args.rounds, "--duration", "1s"]
    names = [word for name in VMS for word in ("--vm", name)]
    proved = common.ask([args.haltwise, "prove", *words, "--ledger", "/dev/null", "--yes", "--json", *names, *args.calibration])["scopes"]
    halts = sum(scope["halts"] for scope in proved)
    a, b = (sum(scope[of] * scope["halts"] for scope in proved) / halts for of in ("a", "b"))
    return {**row, "saved_of_oracle": (one - own) / (one - oracle), "measured_a_ns": a, "measured_b_ns": b,
            "measured_saved": (a - b) / (one - oracle), "as_predicted": f"{sum(scope['within'] is True for scope in proved)} of {len(proved)}"}


def measured(args, load, *more):
    """Mean wake-up latency and cost of a halt, as recorded, of two recordings on average."""
    means = []
    for _ in range(2):
        with common.place() as capture:
            with common.vm(args, load, "stability", *more):
                common.ask([args.haltwise, "record", "--duration", f"{args.seconds}s", "-o", capture])
            host = common.ask([args.haltwise, "tune", capture, "--json", "--policy", "off", *args.calibration])["host"]
        means.append((host["recorded"]["latency_mean_ns"], host["recorded"]["cost_ns"] / host["halts"]))
    return [sum(of) / 2 for of in zip(*means)]


def stability(args):
    """Whether advice holds: `haltwise` answers of the same VM again and again, beside busy loops.

    `agree` counts answers that say the same, or that it is not known; `covers` the predicted intervals of the mean wake-up latency
    without polling that hold what is measured then; `worse` answers whose setting cost more than the current one.
    """
    common.price(args)
    rows = []
    for loops in map(int, args.loops.split(",")):
        for load in [*LOADS, ("waker sleeps 125us", ["pingpong", "--gap", "fixed:125us", "--host-wait", "block"], 125)][: args.loads]:
            with contextlib.ExitStack() as busy:
                for _ in range(loops):
                    busy.enter_context(common.started(["sh", "-c", "while :; do :; done"]))
                rows.append(judge_answers(args, load, loops))
            yield rows[-1]
    yield {"all": "sum", **{count: sum(row[count] for row in rows) for count in ("answers", "agree", "covers", "of", "worse")}}


def judge_answers(args, load, loops):
    name, load, _ = load
    with tempfile.TemporaryDirectory() as where, common.vm(args, load, "stability"):
        words = [args.haltwise, "--for", f"{args.seconds}s", "--json"]
        said = [common.ask(words, env={**os.environ, "TMPDIR": where}) for _ in range(args.recordings)]
    off_latency, off_cost = measured(args, load, "--cap", "0")
    _, current_cost = measured(args, load)
    known = [answer["apply"] or "leave" for answer in said if answer["apply"] or answer["verdict"] != "unproven"]
    most = max(map(known.count, known), default=0)
    settings = [row for answer in said for row in answer["settings"] if row["setting"] == "off"]
    intervals = [(row["latency_mean_low_ns"], row["latency_mean_high_ns"]) for row in settings if row["latency_mean_low_ns"] is not None]
    return {
        "load": name, "loops": loops, "answers": len(said), "unproven": len(said) - len(known), "agree": most + len(said) - len(known),
        "least_predicted_ns": min((low for low, _ in intervals), default=None),
        "most_predicted_ns": max((high for _, high in intervals), default=None), "measured_ns": off_latency,
        "covers": sum(low <= off_latency <= high for low, high in intervals), "of": len(intervals),
        "worse": sum("halt_poll_ns=0 " in answer for answer in known) if off_cost > current_cost else 0,
        "kept": {"known": known, "latency_ns": intervals, "measured_cost_ns": [current_cost, off_cost]},
    }


if __name__ == "__main__":
    common.main(__doc__, predictions=(predictions, {"rounds": 5, "trips": 2000, "only": ""}),
                sweep=(sweep, {"rounds": 8, "run_ms": 400, "seen_ms": 3000, "only": ""}),
                ceilings=(ceilings, {"rounds": 12, "seen": "15s"}),
                stability=(stability, {"recordings": 10, "seconds": 10, "loops": "0,1,3", "loads": len(LOADS) + 1}))
