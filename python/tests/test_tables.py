"""Tables: the rows of the capture's files, for whoever takes Arrow streams."""

import contextlib
import json
import warnings

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

import haltwise
from conftest import NAMES


def plain(table):
    """Without dictionaries and without metadata, which readers write in different ways."""
    fields = [
        pyarrow.field(field.name, field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields)).to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_the_rows_of_its_file(captures, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = haltwise.open(captures / name)
    for of, table in capture.tables().items():
        file = captures / name / f"{of}.parquet"
        if not file.exists():
            continue
        read, stored = pyarrow.table(table), pyarrow.parquet.read_table(file)
        # Files of earlier versions lack columns that came later.
        assert plain(read.select(stored.column_names)) == plain(stored), of
        assert table.num_rows == read.num_rows and table.column_names == read.column_names


def test_columns_say_what_they_hold(captures):
    halts = haltwise.open(captures / "bursty").table("halts")
    field = pyarrow.schema(halts).field("halt_ns")
    assert field.metadata[b"unit"] == b"nanoseconds"
    assert field.metadata[b"meaning"].decode() == halts.meanings["halt_ns"]


@pytest.mark.long
def test_every_engine_reads_the_same(captures):
    import duckdb
    import polars

    halts = haltwise.open(captures / "fleet").table("halts")
    expected = sum(row["halt_ns"] for row in pyarrow.table(halts).to_pylist())
    assert expected > 0
    assert polars.DataFrame(halts)["halt_ns"].sum() == expected
    assert halts.to_pandas().halt_ns.sum() == expected
    assert duckdb.sql("SELECT sum(halt_ns)::BIGINT FROM halts").fetchall() == [(expected,)]


@pytest.mark.long
def test_every_engine_reads_the_files_as_they_are(captures):
    import duckdb
    import pandas
    import polars

    file = str(captures / "fleet/halts.parquet")
    expected = pyarrow.parquet.read_table(file)["halt_ns"].to_pylist()
    assert expected
    assert pandas.read_parquet(file).halt_ns.tolist() == expected
    assert polars.read_parquet(file)["halt_ns"].to_list() == expected
    assert [row[0] for row in duckdb.sql(f"SELECT halt_ns FROM '{file}'").fetchall()] == expected


def test_the_stream_of_a_recording_that_was_cut_is_read_as_it_is(captures):
    stream = pyarrow.ipc.open_stream(captures / "cut/halts.arrows")
    batches = []
    with contextlib.suppress(StopIteration, pyarrow.ArrowInvalid):
        while True:
            batches.append(stream.read_next_batch())
    read = pyarrow.Table.from_batches(batches, stream.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recovered = pyarrow.table(haltwise.open(captures / "cut").table("halts"))
    assert read.num_rows > 0
    assert recovered["halt_ns"].to_pylist() == read["halt_ns"].to_pylist()


def test_a_table_that_was_not_recorded_has_no_rows(captures):
    capture = haltwise.open(captures / "bursty")
    assert "samples" not in capture.tables()
    assert pyarrow.table(capture.table("samples")).num_rows == 0


def test_damage_in_a_table_is_an_error_with_its_place(captures, tmp_path):
    for file in (captures / "bursty").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    halts = tmp_path / "halts.parquet"
    stored = halts.read_bytes()
    halts.write_bytes(stored[:4] + bytes(400) + stored[404:])
    capture = haltwise.open(tmp_path)
    with pytest.raises(Exception, match="halts.parquet"):
        pyarrow.table(capture.table("halts"))


def test_capture_json_is_there(captures):
    capture = haltwise.open(captures / "bursty")
    stored = json.loads((captures / "bursty" / "capture.json").read_text())
    assert capture.info["host"] == stored["host"] and capture.info["clock"] == stored["clock"]
