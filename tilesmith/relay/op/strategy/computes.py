"""The tensor expressions of our own operators, from their records: ``FTVMCompute`` of each.

    Op.get("nn.dense").get_attr("FTVMCompute")(attrs, [data, weight], out_type)    # [a te.Tensor]

A view (`op.view`) says which operators of the graph a call means; the tensor expressions of these
are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from tilesmith import te
from tilesmith.ir import FloatImm, IntImm, Op, PrimExpr, const
from tilesmith.ir.operators import cast, equal
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    PrimValue,
    RelaxExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.ndarray import array
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import Select

__all__ = [
    "TUPLE_OPERATORS", "OwnCompute", "copy_if_identical", "graph_operands", "tensors_of_call",
]  # fmt: skip

TUPLE_OPERATORS = frozenset({"adv_index", "concatenate", "einsum", "meshgrid", "stack"})
"""Operators whose one argument is a tuple; their computes get its fields."""


class OwnCompute:
    """The compute of an operator of ours: ``(attrs, inputs, out_type)`` → a list of tensors."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def __call__(self, attrs: Any, inputs: Sequence[Any], out_type: Any = None) -> list[Any]:
        return tensors_of_call(self.op, attrs, inputs)


def graph_operands(op: Op, operands: Sequence[Any]) -> list[Any]:
    """Return the arguments of a call of ``op`` whose tensors are ``operands``."""
    return [Tuple(list(operands))] if op.name in TUPLE_OPERATORS else list(operands)


