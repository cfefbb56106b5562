"""``relax.op.vm``: what the virtual machine's programs are made of: memory, calls of kernels."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.expr import Call, Tuple
from tilesmith.relax.op.declaration import define, find_function, function_of, functions
from tilesmith.relax.op.memory import shape_and_dtype
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ObjectStructInfo, TupleStructInfo

_alloc_storage = define(
    "vm.alloc_storage",
    "shape:shape runtime_device_index:scalar dtype:dtype storage_scope:text",
    lambda call: ObjectStructInfo(),
    execution=Execution.ALLOC_STORAGE,
    is_pure=False,
)
alloc_tensor = define(
    "vm.alloc_tensor",
    "storage offset:scalar shape:shape dtype:dtype",
    lambda call: shape_and_dtype(call.args[2], call.args[3]),
    description="A tensor in a storage, at an offset in bytes.",
    execution=Execution.TENSOR_IN_STORAGE,
    is_pure=False,
)
kill_object = define(
    "vm.kill_object",
    "obj",
    lambda call: TupleStructInfo(()),
    evaluate=lambda attrs, value: (),
    description="The value is used no more.",
    execution=Execution.HOST,
    host="nothing",
    is_pure=False,
)
_call_tir_dyn = define(
    "vm.call_tir_dyn",
    "func args",
    lambda call: TupleStructInfo(()),
    execution=Execution.CALL_KERNEL,
    is_pure=False,
)


@function_of(_alloc_storage)
def alloc_storage(
    shape: Any, runtime_device_index: Any, dtype: Any, storage_scope: Any = "global"
) -> Call:
    """Return new memory of so many bytes."""
    return _alloc_storage(shape, runtime_device_index, dtype, storage_scope)


@function_of(_call_tir_dyn)
def call_tir_dyn(func: Any, args: Any) -> Call:
    """Call a PrimFunc of the module with arguments, results, and a shape of its symbolic sizes."""
    return _call_tir_dyn(func, args if isinstance(args, Call | Tuple) else Tuple(args))


globals().update(functions("vm."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("vm." + name)
