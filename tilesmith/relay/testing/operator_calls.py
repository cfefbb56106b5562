"""What programs turned into Python call, next to the executors' classes of values."""

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
from tilesmith.runtime.container import RefValue
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import ExecutionError, UnsupportedError

__all__ = ["call_operator", "is_true", "no_clause", "write_reference"]


def write_reference(reference: RefValue, value: Any) -> tuple[()]:
    """Replace the value of a reference; return the empty tuple."""
    reference.value = value
    return ()


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
    if not all(_has_meaning(one) for one in _calls(program["main"])):  # by tensor expressions
        legalise: Callable[[IRModule], IRModule] = LegalizeOps()
        program = legalise(program)
    return _as_value(interpreter.run(program, "main"))


def _calls(function: Any) -> list[Any]:
    """Return the operators that a translated call consists of."""
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    return [one.op for one in values if isinstance(one, Call) and isinstance(one.op, Op)]


def _has_meaning(op: Op) -> bool:
    """Return whether an operator can be evaluated with numpy."""
    return op.spec is not None and op.spec.evaluate is not None
