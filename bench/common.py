"""What the benchmarks share: options, programs and their answers, VMs and loads of the lab, medians."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

# Loads of the lab: name, words of `haltwise-lab run`, mean gap in us. Replies that the host sees, then timers.
SPIN = ["--host-wait", "spin"]
LOADS = [
    ("reply 20us", ["pingpong", "--gap", "fixed:20us", *SPIN], 20),
    ("reply 80us", ["pingpong", "--gap", "fixed:80us", *SPIN], 80),
    ("reply exp 60us", ["pingpong", "--gap", "exp:60us", *SPIN], 60),
    ("reply 5-400us", ["pingpong", "--gap", "uniform:5us:400us", *SPIN], 202),
    ("bimodal", ["pingpong", "--gap", "bimodal:0.8:15us:2ms", *SPIN], 412),
    ("phases", ["pingpong", "--gap", "phases:20us*200:3ms*50", *SPIN], 616),
    ("sparse 1ms", ["pingpong", "--gap", "exp:1ms", *SPIN], 1000),
    ("timer 60us", ["tick", "--gap", "fixed:60us"], 60),
    ("timer 20-300us", ["tick", "--gap", "uniform:20us:300us"], 160),
]
# Goals, and what they give for a nanosecond of latency, in nanoseconds of CPU.
GOALS = {"density": 0, "balanced": 1, "latency": 10}


def options(doc, what=(), **defaults):
    """Options that all benchmarks have, and those of one with their defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if what:
        parser.add_argument("what", choices=what)
    programs = {"haltwise": "target/release/haltwise", "lab": "target/release/haltwise-lab"}
    for name, default in {**programs, "json": "", **defaults}.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **kind)
    # A benchmark that is ended takes its VMs, recorders and busy loops along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return parser.parse_args()


def keep(args, rows):
    """Writes the raw rows where --json says."""
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def ask(words, ok=(0, 5), **more):
    """What a command prints, as JSON if it is. Exit code 5 says that something is missing in it."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode not in ok:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


class Started:
    """A program for the time of a block; it gets SIGINT at the end, and is killed where that does not help."""

    def __init__(self, words, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        self.process = subprocess.Popen([str(word) for word in words], **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def vm(args, load, name, *more):
    """A VM of the lab for the time of a block; the block begins when it runs."""
    started = Started([args.lab, "run", *load, "--name", name, "--duration", "7200s", *more])
    time.sleep(1)
    return started


def recorded(args, record, lab, pin):
    """Records one run of the lab; gives the recorder's JSON and the lab's. With `pin` the vCPU has CPU 1 for itself."""
    with tempfile.NamedTemporaryFile() as out:
        shell = ["sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh", out.name]
        on = [["taskset", "-c", "0"], ["taskset", "-c", "0,1"]] if pin else [[], []]
        lab = [*lab, "--pin", "1", "--host-pin", "0"] if pin else lab
        words = [*on[0], args.haltwise, "record", "--json", *record, "--", *shell, *on[1], args.lab]
        return ask([*words, "run", "--json", *lab]), json.load(out)


def per_halt(lab):
    """Of the first vCPU of a run of the lab, by halt: share of successful polls, share of sleeps, and time polled."""
    vcpu = lab["vms"][0]["vcpus"][0]
    halts, stats = max(vcpu["halts"], 1), vcpu["stats"]
    polled = stats["halt_poll_success_ns"] + stats["halt_poll_fail_ns"]
    return {"halts": halts, "met": stats["halt_successful_poll"] / halts, "blocks": vcpu["voluntary_switches"] / halts,
            "poll_ns": polled / halts}


def calibrated(args, where):
    """A calibration of this host (made unless --calibration names one): its file, and CPU time and wake-up latency of a sleep."""
    path = args.calibration or os.path.join(where, "calibration.json")
    if not args.calibration:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(ask([args.lab, "calibrate", "--quick", "--json"]), file)
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    latencies = [it["wake_latency_ns"]["median"] for it in said["classes"] if it["wake_latency_ns"]]
    if not said["switch_cpu_ns"] or not latencies:
        sys.exit("a sleep could not be measured: other tasks wanted its CPU (--calibration FILE takes one made before)")
    return path, said["switch_cpu_ns"]["median"], latencies[0]


def shuffled(items):
    """The same in an order drawn anew: what takes turns must not always come after the same."""
    return random.sample(list(items), len(items))


def estimate(samples):
    """Median and the ends of its 95 % interval, by ranks; all of the range of fewer than six."""
    ordered, n = sorted(samples), len(samples)
    reach = 0.98 * n**0.5 if n >= 6 else n
    low, high = max(int(n / 2 - reach), 1), min(int(-(-(n / 2 + reach) // 1)) + 1, n)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2, ordered[low - 1], ordered[high - 1]


def shown(samples, scale=1.0, digits=2, sign=""):
    """Such a median and interval as text."""
    if not samples:
        return "-"
    return "{:{f}} [{:{f}}, {:{f}}]".format(*(it / scale for it in estimate(samples)), f=f"{sign}.{digits}f")


def against(one, other):
    """By how much one is more than the other, round by round, in %."""
    return shown([100 * (a / b - 1) for a, b in zip(one, other) if b], 1, 1, "+") + " %"
