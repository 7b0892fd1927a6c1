"""Costs tables: what every setting of a grid would have cost each VM of a capture, as sums that add up over a fleet."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from . import _native
from .capture import Path, Result, answer


class Costs:
    """A costs table (``docs/costs-format.md``): a file, and its rows as an Arrow stream."""

    def __init__(self, path: Path):
        self._path = os.fspath(path)
        self._table = _native.Table.of_costs(self._path)
        self._keeps: Optional[tempfile.TemporaryDirectory[str]] = None

    @classmethod
    def of(cls, capture: str, output: Optional[Path], **options: Any) -> Costs:
        """That of a capture: ``haltwise fleet add``. Without ``output`` its file is temporary, and goes with this object."""
        keeps = None
        if output is None:
            keeps = tempfile.TemporaryDirectory(prefix="haltwise-")
            output = os.path.join(keeps.name, "costs.parquet")
        threads = options.pop("threads", 0)
        answer("fleet add", capture, threads=threads, output=output, **options)
        costs = cls(output)
        costs._keeps = keeps
        return costs

    def __repr__(self) -> str:
        return f"<haltwise.Costs {self._path!r}>"

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def table(self) -> _native.Table:
        """The rows, with what each column holds."""
        return self._table

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def named_options(
    *,
    labels: Optional[Dict[str, str]] = None,
    classes: Optional[Dict[str, str]] = None,
    goals: Optional[Dict[str, str]] = None,
    **options: Any,
) -> Dict[str, Any]:
    """Options of :meth:`haltwise.Capture.costs`, as the verb's are called."""
    return {"label": _pairs(labels), "class": _pairs(classes), "goal": _pairs(goals), **options}


def _pairs(given: Optional[Dict[str, str]]) -> List[str]:
    return [f"{name}={value}" for name, value in (given or {}).items()]


def best(
    tables: Union[Path, Costs, Iterable[Union[Path, Costs]]],
    *,
    by: Union[str, Sequence[str]] = "kernel",
    goal: Optional[str] = None,
    hosts: Optional[int] = None,
    watts_per_cpu: Optional[float] = None,
    price_per_cpu_year: Optional[float] = None,
    threads: int = 0,
) -> Result:
    """What many hosts should set, from their costs tables: ``haltwise fleet show --json``.

    ``tables`` are files, directories of such (a lake), and what :meth:`haltwise.Capture.costs` gives. ``by`` says which
    VMs are put together: ``kernel``, ``cpu``, ``arch``, ``host``, ``vmm``, ``class``, ``goal``, ``label:KEY``.
    """
    several = [tables] if isinstance(tables, (str, os.PathLike, Costs)) else list(tables)
    paths = [it.path if isinstance(it, Costs) else os.fspath(it) for it in several]
    return answer(
        "fleet show",
        *paths,
        threads=threads,
        by=by if isinstance(by, str) else ",".join(by),
        goal=goal,
        hosts=hosts,
        watts_per_cpu=watts_per_cpu,
        price_per_cpu_year=price_per_cpu_year,
    )
