#!/usr/bin/env python3
"""Whether advice holds: one VM, recorded again and again, and what its settings come to when they are measured.

For each load a VM of the lab runs under KVM's parameters as they are, and `haltwise` answers RECORDINGS times. Then the same
load runs without polling, and its halts are measured. Printed for each load and for each number of busy loops beside it:

  agree    answers that say the same (a command, or to leave all as it is), or that it is not known
  latency  predicted mean wake-up latency over all halts without polling, all intervals together, what was measured, and how many
           of the intervals cover it
  cost     of answers that name no polling (goal balanced): how many intervals of what it changes of a halt's cost cover what
           was measured, with the CPU time of a sleep as calibrated
  worse    answers whose setting cost more than the current one when measured

With --predictions, instead: share of halts whose polls succeed, as replayed and as measured, under ceilings that the recording did
not have, from recordings without polling and under the parameters in force; the least and the most of three recordings each.

    bench/stability.py [--haltwise BIN] [--lab BIN] [--recordings 10] [--seconds 10] [--loops 0,1,3] [--predictions] [--json FILE]

The price of a sleep is measured and kept before all VMs, as on a host where haltwise has run once. Nothing else of this machine
is set: polling is switched off by the ceiling of the lab's own VM (KVM_CAP_HALT_POLL). Times depend on the host; counts of
agreement are the result.
"""

import os
import shutil
import subprocess
import tempfile
import time

import common

LOADS = [
    ("steady 125us", ["pingpong", "--gap", "fixed:125us"]),
    ("steady 125us, waker sleeps", ["pingpong", "--gap", "fixed:125us", "--host-wait", "block"]),
    ("steady 40us", ["pingpong", "--gap", "fixed:40us"]),
    ("steady 500us", ["pingpong", "--gap", "fixed:500us", "--host-wait", "block"]),
    ("exponential 60us", ["pingpong", "--gap", "exp:60us"]),
    ("bimodal 25/900us", ["pingpong", "--gap", "bimodal:0.7:25us:900us"]),
    ("uniform 5-400us", ["pingpong", "--gap", "uniform:5us:400us"]),
    ("phases", ["pingpong", "--gap", "phases:20us*200:3ms*50"]),
    ("timer 1ms", ["tick", "--gap", "fixed:1ms"]),
    ("timer 60us", ["tick", "--gap", "fixed:60us"]),
]


def answers(args, load, where):
    """What `haltwise` answers of one VM, again and again."""
    with common.vm(args, load, "stability"):
        words = [args.haltwise, "now", "--for", f"{args.seconds}s", "--json"]
        return [common.ask(words, env={**os.environ, "TMPDIR": where}) for _ in range(args.recordings)]


def measured(args, load, where, more):
    """Mean wake-up latency and cost of a halt, as recorded."""
    with common.vm(args, load, "stability", *more):
        cap = os.path.join(where, f"measured-{time.monotonic_ns()}")
        subprocess.run([args.haltwise, "record", "--duration", f"{args.seconds}s", "-o", cap],
                       capture_output=True, check=False)
    replayed = common.ask([args.haltwise, "replay", "--json", "--policy", "off", cap])
    shutil.rmtree(cap)
    host = replayed["host"]
    recorded = host["recorded"]
    return {"latency_ns": recorded["latency_mean_ns"], "cost_ns": recorded["cost_ns"] / host["halts"]}


def of_off(answer):
    """The row of no polling: predicted latency and its interval."""
    rows = [row for row in answer["settings"] if row["setting"] == "off"]
    return rows[0] if rows else None


