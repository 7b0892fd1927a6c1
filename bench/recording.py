#!/usr/bin/env python3
"""Whether recordings are complete and right, against KVM's own counters and the lab's own clock.

    bench/recording.py loss     the lab's busiest guests, each source and mode: halts by KVM's stats fd, halts recorded, halts
                                that the recorder says it lost. A halt that neither polled nor waited is in no counter of KVM's.
    bench/recording.py truth    medians of gap and wake-up latency as recorded, against the lab's gap (answer to next signal)
                                and round trip (signal to answer), which holds the way to the wake event and the guest's, too

Options: [--haltwise BIN] [--lab BIN] [--duration 5s] [--rounds 5] [--trips 20000] [--json FILE]

Needs root, /dev/kvm and, for `truth`, two CPUs and taskset.
"""

import os
import tempfile

import common

BUSIEST = [
    ("ipi, 2 vCPUs", ["ipi", "--vcpus", "2", "--gap", "fixed:0ns", "--cap", "200us"]),
    ("pingpong, gap 1 us", ["pingpong", "--gap", "fixed:1us", "--cap", "200us", "--pin", "1", "--host-pin", "0"]),
    ("pingpong, 4 VMs", ["pingpong", "--gap", "fixed:1us", "--vms", "4", "--cap", "0", "--host-wait", "block"]),
]
RECORDERS = [("bpf", "full"), ("bpf", "counts"), ("tracepoints", "full")]
TRIPS = [("fixed:20us", "200us"), ("fixed:100us", "200us"), ("fixed:50us", "0"), ("fixed:300us", "0"), ("exp:60us", "0")]
MEDIANS = ["cargo", "run", "--release", "--quiet", "-p", "haltwise-capture", "--example", "medians", "--"]


def loss(args):
    """Rows of the table of losses."""
    print(f"{'load':20} {'recorder':18} {'halts/s':>10} {'kvm saw':>10} {'recorded':>10} {'lost':>7}")
    for load, guest in BUSIEST:
        for source, mode in RECORDERS:
            with tempfile.TemporaryDirectory() as where:
                record = ["--source", source, "--mode", mode, "-o", os.path.join(where, "capture")]
                summary, lab = common.recorded(args, record, [*guest, "--duration", args.duration], False)
            vcpus = [vcpu for vm in lab["vms"] for vcpu in vm["vcpus"]]
            kvm = sum(sum(vcpu["hist"]["halt_wait_hist"]) + vcpu["stats"]["halt_successful_poll"] for vcpu in vcpus)
            lost = sum(it for it in (summary["lost"] or {}).values() if isinstance(it, int))
            row = {"load": load, "recorder": f"{source} {mode}", "halts_per_s": kvm * 1e9 / lab["elapsed_ns"], "kvm": kvm,
                   "recorded": summary["halts"], "lost": lost}
            print(f"{load:20} {row['recorder']:18} {row['halts_per_s']:10.0f} {kvm:10} {row['recorded']:10} {lost:7}", flush=True)
            yield row


def truth(args):
    """Rows of medians, in microseconds."""
    print(f"{'gap':12} {'ceiling':>8} {'lab gap':>10} {'rec. gap':>10} {'lab trip':>12} {'rec. latency':>12}")
    for number in range(args.rounds):
        for gap, cap in TRIPS:
            guest = ["pingpong", "--rounds", str(args.trips), "--gap", gap, "--cap", cap, "--host-wait", "spin"]
            with tempfile.TemporaryDirectory() as where:
                capture = os.path.join(where, "capture")
                _, lab = common.recorded(args, ["-o", capture], guest, True)
                medians = common.ask([*MEDIANS, capture])
            vm = lab["vms"][0]
            ns = [vm["gap_ns"]["p50"], medians["gap_ns"], vm["round_trip_ns"]["p50"], medians["wake_latency_ns"] or 0]
            print(f"{gap:12} {cap:>8} {ns[0] / 1e3:10.2f} {ns[1] / 1e3:10.2f} {ns[2] / 1e3:12.2f} {ns[3] / 1e3:12.2f}", flush=True)
            names = ["lab_gap_ns", "gap_ns", "lab_trip_ns", "latency_ns"]
            yield {"round": number, "gap": gap, "cap": cap, **dict(zip(names, ns))}


def main():
    args = common.options(__doc__, ["loss", "truth"], duration="5s", rounds=5, trips=20_000)
    rows = list(loss(args) if args.what == "loss" else truth(args))
    common.keep(args, rows)


if __name__ == "__main__":
    main()
