"""KVM's window rule (6.1 and later) for many settings at once, in NumPy: a peer of core's grid.

Settings are the elements of arrays; halts follow one another, since each window depends on the halt
before. Reads 64-bit words from stdin as benches/replay/numpy.rs writes them. Prints the seconds that
playing took, and the sums of blocks, polled time and wake-up latency.
"""

import sys
import time

import numpy as np


def main():
    words = np.frombuffer(sys.stdin.buffer.read(), dtype="<i8")
    settings, halts, classes = (int(word) for word in words[:3])
    cuts = np.cumsum([3] + [settings] * 5 + [classes, halts, halts * classes])
    ceiling, grow, grow_start, shrink, full, ends, gaps, latencies = (
        words[begin:end].copy() for begin, end in zip(cuts[:-1], cuts[1:])
    )
    latencies = latencies.reshape(halts, classes)
    begin = time.perf_counter()
    window = np.where(full == 1, ceiling, 0)
    divisor = np.maximum(shrink, 1)
    blocks = np.zeros(settings, dtype=np.int64)
    polled = np.zeros(settings, dtype=np.int64)
    waited = np.zeros(settings, dtype=np.int64)
    for gap, by_class in zip(gaps, latencies):
        window = np.minimum(window, ceiling)
        slept = gap - window
        blocked = slept > 0
        latency = np.where(blocked, by_class[np.searchsorted(ends, slept)], 0)
        blocks += blocked
        polled += np.minimum(gap, window)
        waited += latency
        halt = gap + latency
        longer = halt > window
        grown = np.where(grow == 0, window, np.maximum((window * grow) & 0xFFFFFFFF, grow_start))
        shrunk = np.where(shrink == 0, 0, window // divisor)
        shrunk = np.where(shrunk < grow_start, 0, shrunk)
        window = np.where(
            longer & (halt > ceiling) & (window > 0),
            shrunk,
            np.where(longer & (halt < ceiling) & (window < ceiling), grown, window),
        )
    seconds = time.perf_counter() - begin
    print(seconds, blocks.sum(), polled.sum(), waited.sum())


main()
