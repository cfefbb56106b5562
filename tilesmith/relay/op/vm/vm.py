"""``relay.op.vm.vm``: calls of kernels that write to memory, shapes as values.

let %u = vm.invoke_tvm_op(fn (%a) { exp(%a) }, (%x,), (%out,))
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, dtype, ints
from tilesmith.relax.expr import as_expr
from tilesmith.relax.struct_info import ShapeExpr, TupleStructInfo
from tilesmith.relay.expr import Tuple
from tilesmith.relay.op.dyn.declaration import Place, of_unknown_sizes
from tilesmith.relay.op.view import define, effect, function, make_call

__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of"]

define(
    "vm.shape_of",
    "data",
    lambda attrs, data: relax.astype(relax.shape_to_tensor(relax.shape_of(data)), attrs.dtype),
    level=10,
    schema=Schema(dtype=dtype("int64")),
    description="The sizes of a tensor, as a vector.",
)
effect(
    "vm.invoke_tvm_op",
    "func inputs outputs",
    lambda call: TupleStructInfo(()),
    description="Call a function of tensors, which writes its results into memory.",
)
effect(
    "vm.shape_func",
    "func inputs outputs",
    lambda call: TupleStructInfo(()),
    schema=Schema(is_input=ints()),
    description="Call the shape function of a function, which writes the shapes of its results.",
)


def _reshape_tensor(place: Place, attrs: Any, data: Any, shape: Any) -> Any:
    wanted = list(attrs.newshape)
    if all(size >= 0 for size in wanted):
        return relax.reshape(data, ShapeExpr(wanted))
    return relax.reshape(data, ShapeExpr(place.sizes(shape, "size")))


of_unknown_sizes(
    "vm.reshape_tensor",
    "data shape",
    _reshape_tensor,
    level=10,
    schema=Schema(newshape=ints()),
    description="The same elements in another shape, which ``newshape`` states as far as known.",
)


@function("vm.shape_of")
def shape_of(expr: Any) -> Any:
    """Return the sizes of a tensor as a vector of int64."""
    return make_call("vm.shape_of", [expr], {"dtype": "int64"})


def _tuple(values: Any) -> Any:
    return Tuple(values) if isinstance(values, (list, tuple)) else as_expr(values)


@function("vm.invoke_tvm_op")
def invoke_tvm_op(func: Any, inputs: Any, outputs: Any) -> Any:
    """Call a function of tensors: its results are written into the tensors of ``outputs``."""
    return make_call("vm.invoke_tvm_op", [func, _tuple(inputs), _tuple(outputs)])


@function("vm.shape_func")
def shape_func(func: Any, inputs: Any, outputs: Any, is_inputs: Any) -> Any:
    """Call the shape function of a function: the shapes of its results are written into the vectors
    of ``outputs``. ``is_inputs`` says which inputs are values (1) and which are shapes (0).
    """
    attributes = {"is_input": list(is_inputs)}
    return make_call("vm.shape_func", [func, _tuple(inputs), _tuple(outputs)], attributes)


@function("vm.reshape_tensor")
def reshape_tensor(data: Any, shape: Any, newshape: Any) -> Any:
    """Return the same elements in a shape: a computed one, of which ``newshape`` states what is
    known (-1: not known).
    """
    return make_call("vm.reshape_tensor", [data, shape], {"newshape": list(newshape)})
