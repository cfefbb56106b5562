"""The functions that users call in TensorIR programs: all of ``ir.intrinsics``, and those that need
buffers, iterators and reductions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call, Node, PrimExpr, StringImm, Var, const, convert, operators
from tilesmith.ir.call_intrinsics import tvm_stack_make_array, tvm_stack_make_shape
from tilesmith.ir.device_intrinsics import *  # noqa: F403
from tilesmith.ir.device_intrinsics import __all__ as _device_names
from tilesmith.ir.intrinsics import *  # noqa: F403
from tilesmith.ir.intrinsics import (
    __all__ as _intrinsic_names,
)
from tilesmith.ir.intrinsics import (
    max_value,
    min_value,
)  # fmt: skip
from tilesmith.ir.operators import add, divide, multiply, subtract
from tilesmith.support.errors import TypeMismatchError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, CommReducer, IterVar, IterVarType, Reduce

__all__ = [
    *_intrinsic_names, *_device_names, "add", "address_of", "call_cpacked",
    "call_cpacked_lowered", "call_packed", "call_packed_lowered", "comm_reducer", "divide",
    "max", "min", "multiply", "subtract", "sum", "trace",
]  # fmt: skip


def address_of(buffer_load: Buffer | BufferLoad, span: Any = None) -> PrimExpr:
    """Return the address of an element; of a buffer, that of its first element."""
    if isinstance(buffer_load, Buffer):
        zeros = [const(0, size.dtype) for size in buffer_load.shape]
        buffer_load = BufferLoad(buffer_load, zeros)
    return Call("handle", "tir.address_of", (buffer_load,))


def _packed_argument(value: Any) -> Node:
    """Return an argument of a packed call: a buffer becomes a DLTensor on the stack."""
    if not isinstance(value, Buffer):
        node: Node = convert(value)
        return node
    shape = tvm_stack_make_shape(*value.shape)
    strides: Any = tvm_stack_make_shape(*value.strides) if value.strides else 0
    zero = const(0, value.dtype)
    return tvm_stack_make_array(
        value.data, shape, strides, len(value.shape), zero, value.elem_offset
    )


def _packed(name: str, args: tuple[Any, ...]) -> PrimExpr:
    if not args or not isinstance(args[0], (str, StringImm)):
        raise TypeMismatchError("a packed call begins with the name of the function")
    return Call("int32", "tir." + name, tuple([_packed_argument(arg) for arg in args]))


def call_packed(*args: Any, span: Any = None) -> PrimExpr:
    """Call a registered function: its name, then expressions, texts and buffers."""
    return _packed("tvm_call_packed", args)


def call_cpacked(*args: Any, span: Any = None) -> PrimExpr:
    """Call a function with packed arguments by its symbol."""
    return _packed("tvm_call_cpacked", args)


def call_packed_lowered(*args: Any, span: Any = None) -> PrimExpr:
    """Call a packed function whose arguments are already on the stack."""
    return _packed("tvm_call_packed_lowered", args)


def call_cpacked_lowered(*args: Any, span: Any = None) -> PrimExpr:
    """Call a packed function, given by its symbol, whose arguments are already on the stack."""
    return _packed("tvm_call_cpacked_lowered", args)


def trace(args: Any, trace_action: str = "tilesmith.default_trace_action") -> PrimExpr:
    """Call a registered function with some expressions, and return the last of them."""
    if not isinstance(args, (list, tuple)):
        raise TypeMismatchError("trace needs a list of expressions")
    values = [convert(arg) for arg in args]
    arguments = (StringImm(trace_action), *values)
    return Call(values[-1].dtype, "tir.tvm_call_trace_packed", arguments)


def _is_axis(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return not value or _is_axis(value[0])  # an empty list: a reduction over nothing
    return isinstance(value, IterVar)


def _axis_name(value: Any) -> str:
    return f"'{value.var.name}'" if isinstance(value, IterVar) else f"`{value}`"


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """Return a user-defined reduction: ``fcombine(a, b)`` is associative and commutative.

    ``fidentity(dtype)`` gives its identity. With tuples, ``fcombine`` takes and returns tuples and
    ``fidentity`` takes one dtype for each. The result is a function of ``(expr, axis, where=None,
    init=None)``; called with expressions instead of an axis it combines them directly.
    """

    def reduce_directly(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = fcombine(result, value)
        return result

    def reduce_over(expr: Any, axis: Any, where: Any, init: Any) -> Any:
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        for iterator in axes:
            if not isinstance(iterator, IterVar) or iterator.iter_type != IterVarType.CommReduce:
                raise TypeMismatchError(
                    f"{name}: {_axis_name(iterator)} is not a reduction axis",
                    notes=("make it with te.reduce_axis",),
                )
        if len({id(iterator) for iterator in axes}) < len(axes):
            names = ", ".join([_axis_name(iterator) for iterator in axes])
            raise TypeMismatchError(f"{name}: an axis is twice among {names}")
        condition = const(True, "bool") if where is None else convert(where)
        if not condition.dtype.is_bool:
            raise TypeMismatchError(
                f"{name}: the condition `where` is {condition.dtype}, a comparison is needed"
            )
        several = isinstance(expr, (list, tuple))
        source = [convert(value) for value in (expr if several else (expr,))]
        reducer = _make_reducer(fcombine, fidentity, source, several, name)
        first = () if init is None else (init if isinstance(init, (list, tuple)) else (init,))
        start = [operators.cast(value.dtype, item) for value, item in zip(source, first)]
        values = [
            Reduce(reducer, source, axes, condition, number, start) for number in range(len(source))
        ]
        return tuple(values) if several else values[0]

    def reducer(
        expr: Any, *others: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> Any:
        if axis is None and others and _is_axis(others[0]):
            axis, others = others[0], others[1:]
            where = others[0] if others else where
            init = others[1] if len(others) > 1 else init
            others = ()
        if axis is not None:
            return reduce_over(expr, axis, where, init)
        if not others:
            raise TypeMismatchError(
                f"{name} needs an axis to reduce over, or several values",
                notes=(f"for example {name}(A[i, k], axis=k) with k = te.reduce_axis((0, 16))",),
            )
        return reduce_directly(expr, *others)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = (
        f"The {name} of ``expr`` over reduction axes (``{name}(expr, axis=k, where=None)``), "
        f"or of several expressions (``{name}(a, b)``)."
    )
    return reducer


def _make_reducer(
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    source: list[Any],
    several: bool,
    name: str,
) -> CommReducer:
    if several:
        lhs = [Var(f"lhs{number}", value.dtype) for number, value in enumerate(source)]
        rhs = [Var(f"rhs{number}", value.dtype) for number, value in enumerate(source)]
        result = fcombine(lhs, rhs)
        identity = fidentity(*[str(value.dtype) for value in source])
    else:
        lhs, rhs = [Var("x", source[0].dtype)], [Var("y", source[0].dtype)]
        result = (fcombine(lhs[0], rhs[0]),)
        identity = (fidentity(str(source[0].dtype)),)
    if len(result) != len(source) or len(identity) != len(source):
        raise TypeMismatchError(
            f"reduction '{name}' over {len(source)} values needs as many results and identities, "
            f"got {len(result)} and {len(identity)}"
        )
    return CommReducer(
        lhs,
        rhs,
        tuple([operators.cast(value.dtype, item) for value, item in zip(source, result)]),
        tuple(
            [operators.cast(value.dtype, convert(item)) for value, item in zip(source, identity)]
        ),
    )


sum = comm_reducer(lambda x, y: operators.add(x, y), lambda dtype: const(0, dtype), name="sum")
min = comm_reducer(lambda x, y: operators.minimum(x, y), max_value, name="min")
max = comm_reducer(lambda x, y: operators.maximum(x, y), min_value, name="max")
