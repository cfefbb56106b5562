"""Describes a dialect of C for GPUs as data: vectors, threads, spaces of memory, barriers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilesmith.codegen.c_family.dialect import FLOAT32, Dialect, bits_text, rounded_to, short
from tilesmith.runtime.dtype import DataType

__all__ = ["DeviceDialect"]


@dataclass(frozen=True, kw_only=True)
class DeviceDialect(Dialect):
    """One dialect of C for devices, beside what `Dialect` says of each language."""

    vector_names: Mapping[str, str]
    """Type → the beginning of the names of its vectors."""
    vector_lanes: Callable[[DataType], tuple[int, ...]]
    """The numbers of lanes for which an element has a vector type."""
    components: str
    """The letters of the lanes of a vector: "xyzw"."""
    component_prefix: str
    build_vector: str
    """The text of a vector of given parts, with `{type}` and `{parts}`."""
    access_bytes: int
    """The most bytes of one access."""
    threads: Mapping[str, str]
    """Tag of a thread axis → its index."""
    spaces: Mapping[str, str]
    """Scope of memory → address space of pointers to it, with a space behind; "" for all others."""
    kernel: str
    """The text before a kernel's name, with `{bounds}`."""
    restrict: str
    shared: str
    """A declaration in shared memory, with `{type}`, `{name}`, `{count}` and `{bytes}`."""
    barriers: Mapping[str, str]
    """Scope → the call of a barrier."""
    fast_names: Mapping[str, str]
    """Operator → quick function of float32 that is less exact."""
    default_arch: str = ""
    """What a target without an architecture means."""
    static_shared_bytes: int = 0
    """The most shared memory that a kernel can declare; 0: as much as a block has."""
    shared_kib: Mapping[int, int] = field(default_factory=dict)
    """Number of an architecture → shared memory of one block in KiB; else the target says it."""
    largest_extents: Mapping[str, int] = field(default_factory=dict)
    """Tag of a thread axis → its largest extent."""
    prologue: str = ""
    """What each file begins with."""

    def memory_type(self, dtype: DataType) -> str:
        if dtype.is_bool:
            return self.types["u8"] if self.name == "opencl" else self.types["bool"]
        return self.type(dtype)

    def vector_type(self, dtype: DataType) -> str:
        """Return the type of a vector in a register; "" where it is an array."""
        if dtype.is_bool or dtype.lanes not in self.vector_lanes(dtype.element):
            return ""
        kind = self.type(dtype)
        return f"{self.vector_names.get(kind, kind)}{dtype.lanes}"

    def component(self, lane: int) -> str:
        """Return how a lane of a vector is selected: `.x`, `.s0`."""
        return f".{self.component_prefix}{self.components[lane]}"

    def space(self, scope: str) -> str:
        """Return the address space of memory in a scope, with a space behind it; or ""."""
        return self.spaces.get(scope.partition(".")[0], "")

    def narrow_text(self, value: float, dtype: DataType) -> str:
        if short(dtype) in self.native or short(dtype) in self.from_float and self.name == "cuda":
            return f"{self.type(dtype)}({self.float_text(rounded_to(value, dtype), FLOAT32)})"
        return bits_text(value, dtype)
