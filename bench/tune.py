#!/usr/bin/env python3
"""Whether recommended ceilings are good: each load of the lab is recorded once under the ceiling in force, and `haltwise tune
--ceiling-only` recommends a ceiling for each goal. Then the load runs under a sweep of ceilings, that in force and the recommended
ones among them, in an order drawn anew in each round.

    bench/tune.py [--haltwise BIN] [--lab BIN] [--rounds 8] [--run-ms 400] [--seen-ms 3000] [--only NAME] [--calibration FILE]
                  [--json FILE]

Polling and sleeps are KVM's own counters, wake-up latency is the recorder's, the CPU time of a sleep is calibrated. Printed are the
cost of a halt in us, and ratios within each round with 95 % intervals; what is below its line by all of its interval, in six rounds
or more, is so "for sure". The best of the sweep is picked and measured in the same runs, which favours it. Beside that stands what
can be: `law` is what the rule of docs/tuning.md gives for not polling, c / (p + b c), and `oracle` the cost of `haltwise replay
--policy clairvoyant` on the runs without polling, below which no policy comes; both as a share of the cost in force.

Loads named by a goal have gaps of so many of its break-evens (what a halt costs that sleeps): below two of them no setting is twice
as cheap, above them not polling is. Nothing of this machine is set: ceilings are those of the lab's own VM.
"""

import os
import shutil
import statistics
import tempfile

import common

SWEEP_NS = [0, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000, 500_000]
IN_FORCE = "/sys/module/kvm/parameters/halt_poll_ns"
# Repetitions of one setting differ by as much; how near the best of the sweep a recommendation should come.
EQUAL, NEAR = 1.02, 1.10


def loads(args, in_force_ns, switch_ns, latency_ns):
    """The usual loads, and those on both sides of two break-evens whose gaps can be met under the ceiling in force."""
    beside = []
    for goal, weight in common.GOALS.items():
        for side in (1.5, 2.5):
            gap = round(side * (switch_ns + weight * latency_ns))
            if gap + latency_ns <= in_force_ns:
                words = ["pingpong", "--gap", f"fixed:{gap}ns", *common.SPIN]
                beside.append((f"reply {side} {goal}", words, gap / 1e3))
    return [load for load in common.LOADS + beside if args.only in load[0]]


def run(args, load, ms, capture, ceiling_ns=None):
    """One run of a load: its figures by halt."""
    _, words, mean_us = load
    rounds = max(500, round(ms * 1000 / (mean_us + 50)))
    cap = [] if ceiling_ns is None else ["--cap", f"{ceiling_ns}ns"]
    _, lab = common.recorded(args, ["-o", capture], [*words, "--rounds", str(rounds), *cap], True)
    account = common.ask([args.haltwise, "report", capture, "--json"])["vms"][0]["account"]
    return {**common.per_halt(lab), "latency_ns": account["parts"]["wake_latency_ns"] / max(account["halts"], 1)}


def oracle(args, calibration, capture):
    """What the halts of a capture cost the oracle, by goal."""
    for goal in common.GOALS:
        words = ["--policy", "clairvoyant", "--goal", goal, "--calibration", calibration]
        host = common.ask([args.haltwise, "replay", capture, "--json", *words])["host"]
        of = host["played"][0]["from_zero"]
        yield goal, {name: of[name] / max(host["halts"], 1) for name in ("poll_ns", "blocks", "latency_ns")}


