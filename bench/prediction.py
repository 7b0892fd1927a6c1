#!/usr/bin/env python3
"""How near predictions come: each load of the lab is recorded under each ceiling, in an order drawn anew in each round. From each
capture `haltwise replay` predicts every other ceiling, which is held against what the lab and KVM's own counters measured under it.

    bench/prediction.py [--haltwise BIN] [--lab BIN] [--rounds 5] [--trips 2000] [--only NAME] [--calibration FILE] [--json FILE]

Printed for each cell, medians: successful polls in % of halts, time polled for each halt, round trips (recorded, with the predicted
wake-up latency in place of the recorded one), each measured -> predicted; ! where measured and predicted ranges do not meet. Where
more than one prediction in six has two steady states, chance chooses: what was measured must lie between them.

Nothing of this machine is set: ceilings are those of the lab's own VM (KVM_CAP_HALT_POLL). Needs root, /dev/kvm and two CPUs.
"""

import os
import shutil
import statistics
import tempfile

import common

SETTINGS = ["0", "20us", "50us", "100us", "200us", "500us"]
# Wakers that sleep: where a vCPU polls, they are woken sooner themselves, which no recording without polling shows.
SLEEPING = [
    ("device exp 60us", ["pingpong", "--gap", "exp:60us", "--host-wait", "device"], 60),
    ("sleeper exp 30us", ["pingpong", "--gap", "exp:30us", "--host-wait", "block"], 30),
]
# How far beyond a steady state a run may lie, as a share of its halts: the first halts and preempted polls.
SLACK = 0.03
FIGURES = [("met", "successful, %", 100), ("poll_ns", "polled, us", 1e-3), ("p50", "trip p50, us", 1e-3),
           ("p95", "trip p95, us", 1e-3)]


def measure(args, load, setting, capture):
    """One run: its figures by halt."""
    trips = ["--rounds", str(args.trips), "--cap", setting]
    _, lab = common.recorded(args, ["-o", capture], [*load, *trips], True)
    of = common.per_halt(lab)
    if load[0] == "pingpong":
        of.update((p, lab["vms"][0]["round_trip_ns"][p]) for p in ("p50", "p95"))
    return of


def predict(args, capture, calibration, measured):
    """What a capture says of each setting."""
    asked = [word for setting in SETTINGS for word in ("--policy", f"kvm:cap={setting}")]
    host = common.ask([args.haltwise, "replay", capture, "--json", "--calibration", calibration, *asked])["host"]
    for played in host["played"]:
        of, halts = played["from_zero"], max(host["halts"], 1)
        said = {"met": of["successful_polls"] / halts, "poll_ns": of["poll_ns"] / halts, "bistable": played["bistable"],
                "ends": [played[start]["successful_polls"] / halts for start in ("from_zero", "from_ceiling")]}
        for p in ("p50", "p95"):
            if p in measured:
                said[p] = measured[p] - host["recorded"][f"latency_{p}_ns"] + of[f"latency_{p}_ns"]
        yield said


def judge(measured, predicted, totals):
    """A line of the table."""
    cells, marks, errors = [], "", []
    for name, _, scale in FIGURES:
        truth, said = ([run[name] * scale for run in of if name in run] for of in (measured, predicted))
        if not truth or not said:
            cells.append(f"{'-':>19}")
            continue
        cells.append(f"{statistics.median(truth):8.2f} -> {statistics.median(said):7.2f}")
        errors.append((name, abs(statistics.median(said) - statistics.median(truth))))
        marks += "!" if min(said) > max(truth) or max(said) < min(truth) else "."
    two = [said for said in predicted if said["bistable"]]
    if len(two) * 6 > len(predicted):
        ends = [end for said in two for end in said["ends"]]
        inside = sum(min(ends) - SLACK <= run["met"] <= max(ends) + SLACK for run in measured)
        totals["two"].append(inside == len(measured))
        return " ".join(cells) + f" two states ({min(ends):.0%} to {max(ends):.0%}); {inside} of {len(measured)} runs between"
    totals["one"].append("!" not in marks)
    for name, error in errors:
        totals[name].append(error)
    return " ".join(cells) + " " + marks


def main():
    args = common.options(__doc__, rounds=5, trips=2000, only="", calibration="")
    loads = [load for load in common.LOADS + SLEEPING if args.only in load[0]]
    measured, predicted = {}, {}
    with tempfile.TemporaryDirectory() as where:
        calibration, *_ = common.calibrated(args, where)
        cells = [(load, setting) for load in loads for setting in SETTINGS]
        for _ in range(args.rounds):
            for (name, load, _), setting in common.shuffled(cells):
                capture = os.path.join(where, "capture")
                run = measure(args, load, setting, capture)
                measured.setdefault((name, setting), []).append(run)
                for other, said in zip(SETTINGS, predict(args, capture, calibration, run)):
                    if other != setting:
                        predicted.setdefault((name, other), []).append({"from": setting, **said})
                shutil.rmtree(capture)
    totals = {name: [] for name in ("one", "two", *(name for name, *_ in FIGURES))}
    for name, *_ in loads:
        print(f"\n{name}\n{'ceiling':8} " + " ".join(f"{title:>19}" for _, title, _ in FIGURES))
        for setting in SETTINGS:
            print(f"{setting:8} " + judge(measured[name, setting], predicted[name, setting], totals))
    print(f"\n{len(totals['one'])} cells with one state; in {totals['one'].count(False)} of them something lies outside the ranges")
    print(f"{len(totals['two'])} cells with two states; in {totals['two'].count(False)} of them a run lies outside both")
    for name, title, _ in FIGURES:
        errors = sorted(totals[name])
        at = lambda share: errors[min(len(errors) - 1, round(share * (len(errors) - 1)))] if errors else float("nan")
        print(f"error of {title}: half of the cells within {at(0.5):.2f}, nine in ten within {at(0.9):.2f}, worst {at(1):.2f}")
    rows = lambda of: [{"load": load, "ceiling": ceiling, "runs": runs} for (load, ceiling), runs in of.items()]
    common.keep(args, {"measured": rows(measured), "predicted": rows(predicted)})


if __name__ == "__main__":
    main()
