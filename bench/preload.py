#!/usr/bin/env python3
"""What libhaltwise_preload.so costs on the way of KVM_RUN: CPU time of a round trip (an `out` to a port that the VMM handles)
in a VMM that does nothing else (crates/governor/examples/small_vmm.rs), with the library and without.

Each round starts that VMM four times on one CPU: without, with, with, without; the second pair turns drifts round. A ratio of
two VMMs without the library says what noise gives. Medians with their 95 % intervals (by ranks).

    bench/preload.py [--vmm BIN] [--library SO] [--rounds 101] [--trips 20000] [--pin 1] [--json FILE]
"""

import argparse
import json
import os
import subprocess


def trip_ns(args, library):
    """CPU time of a round trip, in nanoseconds."""
    env = {**os.environ, "LD_PRELOAD": library}
    words = ["taskset", "-c", str(args.pin), args.vmm]
    said = subprocess.run(words, input=f"trips {args.trips}\n", env=env, capture_output=True, text=True, check=True).stdout
    return float(said.split()[-1]) / args.trips


def estimate(samples):
    """Median and the ends of its 95 % interval."""
    ordered = sorted(samples)
    reach = 0.98 * len(ordered) ** 0.5
    at = lambda place: ordered[min(max(round(place), 0), len(ordered) - 1)]
    middle = (len(ordered) - 1) / 2
    return at(middle), at(middle - reach), at(middle + reach)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vmm", default="target/release/examples/small_vmm")
    parser.add_argument("--library", default="target/release/libhaltwise_preload.so")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--trips", type=int, default=20_000)
    parser.add_argument("--pin", type=int, default=1)
    parser.add_argument("--json", help="write the rounds to this file")
    args = parser.parse_args()
    library = os.path.abspath(args.library)
    rounds = [[trip_ns(args, it) for it in ("", library, library, "")] for _ in range(args.rounds)]
    for what, samples, digits in [
        ("without, ns", [ns for a, _, _, d in rounds for ns in (a, d)], 1),
        ("with, ns", [ns for _, b, c, _ in rounds for ns in (b, c)], 1),
        ("with / without", [ratio for a, b, c, d in rounds for ratio in (b / a, c / d)], 4),
        ("without / without", [d / a for a, _, _, d in rounds], 4),
    ]:
        median, low, high = estimate(samples)
        print(f"{what:26} {median:9.{digits}f}  95 % {low:.{digits}f} to {high:.{digits}f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rounds, file)


if __name__ == "__main__":
    main()
