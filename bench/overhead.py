#!/usr/bin/env python3
"""What recording costs the guest, beside perf and trace-cmd. All recorders take turns in each round, in an order drawn anew; what
is added is the difference to nobody in the same round (who comes once more, which shows the noise). Medians over rounds with their
95 % intervals.

    bench/overhead.py halts     one pingpong guest for each round and load, whose polls are all successful: round trip from signal
                                to answer, CPU time of the vCPU for each halt, bytes for each halt on disk
    bench/overhead.py exits     CPU time of the vCPU for each exit, and what the BPF programs take by themselves, played to exits
                                that never happened, beside programs with hash maps as scripts for bcc have them. Where KVM does
                                not report exits, emulated instructions stand for them

Options: [--haltwise BIN] [--lab BIN] [--peer BIN] [--rounds 13] [--slice-ms 1500] [--trips 60] [--json FILE]

The vCPU has CPU 1; what wakes it and the recorder share CPU 0. Needs root and /dev/kvm; `exits` needs its peer
(`cargo build --release -p haltwise-host --example exits_peer`).
"""

import glob
import os
import sys
import tempfile
import time

import common

FOUR = "-e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns -e sched:sched_waking -e sched:sched_switch"
SEVEN = " ".join(f"-e kvm:kvm_{it}" for it in ("exit", "entry", "userspace_exit", "fpu", "inj_virq", "emulate_insn", "vcpu_wakeup"))
RECORD = "{haltwise} record -o {out}/capture"
HALTS = {
    "nobody": "",
    "nobody, again": "",
    "haltwise, bpf, full": f"{RECORD} --source bpf --mode full",
    "haltwise, bpf, counts": f"{RECORD} --source bpf --mode counts",
    "haltwise, bpf, stats": f"{RECORD} --source bpf --mode stats",
    "haltwise, tracepoints, full": f"{RECORD} --source tracepoints --mode full",
    "haltwise, tracepoints, counts": f"{RECORD} --source tracepoints --mode counts",
    "perf record, KVM's two alone": "perf record --quiet -a -o {out}/perf.data -e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns",
    "trace-cmd record": f"trace-cmd record -q -o {{out}}/trace.dat {FOUR}",
    "perf record, same events": f"perf record --quiet -a -o {{out}}/perf.data {FOUR}",
}
EXITS = {
    "nobody": "",
    "nobody, again": "",
    "haltwise record": RECORD,
    "haltwise record --exits": f"{RECORD} --exits",
    "haltwise, all sub-keys": f"{RECORD} --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid",
    "hash maps, as bcc has it": "{peer} watch",
    "perf kvm stat record": "perf kvm stat record -a -m 4096 -o {out}/perf.data",
    "perf record, same events": f"perf record --quiet -a -m 4096 -o {{out}}/perf.data {SEVEN}",
}
PEER = "perf record, same events"
LOADS = {
    "spinning": ["--gap", "fixed:20us", "--host-wait", "spin"],
    "device": ["--gap", "fixed:15us", "--host-wait", "device", "--ioapic"],
}


def size(where):
    """Bytes of the files below a folder, less what a recorder said."""
    paths = [os.path.join(at, name) for at, _, names in os.walk(where) for name in names if name != "said"]
    return sum(os.path.getsize(path) for path in paths)


class Watching(common.Started):
    """A recorder for the time of a block, which begins when it records."""

    def __init__(self, args, command, where):
        words = [word.format(haltwise=os.path.abspath(args.haltwise), peer=os.path.abspath(args.peer), out=where)
                 for word in command.split()]
        said = os.path.join(where, "said")
        with open(said, "w", encoding="utf-8") as log:
            super().__init__(["taskset", "-c", "0", *words] if words else ["sleep", "1h"], stderr=log, cwd=where)
        # perf and trace-cmd do not say when they record; the peer writes nothing but a line.
        ready = "Recording" if "record -o" in command else ""
        deadline = time.monotonic() + 15
        while words:
            with open(said, encoding="utf-8") as log:
                text = log.read()
            if ready and ready in text or not ready and size(where) > 0 or "peer" in command and text:
                break
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(" ".join(text.split()))
            time.sleep(0.02)
        time.sleep(0.3)


def usable(args, watchers):
    """The recorders that work here, found out by letting them."""
    for name, command in watchers.items():
        try:
            with tempfile.TemporaryDirectory() as where, Watching(args, command, where):
                yield name
        except (RuntimeError, OSError) as reason:
            print(f"skipped: {name}: {reason}")


def cpu_ns(pid):
    """CPU time of the lab's vCPU thread."""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with open(f"{task}/comm", encoding="utf-8") as comm:
            if "vcpu" in comm.read():
                with open(f"{task}/schedstat", encoding="utf-8") as stat:
                    return int(stat.read().split()[0])
    sys.exit("the lab's vCPU does not run")


def within(csv, windows):
    """Round trips that begin and end within a window."""
    with open(csv, encoding="utf-8") as file:
        head = file.readline().strip().split(",")
        signal, answer = head.index("signal_ns"), head.index("answer_ns")
        trips = [(int(cells[signal]), int(cells[answer])) for cells in (line.split(",") for line in file)]
    return [sorted(b - a for a, b in trips if start <= a and b <= end) for start, end, *_ in windows]


