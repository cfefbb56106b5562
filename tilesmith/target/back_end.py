"""Defines `BackEnd`, one record with everything the compiler knows about one way to generate code.

    register_back_end(BackEnd("text", kinds=("text",), generate=write_text))

A record is data: reading it does not load what it names. A part is a function, or its place as
"module:attr", which is imported when the part is first used; so a record in ``codegen`` can name
the schedules of ``schedule_rules``, a higher floor, which resolves its own parts itself. The record
class is on the lowest floor that reads a record (``tir`` needs the intrinsic rules).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tilesmith.support.errors import UnsupportedError
from tilesmith.support.lazy import resolve
from tilesmith.support.packages import Package
from tilesmith.support.registry import Registry
from tilesmith.target.target import Target

if TYPE_CHECKING:
    from tilesmith.ir import Call, IRModule, PrimExpr
    from tilesmith.ir.transform import Pass
    from tilesmith.runtime.formats import Format
    from tilesmith.runtime.library import Library
    from tilesmith.runtime.packed_func import PackedFunc
    from tilesmith.runtime.tensor_maps import TensorMap
    from tilesmith.tir.schedule import Schedule

__all__ = [
    "BACK_ENDS", "BackEnd", "Code", "back_end_of", "find_back_end", "part",
    "register_back_end",
]  # fmt: skip

Value = TypeVar("Value")
Part: TypeAlias = Value | str
"""A value, or its location as "module:attr"."""


def part(value: Part[Value]) -> Value:
    """Return the value of a part, imported if the record only names its place."""
    return resolve(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Code:
    """The code that a back end generates for a lowered module."""

    formats: Mapping[str, Format]
    """Format → text or bytes, or a function that makes them. The first one is shown by default."""
    objects: Callable[[], Sequence[bytes]] | None = None
    """Makes the object files; None where there is only source."""
    advice: str = ""
    """What a user must do to run the code, where there is only source."""
    functions: Callable[[], Mapping[str, PackedFunc]] | None = None
    """Makes the packed functions, of a back end whose code is not linked."""
    alignments: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Symbol of a kernel → the bytes to which the memory of each parameter has to be aligned; 0
    where an element's own alignment is enough."""
    tensor_maps: Mapping[str, Sequence[TensorMap]] = field(default_factory=dict)
    """Symbol of a kernel → the tensors that its launch describes to the hardware."""


Generate: TypeAlias = "Callable[[IRModule, Target, int | None], Code]"
IntrinsicRules: TypeAlias = "Sequence[Mapping[str, Callable[[Call], PrimExpr | None]]]"


@dataclass(frozen=True)
class BackEnd:
    """One way to generate code. Only the first three fields are required."""

    name: str
    """The ``type_key`` of its modules."""
    kinds: tuple[str, ...]
    """The kinds of targets that it serves."""
    generate: Part[Generate]
    """(lowered module, target, optimisation level) → its code."""

    # how whole models are compiled
    kernel_object: Part[Callable[[IRModule, Target], bytes]] | None = None
    """(lowered kernels, target) → one object file, without what all kernels share. None: a whole
    model is generated as one module."""
    wants_wide_indices: bool = False
    """Whether scalar indices of kernels for CPUs of 64 bits had better keep their 64 bits."""
    shared_objects: Part[Callable[[Target], Sequence[bytes]]] | None = None
    """Object files that are linked once with all kernels: what launches parallel loops."""
    c_support: Part[Callable[[str, bytes, Target], bytes]] | None = None
    """(prefix of names, parameters to embed, target) → the object file that code needs beside
    ``shared_objects`` in a C program without tvm-ffi's library. None: it cannot be used there."""
    c_support_source: Part[Callable[[str, bytes], str]] | None = None
    """The same as C source, of a back end whose code is C source."""
    toolchain: Part[Callable[[Target], str]] | None = None
    """What else the code depends on (a compiler, its version), for the keys of caches."""

    # how code is run
    load: Part[Callable[[Sequence[bytes]], Library]] = (
        "tilesmith.runtime.library:Library.from_objects"
    )
    """Links object files and loads them into this process."""
    runs_here: Part[Callable[[Target], bool]] | None = None
    """True if this machine can run the object code. None: it always can."""
    symbol: Part[Callable[[str], str]] | None = None
    """Maps a symbol to its name in the code, where the code does not allow every name."""
    is_device: bool = False
    """Whether functions become kernels that functions of a host launch."""
    is_for_boards: bool = False
    """Whether its source is C that the compiler of a board without an operating system takes."""
    host: str = "llvm"
    """The target of those functions, where the user names none."""
    interpreter: Part[Callable[..., Any]] | None = "tilesmith.tir.interpreter:run"
    """Runs lowered functions, wrappers included, on arrays of the host. None: their wrappers take
    arrays on a device."""

    # how code is optimised
    intrinsic_rules: Part[IntrinsicRules] = "tilesmith.tir.transform.intrinsics:DEFAULT_RULES"
    """Tables of rules by operator, in order: they replace operators that the back end lacks."""
    host_passes: tuple[Part[Callable[[], Pass]], ...] = ()
    """Further passes over lowered functions."""
    barrier_passes: tuple[Part[Callable[[], Pass]], ...] = ()
    """Further passes over functions on threads, once their barriers stand."""
    default_schedule: Part[Callable[[Schedule, Target], Schedule]] | None = None
    """Schedules an unscheduled function of a whole model. None: its loops stay."""
    graph_passes: tuple[Part[Callable[[Target], Pass]], ...] = ()
    """Further passes over graphs of operators, which choose layouts for the target."""

    # what `tilesmith doctor` shows
    packages: tuple[Package, ...] = ()
    """The Python packages that it needs."""
    describe: Part[Callable[[], str]] | None = None
    """Describes this machine: the CPU, the compiler."""


BACK_ENDS: Registry[BackEnd] = Registry(
    "back end",
    {
        "llvm": "tilesmith.codegen.llvm.record",
        "c": "tilesmith.codegen.c.record",
        "cuda": "tilesmith.codegen.gpu.record",
        "nvptx": "tilesmith.codegen.llvm.record",
        "opencl": "tilesmith.codegen.gpu.record",
        "stackvm": "tilesmith.codegen.interpreted.record",
    },
)
"""Kind of target → back end. The table says which room of ``codegen`` registers a kind."""


def register_back_end(record: BackEnd) -> BackEnd:
    """Register a back end for the kinds of targets that it names, and return it."""
    for kind in record.kinds:
        BACK_ENDS.register(kind, record)
    return record


def find_back_end(target: Target) -> BackEnd | None:
    """Return the back end for a target, or None if there is none."""
    return BACK_ENDS.get(target.kind.name, None)


def back_end_of(target: Target) -> BackEnd:
    """Return the back end for a target. Raises UnsupportedError if there is none."""
    found = find_back_end(target)
    if found is None:
        known = ", ".join(sorted(BACK_ENDS.names(load=True)))
        raise UnsupportedError(
            f"there is no back end for targets of kind '{target.kind.name}'",
            notes=(f"there are back ends for: {known}",),
        )
    return found
