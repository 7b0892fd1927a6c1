"""One fleet, several ways: a plain loop, DuckDB over the tables, Spark with one and with two tasks at a time.

    python fleet.py DIR            the same sums by each way, and how long each took
    python fleet.py DIR --spark N  Spark alone, with N tasks at a time

`cargo run --release -p haltwise-capture --example seeded_captures -- DIR 200 20000` makes the captures.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import haltwise
from haltwise import tasks

SUMS = ["halts", "halted_ns", "poll_success_ns", "poll_fail_ns", "polls_failed"]


def sums(rows):
    return {name: sum(row[name] for row in rows) for name in SUMS}


def looped(fleet):
    return sums([row for path in fleet for row in tasks.ACCOUNTS.rows(haltwise.open(path).account())])


def queried(fleet):
    import duckdb

    query = (
        "SELECT count(*), sum(halt_ns), sum(poll_ns) FILTER (NOT waited), sum(poll_ns) FILTER (waited AND poll_ns > 0), "
        "count(*) FILTER (waited AND poll_ns > 0) FROM halts"
    )
    total = [0] * len(SUMS)
    for path in fleet:
        halts = haltwise.open(path).table("halts")
        total = [before + int(more or 0) for before, more in zip(total, duckdb.sql(query).fetchall()[0])]
    return dict(zip(SUMS, total))


def sparked(directory, tasks_at_a_time):
    from pyspark.sql import SparkSession

    from haltwise import spark as fleet

    session = SparkSession.builder.master(f"local[{tasks_at_a_time}]").config("spark.ui.enabled", "false").getOrCreate()
    # The virtual machine and the workers are started before the clock is.
    fleet.accounts(fleet.captures(session, str(directory / "host-000"))).collect()
    began = time.monotonic()
    rows = fleet.accounts(fleet.captures(session, str(directory), partitions=16)).collect()
    return {"sums": sums(rows), "seconds": time.monotonic() - began}


def main():
    directory = Path(sys.argv[1])
    if "--spark" in sys.argv:
        print(json.dumps(sparked(directory, int(sys.argv[3]))))
        return
    fleet = sorted(directory.iterdir())
    found = {}
    for name, way in [("loop", looped), ("DuckDB", queried)]:
        began = time.monotonic()
        found[name] = {"sums": way(fleet), "seconds": time.monotonic() - began}
    for count in ["1", "2"]:
        line = [sys.executable, __file__, sys.argv[1], "--spark", count]
        said = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        found[f"Spark local[{count}]"] = json.loads(said)
    for name, one in found.items():
        print(f"{name:15} {one['seconds']:7.1f} s  {one['sums']}")
    assert all(one["sums"] == found["loop"]["sums"] for one in found.values()), "sums differ"


if __name__ == "__main__":
    main()
