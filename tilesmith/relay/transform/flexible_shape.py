"""FlexibleShapeDispatch: a program for any size of an axis, which chooses among versions for fixed
sizes.

    mod = FlexibleShapeDispatch(buckets=[1, 8, 32], auto_pad=True)(mod)

The program is written for one size; each bucket gets a version for its size. Where no bucket fits,
the program for any size runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.expr import Call, If, Tuple, TupleGetItem, Var, const
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import make_call
from tilesmith.relay.rewriting import renewed, substitute
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import Any as AnySize
from tilesmith.relay.ty import TensorType, TupleType
from tilesmith.support.errors import ConfigError, ShapeError

__all__ = ["FlexibleShapeDispatch", "flexible_dispatch", "override_shape", "specialize_body"]


def override_shape(tensor_type: Any, axis: int, dim: Any) -> Any:
    """Return a type of tensors, or of tuples of them, with another size along an axis."""
    if isinstance(tensor_type, TupleType):
        return TupleType([override_shape(field, axis, dim) for field in tensor_type.fields])
    shape = list(tensor_type.shape)
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"a tensor of rank {len(shape)} has no axis {axis}")
    shape[axis] = dim
    return TensorType(shape, tensor_type.dtype)


def specialize_body(
    mod: IRModule,
    function: Any,
    axis: int,
    dim: Any,
    input_indices: Sequence[int],
    affects_output: bool = True,
) -> IRModule:
    """Return a module whose ``main`` is the function for another size along an axis of the inputs
    at ``input_indices``, and, with ``affects_output``, of the result.
    """
    params = []
    for place, param in enumerate(function.params):
        type_ = param.checked_type
        if place in input_indices:
            type_ = override_shape(type_, axis, dim)
        params.append(Var(param.name_hint, type_, dialect="relay"))
    body = substitute(function.body, dict(zip(function.params, params)))
    made = IRModule(dict(mod.functions), attrs=mod.attrs)
    attrs = {key: value for key, value in function.attrs.items() if key != "global_symbol"}
    made["main"] = renewed(Function(params, body, attrs=attrs))
    return infer_module(made)


def _bucket_call(
    target: GlobalVar, params: list[Var], chosen: Sequence[int], padding: Any, axis: int, size: int
) -> Any:
    """Return the call of the version for a size; inputs that are less are filled up."""
    args: list[Any] = list(params)
    if padding is not None:
        args = [
            _padded(param, axis, size, padding) if place in chosen else param
            for place, param in enumerate(params)
        ]
    return Call(target, args)


def _padded(param: Var, axis: int, size: int, value: float) -> Any:
    """Return an input with elements behind it along an axis, up to a size."""
    type_: Any = param.checked_type
    rank = len(type_.shape)
    own = make_call("shape_of", [param], {"dtype": "int64"})
    along = const([int(place == axis % rank) for place in range(rank)], "int64")
    missing = make_call("subtract", [const([size] * rank, "int64"), own], None)
    behind = make_call("multiply", [missing, along], None)
    zeros = make_call("subtract", [behind, behind], None)
    stacked = make_call("stack", [Tuple([zeros, behind])], {"axis": 1})
    attributes = {"pad_mode": "constant"}
    return make_call("dyn.nn.pad", [param, stacked, const(value, str(type_.dtype))], attributes)


def _cut(result: Any, type_: Any, axis: int, size: Any) -> Any:
    """Return the first elements of a result along an axis, as many as the input had."""
    if isinstance(type_, TupleType):
        fields = enumerate(type_.fields)
        return Tuple([_cut(TupleGetItem(result, n), one, axis, size) for n, one in fields])
    rank = len(type_.shape)
    axis %= rank
    far = const([2**62] * rank, "int64")
    along = const([int(place == axis) for place in range(rank)], "int64")
    others = make_call(
        "multiply", [far, make_call("subtract", [const([1] * rank, "int64"), along])]
    )
    end = make_call("add", [others, make_call("multiply", [along, size])])
    begin, steps = const([0] * rank, "int64"), const([1] * rank, "int64")
    return make_call("dyn.strided_slice", [result, begin, end, steps], {"slice_mode": "end"})


def flexible_dispatch(
    mod: IRModule,
    buckets: Sequence[int],
    axis: int = 0,
    auto_pad: bool = False,
    pad_value: float = 0,
    input_indices: Sequence[int] | None = None,
    affects_output: bool = True,
) -> IRModule:
    """Return a module whose ``main`` takes any size along an axis of the inputs at
    ``input_indices`` (all without it), and calls the version for the bucket of this size. With
    ``auto_pad`` inputs are filled up with ``pad_value`` to the next bucket, and, with
    ``affects_output``, the result is cut to the size of the input.
    """
    sizes = sorted({int(size) for size in buckets})
    if not sizes or sizes[0] < 1:
        raise ConfigError(f"buckets are sizes, at least one: not {list(buckets)}")
    mod = infer_module(mod.shallow_copy())
    main: Any = mod["main"]
    chosen = list(range(len(main.params)) if input_indices is None else input_indices)
    if not chosen:
        raise ConfigError("the program has no input whose size could be flexible")
    open_ = specialize_body(mod, main, axis, AnySize(), chosen, affects_output)["main"]
    params = [Var(param.name_hint, param.checked_type, dialect="relay") for param in open_.params]
    length = make_call("shape_of", [params[chosen[0]]], {"dtype": "int64"})
    rank = len(params[chosen[0]].checked_type.shape)
    size = make_call("take", [length, const(axis % rank, "int64")], {"axis": 0})
    fallback = GlobalVar("main_any")
    mod[fallback] = open_
    choice: Any = Call(fallback, params)
    for bucket in reversed(sizes):
        version = specialize_body(mod, main, axis, bucket, chosen, affects_output)["main"]
        variable = GlobalVar(f"main_{bucket}")
        mod[variable] = version
        padding = pad_value if auto_pad else None
        called = _bucket_call(variable, params, chosen, padding, axis, bucket)
        if auto_pad and affects_output:
            called = _cut(called, version.ret_type, axis, size)
        fits = make_call("less_equal" if auto_pad else "equal", [size, const(bucket, "int64")])
        choice = If(fits, called, choice)
    attrs = dict(main.attrs)
    mod["main"] = Function(params, choice, attrs=attrs)
    return infer_module(mod)


@relay_pass("FlexibleShapeDispatch", 0)
def FlexibleShapeDispatch(
    mod: IRModule,
    buckets: Sequence[int],
    axis: int = 0,
    auto_pad: bool = False,
    pad_value: float = 0,
    input_indices: Sequence[int] | None = None,
    affects_output: bool = True,
) -> IRModule:
    """Let a program take any size along an axis, see `flexible_dispatch`."""
    return flexible_dispatch(mod, buckets, axis, auto_pad, pad_value, input_indices, affects_output)
