#!/usr/bin/env python3
"""What recording costs a guest, and whether it is complete and right. Needs root, /dev/kvm, two CPUs and taskset."""

import contextlib
import json
import os
import subprocess
import tempfile
import time

import common

FOUR = "-e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns -e sched:sched_waking -e sched:sched_switch"
SEVEN = " ".join(f"-e kvm:kvm_{it}" for it in ("exit", "entry", "userspace_exit", "fpu", "inj_virq", "emulate_insn", "vcpu_wakeup"))
RECORD = "{haltwise} record -o {out}/capture"
MODES = [("bpf", "full"), ("bpf", "counts"), ("bpf", "stats"), ("tracepoints", "full"), ("tracepoints", "counts")]
NONE = {"none": "", "none, again": ""}
HALTS = {
    **NONE,
    **{f"haltwise, {source}, {mode}": f"{RECORD} --source {source} --mode {mode}" for source, mode in MODES},
    "perf record, KVM's two alone": "perf record --quiet -a -o {out}/perf.data -e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns",
    "trace-cmd record": f"trace-cmd record -q -o {{out}}/trace.dat {FOUR}",
    "perf record, same events": f"perf record --quiet -a -o {{out}}/perf.data {FOUR}",
}
EXITS = {
    **NONE,
    "haltwise record": RECORD,
    "haltwise record --exits": f"{RECORD} --exits",
    "haltwise, all sub-keys": f"{RECORD} --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid",
    "perf kvm stat record": "perf kvm stat record -a -m 4096 -o {out}/perf.data",
    "perf record, same events": f"perf record --quiet -a -m 4096 -o {{out}}/perf.data {SEVEN}",
}
LOADS = {
    "spinning": ["--gap", "fixed:20us", *common.SPIN],
    "device": ["--gap", "fixed:15us", "--host-wait", "device", "--ioapic"],
}
BUSIEST = {
    "ipi, 2 vCPUs": ["ipi", "--vcpus", "2", "--gap", "fixed:0ns", "--cap", "200us"],
    "pingpong, gap 1 us": ["pingpong", "--gap", "fixed:1us", "--cap", "200us", *common.APART],
    "pingpong, 4 VMs": ["pingpong", "--gap", "fixed:1us", "--vms", "4", "--cap", "0", "--host-wait", "block"],
}
TRIPS = [("fixed:20us", "200us"), ("fixed:100us", "200us"), ("fixed:50us", "0"), ("fixed:300us", "0"), ("exp:60us", "0")]
HALTS = ["cargo", "run", "--release", "--quiet", "-p", "haltwise-capture", "--bin", "capture-halts", "--"]


def size(where):
    """Bytes of the files below a folder, less what a recorder said."""
    paths = [os.path.join(at, name) for at, _, names in os.walk(where) for name in names if name != "said"]
    return sum(os.path.getsize(path) for path in paths)


@contextlib.contextmanager
def watching(args, command, where):
    """A recorder for the time of a block, which begins when it records."""
    programs = {name: os.path.abspath(path) for name, path in vars(args).items() if name == "haltwise"}
    words = [word.format(**programs, out=where) for word in (f"taskset -c 0 {command}" if command else "sleep 1h").split()]
    said = os.path.join(where, "said")
    with open(said, "w+", encoding="utf-8") as log, common.started(words, stderr=log, cwd=where) as process:
        deadline = time.monotonic() + 15
        while command:
            with open(said, encoding="utf-8") as log:
                text = log.read()
            # perf and trace-cmd do not say when they record.
            if "Recording" in text if "record -o" in command else size(where):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(" ".join(text.split()))
            time.sleep(0.02)
        time.sleep(0.3)
        yield


def usable(args, watchers):
    """The recorders that work here, found out by a trial of each."""
    for name, command in watchers.items():
        try:
            with tempfile.TemporaryDirectory() as where, watching(args, command, where):
                yield name
        except (RuntimeError, OSError) as reason:
            print(f"skipped: {name}: {reason}")


def one_round(args, watchers, guest):
    """Figures of one guest for each recorder, by halt or exit."""
    for name in common.shuffled(watchers):
        with tempfile.TemporaryDirectory() as where:
            with watching(args, watchers[name], where):
                vm = common.ask([args.lab, "run", "--json", *guest, *common.APART])["vms"][0]
            vcpu, trip = vm["vcpus"][0], vm["round_trip_ns"]
            n = vcpu["halts"] if trip else max(vcpu["stats"]["exits"], vcpu["stats"]["insn_emulation"], 1)
            figures = {"CPU time of the vCPU, ns": vcpu["cpu_ns"] / n, "bytes on disk": size(where) / n}
            trips = {"round trip, mean, ns": trip["mean"], "round trip, median, ns": trip["p50"]} if trip else {}
            yield name, {**trips, **figures}


def compared(args, load, watchers, guest):
    """Rows of the table: each figure under each recorder, and in each round less that without a recorder, and as a share of perf's."""
    watchers = {name: watchers[name] for name in usable(args, watchers)}
    rounds = [dict(one_round(args, watchers, guest)) for _ in range(args.rounds)]
    for figure in rounds[0]["none"]:
        of = {name: [one[name][figure] for one in rounds] for name in watchers}
        for name, own in of.items():
            added = [a - b for a, b in zip(own, of["none"])]
            ratios = [a / b for a, b in zip(own, of.get("perf record, same events", [])) if b]
            yield {"load": load, "figure": figure, "recorder": name, "median": common.shown(own, 1),
                   "added": common.shown(added, 1, "+"), "of perf's": common.shown(ratios, 3), "rounds": own}