def tensors_of_call(op: Op, attrs: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the tensors that a call of an operator gives for these tensors. Sizes that depend on
    elements are variables.

    Raises UnsupportedError for an operator without a tensor expression.
    """
    spec = op.spec
    translate = getattr(spec, "translate", None)
    if translate is None:
        given = list(inputs)
        made = _computed(spec, attrs, [given] if op.name in TUPLE_OPERATORS else given)
    else:
        variables = [_operand(one, f"input{place}") for place, one in enumerate(inputs)]
        tensors = _Tensors({id(variable): one for variable, one in zip(variables, inputs)})
        operands = graph_operands(op, variables)
        at_run_time = spec.at_run_time
        if at_run_time is not None and not at_run_time.is_static(operands):
            made = tensors.of(at_run_time.emit(_OpenSizes(tensors), attrs, operands))
        else:
            made = tensors.of(translate(attrs, *operands))
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _operand(tensor: te.Tensor, name: str) -> Var | Constant:
    """Return what stands for a tensor in the graph: a constant for one that is a number, since some
    operators have to know it (what to pad with).
    """
    if not tensor.shape and isinstance(tensor.op, te.ComputeOp):
        (body,) = tensor.op.body
        if isinstance(body, (IntImm, FloatImm)):
            return Constant(array(body.value, dtype=str(body.dtype)))
    return Var(name, TensorStructInfo(list(tensor.shape), tensor.dtype), dialect="relax")


def _computed(spec: Any, attrs: Any, args: Sequence[Any]) -> Any:
    compute = spec.compute_function() if spec is not None else None
    if compute is not None and spec.counts is not None:
        return _filled(spec, compute, attrs, args)
    if compute is None:
        raise UnsupportedError(
            f"{spec.name if spec is not None else 'the operator'} has no tensor expression",
            notes=(
                "the executor carries it out",
                "register_compute(name, compute) gives it one",
            ),
        )
    return compute(attrs, *args)


def _filled(spec: Any, compute: Any, attrs: Any, args: Sequence[Any]) -> Any:
    """Return the second of the two programs of an operator whose sizes depend on elements: it fills
    a tensor of sizes that the first one has counted, which are variables here.
    """
    counted = spec.counts(attrs, *args)
    found, *rest = counted if isinstance(counted, (list, tuple)) else [counted]
    sizes = [
        te.var(f"{spec.short_name}_size_{place}", "int64") for place in range(int(found.shape[0]))
    ]
    return compute(attrs, sizes, *args, *rest)


class _OpenSizes:
    """Stands for a BlockBuilder where an operator with computed sizes is translated: the sizes stay
    variables, so what computes them is left out.
    """

    def __init__(self, tensors: _Tensors) -> None:
        self.tensors = tensors
        self.made: list[Var] = []  # they stay alive: tensors are known by them

    def emit(self, expr: Any) -> Any:
        """Return an expression; it is computed where a result needs it."""
        return expr

    normalize_argument = emit

    def match_cast(self, value: Any, info: Any) -> Any:
        """Return the value; its sizes are variables."""
        return value

    def call_te(self, expression: Any, *args: Any, primfunc_name_hint: str = "") -> Any:
        """Return what stands for the tensor that a tensor expression gives."""
        given = [self.tensors.of(one) if isinstance(one, RelaxExpr) else one for one in args]
        tensor = expression(*given)
        var = Var(
            primfunc_name_hint or "value",
            TensorStructInfo([cast("int64", size) for size in tensor.shape], tensor.dtype),
            dialect="relax",
        )
        self.made.append(var)
        self.tensors.values[id(var)] = tensor
        return var


class _Tensors:
    """Makes tensors of an expression of graph operators."""

    def __init__(self, values: dict[int, Any]) -> None:
        self.values = values

    def of(self, expr: Any) -> Any:
        """Return the tensor, list of tensors, sizes or scalar that an expression stands for."""
        found = self.values.get(id(expr))
        if found is None:
            found = self.values[id(expr)] = self._made(expr)
        return found

    def _made(self, expr: Any) -> Any:
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            return self._call(expr)
        if isinstance(expr, Tuple):
            return [self.of(field) for field in expr.fields]
        if isinstance(expr, TupleGetItem):
            return self.of(expr.tuple_value)[expr.index]
        if isinstance(expr, Constant):
            return _constant(expr)
        if isinstance(expr, ShapeExpr):
            return list(expr.values)
        if isinstance(expr, (DataTypeImm, PrimValue, StringImm)):
            return expr.value
        if isinstance(expr, PrimExpr):
            return expr
        raise UnsupportedError(f"a {type(expr).__name__} has no tensor expression")

    def _call(self, call: Call) -> Any:
        spec = call.op.spec
        if spec.is_identity:
            return self.of(call.args[0])
        args = [
            _scalar(arg) if place.kind == "number" and _is_scalar(arg) else self.of(arg)
            for arg, place in zip(call.args, spec.arguments)
        ]
        return _computed(spec, call.attrs, args)


def _is_scalar(arg: Any) -> TypeGuard[Constant]:
    return isinstance(arg, Constant) and not arg.data.shape


def _scalar(arg: Constant) -> PrimExpr:
    return const(arg.data.numpy().item(), arg.data.dtype)


_MOST_CHOICES = 32


def _constant(arg: Constant) -> Any:
    """Return a constant as a tensor; only scalars and short vectors can be part of a tensor
    expression.
    """
    shape = arg.data.shape
    if len(shape) == 1 and 0 < shape[0] <= _MOST_CHOICES:
        values = [const(one.item(), arg.data.dtype) for one in arg.data.numpy()]
        return te.compute(shape, lambda at: _choice(values, at), name="constant")
    if not _is_scalar(arg):
        raise UnsupportedError(
            "a constant tensor cannot be part of a tensor expression",
            notes=("pass it as an input",),
        )
    value = _scalar(arg)
    return te.compute((), lambda: value, name="constant")


def _choice(values: Sequence[PrimExpr], at: PrimExpr) -> PrimExpr:
    """Return the value at a place."""
    chosen = values[-1]
    for place in range(len(values) - 2, -1, -1):
        chosen = Select(equal(at, place), values[place], chosen)
    return chosen


def copy_if_identical(tensor_a: Any, tensor_b: Any) -> Any:
    """Return the second tensor, or a copy of it if both are the same one."""
    if tensor_a is not tensor_b:
        return tensor_b
    return te.compute(
        tensor_b.shape, lambda *indices: tensor_b[indices], name=f"{tensor_b.op.name}_copy"
    )
