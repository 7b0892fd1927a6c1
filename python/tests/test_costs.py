"""Costs tables: the package's are the program's, and every way of adding them up gives the same, to the unit."""

import shutil

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

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
    _, expected, _ = answer_of("fleet", "show", lake, "--by", "kernel,class", "--goal", "latency")
    assert haltwise.best(lake, by=["kernel", "class"], goal="latency") == expected
    costs = [haltwise.open(path).costs(classes=CLASSES) for path in sorted(fleet.iterdir())]
    mine = haltwise.best(costs, by="kernel,class", goal="latency")
    assert mine["cohorts"] == expected["cohorts"] and mine["plans"] == expected["plans"]


def test_a_table_of_another_grid_and_one_with_a_row_twice_are_no_hosts(lake, tmp_path):
    for host in sorted(lake.iterdir())[:9]:
        shutil.copytree(host, tmp_path / host.name)
    alone = haltwise.best(tmp_path)
    assert alone["read"]["hosts"] == alone["read"]["tables"] == 9
    rows = pyarrow.parquet.read_table(next((tmp_path / "host=host-000").rglob("*.parquet")), partitioning=None)

    def named(table, **texts):
        for name, text in texts.items():
            at = table.column_names.index(name)
            table = table.set_column(at, name, pyarrow.array([text] * table.num_rows))
        return table

    pyarrow.parquet.write_table(named(rows, host="other", grid="kvm-0"), tmp_path / "other.parquet")
    twice = pyarrow.concat_tables([named(rows, host="twice"), named(rows.slice(5, 1), host="twice")])
    pyarrow.parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.warns(haltwise.DamageWarning):
        said = haltwise.best(tmp_path)
    other, repeated = sorted(said["read"]["refused"])
    assert "other.parquet" in other and f"none of its {rows.num_rows} rows is of the grid kvm-1" in other
    assert "twice.parquet" in repeated and "more than once" in repeated
    assert {**said["read"], "refused": []} == alone["read"] and said["plans"] == alone["plans"]


def test_sql_adds_up_what_fleet_adds_up(lake):
    plans = {plan["plan"]: int(plan["cost_milli"]) for plan in haltwise.best(lake, goal="balanced")["plans"]}
    query = f"""
        SELECT kind, sum(1000 * (poll_ns::HUGEINT + sleeps * switch_cpu_ns + latency_ns))
        FROM read_parquet('{lake}/**/*.parquet', hive_partitioning=false)
        WHERE half = 'validate' AND kind IN ('in-force', 'default') GROUP BY kind
    """
    summed = {kind: int(cost) for kind, cost in duckdb.sql(query).fetchall()}
    assert summed == {kind: plans[kind] for kind in ("in-force", "default")}
