"""What a Spark task does with its captures. No driver code: workers import it."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from . import _native
from .capture import answer
from .costs import Costs, best
from .errors import Error

Row = Dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Rows of one kind: their columns for Spark, and how an answer of a verb becomes rows."""

    name: str
    columns: str
    rows: Callable[[Dict[str, Any]], Iterable[Row]]

    @property
    def schema(self) -> str:
        """The columns of the result, as Spark writes them."""
        return f"capture string, {self.columns}, error string, notes array<string>"


_PARTS = ["poll_success_ns", "poll_fail_ns", "sleep_ns", "wake_latency_ns", "turned_back_ns", "unknown_ns"]
_POLLS = ["known", "polled", "successful", "failed"]
_WHOLE = ["vcpus", "span_ns", "halts", "waits", "halted_ns"]


def _accounts(report: Dict[str, Any]) -> Iterator[Row]:
    host = {"host": report["host"]["name"], "kernel": report["host"]["kernel"]}
    unplaced = [{"name": None, "vmm": None, "account": report["unplaced"]}] if report["unplaced"] else []
    for vm in report["vms"] + unplaced:
        account = vm["account"]
        row = {**host, "vm": vm["name"], "vmm": vm["vmm"]}
        row.update((name, account[name]) for name in _WHOLE)
        row.update((name, account["parts"][name]) for name in _PARTS)
        row.update((f"polls_{name}", account["poll"][name]) for name in _POLLS)
        yield row


def _verified(view: Dict[str, Any]) -> Iterator[Row]:
    yield {
        "kernel": view["rule"]["kernel"],
        "halts": view["halts"],
        "checked": view["checked"],
        "differences": view["differences"],
    }


def _numbers(names: Iterable[str]) -> str:
    return ", ".join(f"{name} bigint" for name in names)


ACCOUNTS = Kind(
    "accounts",
    "host string, kernel string, vm string, vmm string, "
    + _numbers([*_WHOLE, *_PARTS, *(f"polls_{name}" for name in _POLLS)]),
    _accounts,
)
VERIFIED = Kind("verified", "kernel string, " + _numbers(["halts", "checked", "differences"]), _verified)
ANSWERS = Kind("answers", "answer string", lambda answered: [{"answer": json.dumps(answered)}])

_KINDS = {kind.name: kind for kind in (ACCOUNTS, VERIFIED, ANSWERS)}

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
}

#: What Spark calls the types of a costs table: it has no unsigned numbers.
_KINDS_OF_COSTS = {"uint32": "bigint", "uint64": "bigint", "string": "string", "list of uint64": "array<bigint>"}

#: Columns of a costs table.
COSTS = {name: _KINDS_OF_COSTS[kind] for name, kind in _native.costs_columns()}

#: Columns beside them: where a row is from, and why there are no others.
COSTS_SCHEMA = "capture string, " + ", ".join(f"{name} {of}" for name, of in COSTS.items()) + ", error string"

_SETTING = ["halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_grow_start", "halt_poll_ns_shrink"]

#: Columns of what is best for a cohort.
BEST_SCHEMA = (
    "cohort string, hosts bigint, vms bigint, halts bigint, "
    + _numbers(_SETTING)
    + ", verdict string, gain double, gain_low double, gain_high double, now_per_halt_ns double, "
    "cost_per_halt_ns double, capture string, error string"
)

#: Names of a capture's files; whatever else a directory holds is not read.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


def _schema(columns: str) -> pa.Schema:
    pairs = [column.strip().split(" ", 1) for column in columns.split(",")]
    return pa.schema([(name, _TYPES[of]) for name, of in pairs])


@dataclass(frozen=True)
class Carried:
    """A capture as Spark hands it over: its files, with their contents if it carries them."""

    path: str
    files: List[Row]
    #: Its bytes, if they are too many to be carried.
    too_large: Optional[int]


def _each(batches: Iterable[pa.RecordBatch]) -> Iterator[Carried]:
    """The captures of what Spark hands over, and their files."""
    for batch in batches:
        for path, files, too_large in zip(*(batch.column(name) for name in ("capture", "files", "too_large"))):
            yield Carried(path.as_py(), files.as_py(), too_large.as_py())


