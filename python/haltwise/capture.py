"""A capture: its tables, and what the program's verbs answer about it."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Union

from . import _native
from .errors import DamageWarning

if TYPE_CHECKING:
    from .costs import Costs

Path = Union[str, "os.PathLike[str]"]
Result = Dict[str, Any]

#: The program's exit code for a result from which data are missing.
_PARTIAL = 5


def open(path: Path) -> Capture:
    """Open a capture: a directory that ``haltwise record`` or ``haltwise import`` wrote, or a ring of them.

    Warns with :class:`~haltwise.DamageWarning` if it is damaged, cut, or lacks something; :attr:`Capture.notes` has
    the same texts.
    """
    return Capture(path)


@contextmanager
def unpacked(packed: bytes) -> Iterator[Capture]:
    """Open a capture from the bytes of an archive (``haltwise record -o -``, :meth:`Capture.pack`).

    It lies in a temporary directory until the ``with`` block ends.
    """
    with tempfile.TemporaryDirectory(prefix="haltwise-") as directory:
        path = os.path.join(directory, "capture")
        _native.unpack(packed, path)
        yield Capture(path)


class Capture:
    """A capture that was opened. Results are those of the verbs' ``--json``, field by field (``docs/json.md``)."""

    def __init__(self, path: Path):
        self._path = os.fspath(path)
        self._native = _native.NativeCapture(self._path)
        for note in self.notes:
            warnings.warn(f"{self._path}: {note}", DamageWarning, stacklevel=3)

    def __repr__(self) -> str:
        return f"<haltwise.Capture {self._path!r}>"

    @property
    def path(self) -> str:
        """The directory, as it was named."""
        return self._path

    @property
    def notes(self) -> List[str]:
        """What must be known about it: damage, losses, and rows that were left out of tables read so far."""
        return self._native.notes()

    @property
    def info(self) -> Result:
        """``capture.json``: who recorded what, where and how (``docs/capture-format.md``)."""
        info: Result = json.loads(self._native.info())
        return info

    def tables(self) -> Dict[str, _native.Table]:
        """The tables by name, in the order of ``docs/capture-format.md``."""
        return {table.name: table for table in self._native.tables()}

    def table(self, name: str) -> _native.Table:
        """A table by name; one that was not recorded has no rows."""
        return self._native.table(name)

    def account(self, *, vm: Optional[str] = None) -> Result:
        """Where the halted time goes, for the host and each VM: ``haltwise report --json``."""
        return self._answer("report", vm=vm)

    def replay(
        self,
        policies: Sequence[str] = (),
        *,
        goal: Optional[str] = None,
        calibration: Optional[Path] = None,
        switch_cpu: Optional[str] = None,
        wake_latency: Optional[str] = None,
    ) -> Result:
        """What the recorded halts would have cost under other policies: ``haltwise tune --policy SPEC --json``."""
        return self._answer(
            "tune",
            policy=list(policies) or ["usual"],
            goal=goal,
            calibration=calibration,
            switch_cpu=switch_cpu,
            wake_latency=wake_latency,
        )

    def tune(
        self,
        goal: Union[None, str, Sequence[str]] = None,
        *,
        max_poll_cpu: Optional[str] = None,
        vm: Optional[str] = None,
        ceiling_only: bool = False,
        ceilings: Optional[str] = None,
        calibration: Optional[Path] = None,
        switch_cpu: Optional[str] = None,
        wake_latency: Optional[str] = None,
    ) -> Result:
        """Which setting is best for the recorded halts: ``haltwise tune --json``.

        ``goal`` is ``latency``, ``balanced`` or ``density``, and ``VM=GOAL`` for single VMs.
        """
        goals = [goal] if isinstance(goal, str) else list(goal or ())
        return self._answer(
            "tune",
            goal=goals,
            max_poll_cpu=max_poll_cpu,
            vm=vm,
            ceiling_only=ceiling_only,
            ceilings=ceilings,
            calibration=calibration,
            switch_cpu=switch_cpu,
            wake_latency=wake_latency,
        )

    def verify(
        self,
        *,
        vm: Optional[str] = None,
        kernel: Optional[str] = None,
        arch: Optional[str] = None,
        backports: Sequence[str] = (),
        parameters: Optional[Dict[str, Union[int, str]]] = None,
        rows: Union[None, int, str] = None,
    ) -> Result:
        """Check the recorded halts against KVM's halt polling algorithm: ``haltwise verify --json``.

        ``parameters`` gives what was not recorded, as the verb's options are called: ``max``, ``grow``,
        ``grow_start``, ``shrink``, ``cap``. ``rows`` is how many differences are listed, or ``all``.
        """
        return self._answer(
            "verify",
            vm=vm,
            kernel=kernel,
            arch=arch,
            backport=list(backports),
            rows=rows,
            **(parameters or {}),
        )

    def costs(
        self,
        output: Optional[Path] = None,
        *,
        host: Optional[str] = None,
        labels: Optional[Dict[str, str]] = None,
        classes: Optional[Dict[str, str]] = None,
        goals: Optional[Dict[str, str]] = None,
        calibration: Optional[Path] = None,
        switch_cpu: Optional[str] = None,
        wake_latency: Optional[str] = None,
    ) -> Costs:
        """What every setting of a grid would have cost each VM: ``haltwise fleet add``.

        ``labels`` are of the host, ``classes`` and ``goals`` of VMs by patterns of their names. Tables of many
        captures add up; :func:`haltwise.best` says what their hosts should set.
        """
        from .costs import Costs, named_options

        options = named_options(
            host=host,
            labels=labels,
            classes=classes,
            goals=goals,
            calibration=calibration,
            switch_cpu=switch_cpu,
            wake_latency=wake_latency,
        )
        return Costs.of(self._path, output, **options)

    def exits(self) -> Result:
        """VM exits by reason, count and handling time: ``haltwise report --exits --json``."""
        return self._answer("report", exits=True)

    def explain(self) -> Result:
        """Problems and remedies: ``haltwise report --findings --json``."""
        return self._answer("report", findings=True)

    def check(self) -> Result:
        """Which files are whole: ``haltwise check --json``."""
        return self._answer("check")

    def pack(self) -> bytes:
        """The capture as one archive, which :func:`unpacked` and ``haltwise report -`` read."""
        return _native.pack(self._path)

    def _answer(self, verb: str, **options: Any) -> Result:
        return answer(verb, self._path, **options)


def answer(verb: str, *paths: str, threads: int = 0, **options: Any) -> Result:
    """What a verb prints with ``--json``, as Python data. Options are the verb's, with ``_`` for ``-``.

    ``threads`` is how many threads a search has at most; 0 for one for each CPU.
    """
    words = verb.split()
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        for each in values:
            if each is None or each is False:
                continue
            option = "--" + name.replace("_", "-")
            value_of = os.fspath(each) if isinstance(each, os.PathLike) else each
            words.append(option if each is True else f"{option}={value_of}")
    # A directory of this name, and not an archive on stdin.
    words += ["--", *("./-" if path == "-" else path for path in paths)]
    text, exit_code, said = _native.answer(words, threads)
    if exit_code == _PARTIAL:
        notes = "; ".join(said) or "data was lost, is damaged or incomplete; the result says what is missing"
        warnings.warn(f"{verb} {' '.join(paths)}: {notes}", DamageWarning, stacklevel=4)
    answered: Result = json.loads(text)
    return answered
