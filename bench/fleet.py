#!/usr/bin/env python3
"""How fast `haltwise fleet` adds up costs tables, in how much memory, and how both grow, with DuckDB's Python package on the same
files. Both must find the same setting at the same cost, to the unit. DuckDB answers the first part of the question alone: the
one setting (the lowest of those that cost no more than 2 % above the cheapest) and its cost.

    bench/fleet.py [--haltwise BIN] [--maker BIN] [--hosts 100,1000,10000] [--vms 28] [--json FILE]

Tables are of made-up hosts, one day each: `cargo build --release -p haltwise-capture --examples` makes the maker.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import common

SQL = """
WITH costs AS (
  SELECT halt_poll_ns h, grow_start_ns s, grow g, shrink k, half,
    sum((poll_ns::HUGEINT + sleeps::HUGEINT * switch_cpu_ns) * 1000
      + latency_ns::HUGEINT * CASE goal WHEN 'density' THEN 0 WHEN 'latency' THEN 10000 ELSE 1000 END) AS milli
  FROM read_parquet('{}/*/*/*.parquet', hive_partitioning = false) WHERE kind = 'grid' GROUP BY ALL)
SELECT h, s, g, k, v.milli::VARCHAR
FROM costs f JOIN costs v USING (h, s, g, k)
WHERE f.half = 'fit' AND v.half = 'validate'
  AND f.milli * 100 <= (SELECT min(milli) FROM costs WHERE half = 'fit') * 102
ORDER BY h, s, g, k LIMIT 1
"""


def timed(words):
    """Seconds, peak in kB and JSON of a command, in a process whose children are this command alone."""
    begun = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(words)}: exit {child.returncode}")
    return time.monotonic() - begun, used.ru_maxrss, json.loads(said)


def by_duckdb(lake):
    """What DuckDB answers, printed: run in a process of its own."""
    import duckdb

    duckdb.sql("SET enable_progress_bar = false")
    begun = time.monotonic()
    row = duckdb.sql(SQL.format(lake)).fetchall()[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"row": row, "seconds": time.monotonic() - begun, "peak_kb": peak}))


def one(args, lake, hosts):
    """A row of the table."""
    subprocess.run([args.maker, lake, str(hosts), str(args.vms)], stdout=subprocess.DEVNULL, check=True)
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(lake) for name in names)
    seconds, peak, said = timed([args.haltwise, "fleet", lake, "--json"])
    row = {"hosts": hosts, "rows": said["read"]["rows"], "bytes": size, "seconds": seconds, "peak_kb": peak}
    try:
        theirs = timed([sys.executable, os.path.abspath(__file__), "--duckdb", lake])[2]
    except SystemExit:
        return row
    names = ["halt_poll_ns", "halt_poll_ns_grow_start", "halt_poll_ns_grow", "halt_poll_ns_shrink"]
    plan = next(plan for plan in said["plans"] if plan["plan"] == "one")
    ours = [said["one"][name] for name in names] + [plan["cost_milli"]]
    if ours != theirs["row"]:
        sys.exit(f"{hosts} hosts: {ours} here and {theirs['row']} by DuckDB")
    return {**row, "duckdb_seconds": theirs["seconds"], "duckdb_peak_kb": theirs["peak_kb"]}


def main():
    maker = "target/release/examples/large_fleet"
    # --duckdb is this script's own: it runs itself in a process whose memory is DuckDB's alone.
    args = common.options(__doc__, maker=maker, hosts="100,1000,10000", vms=28, duckdb="")
    if args.duckdb:
        by_duckdb(args.duckdb)
        return
    rows = []
    print(f"{'hosts':>6} {'rows':>10} {'bytes':>9} {'haltwise':>10} {'peak':>8} {'DuckDB':>10} {'peak':>8}")
    for hosts in (int(text) for text in args.hosts.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            row = one(args, os.path.join(folder, "lake"), hosts)
        rows.append(row)
        shown = lambda name, by, unit: f"{row[name] / by:.1f} {unit}" if name in row else "-"
        print(f"{hosts:6} {row['rows']:10} {row['bytes'] // 1_000_000:6} MB {shown('seconds', 1, 's'):>10} "
              f"{shown('peak_kb', 1024, 'MB'):>8} {shown('duckdb_seconds', 1, 's'):>10} {shown('duckdb_peak_kb', 1024, 'MB'):>8}",
              flush=True)
    common.keep(args, rows)


if __name__ == "__main__":
    main()
