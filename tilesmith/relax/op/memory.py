"""Memory as the memory plan sees it: storage, tensors in it, and views."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax.expr import Call, DataTypeImm, PrimValue, StringImm
from tilesmith.relax.op.common import as_shape, sizes_of, tensor
from tilesmith.relax.op.spec import call, define
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo


def _shape_and_dtype(shape: Any, dtype: Any) -> Any:
    return TensorStructInfo(shape, dtype.value)


def _scalar(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, (int, PrimExpr)) else value


def _text(value: Any) -> Any:
    return StringImm(value) if isinstance(value, str) else value


def _dtype(value: Any) -> Any:
    return value if isinstance(value, DataTypeImm) else DataTypeImm(value)


_BUILTIN_ALLOC = define(
    "builtin.alloc_tensor",
    "shape dtype runtime_device_index storage_scope",
    lambda call: _shape_and_dtype(call.args[0], call.args[1]),
    is_pure=False,
)
_ALLOC_STORAGE = define(
    "memory.alloc_storage",
    "size virtual_device_index storage_scope dtype",
    lambda call: ObjectStructInfo(),
    is_pure=False,
)
_ALLOC_TENSOR = define(
    "memory.alloc_tensor",
    "storage offset shape dtype",
    lambda call: _shape_and_dtype(call.args[2], call.args[3]),
    is_pure=False,
)
_KILL_STORAGE = define(
    "memory.kill_storage", "storage", lambda call: TupleStructInfo(()), is_pure=False
)
_KILL_TENSOR = define(
    "memory.kill_tensor", "tensor", lambda call: TupleStructInfo(()), is_pure=False
)


def builtin_alloc_tensor(
    shape: Any, dtype: Any, runtime_device_index: Any = 0, storage_scope: Any = "global"
) -> Call:
    """A new tensor with undefined contents."""
    return call(
        _BUILTIN_ALLOC,
        as_shape(shape),
        _dtype(dtype),
        _scalar(runtime_device_index),
        _text(storage_scope),
    )


def alloc_storage(size: Any, virtual_device_index: Any, storage_scope: Any, dtype: Any) -> Call:
    """New memory of so many bytes."""
    return call(
        _ALLOC_STORAGE,
        as_shape(size),
        _scalar(virtual_device_index),
        _text(storage_scope),
        _dtype(dtype),
    )


def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any) -> Call:
    """A tensor in a storage, at an offset in bytes."""
    return call(_ALLOC_TENSOR, storage, _scalar(offset), as_shape(shape), _dtype(dtype))


def kill_storage(storage: Any) -> Call:
    """The storage is used no more."""
    return call(_KILL_STORAGE, storage)


def kill_tensor(tensor: Any) -> Call:
    """The tensor is used no more."""
    return call(_KILL_TENSOR, tensor)


def _infer_view(call: Call) -> Any:
    info = tensor(call, 0)
    shape = call.args[1] if len(call.args) > 1 else None
    dtype = call.args[2].value if len(call.args) > 2 else info.dtype
    if shape is None or isinstance(shape.struct_info, TupleStructInfo):
        shape = sizes_of(info)
    return TensorStructInfo(shape, dtype, info.vdevice)


_VIEW = define("memory.view", "data shape dtype relative_byte_offset", _infer_view)
_ENSURE_ZERO_OFFSET = define("memory.ensure_zero_offset", "data", lambda call: tensor(call, 0))


def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Call:
    """The memory of a tensor in another shape and dtype."""
    info = data.struct_info
    shape = info.shape if shape is None else as_shape(shape)
    return call(
        _VIEW,
        data,
        shape,
        _dtype(info.dtype if dtype is None else dtype),
        None if relative_byte_offset is None else _scalar(relative_byte_offset),
    )


def ensure_zero_offset(data: Any) -> Call:
    """A tensor whose data starts where its memory starts."""
    return call(_ENSURE_ZERO_OFFSET, data)


_STOP_LIFT = define(
    "builtin.stop_lift_params",
    "x",
    lambda call: tensor(call, 0),
    evaluate=lambda attrs, x: x,
)


def stop_lift_params(x: Any) -> Call:
    """Parameters are not transformed ahead of time beyond this point."""
    return call(_STOP_LIFT, x)
