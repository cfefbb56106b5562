"""Checks what a kernel asks for against what its target has, before code leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilesmith.codegen.facts import constant_bytes, constant_value
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.ir import PrimExpr
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import refused_above_threads
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import Allocate, AttrStmt, Stmt

__all__ = [
    "MINIMUM_BLOCKS", "Extents", "check_limits", "minimum_blocks", "shared_memory_limit",
    "thread_extents",
]  # fmt: skip

MINIMUM_BLOCKS = "pragma_min_blocks_per_multiprocessor"
"""The annotation of a loop that says how many blocks of its kernel a multiprocessor should hold."""

_AXES = "xyz"


class Extents:
    """The extents of a kernel's thread axes, by tag."""

    def __init__(self, extents: Mapping[str, PrimExpr]) -> None:
        self.extents = extents

    def block(self) -> list[int | None]:
        """Return the sizes of a block; None for one that the launch says."""
        return [self._size(f"threadIdx.{axis}") for axis in _AXES]

    def _size(self, tag: str) -> int | None:
        return constant_value(self.extents[tag]) if tag in self.extents else 1

    def threads(self) -> int | None:
        """Return the threads of a block; None where the launch says it."""
        count = 1
        for size in self.block():
            if size is None:
                return None
            count *= size
        return count

    def __str__(self) -> str:
        def group(word: str) -> str:
            texts = [str(self.extents.get(f"{word}.{axis}", 1)) for axis in _AXES]
            return f"({', '.join(texts)})"

        return f"blockIdx {group('blockIdx')}, threadIdx {group('threadIdx')}"


def thread_extents(function: PrimFunc) -> Extents:
    """Return the extents of a kernel's thread axes."""
    found: dict[str, PrimExpr] = {}
    for stmt in statements(function.body):
        if isinstance(stmt, AttrStmt) and stmt.attr_key == "thread_extent":
            assert isinstance(stmt.node, IterVar)
            found.setdefault(stmt.node.thread_tag, stmt.value)
    return Extents(found)


def shared_memory_limit(target: Target, dialect: DeviceDialect) -> int | None:
    """Return the most bytes of shared memory that a block can have, dynamic memory included; None
    where it is not known.
    """
    given = target.attrs.get("max_shared_memory_per_block")
    if not dialect.shared_kib:
        return None if given is None else int(given)
    found = re.match(r"sm_(\d+)", str(target.attrs.get("arch") or dialect.default_arch))
    kib = dialect.shared_kib.get(int(found[1])) if found else None
    return None if kib is None else max(kib * 1024, int(given or 0))


def check_limits(
    symbol: str, function: PrimFunc, target: Target, dialect: DeviceDialect, extents: Extents
) -> None:
    """Raise CodegenError where a kernel asks for more than the target has."""
    _check_threads(symbol, target, dialect, extents)
    _check_shared(symbol, function, target, dialect)


def _refuse(symbol: str, what: str, limit: str, advice: str) -> CodegenError:
    return CodegenError(f"kernel '{symbol}': {what}; {limit}", notes=(advice,))


def _check_threads(symbol: str, target: Target, dialect: DeviceDialect, extents: Extents) -> None:
    most, threads = refused_above_threads(target), extents.threads()
    if most is not None and threads is not None and threads > most:
        sizes = " x ".join([str(size) for size in extents.block()])
        raise _refuse(
            symbol,
            f"a block has {sizes} = {threads} threads",
            f"the target allows {most} (max_threads_per_block)",
            "split the loops bound to threadIdx into smaller factors, or name the device's own "
            f"limit: Target('{target.kind.name} -max_threads_per_block=…')",
        )
    for tag, limit in dialect.largest_extents.items():
        size = constant_value(extents.extents[tag]) if tag in extents.extents else None
        if size is not None and size > limit:
            raise _refuse(
                symbol,
                f"{tag} has extent {size}",
                f"the largest is {limit}",
                "bind the largest loop to blockIdx.x"
                if tag.startswith("blockIdx")
                else "bind this loop to threadIdx.x, or split it",
            )


def _check_shared(symbol: str, function: PrimFunc, target: Target, dialect: DeviceDialect) -> None:
    static: dict[str, int] = {}
    dynamic = 0
    allocations = [one for one in statements(function.body) if isinstance(one, Allocate)]
    for allocation in allocations:
        scope, size = allocation.buffer_var.storage_scope, constant_bytes(allocation)
        if scope == "shared.dyn":
            dynamic += size or 0
        elif scope.partition(".")[0] == "shared" and size is not None:
            name = allocation.buffer_var.name
            static[name] = static.get(name, 0) + size
    total = sum(static.values())
    listed = ", ".join([f"{name} {size}" for name, size in static.items()])
    if dialect.static_shared_bytes and total > dialect.static_shared_bytes:
        raise _refuse(
            symbol,
            f"it declares {total} bytes of shared memory ({listed})",
            f"static shared memory ends at {dialect.static_shared_bytes} bytes",
            "use the scope 'shared.dyn', which is allocated at the launch and may be larger",
        )
    limit = shared_memory_limit(target, dialect)
    if limit is not None and total + dynamic > limit:
        raise _refuse(
            symbol,
            f"a block needs {total + dynamic} bytes of shared memory",
            f"the target has {limit} (max_shared_memory_per_block)",
            "use smaller tiles or fewer stages, or name the device's own limit: "
            f"Target('{target.kind.name} … -max_shared_memory_per_block=…')",
        )


def minimum_blocks(kernel: Stmt) -> int | None:
    """Return how many blocks of a kernel a multiprocessor should hold at least; None if its
    schedule says nothing.
    """
    for stmt in statements(kernel):
        if isinstance(stmt, AttrStmt) and stmt.attr_key == MINIMUM_BLOCKS:
            return constant_value(stmt.value)
    return None
