"""Registers what the fuzzer's programs name: tensor intrinsics, such that ``tensorize`` finds one
that fits, a packed function that gets tensors, and the memory of an invented device.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Add, Mul, Var
from tilesmith.runtime.registry import register_func
from tilesmith.script import from_source
from tilesmith.tir import BufferLoad, BufferStore, TensorIntrin
from tilesmith.tir.stmt import Block, BlockRealize
from tilesmith.tir.transform.storage.memory_info import MemoryInfo

__all__ = ["MOVE", "SPECIAL_MEMORY", "driving_variable", "fitting", "register"]

MOVE = "fuzz.move"
"""The name of the packed function that moves an element."""

SPECIAL_MEMORY: dict[str, dict[str, int] | None] = {
    "global.far": None,
    "local.near": {"unit_bits": 8, "max_simd_bits": 64, "max_num_bits": 1 << 24},
    "global.wide": {"unit_bits": 8, "max_simd_bits": 512, "max_num_bits": 1 << 24},
    "shared.bank": {"unit_bits": 32, "max_simd_bits": 128, "max_num_bits": 1 << 24},
}
"""Scopes of an invented device, and what it says about them."""

_COPY = """
@T.prim_func
def copy(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4,), "{dtype}", offset_factor=1)
    B = T.match_buffer(b, (4,), "{dtype}", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]
"""
_DOT = """
@T.prim_func
def dot(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "{dtype}", offset_factor=1)
    B = T.match_buffer(b, (4,), "{dtype}", offset_factor=1)
    C = T.match_buffer(c, (1,), "{dtype}", offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for i in range(4):
            with T.block("dot"):
                vi = T.axis.reduce(4, i)
                C[0] = C[0] + A[vi] * B[vi]
"""
_DTYPES = ("float32", "int32", "int8", "float64")


def fitting(block: Block) -> str | None:
    """Return the intrinsic that may compute what a block does, or None."""
    store = block.body
    if not isinstance(store, BufferStore):
        return None
    dtype = str(store.buffer.dtype)
    if isinstance(store.value, BufferLoad) and block.init is None:
        return f"fuzz.copy.{dtype}" if dtype in _DTYPES else None
    value = store.value
    if isinstance(value, Add) and isinstance(value.b, Mul) and dtype in _DTYPES:
        if isinstance(value.b.a, BufferLoad) and isinstance(value.b.b, BufferLoad):
            return f"fuzz.dot.{dtype}"
    return None


def driving_variable(realize: BlockRealize) -> Var | None:
    """Return the loop variable that runs over the last dimension of a matching block's accesses."""
    store = realize.block.body
    assert isinstance(store, BufferStore)
    access = store if realize.block.init is None else store.value.b.a
    index = access.indices[-1] if access.indices else None
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.var is index and isinstance(value, Var):
            return value
    return None


def _move(source: Any, target: Any, *indices: int) -> None:
    """Move an element from one tensor to another one; the indices of both follow each other."""
    count = len(source.shape)
    target.numpy_view()[indices[count:]] = source.numpy_view()[indices[:count]]


def register() -> None:
    """Register the intrinsics, the function and the memory."""
    register_func(MOVE, _move, override=True)
    for scope, info in SPECIAL_MEMORY.items():
        if info is not None:
            made = MemoryInfo(**info)
            register_func(f"tvm.info.mem.{scope}", lambda made=made: made, override=True)
    for kind, source in (("copy", _COPY), ("dot", _DOT)):
        for dtype in _DTYPES:
            text = source.replace("{dtype}", dtype)
            # Description and implementation are the same loops here.
            function = from_source(text)
            TensorIntrin.register(f"fuzz.{kind}.{dtype}", function, function, override=True)