class Task:
    """What ``mapInArrow`` runs: captures in, rows out. It names its kind, since tasks are sent to other machines."""

    def __init__(self, kind: str, verb: str, options: Dict[str, Any]):
        self.kind, self.verb, self.options = kind, verb, options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kind = _KINDS[self.kind]
        schema = _schema(kind.schema)
        for carried in _each(batches):
            yield pa.RecordBatch.from_pylist(self._rows(kind, carried), schema=schema)

    def _rows(self, kind: Kind, carried: Carried) -> List[Row]:
        capture = carried.path
        notes: List[str] = []
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                with _placed(carried) as path:
                    # Spark has a task for each CPU already.
                    answered = answer(self.verb, path, threads=1, **self.options)
                    notes = _native.NativeCapture(path).notes()
            if warned and not notes:
                notes = ["data was lost, is damaged or incomplete"]
            rows = list(kind.rows(answered))
        except (Error, OSError) as error:
            return [{"capture": capture, "error": str(error), "notes": notes}]
        return [{"capture": capture, "notes": notes, **row} for row in rows]


class CostsTask:
    """What ``mapInArrow`` runs for costs tables: captures in, their tables out."""

    def __init__(self, options: Dict[str, Any]):
        self.options = options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = _schema(COSTS_SCHEMA)
        for carried in _each(batches):
            capture = carried.path
            try:
                with warnings.catch_warnings(), _placed(carried) as path:
                    # That events were lost is no reason to leave the others out.
                    warnings.simplefilter("ignore")
                    table = pa.table(Costs.of(path, None, threads=1, **self.options))
            except (Error, OSError) as error:
                row = {"capture": capture, "error": str(error)}
                yield pa.RecordBatch.from_pylist([row], schema=schema)
                continue
            rows = table.num_rows
            columns = [table.column(name).cast(schema.field(name).type) for name in COSTS]
            columns = [pa.array([capture] * rows), *columns, pa.nulls(rows, pa.string())]
            yield from pa.table(columns, schema=schema).to_batches()


def best_of(table: pa.Table, by: List[str], options: Dict[str, Any]) -> pa.Table:
    """What is best for the cohorts of some rows of costs tables."""
    schema = _schema(BEST_SCHEMA)
    errors = table.column("error").to_pylist()
    if errors and errors[0] is not None:
        rows = [{"capture": capture, "error": errors[0]} for capture in table.column("capture").to_pylist()]
        return pa.Table.from_pylist(rows, schema=schema)
    captures = table.column("capture").unique()
    with tempfile.TemporaryDirectory(prefix="haltwise-") as directory:
        # A file each, since a table is refused as a whole.
        for number, capture in enumerate(captures):
            of_capture = table.filter(pc.equal(table.column("capture"), capture)).select(list(COSTS))
            pyarrow.parquet.write_table(of_capture, os.path.join(directory, f"{number}.parquet"))
        try:
            with warnings.catch_warnings():
                # What is refused has rows of its own.
                warnings.simplefilter("ignore")
                result = best(directory, by=by, threads=1, **options)
        except Error as error:
            return pa.Table.from_pylist([{"error": str(error)}], schema=schema)
    rows = [_of_cohort(cohort) for cohort in result["cohorts"]]
    rows += [_refused(text, captures) for text in result["read"]["refused"]]
    return pa.Table.from_pylist(rows, schema=schema)


def _refused(text: str, captures: pa.Array) -> Row:
    """A table that was refused, by the capture of which it is."""
    number = re.search(r"/(\d+)\.parquet", text)
    return {"capture": captures[int(number[1])].as_py() if number else None, "error": text}


def _of_cohort(cohort: Row) -> Row:
    gain = cohort["gain"]
    return {**cohort, "gain": gain["value"], "gain_low": gain["low"], "gain_high": gain["high"]}


@contextmanager
def _placed(carried: Carried) -> Iterator[str]:
    """The directory of a capture on this machine: its own, or a temporary one with the files that Spark carried."""
    capture, files = carried.path, carried.files
    if carried.too_large is not None:
        raise OSError(
            f"the capture has {carried.too_large:,} bytes, and Spark carries no more than 2 GB of one: mount its file "
            "system on all workers and name it with fetch=False, or record in segments (`haltwise record --keep`)"
        )
    if all(file["content"] is None for file in files):
        # As Hadoop writes a path: nothing in it is encoded.
        yield re.sub(r"^file:(//(?=/))?", "", capture)
        return
    with tempfile.TemporaryDirectory(prefix="haltwise-") as directory:
        path = os.path.join(directory, "capture")
        if capture.endswith(".tar"):
            _native.unpack(files[0]["content"], path)
        else:
            os.mkdir(path, 0o700)
            for file in files:
                if _NAME.fullmatch(file["name"]):
                    with open(os.path.join(path, file["name"]), "xb") as to:
                        to.write(file["content"])
        yield path
