"""Makes the functions of the table: known names with their known parameters.

AutoTVM's configuration, the parameter ``cfg`` of some, may be left out, as programs do that call
the decorated function; one that is given is not needed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.support.lazy import resolve
from tilesmith.target import generic_func
from tilesmith.te import Schedule, Tensor
from tilesmith.topi.schedules import cpu, gpu
from tilesmith.topi.schedules.reasons import refuse
from tilesmith.topi.schedules.table import ANY, CPU, DEVICES, Row, rows_of

__all__ = ["Published", "operator"]

_HERE = "tilesmith.topi.schedules."
_PLACES = ("tilesmith.topi.nn", "tilesmith.topi", "tilesmith.topi.vision")

Given = Mapping[str, Any]
Meaning = Callable[[Given], Any]


class Published:
    """Finds the names of one module (or submodule) of the table: see `support.lazy.Finder`."""

    def __init__(self, family: str, module: str | None = None) -> None:
        self._family = family
        self._rows: dict[str, list[Row]] = {}
        for row in rows_of(family):
            if module is None or row.module == module:
                self._rows.setdefault(row.name, []).append(row)

    def find(self, name: str) -> Any:
        """Return the function of a name."""
        rows = self._rows.get(name)
        if rows is None:
            raise AttributeError(f"module 'tilesmith.topi.{self._family}' has no '{name}'")
        return _function(rows[0], len({row.parameters for row in rows}) > 1)

    def public_names(self) -> list[str]:
        """Return all names."""
        return list(self._rows)


def _function(row: Row, is_ambiguous: bool) -> Any:
    """Return the function of a row; one that has several parameter lists shows none, and takes that
    of its first row.
    """
    signature = row.signature()
    if is_ambiguous:
        signature = inspect.signature(lambda *args, **kwargs: None)
    made = _MEANINGS[row.kind](row)
    if DEVICES[row.family] is ANY and row.kind in ("schedule", "existing"):
        on_cpu, on_gpu = made
        function = generic_func(_named(row, signature, on_cpu))
        function.register(_named(row, signature, on_gpu), "gpu")
        return function
    if isinstance(made, tuple):
        made = made[0 if DEVICES[row.family] is CPU else 1]
    return _named(row, signature, made)


def _named(row: Row, signature: inspect.Signature, meaning: Meaning) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        if row.kind == "no":
            refuse(row.path, row.meaning)
        return meaning(_bound(row, row.signature(), args, kwargs))

    function.__name__ = function.__qualname__ = row.name
    function.__module__ = f"tilesmith.topi.{row.family}"
    function.__doc__ = _documentation(row)
    function.__dict__["__signature__"] = signature
    return function


def _documentation(row: Row) -> str:
    if row.kind == "compute":
        return f"Return what topi.{row.meaning or row.name} does."
    if row.kind == "no":
        return "Raise UnsupportedError, which says what to use instead."
    if row.kind == "helper":
        return str(resolve(_HERE + row.meaning).__doc__)
    return "Return the schedule of a program for the current target."


def _bound(row: Row, signature: inspect.Signature, args: Any, kwargs: Any) -> Given:
    """Return the arguments by name, with defaults, without a configuration."""
    parameters = list(signature.parameters.values())
    if row.takes_configuration:
        configuration = parameters[0].name
        kwargs = {name: value for name, value in kwargs.items() if name != configuration}
        if args and not isinstance(args[0], (Tensor, Schedule, list, tuple)):
            args = args[1:]
        signature = signature.replace(parameters=parameters[1:])
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{row.name}(): {error}") from None
    given.apply_defaults()
    return given.arguments


def _schedule(row: Row) -> tuple[Meaning, Meaning]:
    return (
        lambda given: cpu.schedule(given["outs"]),
        lambda given: gpu.schedule(given["outs"]),
    )


def _existing(row: Row) -> tuple[Meaning, Meaning]:
    schedule, out = list(row.signature().parameters)
    return (
        lambda given: cpu.schedule_elementwise(given[schedule], given[out]),
        lambda given: gpu.schedule_elementwise(given[schedule], given[out]),
    )


def _helper(row: Row) -> Meaning:
    def helper(given: Given) -> Any:
        return resolve(_HERE + row.meaning)(*_flat(row, given))

    return helper


def _flat(row: Row, given: Given) -> list[Any]:
    """Return arguments in their order, further ones as they were given."""
    values: list[Any] = []
    for name, parameter in row.signature().parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            values += given.get(name, ())
        elif name in given:
            values.append(given[name])
    return values


def _compute(row: Row) -> Meaning:
    name, _, arguments = row.meaning.partition("(")

    def compute(given: Given) -> Any:
        function = operator(name or row.name)
        if not arguments:
            return function(*_flat(row, given))
        call = ast.parse(f"f({arguments}").body[0].value  # type: ignore[attr-defined]
        values = [_value(argument, given) for argument in call.args]
        named = {word.arg: _value(word.value, given) for word in call.keywords}
        return function(*values, **named)

    return compute


def _value(argument: ast.expr, given: Given) -> Any:
    return given[argument.id] if isinstance(argument, ast.Name) else ast.literal_eval(argument)


def operator(name: str) -> Any:
    """Return an operator of TOPI: ``nn.dense``, or a name that is looked up in its modules."""
    if "." in name:
        module, _, attribute = name.rpartition(".")
        return resolve(f"tilesmith.topi.{module}:{attribute}")
    for place in _PLACES:
        module = resolve(place)
        if hasattr(module, name):
            return getattr(module, name)
    return resolve(f"tilesmith.topi:{name}")


_MEANINGS: dict[str, Callable[[Row], Any]] = {
    "schedule": _schedule,
    "existing": _existing,
    "compute": _compute,
    "helper": _helper,
    "no": lambda row: None,
}