def halts(args):
    """Round trip, CPU time and disk for each halt, for each recorder, beside perf and trace-cmd.

    Recorders take turns on a guest whose polls are all successful. The vCPU has CPU 1; its waker and the recorder share CPU 0. What
    is added is the difference to no recorder in the same round, which comes once more to show the noise: medians with 95 % intervals.
    """
    pingpong = ["pingpong", "--cap", "200us", "--duration", f"{args.slice_ms}ms"]
    for load, words in LOADS.items():
        yield from compared(args, load, HALTS, [*pingpong, *words])


def exits(args):
    """CPU time of the vCPU for each exit, in the same way.

    Where KVM does not report exits, emulated instructions stand for them.
    """
    yield from compared(args, "exits", EXITS, ["exits", "--rounds", args.trips, "--gap", "fixed:20us"])


def preload(args):
    """CPU time of a round trip of KVM_RUN in a VMM that does nothing else, with libhaltwise_preload.so and without.

    Each round starts crates/governor/examples/small_vmm.rs four times on one CPU: without, with, with, without; the second pair
    turns drifts round. A ratio of two VMMs without the library is the noise.
    """
    def trip_ns(library):
        env = {**os.environ, "LD_PRELOAD": library}
        words = ["taskset", "-c", str(args.pin), args.vmm]
        return float(common.ask(words, input=f"trips {args.trips}\n", env=env).split()[-1]) / args.trips

    library = os.path.abspath(args.library)
    rounds = [[trip_ns(it) for it in ("", library, library, "")] for _ in range(args.rounds)]
    samples = {
        "without, ns": [ns for a, _, _, d in rounds for ns in (a, d)],
        "with, ns": [ns for _, b, c, _ in rounds for ns in (b, c)],
        "with / without": [ratio for a, b, c, d in rounds for ratio in (b / a, c / d)],
        "without / without": [d / a for a, _, _, d in rounds],
    }
    for what, of in samples.items():
        yield {"what": what, "median": common.shown(of, 4), "samples": of}


def loss(args):
    """Halts of the busiest guests by KVM's stats fd, halts recorded, and halts that the recorder reports as lost.

    A halt that neither polled nor waited is in no counter of KVM's.
    """
    for load, guest in BUSIEST.items():
        for source, mode in [it for it in MODES if it[1] != "stats"]:
            with common.place() as capture:
                record = ["--source", source, "--mode", mode, "-o", capture]
                summary, lab = common.recorded(args, record, [*guest, "--duration", args.duration], False)
            vcpus = [vcpu for vm in lab["vms"] for vcpu in vm["vcpus"]]
            kvm = sum(sum(vcpu["hist"]["halt_wait_hist"]) + vcpu["stats"]["halt_successful_poll"] for vcpu in vcpus)
            lost = sum(it for it in (summary["lost"] or {}).values() if isinstance(it, int))
            yield {"load": load, "recorder": f"{source} {mode}", "halts_per_s": kvm * 1e9 / lab["elapsed_ns"], "kvm": kvm,
                   "recorded": summary["halts"], "lost": lost}


def medians(capture):
    """Medians of the recorded gaps and wake-up latencies."""
    printed = subprocess.run([*HALTS, str(capture)], capture_output=True, text=True, check=True).stdout
    halts = [json.loads(line) for line in printed.splitlines()]
    known = [it for it in halts if it.get("wake_latency_ns") is not None]
    gaps = sorted(max(0, it["halt_ns"] - it["wake_latency_ns"]) for it in known)
    latencies = sorted(it["wake_latency_ns"] for it in known if it["waited"])
    return [them[len(them) // 2] if them else None for them in (gaps, latencies)]


def truth(args):
    """Medians of gap and wake-up latency as recorded, against the lab's own clock.

    The lab's gap is from its answer to its next signal; its round trip holds the way to the wake event and the guest's, too.
    """
    for number in range(args.rounds):
        for gap, cap in TRIPS:
            guest = ["pingpong", "--rounds", str(args.trips), "--gap", gap, "--cap", cap, *common.SPIN]
            with common.place() as capture:
                _, lab = common.recorded(args, ["-o", capture], guest, True)
                gap_ns, latency_ns = medians(capture)
            vm = lab["vms"][0]
            yield {"round": number, "gap": gap, "ceiling": cap, "lab_gap_ns": vm["gap_ns"]["p50"], "gap_ns": gap_ns,
                   "lab_trip_ns": vm["round_trip_ns"]["p50"], "latency_ns": latency_ns}


if __name__ == "__main__":
    VMM = {"vmm": "target/release/examples/small_vmm", "library": "target/release/libhaltwise_preload.so"}
    common.main(__doc__, halts=(halts, {"rounds": 13, "slice_ms": 1500}),
                exits=(exits, {"rounds": 13, "trips": 60}),
                preload=(preload, {**VMM, "rounds": 101, "trips": 20_000, "pin": 1}),
                loss=(loss, {"duration": "5s"}), truth=(truth, {"rounds": 5, "trips": 20_000}))
