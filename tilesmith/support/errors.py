"""Defines every error that Tilesmith raises on purpose.

An error says what was wrong, where in the user's program (file, line, the source line with a
marker), and what to do. Code raises the class that names the user's mistake:

    raise ShapeError("matmul needs equal inner sizes, got 128 and 64", span=call.span,
                     notes=("transpose the second argument",))
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from typing import Any

from tilesmith.support.caller import place_of_caller
from tilesmith.support.packages import install_command
from tilesmith.support.tracebacks import shorten_tracebacks


def format_span(span: Any) -> str:
    """Return the text of a source position: a string, an object with `format()`, or one with a file
    (`file`, `filename` or `source_name`), `line`, and optionally `column` and `end_column`.
    """
    if span is None:
        return ""
    if isinstance(span, str):
        return span
    formatter = getattr(span, "format", None)
    if callable(formatter):
        return str(formatter())
    file = _first_attribute(span, ("file", "filename", "source_name"))
    line = getattr(span, "line", None)
    if file is None or line is None:
        return str(span)
    file = str(getattr(file, "name", file))
    return "\n".join([f"{file}:{line}", *_source_lines(span, file, int(line))])


def _first_attribute(span: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = getattr(span, name, None)
        if value is not None:
            return value
    return None


def _source_lines(span: Any, file: str, line: int) -> list[str]:
    """Return the source line of the span and, below it, a marker under its columns (1-based)."""
    source = linecache.getline(file, line).rstrip("\n")
    if not source.strip():
        return []
    result = ["    " + source]
    column = getattr(span, "column", None)
    if column:
        end = getattr(span, "end_column", None) or column + 1
        width = max(1, min(int(end), len(source) + 1) - int(column))
        result.append("    " + " " * (int(column) - 1) + "^" * width)
    return result


class TilesmithError(RuntimeError):
    """Root of all errors raised on purpose. `message` says what is wrong, `span` where, `notes` why
    and what to do; `str(error)` shows the three. An error without a span shows `caller`: the line
    of the user's program that was being executed.
    """

    def __init__(self, message: object = "", span: Any = None, notes: Iterable[str] = ()) -> None:
        self.message = str(message)
        self.span = span
        self.caller = place_of_caller()
        self.notes: tuple[str, ...] = (notes,) if isinstance(notes, str) else tuple(notes)
        super().__init__(self.message)
        shorten_tracebacks(TilesmithError)

    @property
    def place(self) -> Any:
        """The position to show: `span`, else that of the call."""
        return self.caller if self.span is None else self.span

    def __str__(self) -> str:
        lines = [self.message]
        where = format_span(self.place).splitlines()
        # The text of an error that came through native code has its place already.
        if where and (self.span is not None or where[0] not in self.message):
            lines += ["  " + line for line in where]
        for note in self.notes:
            first, *rest = note.splitlines() or [""]
            lines += ["  " + first, *("  " + line for line in rest)]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, format_span(self.place) or None, self.notes)


def _rebuild(
    kind: type[TilesmithError], message: str, span: str | None, notes: tuple[str, ...]
) -> TilesmithError:
    error = kind.__new__(kind)
    TilesmithError.__init__(error, message, span, notes)
    return error


def reason_of(error: BaseException) -> str:
    """Return what an error says, without the place and the advice that belong to its display."""
    return error.message if isinstance(error, TilesmithError) else str(error)


class InternalError(TilesmithError):
    """A bug in Tilesmith itself, not a mistake of its user."""


class VerifyError(TilesmithError):
    """A module breaks a rule of its stage; raised by the verifiers between passes."""


class ScriptWarning(UserWarning):
    """Something in a script that is most likely a mistake; the program is compiled as it is
    written.
    """


class CacheWarning(UserWarning):
    """A cache on disk cannot be used; compiling goes on without it."""


class MiscompileError(InternalError):
    """A step of the compiler changed what a program computes; raised by ``TILESMITH_CHECK=1``."""


class WorkerStartError(InternalError):
    """A worker process cannot start; the message says why."""


class ExecutionError(TilesmithError):
    """The interpreter cannot go on: an assertion failed, a division by zero, a value is missing."""


class OutOfBoundsError(ExecutionError, IndexError):
    """An access outside of a buffer; the message names the buffer, its shape and the indices."""


class DivisionByZeroError(ExecutionError, ZeroDivisionError):
    """A program divides an integer by zero."""


class StructuralMismatchError(TilesmithError, ValueError, AssertionError):
    """Two programs that should be structurally equal differ; the message shows the first
    difference.
    """


class DiagnosticError(TilesmithError):
    """A mistake in the user's program, reported with its position."""


