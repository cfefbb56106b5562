"""``R``: the names of the graph dialect.

    from tilesmith.script import relax as R

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

All operators are members (``R.add``, ``R.nn.conv2d``); ``parser.py`` reads the statements.
"""

from __future__ import annotations

from collections.abc import Callable as _Function
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilesmith.relax import op as _op
from tilesmith.relax.annotations import (  # noqa: F401
    Callable,
    Object,
    Prim,
    Shape,
    StructInfoProxy,
    Tensor,
    Tuple,
)
from tilesmith.relax.expr import (  # noqa: F401
    Call,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    TupleGetItem,
    Var,
    const,
)
from tilesmith.relax.expr import Tuple as _TupleExpr
from tilesmith.relax.op import *  # noqa: F403
from tilesmith.relax.op import builtin, grad, image, memory, nn, vision, vm  # noqa: F401
from tilesmith.relax.op.declaration import find_function as _find_function
from tilesmith.relax.script_function import current_function as _current_function
from tilesmith.script.definitions import parse_now as _parse_now
from tilesmith.script.macros import macro  # noqa: F401
from tilesmith.script.parsing import FunctionDecorator as _FunctionDecorator
from tilesmith.support.errors import ScriptError as _ScriptError

_Name = str


class MatchCastPair(NamedTuple):
    """The result of ``R.match_cast`` until it is bound."""

    value: Any
    struct_info: Any


def match_cast(value: Any, struct_info: Any) -> MatchCastPair:
    """Check a value at run time against ``struct_info``."""
    return MatchCastPair(value, struct_info)


class DataflowMark:
    """The context manager that ``R.dataflow()`` returns."""


def dataflow() -> DataflowMark:
    """Open a dataflow block: ``with R.dataflow():``."""
    return DataflowMark()


class OutputMark(NamedTuple):
    """The variables that ``R.output`` names."""

    variables: Sequence[Any]


def output(*vars: Any) -> OutputMark:
    """Name the variables of a dataflow block that are visible after it."""
    return OutputMark(vars)


def _current(word: str) -> Any:
    function_ = _current_function()
    if function_ is None:
        raise _ScriptError(f"R.{word} stands in a function under @R.function")
    return function_


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the function."""
    _current("func_attr").attrs.update(attrs)


def emit_te(func: _Function[..., Any], *args: Any, **kwargs: Any) -> Call:
    """Make a PrimFunc from a tensor expression, add it to the module, and return its call."""
    from tilesmith.ir import GlobalVar
    from tilesmith.relax.te_arguments import gen_call_tir_inputs

    scope = _current("emit_te").parser.module
    if scope is None:
        raise _ScriptError("R.emit_te needs a module: write the function in an @I.ir_module class")
    name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_function")
    kwargs.pop("name_hint", None)
    prim_func, operands, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
    base = name.replace("<lambda>", "te_function")
    fresh, number = base, 0
    while fresh in scope.variables or fresh in scope.functions:
        number += 1
        fresh = f"{base}{number}"
    scope.variables[fresh] = GlobalVar(fresh)
    scope.functions[fresh] = prim_func
    return _op.call_tir(scope.variables[fresh], operands, out_sinfo, tir_vars)


def prim_value(value: Any) -> PrimValue:
    """Return a scalar as a value of the graph."""
    return PrimValue(value)


def shape(value: Any) -> ShapeExpr:
    """Return a shape as a value."""
    return ShapeExpr(value)


def str(value: Any) -> StringImm:
    """Return a string as a value."""
    return StringImm(value)


def dtype(value: Any) -> DataTypeImm:
    """Return a dtype as a value."""
    return DataTypeImm(value)


def tuple(*fields: Any) -> _TupleExpr:
    """Return several values as one."""
    return _TupleExpr(fields)


function = _FunctionDecorator("R", _parse_now)


def __getattr__(name: _Name) -> Any:
    """Find operators that were declared later, by programs."""
    return _find_function(name)
