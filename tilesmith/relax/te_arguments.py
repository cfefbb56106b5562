"""Turns graph values into te tensors and back: the arguments of ``emit_te``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilesmith import te
from tilesmith.ir import PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import (
    DataTypeImm,
    PrimValue,
    RelaxExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    known_struct_info,
)
from tilesmith.relax.relations import (
    definable_symbolic_vars,
    describe,
    sizes_of,
    substitute_sizes,
    symbolic_vars,
)
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te.create_prim_func import operations_in_order
from tilesmith.tir.free_variables import free_variables
from tilesmith.tir.functor import renew_defs

__all__ = ["gen_call_tir_inputs", "infer_expression", "te_tensor"]


def te_tensor(value: Any, tir_var_map: dict[Any, Any], name: str = "rxplaceholder") -> Any:
    """Make a te placeholder of a graph tensor's shape and dtype, sizes replaced by
    ``tir_var_map``.
    """
    info = known_struct_info(value)
    sizes = sizes_of(info) if isinstance(info, TensorStructInfo) else None
    if sizes is None or info.dtype.is_void:
        raise ShapeError(
            f"a tensor expression needs a tensor of known shape and dtype, got {describe(info)}",
            notes=("state them with match_cast first",),
        )
    shape = [substitute_sizes(size, tir_var_map) for size in sizes]
    return te.placeholder(shape, info.dtype, name=name)


class _Arguments:
    """Turns graph arguments into te arguments and remembers their tensors. Sizes stay the graph's
    own variables: the function that is called may know them too.
    """

    def __init__(self) -> None:
        self.sizes: dict[SymbolicVar, None] = {}
        self.tensors: list[Any] = []
        self.values: list[Any] = []

    def size(self, expr: PrimExpr) -> PrimExpr:
        """Record the sizes that a scalar expression names."""
        self.sizes.update(dict.fromkeys(symbolic_vars(expr)))
        return expr

    def tensor(self, value: Any) -> Any:
        """Make a placeholder for a graph tensor."""
        self.sizes.update(dict.fromkeys(symbolic_vars(known_struct_info(value))))
        number = len(self.tensors)
        name = chr(ord("A") + number) if number < 26 else f"input{number}"
        made = te_tensor(value, {}, name)
        self.tensors.append(made)
        self.values.append(value)
        return made

    def convert(self, arg: Any) -> Any:
        """Convert one argument of ``emit_te`` of any kind."""
        if isinstance(arg, PrimExpr):
            return self.size(arg)
        if isinstance(arg, ShapeExpr):
            return [self.size(size) for size in arg.values]
        if isinstance(arg, PrimValue):
            return self.size(arg.value)
        if isinstance(arg, (StringImm, DataTypeImm)):
            return arg.value
        if isinstance(arg, (list, tuple)):
            converted = [self.convert(item) for item in arg]
            return tuple(converted) if isinstance(arg, tuple) else converted
        if isinstance(arg, dict):
            return {key: self.convert(item) for key, item in arg.items()}
        if isinstance(arg, Tuple):
            return [self.convert(field) for field in arg.fields]
        if isinstance(arg, RelaxExpr):
            return self.convert_value(arg)
        return arg

    def convert_value(self, arg: Any) -> Any:
        """Convert a variable, constant or operation of the graph."""
        info = known_struct_info(arg)
        if isinstance(info, TensorStructInfo):
            return self.tensor(arg)
        if isinstance(info, TupleStructInfo):
            return [self.convert(TupleGetItem(arg, i)) for i in range(len(info.fields))]
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return [self.size(size) for size in info.values]
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return self.size(info.value)
        raise TypeMismatchError(f"a tensor expression cannot take {describe(info)}")


def _flatten(outputs: Any) -> tuple[list[Any], bool]:
    if isinstance(outputs, (list, tuple)):
        return list(outputs), len(outputs) != 1
    return [outputs], False


def _sizes_in(outputs: list[te.Tensor]) -> list[SymbolicVar]:
    """Return the sizes that tensors and what they are computed from name."""
    found: dict[SymbolicVar, None] = {}
    for op in operations_in_order(outputs):
        inside = [axis.var for axis in (*getattr(op, "axis", ()), *getattr(op, "reduce_axis", ()))]
        parts = [*getattr(op, "body", ())] if isinstance(op, te.ComputeOp) else []
        parts += [size for number in range(op.num_outputs) for size in op.output(number).shape]
        found.update(dict.fromkeys(free_variables(parts, inside)))
    return [var for var in found if var.dtype.is_integer]


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, list[Any], Any, ShapeExpr | None]:
    """Make the arguments of ``call_tir`` for a function of te tensors: the PrimFunc, the tensors of
    the graph, the struct info of the result, the extra sizes or None.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    arguments = _Arguments()
    te_args = [arguments.convert(arg) for arg in args]
    te_kwargs = {key: arguments.convert(value) for key, value in kwargs.items()}
    if not callable(func):
        raise TypeMismatchError(f"a function of te tensors is needed, got {func!r}")
    try:
        inspect.signature(func).bind(*te_args, **te_kwargs)
    except TypeError as error:
        name = getattr(func, "__name__", "the function")
        raise TypeMismatchError(f"{name}: {error}") from None
    except ValueError:
        pass  # a built-in function, whose parameters are not known
    outputs, is_tuple = _flatten(func(*te_args, **te_kwargs))
    for output in outputs:
        if not isinstance(output, te.Tensor):
            raise TypeMismatchError(
                f"the function gave {output!r}, a te tensor is needed",
                notes=("return what te.compute or a function of topi gives",),
            )
    # A function may give back one of its tensors; the program then copies it.
    outputs = [topi.identity(one) if one in arguments.tensors else one for one in outputs]
    sizes = list(dict.fromkeys([*arguments.sizes, *_sizes_in(outputs)]))
    bound = {
        var
        for value in arguments.values
        for var in definable_symbolic_vars(known_struct_info(value))
    }
    extra = [var for var in sizes if var not in bound]
    prim_func = te.create_prim_func(
        [*arguments.tensors, *outputs, *extra], index_dtype_override="int64"
    ).without_attr("global_symbol")
    if sizes or any(isinstance(op, te.ExternOp) for op in operations_in_order(outputs)):
        # Its sizes are the graph's own variables; so may be those of foreign statements.
        prim_func = renew_defs(prim_func)
    if attrs:
        prim_func = prim_func.with_attrs(attrs)
    out_sinfo = _info_of(outputs, is_tuple)
    return prim_func, arguments.values, out_sinfo, ShapeExpr(extra) if extra else None


def infer_expression(func: Callable[..., Any], *args: Any) -> StructInfo:
    """Return the struct info of what ``func``, a function of te tensors, gives for arguments of the
    graph.
    """
    arguments = _Arguments()
    outputs, is_tuple = _flatten(func(*[arguments.convert(arg) for arg in args]))
    return _info_of(outputs, is_tuple)


def _info_of(outputs: list[te.Tensor], is_tuple: bool) -> StructInfo:
    infos = [TensorStructInfo([_int64(size) for size in out.shape], out.dtype) for out in outputs]
    return TupleStructInfo(tuple(infos)) if is_tuple else infos[0]


def _int64(size: PrimExpr) -> PrimExpr:
    from tilesmith.ir.operators import cast

    return size if size.dtype == "int64" else cast("int64", size)
