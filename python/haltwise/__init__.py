"""haltwise: what halts and VM exits cost KVM virtual machines.

``haltwise.open(path)`` opens a capture, written by ``haltwise record``. Its tables are Arrow streams, which pyarrow,
Polars, pandas and DuckDB take without copies; ``account()``, ``replay()``, ``tune()`` and ``verify()`` answer what the
program's verbs print with ``--json``. ``haltwise.spark`` does the same for a fleet.
"""

from __future__ import annotations

from ._native import Table
from .capture import Capture, open, unpacked
from .costs import Costs, best
from .errors import (
    DamageError,
    DamageWarning,
    DeniedError,
    Error,
    UnsupportedError,
    UsageError,
)

__all__ = [
    "Capture",
    "Costs",
    "DamageError",
    "DamageWarning",
    "DeniedError",
    "Error",
    "Table",
    "UnsupportedError",
    "UsageError",
    "best",
    "open",
    "unpacked",
]
