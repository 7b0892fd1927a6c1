#!/usr/bin/env python3
"""What libhaltwise_preload.so costs on the way of KVM_RUN: CPU time of a round trip (an `out` to a port that the VMM handles)
in a VMM that does nothing else (crates/governor/examples/small_vmm.rs), with the library and without.

Each round starts that VMM four times on one CPU: without, with, with, without; the second pair turns drifts round. A ratio of
two VMMs without the library says what noise gives. Medians with their 95 % intervals (by ranks).

    bench/preload.py [--vmm BIN] [--library SO] [--rounds 101] [--trips 20000] [--pin 1] [--json FILE]
"""

import os

import common


def trip_ns(args, library):
    """CPU time of a round trip, in nanoseconds."""
    env = {**os.environ, "LD_PRELOAD": library}
    words = ["taskset", "-c", str(args.pin), args.vmm]
    return float(common.ask(words, input=f"trips {args.trips}\n", env=env).split()[-1]) / args.trips


def main():
    programs = {"vmm": "target/release/examples/small_vmm", "library": "target/release/libhaltwise_preload.so"}
    args = common.options(__doc__, **programs, rounds=101, trips=20_000, pin=1)
    library = os.path.abspath(args.library)
    rounds = [[trip_ns(args, it) for it in ("", library, library, "")] for _ in range(args.rounds)]
    for what, samples, digits in [
        ("without, ns", [ns for a, _, _, d in rounds for ns in (a, d)], 1),
        ("with, ns", [ns for _, b, c, _ in rounds for ns in (b, c)], 1),
        ("with / without", [ratio for a, b, c, d in rounds for ratio in (b / a, c / d)], 4),
        ("without / without", [d / a for a, _, _, d in rounds], 4),
    ]:
        median, low, high = common.estimate(samples)
        print(f"{what:26} {median:9.{digits}f}  95 % {low:.{digits}f} to {high:.{digits}f}")
    common.keep(args, rounds)


if __name__ == "__main__":
    main()
