#!/usr/bin/env python3
"""What ceilings of single VMs save over the best ceiling for all: three unlike VMs of the lab, as `haltwise tune` predicts from
one capture, and as `haltwise prove` measures the plan (B) against the best one ceiling (A). No policy costs less than the oracle.

    bench/ceilings.py [--haltwise BIN] [--lab BIN] [--rounds 12] [--seen 15s] [--calibration FILE] [--json FILE]

Only ceilings are set, of the lab's VMs: the host's parameters stay as they are, if no other VM runs. Where ceilings are not worth a
plan, nothing is measured. Needs root and /dev/kvm.
"""

import contextlib
import os
import tempfile

import common

# VMs that wake themselves: their gaps do not depend on what other threads of the host get.
VMS = {"web": "exp:80us", "batch": "uniform:20us:300us", "idle": "fixed:1ms"}
GOALS = {
    "density": ["density"],
    "balanced": ["balanced"],
    "latency": ["latency"],
    "a goal for each VM": ["density", "web=latency"],
}


def prove(args, plan, one_ns):
    """Cost of a halt under the one ceiling and under the plan, and in how many VMs the difference was as predicted."""
    words = ["--plan", plan, "--a", f"kvm:max={one_ns}ns", "--rounds", args.rounds, "--duration", "1s", "--ledger", "/dev/null"]
    names = [word for name in VMS for word in ("--vm", name)]
    scopes = common.ask([args.haltwise, "prove", *words, "--yes", "--json", *names])["scopes"]
    halts = sum(scope["halts"] for scope in scopes)
    mean = lambda of: sum(scope[of] * scope["halts"] for scope in scopes) / halts
    return mean("a"), mean("b"), f"{sum(scope['within'] is True for scope in scopes)} of {len(scopes)}"


def judge(args, goal, capture, calibration, plan):
    """A line of the table, and what is kept."""
    goals = [word for it in GOALS[goal] for word in ("--goal", it)]
    words = ["tune", capture, "--ceiling-only", "--json", "--plan", plan, "--calibration", calibration, *goals]
    own = common.ask([args.haltwise, *words])["played"]["caps"]
    costs = [own and own["costs"][name] for name in ("one_ns", "own_ns", "oracle_ns")]
    if None in costs:
        return "no ceilings are considered", {}
    one, with_own, oracle = costs
    line = f"{one:9.0f} {with_own:9.0f} {oracle:9.0f} {(one - with_own) / (one - oracle):8.0%}"
    if own["withheld"]:
        return f"{line}   not in the plan: {own['withheld']}", own
    a, b, within = prove(args, plan, own["one_setting"]["halt_poll_ns"])
    return f"{line} {a:9.0f} {b:9.0f} {(a - b) / (one - oracle):8.0%}   {within}", {**own, "measured": [a, b, within]}


def main():
    args = common.options(__doc__, rounds=12, seen="15s", calibration="")
    kept = {}
    with tempfile.TemporaryDirectory() as where, contextlib.ExitStack() as vms:
        calibration, *_ = common.calibrated(args, where)
        for seed, (name, gap) in enumerate(VMS.items(), 1):
            vms.enter_context(common.vm(args, ["tick", "--gap", gap, "--seed", seed], name))
        capture = os.path.join(where, "capture")
        common.ask([args.haltwise, "record", "--duration", args.seen, "-o", capture])
        print(f"cost of a halt in ns\n{'goal':20} {'one':>9} {'own':>9} {'oracle':>9} {'saved':>8} "
              f"{'measured A':>9} {'B':>9} {'saved':>8}   as predicted")
        for number, goal in enumerate(GOALS):
            line, kept[goal] = judge(args, goal, capture, calibration, os.path.join(where, f"{number}.json"))
            print(f"{goal:20} {line}", flush=True)
    common.keep(args, kept)


if __name__ == "__main__":
    main()
