"""Spark: a plain loop, SQL over the tables and Spark's tasks give the same sums, to the unit."""

import os
import shutil
import signal

import pytest

if not shutil.which("java"):
    pytest.skip("java is not installed", allow_module_level=True)

import duckdb
import pyarrow.parquet

import haltwise
from conftest import CLASSES, spark_session
from haltwise import spark as fleet_of, tasks

SUMS = ["halts", "halted_ns", "poll_success_ns", "poll_fail_ns", "sleep_ns", "polls_failed"]


@pytest.fixture(scope="module")
def spark():
    # A task may fail three times.
    with spark_session("local[2,4]") as session:
        yield session


@pytest.fixture(scope="module")
def looped(fleet):
    """The sums of a plain loop."""
    rows = []
    for path in sorted(fleet.iterdir()):
        rows += tasks.ACCOUNTS.rows(haltwise.open(path).account())
    return [sum(row[name] for row in rows) for name in SUMS]


def sums(frame):
    rows = frame.collect()
    assert not [row.error for row in rows if row.error]
    return [sum(row[name] for row in rows) for name in SUMS]


def test_spark_sums_what_a_loop_sums(spark, fleet, looped):
    assert sums(fleet_of.accounts(fleet_of.captures(spark, str(fleet)))) == looped


def test_sql_sums_what_a_loop_sums(fleet, looped):
    halts, halted = 0, 0
    for path in sorted(fleet.iterdir()):
        rows = haltwise.open(path).table("halts")
        counted = duckdb.sql("SELECT count(*), sum(halt_ns)::BIGINT FROM rows").fetchall()[0]
        halts, halted = halts + counted[0], halted + counted[1]
    assert [halts, halted] == looped[:2]


def test_files_that_spark_carries_give_the_same(spark, fleet, looped, tmp_path):
    few = sorted(fleet.iterdir())[:3]
    shutil.copytree(few[0], tmp_path / "deep" / "down" / few[0].name)
    shutil.copytree(few[1], tmp_path / few[1].name)
    (tmp_path / "packed.tar").write_bytes(haltwise.open(few[2]).pack())
    (tmp_path / "no-capture").mkdir()
    (tmp_path / "no-capture" / "other.parquet").write_bytes(b"")
    here = fleet_of.captures(spark, [str(path) for path in few])
    carried = fleet_of.captures(spark, str(tmp_path), fetch=True)
    assert carried.count() == 3
    assert sums(fleet_of.accounts(carried)) == sums(fleet_of.accounts(here))


def test_a_capture_that_cannot_be_read_costs_no_other(spark, fleet, tmp_path):
    shutil.copytree(sorted(fleet.iterdir())[0], tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "capture.json").write_text("{")
    rows = fleet_of.verify(fleet_of.captures(spark, str(tmp_path))).collect()
    good, bad = (next(row for row in rows if row.capture.endswith(name)) for name in ("good", "bad"))
    assert good.error is None and good.checked > 0 and good.differences == 0
    assert bad.checked is None and "capture.json" in bad.error


def test_a_worker_that_is_killed_changes_nothing(spark, fleet, looped, tmp_path):
    marker = str(tmp_path / "killed")
    task = tasks.Task("accounts", "report", {})

    def killed_once(batches):
        for number, batch in enumerate(task(batches)):
            if number == 1 and not os.path.exists(marker):
                open(marker, "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    captures = fleet_of.captures(spark, str(fleet), partitions=2)
    assert sums(captures.mapInArrow(killed_once, tasks.ACCOUNTS.schema)) == looped
    assert os.path.exists(marker)


def test_a_capture_that_is_too_large_to_be_carried_is_an_error_of_its_own(spark, fleet, tmp_path):
    shutil.copytree(sorted(fleet.iterdir())[0], tmp_path / "good")
    shutil.copytree(sorted(fleet.iterdir())[1], tmp_path / "large")
    with open(tmp_path / "large" / "samples.parquet", "xb") as file:
        # All hole: nothing is written, and nothing must read it.
        file.truncate(3 << 30)
    for of in (fleet_of.accounts, fleet_of.costs):
        rows = of(fleet_of.captures(spark, str(tmp_path), fetch=True)).collect()
        large = [row for row in rows if row.capture.endswith("large")]
        assert len(large) == 1 and "2 GB" in large[0].error, large
        assert {row.error for row in rows if row.capture.endswith("good")} == {None}
    # Where it lies, it is read like any other: its table has no footer, which is what is said then.
    rows = fleet_of.answers(fleet_of.captures(spark, str(tmp_path)), "check").collect()
    assert len(rows) == 2 and not any("2 GB" in (row.error or "") for row in rows)


def test_the_command_line_writes_parquet(spark, fleet, looped, tmp_path):
    fleet_of.main(["accounts", str(fleet), "-o", str(tmp_path / "out")])
    assert sums(spark.read.parquet(str(tmp_path / "out"))) == looped


def test_the_program_reads_costs_that_spark_wrote(spark, fleet, tmp_path):
    capture = sorted(fleet.iterdir())[0]
    fleet_of.main(["costs", str(capture), "-o", str(tmp_path / "spark")])
    own = haltwise.open(capture).costs()
    ours, theirs = (haltwise.best(path) for path in (own.path, tmp_path / "spark"))
    assert theirs["plans"] == ours["plans"] and theirs["read"]["rows"] == ours["read"]["rows"] > 0


def settings_of(cohorts):
    names = ["halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_grow_start", "halt_poll_ns_shrink", "halts"]
    return {cohort["cohort"]: [cohort[name] for name in [*names, "now_per_halt_ns"]] for cohort in cohorts}


def test_a_cohort_has_the_setting_that_the_program_gives_it(spark, fleet, lake):
    expected = settings_of(haltwise.best(lake, by="kernel,class")["cohorts"])
    assert len(expected) > 2
    tables = fleet_of.costs(fleet_of.captures(spark, str(fleet)), classes=CLASSES)
    for costs in (tables, fleet_of.costs_tables(spark, str(lake))):
        rows = fleet_of.tune(costs, "kernel,class").collect()
        assert not [row.error for row in rows if row.error]
        assert settings_of(rows) == expected


def test_a_host_whose_table_is_refused_costs_its_cohort_no_other(spark, lake, tmp_path):
    first, second = sorted(lake.iterdir())[:2]
    shutil.copytree(first, tmp_path / first.name)
    expected = settings_of(haltwise.best(tmp_path)["cohorts"])
    file = next(shutil.copytree(second, tmp_path / second.name).rglob("*.parquet"))
    table = pyarrow.parquet.read_table(file, partitioning=None)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, table.slice(0, 1)]), file)
    rows = fleet_of.tune(fleet_of.costs_tables(spark, str(tmp_path))).collect()
    (refused,) = [row for row in rows if row.error]
    assert refused.capture.endswith(file.name) and "more than once" in refused.error
    assert settings_of(row for row in rows if not row.error) == expected


def test_directories_are_called_whatever_they_are_called(spark, fleet, tmp_path):
    path = tmp_path / "run#1 a%20b"
    shutil.copytree(sorted(fleet.iterdir())[0], path / "host")
    frame = fleet_of.accounts(fleet_of.captures(spark, str(path)))
    rows = frame.collect()
    assert rows and not [row.error for row in rows if row.error]
