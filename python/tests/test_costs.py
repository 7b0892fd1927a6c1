"""Costs tables: the package's are the program's, and every way of adding them up gives the same, to the unit."""

import duckdb
import pyarrow

import haltwise
from conftest import CLASSES


def rows(table):
    return pyarrow.table(table).to_pylist()


def test_a_table_is_the_one_that_the_program_writes(fleet, lake):
    path = sorted(fleet.iterdir())[0]
    written = next((lake / f"host={path.name}").rglob("*.parquet"))
    costs = haltwise.open(path).costs(classes=CLASSES)
    assert rows(costs) == rows(haltwise.Costs(written)) != []
    assert pyarrow.table(costs).column_names == costs.table.column_names
    assert "NULL" not in costs.table.meanings["sleeps"]


def test_the_best_setting_is_the_one_of_the_program(fleet, lake, answer_of):
    _, expected, _ = answer_of("fleet", lake, "--by", "kernel,class", "--goal", "latency")
    assert haltwise.best(lake, by=["kernel", "class"], goal="latency") == expected
    costs = [haltwise.open(path).costs(classes=CLASSES) for path in sorted(fleet.iterdir())]
    mine = haltwise.best(costs, by="kernel,class", goal="latency")
    assert mine["cohorts"] == expected["cohorts"] and mine["plans"] == expected["plans"]


def test_sql_adds_up_what_fleet_adds_up(lake):
    plans = {plan["plan"]: int(plan["cost_milli"]) for plan in haltwise.best(lake, goal="balanced")["plans"]}
    query = f"""
        SELECT kind, sum(1000 * (poll_ns::HUGEINT + sleeps * switch_cpu_ns + latency_ns))
        FROM read_parquet('{lake}/**/*.parquet', hive_partitioning=false)
        WHERE half = 'validate' AND kind IN ('in-force', 'default') GROUP BY kind
    """
    summed = {kind: int(cost) for kind, cost in duckdb.sql(query).fetchall()}
    assert summed == {kind: plans[kind] for kind in ("in-force", "default")}
