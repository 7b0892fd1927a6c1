"""Errors and warnings: the words of the program, as exceptions by its exit codes."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """What failed, where, why, and what to do about it.

    ``exit_code`` is that of the program (``haltwise --help``), ``hint`` what to do, if that is known.
    """

    def __init__(self, message: str, exit_code: int = 1, hint: Optional[str] = None):
        super().__init__(message, exit_code, hint)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(Error, ValueError):
    """An argument is wrong."""


class UnsupportedError(Error):
    """The capture cannot answer this."""


class DeniedError(Error, PermissionError):
    """Not permitted."""

    def __str__(self) -> str:
        return Error.__str__(self)


class DamageError(Error):
    """The capture is damaged so that nothing can be said."""


class DamageWarning(UserWarning):
    """Data was lost, is damaged or incomplete: there is a result all the same."""


_BY_EXIT_CODE = {2: UsageError, 3: UnsupportedError, 4: DeniedError, 5: DamageError}


def exception_of(exit_code: int, message: str, hint: Optional[str]) -> Error:
    """The exception for a refusal of the program."""
    return _BY_EXIT_CODE.get(exit_code, Error)(message, exit_code, hint)
