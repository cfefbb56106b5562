"""Memory operators for the memory plan: storage, tensors in it, and views."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import sizes_of, tensor
from tilesmith.relax.op.declaration import define, find_function, function, function_of
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo


def shape_and_dtype(shape: Any, dtype: Any) -> TensorStructInfo:
    """Return the struct info of a tensor by its written shape and dtype."""
    return TensorStructInfo(shape, dtype.value)


_builtin_alloc_tensor = define(
    "builtin.alloc_tensor",
    "shape:shape dtype:dtype runtime_device_index:scalar storage_scope:text",
    lambda call: shape_and_dtype(call.args[0], call.args[1]),
    execution=Execution.ALLOC_TENSOR,
    is_pure=False,
)
alloc_storage = define(
    "memory.alloc_storage",
    "size:shape virtual_device_index:scalar storage_scope:text dtype:dtype",
    lambda call: ObjectStructInfo(),
    description="New memory of so many bytes.",
    execution=Execution.ALLOC_STORAGE,
    is_pure=False,
)
alloc_tensor = define(
    "memory.alloc_tensor",
    "storage offset:scalar shape:shape dtype:dtype",
    lambda call: shape_and_dtype(call.args[2], call.args[3]),
    description="A tensor in a storage, at an offset in bytes.",
    execution=Execution.TENSOR_IN_STORAGE,
    is_pure=False,
)
kill_storage = define(
    "memory.kill_storage",
    "storage",
    lambda call: TupleStructInfo(()),
    evaluate=lambda attrs, storage: (),
    description="The storage is used no more.",
    execution=Execution.HOST,
    host="nothing",
    is_pure=False,
)
kill_tensor = define(
    "memory.kill_tensor",
    "tensor",
    lambda call: TupleStructInfo(()),
    evaluate=lambda attrs, tensor: (),
    description="The tensor is used no more.",
    execution=Execution.HOST,
    host="nothing",
    is_pure=False,
)


@function_of(_builtin_alloc_tensor)
def builtin_alloc_tensor(
    shape: Any, dtype: Any, runtime_device_index: Any = 0, storage_scope: Any = "global"
) -> Call:
    """Return a new tensor with undefined contents."""
    return _builtin_alloc_tensor(shape, dtype, runtime_device_index, storage_scope)


def _infer_view(call: Call) -> Any:
    info = tensor(call, 0)
    shape = call.args[1] if len(call.args) > 1 else None
    dtype = call.args[2].value if len(call.args) > 2 else info.dtype
    if shape is None or isinstance(shape.struct_info, TupleStructInfo):
        shape = sizes_of(info)
    return TensorStructInfo(shape, dtype, info.vdevice)


def _view(attrs: Any, data: Any, shape: Any, dtype: Any, offset: int = 0) -> Any:
    kind = dtype.numpy()
    whole = numpy.ascontiguousarray(data).reshape(-1).view("uint8")
    return whole[offset : offset + math.prod(shape) * kind.itemsize].view(kind).reshape(shape)


_view_call = define(
    "memory.view",
    "data shape:shape dtype:dtype relative_byte_offset:scalar?",
    _infer_view,
    evaluate=_view,
    view_of=0,
    execution=Execution.HOST,
    host="view",
)
ensure_zero_offset = define(
    "memory.ensure_zero_offset",
    "data",
    lambda call: tensor(call, 0),
    description="A tensor whose data starts where its memory starts.",
    evaluate=lambda attrs, data: data,
    execution=Execution.HOST,
    host="same",
)
function("ensure_zero_offset")(ensure_zero_offset)


@function("view")
@function_of(_view_call)
def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Call:
    """Return a view of a tensor's memory with another shape and dtype."""
    info = data.struct_info
    return _view_call(
        data,
        info.shape if shape is None else shape,
        info.dtype if dtype is None else dtype,
        relative_byte_offset,
    )


stop_lift_params = define(
    "builtin.stop_lift_params",
    "x",
    lambda call: tensor(call, 0),
    description="Parameters are not transformed ahead of time beyond this point.",
    is_identity=True,
)


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("memory." + name)