def halts_round(args, load, watchers):
    """One guest under all recorders in turn."""
    with tempfile.TemporaryDirectory() as where:
        csv, windows = os.path.join(where, "rounds.csv"), []
        pins = ["--cap", "200us", "--pin", "1", "--host-pin", "0", "--json", "--rounds-out", csv]
        turns = common.shuffled(watchers)
        with common.vm(args, ["pingpong", *LOADS[load]], "watched", *pins) as guest:
            for name in turns:
                out = os.path.join(where, name)
                os.mkdir(out)
                with Watching(args, HALTS[name], out):
                    begun, used = time.monotonic_ns(), cpu_ns(guest.process.pid)
                    time.sleep(args.slice_ms / 1e3)
                    windows.append((begun, time.monotonic_ns(), cpu_ns(guest.process.pid) - used))
        for name, window, trips in zip(turns, windows, within(csv, windows)):
            n = len(trips) or sys.exit(f"no round trip under {name}")
            yield name, {"trips": n, "mean_ns": sum(trips) / n, "median_ns": trips[n // 2], "cpu_ns": window[2] / n,
                         "bytes": size(os.path.join(where, name)) / n}


def exits_round(args, watchers):
    """One guest for each recorder."""
    for name in common.shuffled(watchers):
        with tempfile.TemporaryDirectory() as where, Watching(args, EXITS[name], where):
            guest = ["exits", "--rounds", args.trips, "--pin", "1", "--gap", "fixed:20us"]
            vcpu = common.ask([args.lab, "run", "--json", *guest])["vms"][0]["vcpus"][0]
        exits = max(vcpu["stats"]["exits"], vcpu["stats"]["insn_emulation"], 1)
        yield name, {"exits": exits, "cpu_ns": vcpu["cpu_ns"] / exits}


def table(rounds, columns):
    """A line for each recorder; columns are title, figure, scale, digits, and `all`, `added` or `ratio` to the peer."""
    print(f"{'recorder':30} " + " ".join(f"{title:>28}" for title, *_ in columns))
    for name in rounds[0]:
        cells = []
        for _, figure, scale, digits, kind in columns:
            base = {"all": None, "added": "nobody", "ratio": PEER}[kind]
            pairs = [(one[name][figure], one[base][figure] if base else 0) for one in rounds if not base or base in one]
            values = [a / b if kind == "ratio" else a - b for a, b in pairs]
            cells.append(common.shown(values, scale, digits, "+" if kind == "added" else ""))
        print(f"{name:30} " + " ".join(f"{cell:>28}" for cell in cells), flush=True)


def played(args):
    """What the programs for exits take by themselves."""
    lines = [line.split(",") for line in common.ask([args.peer, "play", args.rounds]).splitlines()]
    lines = [[float(cell) for cell in line] for line in lines if line[0].isdigit()]
    print(f"{'played: vCPUs x exits':24} {'haltwise --exits, ns':>26} {'hash maps, ns':>26} {'haltwise / hash maps':>26}")
    for vcpus, exits in sorted({(line[1], line[2]) for line in lines}):
        own = [line[3:] for line in lines if line[1:3] == [vcpus, exits]]
        columns = [([a for a, _ in own], 0), ([b for _, b in own], 0), ([a / b for a, b in own], 2)]
        print(f"{vcpus:.0f} x {exits:<20.0f} " + " ".join(f"{common.shown(values, 1, digits):>26}" for values, digits in columns))
    return lines


def main():
    peer = "target/release/examples/exits_peer"
    args = common.options(__doc__, ["halts", "exits"], peer=peer, rounds=13, slice_ms=1500, trips=60)
    kept = {}
    if args.what == "exits":
        kept["played"] = played(args)
    watchers = list(usable(args, HALTS if args.what == "halts" else EXITS))
    for load in LOADS if args.what == "halts" else [""]:
        one = lambda: dict(halts_round(args, load, watchers) if load else exits_round(args, watchers))
        rounds = [one() for _ in range(args.rounds)]
        kept[load or "exits"] = rounds
        print(f"\n{load or 'exits'}: {args.rounds} rounds")
        rounds = [{name: it[name] for name in watchers} for it in rounds]
        table(rounds, [("trip, mean, us", "mean_ns", 1e3, 2, "all"), ("added to the mean, us", "mean_ns", 1e3, 2, "added"),
                       ("added to the median, us", "median_ns", 1e3, 2, "added"), ("added vCPU time, ns", "cpu_ns", 1, 0, "added"),
                       ("trip / perf's", "mean_ns", 1, 3, "ratio"), ("bytes for each halt", "bytes", 1, 1, "all")]
              if load else [("vCPU time, ns", "cpu_ns", 1, 0, "all"), ("added, ns", "cpu_ns", 1, 0, "added"),
                            ("vCPU time / perf's", "cpu_ns", 1, 3, "ratio")])
    common.keep(args, kept)


if __name__ == "__main__":
    main()
