#!/usr/bin/env python3
"""Reads a capture as pandas, DuckDB and Polars users would, and compares with what was written.

    read_capture.py COMPLETE CUT EXPECTED

COMPLETE is a finished capture, CUT the same one while recording, EXPECTED the expected figures as
JSON. A package that is not installed is skipped with a line that says so. To run it by hand, give
the test suite an interpreter that has them:

    python3 -m venv venv && venv/bin/pip install duckdb polars pandas pyarrow
    HALTWISE_PYTHON=venv/bin/python cargo test -p haltwise-capture python -- --nocapture
"""

import importlib
import json
import sys

TABLES = ["halts", "window_changes", "halt_counts", "knobs", "host_samples", "lost", "vms", "vcpus"]


def check(who, figure, found, expected):
    if found != expected[figure]:
        sys.exit(f"{who}: {figure} is {found!r}, not {expected[figure]!r}")


def with_pandas(complete, cut, expected):
    import pandas as pd

    pyarrow_ipc = importlib.import_module("pyarrow.ipc")
    halts = pd.read_parquet(f"{complete}/halts.parquet")
    with pyarrow_ipc.open_stream(f"{cut}/halts.arrows") as stream:
        recording = stream.read_pandas()
    for frame in (halts, recording):
        check("pandas", "rows", len(frame), expected)
        check("pandas", "halt_ns", int(frame.halt_ns.sum()), expected)
        check("pandas", "start_ns_max", int(frame.start_ns.max()), expected)
        check("pandas", "timers", int((frame.wake == "timer").sum()), expected)
        check("pandas", "waited", int(frame.waited.sum()), expected)
        check("pandas", "poll_ns_nulls", int(frame.poll_ns.isna().sum()), expected)
        check("pandas", "change", str(frame.change.iloc[0]), expected)
    counts = pd.read_parquet(f"{complete}/halt_counts.parquet")
    check("pandas", "hist", [int(n) for n in counts.halt_ns_hist.iloc[0]], expected)
    named = halts.merge(pd.read_parquet(f"{complete}/vms.parquet"), on="vm")
    check("pandas", "vm_name", str(named.name.iloc[0]), expected)
    for table in TABLES:
        pd.read_parquet(f"{complete}/{table}.parquet")
    return f"pandas {pd.__version__}"


def with_duckdb(complete, _cut, expected):
    import duckdb

    figures = duckdb.sql(
        f"""
        select count(*), sum(halt_ns)::ubigint, max(start_ns), count(*) filter (wake = 'timer'),
               count(*) filter (waited), count(*) filter (poll_ns is null)
        from '{complete}/halts.parquet'
        """
    ).fetchall()[0]
    names = ["rows", "halt_ns", "start_ns_max", "timers", "waited", "poll_ns_nulls"]
    for name, found in zip(names, figures):
        check("duckdb", name, found, expected)
    hist = duckdb.sql(f"select halt_ns_hist from '{complete}/halt_counts.parquet'").fetchall()[0][0]
    check("duckdb", "hist", hist, expected)
    joined = f"select name from '{complete}/halts.parquet' join '{complete}/vms.parquet' using (vm)"
    check("duckdb", "vm_name", duckdb.sql(joined).fetchall()[0][0], expected)
    for table in TABLES:
        duckdb.sql(f"select * from '{complete}/{table}.parquet'").fetchall()
    return f"duckdb {duckdb.__version__}"


def with_polars(complete, cut, expected):
    import polars as pl

    for frame in (pl.read_parquet(f"{complete}/halts.parquet"), pl.read_ipc_stream(f"{cut}/halts.arrows")):
        check("polars", "rows", frame.height, expected)
        check("polars", "halt_ns", frame["halt_ns"].sum(), expected)
        check("polars", "start_ns_max", frame["start_ns"].max(), expected)
        check("polars", "timers", frame.filter(pl.col("wake") == "timer").height, expected)
        check("polars", "waited", frame["waited"].sum(), expected)
        check("polars", "poll_ns_nulls", frame["poll_ns"].null_count(), expected)
        check("polars", "change", frame["change"][0], expected)
    counts = pl.read_parquet(f"{complete}/halt_counts.parquet")
    check("polars", "hist", counts["halt_ns_hist"][0].to_list(), expected)
    for table in TABLES:
        pl.read_parquet(f"{complete}/{table}.parquet")
    return f"polars {pl.__version__}"


def main():
    complete, cut, expected = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    readers = [
        (with_pandas, ["pandas", "pyarrow"]),
        (with_duckdb, ["duckdb"]),
        (with_polars, ["polars"]),
    ]
    for reader, packages in readers:
        try:
            for package in packages:
                importlib.import_module(package)
        except ImportError as error:
            print(f"skipped: {error}")
            continue
        print(f"read by {reader(complete, cut, expected)}")


main()
