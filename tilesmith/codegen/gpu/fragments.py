"""Rules of matrix fragments (``wmma``): a fragment is an array of registers of each thread.

    unsigned a[2][8];     // two fragments of scope wmma.matrix_a

What a fragment is (shape, layout) follows from the calls that use it, as the pass InferFragment
finds it.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.pieces import Piece
from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.gpu.device_calls import (
    call_function,
    name_of,
    pointer_scope,
    rely_on_alignment,
)
from tilesmith.codegen.gpu.mma_functions import MmaError
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.codegen.gpu.wmma_functions import (
    Fragment,
    fill_function,
    fragment_kind,
    move_function,
    product_function,
)
from tilesmith.ir import Call, Cast, FloatImm, IntImm, PrimExpr, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.stmt import Allocate
from tilesmith.tir.transform.threads.infer_fragment import find_fragments

__all__ = ["declare_fragments", "is_fragment"]

_ALIGNMENT = 32
"""Bytes to which memory has to be aligned that fragments are loaded from and stored to."""
_SHORT = {"row_major": "row", "col_major": "col", "": ""}


def is_fragment(pointer: Var) -> bool:
    """True for memory of a scope ``wmma.…``."""
    return pointer.storage_scope.startswith("wmma.")


def declare_fragments(emit: Values, stmt: Allocate) -> None:
    """Write the declaration of the registers of fragments."""
    if emit.dialect.name != "cuda":
        raise _refused(emit, f"memory of scope '{stmt.buffer_var.storage_scope}'")
    pointer, dtype = stmt.buffer_var, stmt.dtype
    found = find_fragments(stmt.body)
    name = pointer.name
    if pointer not in found:
        raise emit.out.unsupported(
            f"no call fills, loads or stores the fragment '{name}', so its shape is not known"
        )
    shape, layout = found[pointer]
    role = pointer.storage_scope.partition(".")[2]
    sizes = shape.replace(" ", "").split(",")
    try:
        kind = fragment_kind(str(dtype.element), role)
        fragment = Fragment(role, "m{}n{}k{}".format(*sizes), kind, _SHORT[layout])
        fragment.check()
    except MmaError as error:
        raise emit.out.unsupported(f"fragment '{name}': {error}") from None
    count = dtype.lanes
    for extent in stmt.extents:
        size = constant_value(extent)
        if size is None:
            raise emit.out.unsupported(f"fragment '{name}' has a size that is not constant")
        count *= size
    number, rest = divmod(count, fragment.elements)
    if rest:
        raise emit.out.unsupported(
            f"'{name}' has {count} elements, which are no whole fragments of {fragment.elements}"
        )
    held = fragment.registers("")
    emit.names[pointer] = emit.out.fresh(name)
    emit.fragments[pointer] = fragment
    emit.out.write(f"{held.c_type} {emit.names[pointer]}[{number}][{held.size}];")


def _fragment(emit: Values, call: Call, which: int) -> tuple[Fragment, str]:
    """Return a fragment among the arguments, and its registers; its number is given elsewhere."""
    arg = call.args[which]
    found = emit.fragments.get(arg) if isinstance(arg, Var) else None
    if not isinstance(arg, Var) or found is None:
        raise emit.out.unsupported(
            f"argument {which} of '{name_of(call)}' must be memory of a scope wmma.…, not {arg}"
        )
    return found, emit.names[arg]


def _numbered(emit: Values, name: str, index: PrimExpr) -> str:
    return f"{name}[{emit.text(index)}]"


@handles("tvm_fill_fragment", dialect="cuda")
def _fill(emit: Values, call: Call) -> Piece:
    fragment, name = _fragment(emit, call, 0)
    value = call.args[5]
    kind = "int32" if fragment.kind.ptx in ("s32", "s8", "u8") else "float32"
    kind = "float64" if fragment.kind.ptx == "f64" else kind
    if value.dtype != kind:
        value = _converted(value, DataType(kind))
    try:
        function = fill_function(fragment)
    except MmaError as error:
        raise emit.out.unsupported(f"tvm_fill_fragment: {error}") from None
    arguments = _numbered(emit, name, call.args[4]), emit.text(value)
    return call_function(emit, "tvm_fill_fragment", function, *arguments)


def _converted(value: PrimExpr, dtype: DataType) -> PrimExpr:
    if isinstance(value, (IntImm, FloatImm)):
        return const(float(value.value) if dtype.is_float else int(value.value), dtype)
    return Cast(dtype, value)


def _move(emit: Values, call: Call, stores: bool) -> Piece:
    fragment, name = _fragment(emit, call, 0)
    scope = pointer_scope(call.args[5]).partition(".")[0]
    if scope not in ("shared", "global"):
        raise emit.out.unsupported(
            f"'{name_of(call)}' moves fragments between registers and shared or global memory, not "
            f"'{scope}'"
        )
    layout = getattr(call.args[7], "value", "")
    if layout not in ("row_major", "col_major"):
        raise emit.out.unsupported(
            f"the layout of '{name_of(call)}' is row_major or col_major, not {call.args[7]}"
        )
    try:
        function = move_function(fragment._replace(layout=_SHORT[layout]), stores, scope)
    except MmaError as error:
        raise emit.out.unsupported(f"{name_of(call)}: {error}") from None
    rely_on_alignment(emit, call.args[5], _ALIGNMENT)
    registers = _numbered(emit, name, call.args[4])
    arguments = registers, emit.text(call.args[5]), emit.text(call.args[6])
    return call_function(emit, name_of(call), function, *arguments)


@handles("tvm_load_matrix_sync", dialect="cuda")
def _load(emit: Values, call: Call) -> Piece:
    return _move(emit, call, False)


@handles("tvm_store_matrix_sync", dialect="cuda")
def _store(emit: Values, call: Call) -> Piece:
    return _move(emit, call, True)


@handles("tvm_mma_sync", "tvm_bmma_sync", dialect="cuda")
def _product(emit: Values, call: Call) -> Piece:
    parts = {letter: _fragment(emit, call, 2 * i) for i, letter in enumerate("dabc")}
    operator = "xor" if name_of(call) == "tvm_bmma_sync" else ""
    try:
        if (parts["a"][0].kind.ptx == "b1") != bool(operator):
            raise MmaError("bits are multiplied by tvm_bmma_sync, all others by tvm_mma_sync")
        a, b, c, d = [parts[letter][0] for letter in "abcd"]
        function = product_function(a, b, c, d, operator)
    except MmaError as error:
        raise emit.out.unsupported(f"{name_of(call)}: {error}") from None
    arguments = [
        _numbered(emit, parts[letter][1], call.args[2 * i + 1]) for i, letter in enumerate("dabc")
    ]
    return call_function(emit, f"{name_of(call)} {parts['a'][0].shape}", function, *arguments)


_NAMES = (
    "tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync",
    "tvm_bmma_sync",
)  # fmt: skip


@handles(*_NAMES, dialect="opencl")
def _refuse(emit: Values, call: Call) -> Piece:
    raise _refused(emit, f"'{name_of(call)}'")


def _refused(emit: Values, what: str) -> Any:
    return emit.out.unsupported(
        f"{what} needs the tensor cores of NVIDIA GPUs, which OpenCL C has no words for",
        "build for 'cuda', or schedule the product without tensor intrinsics",
    )