class ScriptError(DiagnosticError):
    """TVMScript that cannot be parsed."""


class ScheduleError(TilesmithError):
    """A schedule primitive refused; the message shows where it was called, and the loop nest with
    the culprit marked."""


class ConfigError(TilesmithError, ValueError):
    """An unknown or ill-typed option, environment variable or pass setting."""


class TargetError(TilesmithError, ValueError):
    """An unknown target, or one whose attributes do not fit."""


class CodegenError(TilesmithError):
    """A back end met code that it cannot translate."""


class ShapeError(TilesmithError, ValueError):
    """Shapes or ranks that do not fit together."""


class TypeMismatchError(TilesmithError, TypeError, ValueError):
    """A value of the wrong type or dtype."""


class UnknownNameError(TilesmithError, KeyError):
    """A name that is neither registered nor defined."""


class UnknownIntrinsicError(UnknownNameError, ValueError):
    """A tensor intrinsic that is not registered."""


class UnknownMemberError(UnknownNameError, AttributeError, ValueError):
    """A module, or the table of global functions, does not have this function."""


class UnknownFunctionError(ExecutionError, UnknownNameError):
    """A program that is run calls a function that was not provided."""


class UnsupportedError(TilesmithError):
    """Something that Tilesmith understands but does not support (here)."""


class UnsupportedModuleError(UnsupportedError, ModuleNotFoundError):
    """A module of users' programs that is not there; the message says why, and what to do."""


class UnsupportedMemberError(UnsupportedError, AttributeError):
    """A name of a module that stands for what is not there; the message says why, and what to
    do.
    """


class ReductionError(UnsupportedError, ValueError):
    """A reduction that cannot be divided among threads."""


class FrontendError(TilesmithError):
    """A model that cannot be imported."""


class OpError(TilesmithError):
    """Root of the errors about graph operators."""


class OpNotImplemented(OpError, NotImplementedError):
    """Operators that the importer or the compiler does not know; the message lists all of them."""


class OpAttributeRequired(OpError, AttributeError):
    """An operator lacks an attribute that it needs."""


class OpAttributeInvalid(OpError, AttributeError):
    """An operator's attribute has a value that it must not have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An operator's attribute has a value that is not supported."""


class ArtifactError(TilesmithError):
    """A saved model that is truncated, tampered with, or of another version."""


class FileError(TilesmithError, OSError):
    """A file that cannot be written; the message names it and says why."""

    def __init__(
        self,
        message: object = "",
        span: Any = None,
        notes: Iterable[str] = (),
        reason: OSError | None = None,
    ) -> None:
        super().__init__(message, span, notes)
        if reason is not None:
            self.errno, self.strerror = reason.errno, reason.strerror or str(reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return FileError, (self.message, format_span(self.place) or None, self.notes)


class OutOfMemoryError(TilesmithError, MemoryError):
    """The system has no memory left for a tensor or for the workspace of a call."""


class DeviceError(TilesmithError):
    """A device or its driver refused; the message has the driver's name and text for it."""


class DeviceLostError(DeviceError):
    """A device that a fault has made unusable in this process; the message says what still
    works.
    """


class NoDeviceError(DeviceError, UnsupportedError):
    """A device that is not there, or whose driver or package is missing."""


class IncompatibleCodeError(ArtifactError, UnsupportedError):
    """Compiled code that this machine cannot run; the message names the architecture or the CPU's
    features that it lacks.
    """


class RPCError(TilesmithError):
    """A remote device answered with an error."""


class RPCSessionTimeoutError(RPCError):
    """A remote session ran out of its time."""


class MissingDependencyError(TilesmithError, ImportError):
    """An optional package is not installed; `extra` is the extra of Tilesmith that brings it."""

    def __init__(self, package: str, extra: str | None = None, purpose: str = "") -> None:
        if " " in package:  # the text of such an error, from which native code makes it again
            super().__init__(package)
            self.package, self.extra, self.command = "", extra, ""
            return
        command = install_command(package, extra)
        needed = f"{purpose} needs the package '{package}'" if purpose else f"package '{package}'"
        super().__init__(f"{needed}, which is not installed", notes=(f"install it: {command}",))
        self.package = package
        self.extra = extra
        self.command = command