def judge(args, name, load, loops):
    """One row of the table."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    where = tempfile.mkdtemp(prefix="stability-")
    try:
        said = answers(args, load, where)
        off = [measured(args, load, where, ["--cap", "0"]) for _ in range(2)]
        current = [measured(args, load, where, []) for _ in range(2)]
    finally:
        for loop in busy:
            loop.kill()
        shutil.rmtree(where, ignore_errors=True)
    action = lambda answer: answer["apply"] or ("unproven" if answer["verdict"] == "unproven" else "leave")
    verdicts = [action(answer) for answer in said]
    known = [verdict for verdict in verdicts if verdict != "unproven"]
    most = max((known.count(verdict) for verdict in known), default=0)
    rows = [row for row in map(of_off, said) if row and row["latency_mean_low_ns"] is not None]
    latency = sum(one["latency_ns"] for one in off) / len(off)
    covers = sum(row["latency_mean_low_ns"] <= latency <= row["latency_mean_high_ns"] for row in rows)
    costs = [sum(one["cost_ns"] for one in of) / len(of) for of in (current, off)]
    changed = costs[1] / costs[0] - 1
    shares = [goal["cost_share"] for answer in said for goal in answer["goals"]
              if goal["goal"]["name"] == "balanced" and goal["advice"] in ("off", "prove off")]
    to_off = [verdict for verdict in known if "halt_poll_ns=0 " in verdict]
    return {
        "load": name, "loops": loops, "answers": len(said), "unproven": len(said) - len(known),
        "agree": most + len(said) - len(known), "verdicts": sorted(set(verdicts)),
        "intervals_ns": [[row["latency_mean_low_ns"], row["latency_mean_high_ns"]] for row in rows],
        "predicted_latency_ns": [min((row["latency_mean_low_ns"] for row in rows), default=None),
                                 max((row["latency_mean_high_ns"] for row in rows), default=None)],
        "measured_latency_ns": latency, "covers": covers, "of": len(rows),
        "measured_share": changed, "shares": [[share["low"], share["high"]] for share in shares],
        "cost_covers": sum(share["low"] <= changed <= share["high"] for share in shares), "cost_of": len(shares),
        "measured_cost_ns": {"current": costs[0], "off": costs[1]},
        "worse": len(to_off) if costs[1] > costs[0] else 0,
    }


PREDICTED = ["exponential 60us", "bimodal 25/900us", "uniform 5-400us", "phases"]
CEILINGS = ["400us", "100us", "50us"]


def shares(args, load, where, more, policies):
    """Of one recording: share of halts whose polls succeeded, then the same under each policy."""
    with common.vm(args, load, "stability", *more):
        cap = os.path.join(where, f"shares-{time.monotonic_ns()}")
        subprocess.run([args.haltwise, "record", "--duration", f"{args.seconds}s", "-o", cap], capture_output=True, check=False)
    asked = [word for policy in policies or ["off"] for word in ("--policy", policy)]
    host = common.ask([args.haltwise, "replay", "--json", *asked, cap])["host"]
    shutil.rmtree(cap)
    played = [one["from_zero"] for one in host["played"]] if policies else []
    return [of["successful_polls"] / host["halts"] for of in [host["recorded"], *played]]


def predict(args):
    """Rows of shares, predicted and measured; prints them."""
    rows = []
    print(f"{'load':20} {'recorded':10} {'ceiling':8} predicted        measured         error")
    where = tempfile.mkdtemp(prefix="stability-")
    policies = [f"kvm:max={ceiling}" for ceiling in CEILINGS]
    # Apart: where the waker shares the vCPU's CPU it cuts nearly all polls, which no recording without polls shows.
    apart = ["--pin", "1", "--host-pin", "0"]
    for name, load in ((name, load + apart) for name, load in LOADS if name in PREDICTED):
        measured = [[shares(args, load, where, ["--cap", ceiling], [])[0] for _ in range(3)] for ceiling in CEILINGS]
        for recorded, more in [("off", ["--cap", "0"]), ("in force", [])]:
            said = list(zip(*[shares(args, load, where, more, policies)[1:] for _ in range(3)]))
            for ceiling, predicted, seen in zip(CEILINGS, said, measured):
                error = max(abs(one - sorted(seen)[1]) for one in predicted)
                rows.append({"load": name, "recorded": recorded, "ceiling": ceiling, "predicted": predicted, "measured": seen,
                             "error": error})
                ends = lambda of: f"{min(of):.3f} to {max(of):.3f}"
                print(f"{name:20} {recorded:10} {ceiling:8} {ends(predicted):16} {ends(seen):16} {error:.3f}", flush=True)
    shutil.rmtree(where, ignore_errors=True)
    print(f"worst error, of single recordings against the median measured: {max(row['error'] for row in rows):.3f}")
    return rows


def us(nanos):
    return "-" if nanos is None else f"{nanos / 1e3:.1f}"


def main():
    args = common.options(__doc__, recordings=10, seconds=10, loops="0,1,3", loads=len(LOADS), predictions=False)
    if args.predictions:
        common.keep(args, predict(args))
        return
    # As on a host where haltwise has run once: the price of a sleep is measured without a VM, and kept.
    price = common.ask([args.haltwise, "calibrate", "--json"])
    print(f"price of {price['repetitions']} repetitions; {'; '.join(price['notes']) or 'no run was preempted'}")
    rows = []
    print(f"{'load':28} loops agree unproven latency of off: predicted, measured   covers   cost worse")
    for loops in (int(text) for text in args.loops.split(",")):
        for name, load in LOADS[: args.loads]:
            row = judge(args, name, load, loops)
            rows.append(row)
            low, high = row["predicted_latency_ns"]
            print(f"{name:28} {loops:5} {row['agree']:2}/{row['answers']:<2} {row['unproven']:8} "
                  f"{us(low):>12} to {us(high):>6}, {us(row['measured_latency_ns']):>7} us "
                  f"{row['covers']:6}/{row['of']:<2} {row['cost_covers']:3}/{row['cost_of']:<2} {row['worse']:4}", flush=True)
            common.keep(args, rows)
    keys = ("answers", "agree", "covers", "of", "cost_covers", "cost_of", "worse")
    total = {key: sum(row[key] for row in rows) for key in keys}
    print(f"all: {total['agree']} of {total['answers']} answers agree; intervals that cover: {total['covers']} of {total['of']} of "
          f"the latency, {total['cost_covers']} of {total['cost_of']} of the cost; "
          f"{total['worse']} recommendations cost more when measured")


if __name__ == "__main__":
    main()
