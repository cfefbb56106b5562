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

import sys as _sys
from collections.abc import Callable as _Function
from collections.abc import Mapping
from typing import Any, NamedTuple

from tilesmith.relax import op as _op
from tilesmith.relax.annotations import (  # noqa: F401
    Callable,
    DTensor,
    Object,
    Prim,
    Shape,
    StructInfoProxy,
    Tensor,
    Tuple,
)
from tilesmith.relax.annotations import named_vdevice as _named_vdevice
from tilesmith.relax.expr import (  # noqa: F401
    Call,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from tilesmith.relax.expr import Tuple as _TupleExpr
from tilesmith.relax.op import *  # noqa: F403
from tilesmith.relax.op import builtin, ccl, dist, grad, image, inspect, memory, nn, vision, vm  # noqa: F401
from tilesmith.relax.op.declaration import find_function as _find_function
from tilesmith.relax.script_frames import BlockFrame as _BlockFrame
from tilesmith.relax.script_frames import ElseFrame as _ElseFrame
from tilesmith.relax.script_frames import FunctionFrame as _FunctionFrame
from tilesmith.relax.script_frames import IfFrame as _IfFrame
from tilesmith.relax.script_frames import RelaxFrame as _RelaxFrame
from tilesmith.relax.script_frames import SeqExprFrame as _SeqExprFrame
from tilesmith.relax.script_frames import ThenFrame as _ThenFrame
from tilesmith.relax.script_frames import innermost as _innermost
from tilesmith.relax.script_frames import sequence_to_end as _sequence_to_end
from tilesmith.relax.sharding import device_mesh  # noqa: F401
from tilesmith.script.definitions import parse_now as _parse_now
from tilesmith.script.diagnostics import nearest as _nearest
from tilesmith.script.ir import module_in_work as _module_in_work
from tilesmith.script.macros import macro  # noqa: F401
from tilesmith.script.parsing import FunctionDecorator as _FunctionDecorator
from tilesmith.support.errors import ScriptError as _ScriptError
from tilesmith.support.errors import UnknownMemberError as _UnknownMemberError
from tilesmith.support.errors import UnsupportedError as _UnsupportedError

_Name = str


class MatchCastPair(NamedTuple):
    """The result of ``R.match_cast`` until it is bound."""

    value: Any
    struct_info: Any


def match_cast(value: Any, struct_info: Any) -> MatchCastPair:
    """Check a value at run time against ``struct_info``."""
    return MatchCastPair(value, struct_info)


# Words that build: in plain Python, and under the parser.


def arg(name: _Name, struct_info: Any) -> Var:
    """Add a parameter to the function."""
    frame = _innermost("R.arg", _FunctionFrame)
    return frame.add_param(Var(name, frame.struct_info(struct_info), frame.builder.span))


def func_name(name: _Name) -> None:
    """Name the function."""
    _innermost("R.func_name", _FunctionFrame).name = name


def func_attr(attrs: Mapping[_Name, Any]) -> None:
    """Set attributes of the function."""
    _innermost("R.func_attr", _FunctionFrame).add_attrs(attrs)


def func_ret_struct_info(ret_sinfo: Any) -> None:
    """Declare the result of the function."""
    frame = _innermost("R.func_ret_struct_info", _FunctionFrame)
    frame.ret_struct_info = frame.struct_info(ret_sinfo)


def func_ret_value(value: Any) -> None:
    """Set the result of the function."""
    _sequence_to_end("R.func_ret_value").set_output(value)


def SeqExpr() -> _SeqExprFrame:
    """Open a sequence of bindings; R.func_ret_value sets its value."""
    return _SeqExprFrame()


def dataflow() -> _BlockFrame:
    """Open a dataflow block: ``with R.dataflow():``."""
    return _BlockFrame()


def output(*vars: Any) -> None:
    """Name the variables of a dataflow block that are visible after it."""
    frame = _innermost("R.output", _RelaxFrame)
    if not isinstance(frame, _BlockFrame):
        raise _ScriptError("R.output ends a dataflow block: with R.dataflow():")
    frame.set_outputs(vars)


def emit(value: Any, annotate_struct_info: Any = None) -> Var:
    """Bind a value to a new variable; ``annotate_struct_info`` declares what it is."""
    frame = _innermost("R.emit", _SeqExprFrame)
    declared = None if annotate_struct_info is None else frame.struct_info(annotate_struct_info)
    return frame.emit(value, declared)


def emit_match_cast(value: Any, struct_info: Any) -> Var:
    """Bind a value that is checked against ``struct_info`` at run time."""
    return _innermost("R.emit_match_cast", _SeqExprFrame).emit_match_cast(value, struct_info)


def emit_var_binding(value: VarBinding) -> Var:
    """Append a binding as it is; return its variable."""
    return _innermost("R.emit_var_binding", _SeqExprFrame).emit_binding(value)


def If(condition: Any) -> _IfFrame:
    """Open a choice, with R.Then and R.Else inside; both end by binding one name."""
    return _IfFrame(condition)


def Then() -> _ThenFrame:
    """Open the branch for a true condition."""
    return _ThenFrame()


def Else() -> _ElseFrame:
    """Open the branch for a false condition."""
    return _ElseFrame()


def emit_te(func: _Function[..., Any], *args: Any, **kwargs: Any) -> Call:
    """Make a PrimFunc from a tensor expression, add it to the module, and return its call."""
    from tilesmith.ir import GlobalVar
    from tilesmith.relax.te_arguments import gen_call_tir_inputs

    _innermost("R.emit_te", _SeqExprFrame)
    scope = _module_in_work()
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


def to_vdevice(data: Any, dst_vdevice: Any) -> Call:  # type: ignore[no-redef]
    """Return a copy of a tensor on another device of the module: itself, or its text "cuda:0"."""
    return _op.to_vdevice(data, _named_vdevice(dst_vdevice))


def hint_on_device(data: Any, dst_vdevice: Any) -> Call:  # type: ignore[no-redef]
    """Say on which device of the module a value should be computed."""
    return _op.hint_on_device(data, _named_vdevice(dst_vdevice))


def rewriter(rewriter_mod: Any) -> Any:
    """Raise UnsupportedError: a pattern is described by relax.dpl, not read from a function."""
    raise _UnsupportedError(
        "R.rewriter: patterns are not read from the functions of a module",
        notes=(
            "describe the pattern with relax.dpl, and give it with a function that makes the "
            "replacement to relax.dpl.PatternMatchingRewriter.from_pattern",
        ),
    )


class _GraphFunctionDecorator(_FunctionDecorator):
    """``@R.function``; ``with R.function(is_pure=…, is_private=…):`` in a builder."""

    def __call__(self, func: Any = None, *flags: bool, **options: Any) -> Any:
        """Decorate a function, or take options first: ``pure``, ``private``."""
        if isinstance(func, bool):
            options.update(zip(("is_pure", "is_private"), (func, *flags)))
            func = None
        for word in ("pure", "private"):
            if f"is_{word}" in options:
                options[word] = options.pop(f"is_{word}")
        if func is None:
            return super().__call__(None, **options)
        return self._parse(func, _sys._getframe(1), {**self.options, **options})

    def make_frame(self) -> _FunctionFrame:
        """Return the frame of ``with R.function():``."""
        is_pure, is_private = self.options.get("pure", True), self.options.get("private", False)
        return _FunctionFrame(bool(is_pure), bool(is_private))


function = _GraphFunctionDecorator("R", _parse_now)


def __getattr__(name: _Name) -> Any:
    """Find operators that were declared later, by programs."""
    try:
        return _find_function(name)
    except _UnknownMemberError as error:
        words = _nearest(name, [word for word in globals() if not word.startswith("_")])
        raise _UnknownMemberError(f"R has no word '{name}'", notes=words or error.notes) from None
