"""The costs of a fleet's captures, four ways: a plain loop, two of them at once with half of the captures each, Spark with
one and with two tasks at a time.

    python fleet.py DIR ROUNDS         a line of JSON for each way and round: the sums, and how long they took
    python fleet.py DIR --spark N      Spark alone, with N tasks at a time
    python fleet.py DIR --half N       the loop alone, over every second capture from the Nth on

`cargo run -p haltwise-capture --example seeded_captures -- DIR 200 2000` makes the captures.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.compute

from haltwise.costs import Costs

SUMS = ["halts", "sleeps", "failed_polls", "poll_ns", "latency_ns", "halt_ns"]


def looped(fleet):
    sums = dict.fromkeys(SUMS, 0)
    for path in fleet:
        table = pyarrow.table(Costs.of(str(path), None, threads=1))
        for name in SUMS:
            sums[name] += pyarrow.compute.sum(table.column(name)).as_py()
    return sums


def halved(directory):
    """What two processes at once gain on this machine, whatever runs in them."""
    line = [sys.executable, __file__, directory, "--half"]
    halves = [subprocess.Popen([*line, str(half)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for half in range(2)]
    for half in halves:
        half.stdout.readline()
    began = time.monotonic()
    for half in halves:
        half.stdin.write("go\n")
        half.stdin.flush()
    said = [half.communicate()[0] for half in halves]
    seconds = time.monotonic() - began
    sums = [json.loads(text) for text in said]
    return {"sums": {name: sum(of[name] for of in sums) for name in SUMS}, "seconds": seconds}


def sparked(directory, tasks_at_a_time):
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from haltwise import spark as fleet

    builder = SparkSession.builder.master(f"local[{tasks_at_a_time}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()

    def costs(path):
        frame = fleet.costs(fleet.captures(session, str(path), partitions=32))
        return frame.agg(*(F.sum(name).alias(name) for name in SUMS)).collect()[0].asDict()

    # The virtual machine and the workers are started before the clock is.
    costs(directory / "host-000")
    began = time.monotonic()
    sums = costs(directory)
    return {"sums": sums, "seconds": time.monotonic() - began}


def main():
    directory = Path(sys.argv[1])
    if sys.argv[2] == "--spark":
        print(json.dumps(sparked(directory, int(sys.argv[3]))))
        return
    fleet = sorted(directory.iterdir())
    if sys.argv[2] == "--half":
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(looped(fleet[int(sys.argv[3]) :: 2])))
        return
    for number in range(int(sys.argv[2])):
        began = time.monotonic()
        one = {"sums": looped(fleet), "seconds": time.monotonic() - began}
        print(json.dumps({"round": number + 1, "way": "loop", **one}))
        print(json.dumps({"round": number + 1, "way": "two loops", **halved(sys.argv[1])}))
        for count in ["1", "2"]:
            line = [sys.executable, __file__, sys.argv[1], "--spark", count]
            said = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            print(json.dumps({"round": number + 1, "way": f"local[{count}]", **json.loads(said)}))


if __name__ == "__main__":
    main()