def judge(load, goal, advised, runs, in_force_ns, switch_ns, latency_ns, totals):
    """A line of the table."""
    weight = common.GOALS[goal]
    cost = lambda of: of["poll_ns"] + of["blocks"] * switch_ns + weight * of["latency_ns"]
    costs = {ns: [cost(of) for of in all_of] for ns, all_of in runs.items()}
    median = {ns: statistics.median(values) for ns, values in costs.items()}
    best, own = min(median, key=median.get), advised["setting"]["halt_poll_ns"]
    ratio = lambda ns: [a / b for a, b in zip(costs[own], costs[ns])]
    mean = lambda name: statistics.mean(of[name] for of in runs[in_force_ns])
    break_even = switch_ns + weight * latency_ns
    law = break_even / (mean("poll_ns") + mean("blocks") * break_even)
    least = statistics.median(cost(of["oracle"][goal]) for of in runs[0]) / median[in_force_ns]
    for name, other, line in [("not worse", in_force_ns, EQUAL), ("near best", best, NEAR)]:
        middle, low, high = common.estimate(ratio(other))
        sure = len(costs[own]) >= 6 or other == own
        totals[name].append((middle <= line, sure and high <= line, sure and low > line, f"{load}, {goal}: {middle:.2f}"))
    if law <= 0.5:
        totals["twice"].append(common.estimate(ratio(in_force_ns))[0] <= 0.5)
    said = f"{1 + advised['cost_share']['value']:.2f}" if advised["cost_share"] else "as is"
    at = lambda ns: f"{median[ns] / 1e3:.1f} at {ns / 1e3:.0f} us"
    print(f"{goal:9} {median[in_force_ns] / 1e3:8.1f} {median[0] / 1e3:8.1f} {at(best):>18} {at(own):>18} {said:>6} "
          f"{common.shown(ratio(in_force_ns)):>18} {common.shown(ratio(best)):>18} {law:6.2f} {least:6.2f}", flush=True)


def main():
    args = common.options(__doc__, rounds=8, run_ms=400, seen_ms=3000, only="", calibration="")
    with open(IN_FORCE, encoding="utf-8") as file:
        in_force_ns = int(file.read())
    kept, totals = [], {"not worse": [], "near best": [], "twice": []}
    with tempfile.TemporaryDirectory() as where:
        calibration, switch_ns, latency_ns = common.calibrated(args, where)
        capture = os.path.join(where, "capture")
        every, advised, runs = loads(args, in_force_ns, switch_ns, latency_ns), {}, {}
        for load in every:
            run(args, load, args.seen_ms, capture)
            tuned = common.ask([args.haltwise, "tune", capture, "--ceiling-only", "--json", "--calibration", calibration])
            advised[load[0]] = {it["goal"]["name"]: it for it in tuned["played"]["goals"]}
            shutil.rmtree(capture)
            chosen = [it["setting"]["halt_poll_ns"] for it in advised[load[0]].values()]
            runs[load[0]] = {ns: [] for ns in sorted({*SWEEP_NS, in_force_ns, *chosen})}
        for _ in range(args.rounds):
            for load, ns in common.shuffled([(load, ns) for load in every for ns in runs[load[0]]]):
                one = run(args, load, args.run_ms, capture, ns)
                if ns == 0:
                    one["oracle"] = dict(oracle(args, calibration, capture))
                runs[load[0]][ns].append(one)
                shutil.rmtree(capture)
    for name, words, _ in every:
        print(f"\n{name} ({words[2]}): cost of a halt in us (a sleep {switch_ns / 1e3:.1f})\n{'goal':9} {'in force':>8} {'off':>8} "
              f"{'best of sweep':>18} {'recommended':>18} {'said':>6} {'/ in force':>18} {'/ best':>18} {'law':>6} {'oracle':>6}")
        for goal in common.GOALS:
            judge(name, goal, advised[name][goal], runs[name], in_force_ns, switch_ns, latency_ns, totals)
        kept.append({"load": name, "advised": advised[name], "runs": runs[name]})
    print(f"\n{len(totals['not worse'])} recommendations (loads and goals)")
    for name, what in [("not worse", "cost no more than the ceiling in force"), ("near best", "come within 10 % of the best")]:
        by_median, sure, surely_not = (sum(it[at] for it in totals[name]) for at in range(3))
        missed = [text for ok, _, _, text in totals[name] if not ok]
        print(f"  {what}: {by_median} by the median, {sure} for sure, {surely_not} surely not {missed or ''}")
    twice = totals["twice"]
    print(f"  not polling is twice as cheap, by the law: {len(twice)}; so is what was recommended: {sum(twice)}")
    common.keep(args, kept)


if __name__ == "__main__":
    main()
