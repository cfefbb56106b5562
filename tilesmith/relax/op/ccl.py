"""``relax.op.ccl``: collectives, what workers exchange. With one worker each is the identity; a
program for several is refused when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import Schema, boolean, integer, text
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.common import sizes_of, tensor
from tilesmith.relax.op.declaration import OpFunction, define, find_function, functions
from tilesmith.relax.sharding import DTensorStructInfo, Placement
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import ShapeError, UnsupportedError

__all__ = ["allgather", "allreduce", "broadcast_from_worker0", "scatter_from_worker0"]


def check_single(name: str, attrs: Any) -> None:
    """Refuse what needs several workers, where it would run."""
    count = 1 if attrs is None else int(attrs.get("num_workers", 1))
    if count != 1:
        raise UnsupportedError(
            f"{name}: the program is for {count} workers, and there is one",
            notes=(
                "a mesh of the shape (1,) runs here; each worker's program can be looked at after "
                "relax.distributed.transform.LowerDistIR",
            ),
        )


def scaled_axis(info: TensorStructInfo, axis: int, count: int, divide: bool) -> TensorStructInfo:
    """Return a struct info with one size multiplied, or divided, by a number of workers."""
    sizes = sizes_of(info)
    if sizes is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    if not 0 <= axis < len(sizes):
        raise ShapeError(f"a tensor of rank {len(sizes)} has no axis {axis}")
    size = sizes[axis]
    if divide and isinstance(size, IntImm) and size.value % count:
        raise ShapeError(f"{count} workers cannot divide axis {axis} of size {size.value}")
    made = [*sizes]
    made[axis] = size // count if divide else size * count
    return TensorStructInfo(made, info.dtype, info.vdevice)


def _collective(
    name: str, infer: Callable[[Call], Any], meaning: str, schema: Schema | None = None
) -> OpFunction:
    def compute(attrs: Any, x: Any) -> Any:
        check_single(name, attrs)
        return topi.identity(x)

    def evaluate(attrs: Any, x: Any) -> Any:
        check_single(name, attrs)
        return x

    return define(
        name, "x", infer, description=meaning, schema=schema, compute=compute, evaluate=evaluate
    )


def _same(call: Any) -> Any:
    info = known_struct_info(call.args[0])
    return info if isinstance(info, DTensorStructInfo) else tensor(call, 0)


def _gathered(call: Any) -> Any:
    info = known_struct_info(call.args[0])
    if isinstance(info, DTensorStructInfo):
        if info.placement.axes != (0,):
            raise ShapeError(
                f"ccl.allgather joins parts of axis 0, the placement is '{info.placement.text}'"
            )
        return DTensorStructInfo(info.tensor_sinfo, info.device_mesh, Placement.of([None]))
    return scaled_axis(tensor(call, 0), 0, call.attrs.num_workers, False)


def _scattered(call: Any) -> Any:
    return scaled_axis(tensor(call, 0), call.attrs.axis, call.attrs.num_workers, True)


allreduce = _collective(
    "ccl.allreduce",
    _same,
    "The sum (or ``op_type``) of a tensor over all workers.",
    Schema(op_type=text("sum"), in_group=boolean(True)),
)
allgather = _collective(
    "ccl.allgather",
    _gathered,
    "The tensors of all workers, one behind the other along axis 0.",
    Schema(num_workers=integer(least=1), in_group=boolean(True)),
)
broadcast_from_worker0 = _collective("ccl.broadcast_from_worker0", _same, "The tensor of worker 0.")
scatter_from_worker0 = _collective(
    "ccl.scatter_from_worker0",
    _scattered,
    "This worker's part of the tensor of worker 0, which is divided along an axis.",
    Schema(num_workers=integer(least=1), axis=integer(0)),
)

globals().update(functions("ccl."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("ccl." + name)
