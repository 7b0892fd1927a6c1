"""200 captures, five ways: a plain loop over them, the program over its tables, SQL, Spark with one and with two tasks at a
time. Each adds up the costs of every setting, and all have the same sums, to the unit."""

import shutil
from collections import Counter

import duckdb
import pyarrow
import pytest

import haltwise
from conftest import CLASSES, ROOT, spark_session

#: What a setting is, and on which half.
SETTING = ["kind", "halt_poll_ns", "grow", "grow_start_ns", "shrink", "half"]

SUMS = ["halts", "sleeps", "failed_polls", "poll_ns", "latency_ns", "halt_ns"]

#: What halts cost where latency counts as much as CPU time, in thousandths of a nanosecond, as `fleet` counts.
COST = "1000 * (poll_ns + sleeps * switch_cpu_ns + latency_ns)"


def cost(row):
    return 1000 * (row["poll_ns"] + row["sleeps"] * row["switch_cpu_ns"] + row["latency_ns"])


@pytest.fixture(scope="module")
def looped(fleet):
    """The sums of a plain loop: by setting and half, a tuple of numbers."""
    sums = {}
    for path in sorted(fleet.iterdir()):
        table = pyarrow.table(haltwise.open(path).costs(classes=CLASSES))
        for row in table.select([*SETTING, *SUMS, "switch_cpu_ns"]).to_pylist():
            of = sums.setdefault(tuple(row[name] for name in SETTING), Counter())
            of.update({name: row[name] for name in SUMS}, cost=cost(row))
    return {setting: tuple(of[name] for name in [*SUMS, "cost"]) for setting, of in sums.items()}


def by_setting(rows):
    """Rows of a query: the setting, then its sums."""
    at = len(SETTING)
    return {tuple(row[:at]): tuple(int(number) for number in row[at:]) for row in rows}


def test_there_are_200_captures_and_all_settings(fleet, looped):
    assert len(list(fleet.iterdir())) == 200
    grid = {setting for setting in looped if setting[0] == "grid"}
    assert len(grid) == 2 * 65
    assert {setting[0] for setting in looped} == {
        "recorded",
        "in-force",
        "default",
        "grid",
        "oracle-density",
        "oracle-balanced",
        "oracle-latency",
    }


def test_the_program_adds_up_what_a_loop_adds_up(lake, answer_of, looped):
    _, said, _ = answer_of("fleet", "show", lake, "--goal", "balanced")
    plans = {plan["plan"]: int(plan["cost_milli"]) for plan in said["plans"]}

    def of(kind, half="validate"):
        return sum(sums[-1] for setting, sums in looped.items() if (setting[0], setting[-1]) == (kind, half))

    assert plans["in-force"] == of("in-force") and plans["default"] == of("default")
    assert plans["bound"] == of("oracle-balanced")
    fit = {setting: sums[-1] for setting, sums in looped.items() if (setting[0], setting[-1]) == ("grid", "fit")}
    best = min(fit, key=fit.get)
    names = ["halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_grow_start", "halt_poll_ns_shrink"]
    assert tuple(said["one"][name] for name in names) == best[1:5]
    judged = looped[(*best[:-1], "validate")]
    assert (said["read"]["halts"], plans["one"]) == (judged[0], judged[-1])


def test_sql_adds_up_what_a_loop_adds_up(lake, looped):
    sums = ", ".join(f"sum({of})" for of in [*SUMS, COST])
    query = f"""
        SELECT {", ".join(SETTING)}, {sums} FROM read_parquet('{lake}/**/*.parquet', hive_partitioning=false)
        WHERE grid = 'kvm-1' GROUP BY ALL
    """
    assert by_setting(duckdb.sql(query).fetchall()) == looped


def test_the_sql_of_the_documentation_finds_the_cheapest(lake, looped, monkeypatch):
    sql = (ROOT / "docs/costs-format.md").read_text().split("```sql\n")[1].split("```")[0]
    monkeypatch.chdir(lake.parent)
    found = duckdb.sql(sql.replace("lake/", f"{lake.name}/")).fetchall()
    fit = {setting: sums[-1] for setting, sums in looped.items() if (setting[0], setting[-1]) == ("grid", "fit")}
    assert len(found) == 5 and tuple(found[0][:4]) == min(fit, key=fit.get)[1:5]


@pytest.mark.skipif(not shutil.which("java"), reason="java is not installed")
@pytest.mark.parametrize("master", ["local[1]", "local[2]"])
def test_spark_adds_up_what_a_loop_adds_up(fleet, lake, looped, master):
    from pyspark.sql import functions as F

    from haltwise import spark as fleet_of

    with spark_session(master) as spark:
        played = fleet_of.costs(fleet_of.captures(spark, str(fleet)), classes=CLASSES)
        for costs in (played, fleet_of.costs_tables(spark, str(lake))):
            rows = costs.groupBy(*SETTING).agg(*(F.sum(F.expr(of)) for of in [*SUMS, COST])).collect()
            assert by_setting(rows) == looped
