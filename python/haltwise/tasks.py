"""What a Spark task does with its captures. No driver code: workers import it."""

from __future__ import annotations

import json
import os
import re
import tempfile
import urllib.parse
import warnings
from dataclasses import dataclass
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import pyarrow as pa

from . import _native
from .capture import Capture, answer
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

_TYPES = {"string": pa.string(), "bigint": pa.int64(), "array<string>": pa.list_(pa.string())}

#: Names of a capture's files; whatever else a directory holds is not read.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


def _schema(kind: Kind) -> pa.Schema:
    columns = [column.strip().split(" ", 1) for column in kind.schema.split(",")]
    return pa.schema([(name, _TYPES[of]) for name, of in columns])


class Task:
    """What ``mapInArrow`` runs: captures in, rows out. It names its kind, since tasks are sent to other machines."""

    def __init__(self, kind: str, verb: str, options: Dict[str, Any]):
        self.kind, self.verb, self.options = kind, verb, options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kind = _KINDS[self.kind]
        schema = _schema(kind)
        for batch in batches:
            for path, files in zip(batch.column("capture"), batch.column("files")):
                rows = self._rows(kind, path.as_py(), files.as_py())
                yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _rows(self, kind: Kind, capture: str, files: List[Row]) -> List[Row]:
        notes: List[str] = []
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                with _placed(capture, files) as path:
                    # Spark has a task for each CPU already.
                    answered = answer(self.verb, path, threads=1, **self.options)
                    notes = _native.NativeCapture(path).notes()
            if warned and not notes:
                notes = ["data was lost, is damaged or incomplete"]
            rows = list(kind.rows(answered))
        except (Error, OSError) as error:
            return [{"capture": capture, "error": str(error), "notes": notes}]
        return [{"capture": capture, "notes": notes, **row} for row in rows]


@contextmanager
def _placed(capture: str, files: List[Row]) -> Iterator[str]:
    """The directory of a capture on this machine: its own, or a temporary one with the files that Spark carried."""
    if all(file["content"] is None for file in files):
        yield urllib.parse.unquote(urllib.parse.urlsplit(capture).path)
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
