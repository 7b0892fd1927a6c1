"""Shared by the benchmarks: options, programs and their answers, VMs of the lab, tables, medians."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

# The vCPU and its waker on CPUs of their own.
APART = ["--pin", "1", "--host-pin", "0"]
SPIN = ["--host-wait", "spin"]
# Goals, and what they give for a nanosecond of latency, in nanoseconds of CPU.
GOALS = {"density": 0, "balanced": 1, "latency": 10}


def main(doc, **parts):
    """Runs the part that the command line names: a function that gives rows, with the defaults of its options."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=raw)
    below = parser.add_subparsers(dest="part", required=True, metavar="PART")
    shared = {"haltwise": "target/release/haltwise", "lab": "target/release/haltwise-lab", "json": ""}
    for name, (part, defaults) in parts.items():
        own = below.add_parser(name, help=part.__doc__.splitlines()[0], description=part.__doc__, formatter_class=raw)
        for option, default in {**shared, **defaults}.items():
            text = f"default: {default}" if default != "" else None
            own.add_argument(f"--{option.replace('_', '-')}", default=default, type=type(default), help=text)
    args = parser.parse_args()
    # A benchmark that is ended takes its VMs, recorders and busy loops along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = []
    for row in printed(parts[args.part][0](args)):
        rows.append(row)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def ask(words, ok=(0, 5), **more):
    """Output of a command, parsed if it is JSON. Exit code 5 says that something is missing in it."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode not in ok:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


@contextlib.contextmanager
def started(words, **more):
    """A program for the time of a block; it gets SIGINT at the end, and is killed where that does not help."""
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
    with subprocess.Popen([str(word) for word in words], **more) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def vm(args, load, name, *more):
    """A VM of the lab for the time of a block, which begins when it runs."""
    with started([args.lab, "run", *load, "--name", name, "--duration", "7200s", *more]) as process:
        time.sleep(1)
        yield process


@contextlib.contextmanager
def place():
    """A path for a capture, which is removed at the end of the block."""
    with tempfile.TemporaryDirectory() as where:
        yield os.path.join(where, "capture")


def recorded(args, record, lab, pin):
    """Records one run of the lab; gives the recorder's JSON and the lab's. With `pin` the vCPU has CPU 1 for itself."""
    with tempfile.NamedTemporaryFile() as out:
        shell = ["sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh", out.name]
        on = [["taskset", "-c", "0"], ["taskset", "-c", "0,1"]] if pin else [[], []]
        words = [*on[0], args.haltwise, "record", "--json", *record, "--", *shell, *on[1], args.lab]
        return ask([*words, "run", "--json", *lab, *(APART if pin else [])]), json.load(out)


def price(args):
    """CPU time and wake-up latency of a sleep, as measured now. `args.calibration` has them for the commands that follow."""
    said = ask([args.haltwise, "calibrate", "--json"])
    args.kept = tempfile.NamedTemporaryFile(suffix=".json")
    pathlib.Path(args.kept.name).write_text(json.dumps(said), encoding="utf-8")
    args.calibration = ["--calibration", args.kept.name]
    latencies = [it["wake_latency_ns"]["median"] for it in said["classes"] if it["wake_latency_ns"]]
    if not said["switch_cpu_ns"] or not latencies:
        sys.exit("a sleep could not be measured: other tasks wanted its CPU")
    print(f"a sleep costs {said['switch_cpu_ns']['median']:.0f} ns; load average {os.getloadavg()[0]:.1f}; "
          f"{'; '.join(said['notes']) or 'no run was preempted'}")
    return said["switch_cpu_ns"]["median"], latencies[0]


def printed(rows):
    """Prints rows as they come, below their names, and gives them on. Lists and dictionaries in a row are not printed."""
    widths = {}
    for row in rows:
        row_text = {}
        for name, it in row.items():
            if isinstance(it, str):
                row_text[name] = it.ljust(26)
            elif not isinstance(it, (list, dict)):
                row_text[name] = ("-" if it is None else str(round(it, 3))).rjust(9)
        if row_text.keys() != widths.keys():
            widths = {name: max(len(name), len(text)) for name, text in row_text.items()}
            print("\n" + "  ".join(name.ljust(width) for name, width in widths.items()))
        print("  ".join(text.rjust(widths[name]) for name, text in row_text.items()), flush=True)
        yield row


def shuffled(items):
    """The same in an order drawn anew: what takes turns must not always come after the same."""
    return random.sample(list(items), len(items))


def at(samples, share):
    """The least sample that this share of them does not exceed."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def estimate(samples):
    """Median and the ends of its 95 % interval, by ranks; all of the range of fewer than six."""
    ordered, n = sorted(samples), len(samples)
    reach = 0.98 * n**0.5 if n >= 6 else n
    low, high = max(int(n / 2 - reach), 1), min(int(-(-(n / 2 + reach) // 1)) + 1, n)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2, ordered[low - 1], ordered[high - 1]


def shown(samples, digits=2, sign=""):
    """Such a median and interval as text."""
    if not samples:
        return "-"
    return "{:{f}} [{:{f}}, {:{f}}]".format(*estimate(samples), f=f"{sign}.{digits}f")


def against(one, other):
    """By how much one is more than the other, round by round, in %."""
    return shown([100 * (a / b - 1) for a, b in zip(one, other) if b], 1, "+") + " %"
