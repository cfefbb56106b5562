"""What programs turned into Python call: operators on tensors, data, references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relax import interpreter
from tilesmith.relax.transform import LegalizeOps
from tilesmith.relay.expr import Call, Constant, Tuple
from tilesmith.relay.function import Function
from tilesmith.relay.translate import to_relax
from tilesmith.runtime.container import ADT
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import ExecutionError, UnsupportedError

__all__ = ["ConstructorValue", "RefValue", "call_operator", "data_value", "is_true", "no_clause"]


class RefValue:
    """A place whose value programs read and replace."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def write(self, value: Any) -> Any:
        """Replace the value; return the empty tuple."""
        self.value = value
        return ()


class ConstructorValue(ADT):
    """A value that a constructor made: its ``tag``, its ``fields``, the ``name_hint`` of the
    constructor.
    """

    name_hint: str

    @property
    def fields(self) -> tuple[Any, ...]:
        """The values of which it was made."""
        return (*self,)


def data_value(tag: int, name: str, *fields: Any) -> ConstructorValue:
    """Make a value of a type of data."""
    made = ConstructorValue(tag, fields)
    made.name_hint = name
    return made


def no_clause(value: Any) -> Any:
    """Raise the error for a value that no clause of a match fits."""
    raise ExecutionError(f"no clause of the match fits the value {value!r}")


def is_true(value: Any) -> bool:
    """Return a tensor of one boolean as Python's own."""
    return bool(value.numpy())


def _as_expr(value: Any) -> Any:
    if isinstance(value, NDArray):
        return Constant(value, dialect="relay")
    if isinstance(value, tuple):
        return Tuple([_as_expr(field) for field in value])
    raise UnsupportedError(
        f"an operator takes tensors and tuples of them, not a {type(value).__name__}"
    )


def _as_value(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple([_as_value(field) for field in found])
    return array(numpy.asarray(found))


def call_operator(name: str, attributes: Mapping[str, Any] | None, *values: Any) -> Any:
    """Return what an operator of relay makes of tensors and tuples of them."""
    call = Call(Op.get(name), [_as_expr(value) for value in values], attributes or None)
    program = to_relax(IRModule.from_expr(Function([], call)))
    try:
        return _as_value(interpreter.run(program, "main"))
    except UnsupportedError:  # an operator without a meaning in numpy: by its tensor expression
        legal: Callable[[IRModule], IRModule] = LegalizeOps()
        return _as_value(interpreter.run(legal(program), "main"))
