"""``T``: the words of the tensor dialect.

``from tilesmith.script import tir as T``. Inside a decorated function the parser calls them; in
plain Python they work in ``with`` form inside an ``IRBuilder``. Scalar functions (``T.exp``, …) are
those of ``tilesmith.tir``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import (
    Broadcast,
    PrimExpr,
    Ramp,
    Range,
    TupleType,
    Var,
    const,
    convert,
    operators,
)  # fmt: skip
from tilesmith.ir import Let as _LetNode
from tilesmith.ir.expr import *  # noqa: F403
from tilesmith.ir.op import CallEffectKind  # noqa: F401
from tilesmith.runtime.dtype import DataType
from tilesmith.script.builder import IRBuilder
from tilesmith.script.diagnostics import nearest
from tilesmith.script.macros import ScriptMacro as TIRMacro  # noqa: F401
from tilesmith.script.macros import inline, macro  # noqa: F401
from tilesmith.script.tir_blocks import (
    axis,  # noqa: F401
    block,
    block_attr,
    domain_of,
    init,  # noqa: F401
    reads,  # noqa: F401
    where,  # noqa: F401
    writes,  # noqa: F401
)
from tilesmith.script.tir_entry import prim_func  # noqa: F401
from tilesmith.script.tir_frames import (
    AllocateConstFrame,
    AllocateFrame,
    AssertFrame,
    AttrFrame,
    BlockFrame,
    DeclBufferFrame,
    ElseFrame,
    IfFrame,
    LaunchThreadFrame,
    LetFrame,
    PrimFuncFrame,
    RealizeFrame,
    ThenFrame,
    WhileFrame,
    emit,
)  # fmt: skip
from tilesmith.script.tir_loops import (
    check_thread,
    check_threads,
    grid,  # noqa: F401
    parallel,  # noqa: F401
    serial,  # noqa: F401
    thread_binding,  # noqa: F401
    unroll,  # noqa: F401
    vectorized,  # noqa: F401
)
from tilesmith.script.tir_types import (
    BufferDeclWord,
    BufferWord,
    DTypeWord,
    HandleWord,
    PtrWord,
    as_type,
    load_of,
    parameter_of,
    region_of,
)  # fmt: skip
from tilesmith.support.errors import (
    ScriptError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)
from tilesmith.target import Target
from tilesmith.tir import op as _op
from tilesmith.tir import unknown as _unknown
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.buffer import Buffer as _BufferNode
from tilesmith.tir.expr import *  # noqa: F403
from tilesmith.tir.expr import (
    BufferRegion,
    CommReducer,
    IterVar,
    IterVarType,
    Reduce,
)  # fmt: skip
from tilesmith.tir.op import *  # noqa: F403
from tilesmith.tir.stmt import BufferStore, Evaluate, MatchBufferRegion, Prefetch

Ptr = ptr = PtrWord()
Buffer = BufferWord()  # noqa: F811 - the script's word makes buffers, it is not the class
buffer = Buffer
buffer_decl = BufferDeclWord()
handle = HandleWord()
void = DTypeWord("void")
boolean = DTypeWord("bool")
ramp, broadcast = Ramp, Broadcast
tvm_call_packed, tvm_call_cpacked = _op.call_packed, _op.call_cpacked
tvm_call_packed_lowered = _op.call_packed_lowered
tvm_call_cpacked_lowered = _op.call_cpacked_lowered
pow = _op.power
sblock, sblock_attr = block, block_attr  # newer spellings
BufferProxy, PtrProxy = BufferWord, PtrWord


def __getattr__(name: str) -> Any:
    """Return words for data types that are not listed below (``T.int24``, ``T.float32x3``)."""
    word = _unusual_types.get(name)
    if word is None:
        try:
            word = _unusual_types[name] = DTypeWord(name)
        except (TypeMismatchError, KeyError):
            raise UnknownMemberError(
                f"T has no word '{name}'", notes=nearest(name, globals())
            ) from None
    return word


_unusual_types: dict[str, DTypeWord] = {}


_LANES = ("", "x2", "x4", "x8", "x16", "x32", "x64")
_BASES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "e4m3_float8", "e5m2_float8",
)  # fmt: skip
for _name in [base + lanes for base in _BASES for lanes in _LANES]:
    globals()[_name] = DTypeWord(_name)
bool = DTypeWord("bool")
globals()["Any"] = _unknown.Any  # in this file the name means any type


# Functions.


def arg(name: str, obj: Any) -> Any:
    """Add a parameter, a buffer or a variable, to the function; return what the body uses."""
    frame = _function("arg")
    param, used = parameter_of(obj, name)
    frame.params.append(param)
    if used is not param:
        frame.buffer_map[param] = used
        frame.buffers[used.data] = used
    return used


def func_name(name: str) -> None:
    """Set the name of the function."""
    _function("func_name").name = name


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the function."""
    _function("func_attr").attrs.update(attrs)


def func_ret(ret_type: Any) -> None:
    """Set the return type of the function."""
    _function("func_ret").ret_type = as_type(ret_type)


def _function(word: str) -> PrimFuncFrame:
    frame = IRBuilder.current().find_frame(PrimFuncFrame)
    if frame is None:
        raise ScriptError(f"T.{word} stands in a function")
    return frame


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: str = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Any:
    """Return the buffer of a handle parameter, or a name for a region inside a block."""
    source = None if isinstance(param, Var) else region_of(param)
    if shape is None:
        if source is None:
            raise ScriptError("T.match_buffer of a parameter needs a shape")
        shape = [item.extent for item in source.region]
        dtype = source.buffer.dtype
    made = Buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    builder = IRBuilder.current()
    function = builder.find_frame(PrimFuncFrame)
    if source is None:
        if function is None or not [known for known in function.params if known is param]:
            raise ScriptError(
                "T.match_buffer: the variable is not a parameter of the function",
                notes=(
                    "take it as a parameter (name: T.handle), or make memory with T.alloc_buffer",
                ),
            )
        if not param.dtype.is_handle:
            raise TypeMismatchError(
                f"T.match_buffer needs a T.handle, '{param.name}' is {param.dtype}"
            )
        if param in function.buffer_map:
            raise ScriptError(f"the parameter '{param.name}' has a buffer already")
        function.buffer_map[param] = made
    else:
        block = builder.find_frame(BlockFrame)
        if block is None:
            raise ScriptError("T.match_buffer of a region stands in a block")
        block.match_buffers.append(MatchBufferRegion(made, source))
    _remember(made, function)
    return made


def _remember(made: Any, function: PrimFuncFrame | None = None) -> None:
    """Record a buffer by its pointer, for regions that are accessed through the pointer."""
    function = function or IRBuilder.current().find_frame(PrimFuncFrame)
    if function is not None:
        function.buffers.setdefault(made.data, made)


def alloc_buffer(
    shape: Any,
    dtype: str = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Any:
    """Allocate a buffer in the enclosing block, or in the root block."""
    made = Buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    frame = IRBuilder.current().find_frame(BlockFrame, PrimFuncFrame)
    if frame is None:
        raise ScriptError("T.alloc_buffer stands in a block or function")
    frame.alloc_buffers.append(made)
    _remember(made)
    return made


sblock_alloc_buffer = alloc_buffer


# Statements.


def Assert(condition: Any, message: Any) -> AssertFrame:
    """Assert a condition for the rest of the block."""
    return AssertFrame(convert(condition), convert(message))


def LetStmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> LetFrame:
    """Bind a variable to a value for the rest of the block."""
    type_ = None if type_annotation is None else as_type(type_annotation)
    if isinstance(value, BufferRegion):
        value = load_of(value)
    if type_ is not None and not isinstance(value, PrimExpr):
        dtype = getattr(type_, "dtype", None)
        value = const(value, dtype) if dtype is not None else convert(value)
    value = convert(value)
    if var is None:
        if type_ is None and isinstance(value, Var):
            type_ = value.type_annotation
        var = Var("", type_ if type_ is not None else value.dtype)
    return LetFrame(value, var)


def Tuple(*fields: Any) -> TupleType:
    """Return the type of a tuple: ``T.Tuple(T.int32, T.float32)``."""
    return TupleType(tuple([as_type(field) for field in fields]))


def Let(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:  # noqa: F811
    """Return an expression with variables bound in it: ``T.Let(x + 1, where={x: y * 2})``."""
    result = convert(expr)
    for var, value in reversed(where.items()):
        result = _LetNode(var, value, result)
    return result


def let(v: Var, value: Any, body: Any = None) -> Any:
    """Open a ``LetStmt``; with ``body``, return the expression ``Let``."""
    if body is None:
        return LetStmt(value, var=v)
    return _LetNode(v, value, body)


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> RealizeFrame:
    """Declare the part of a buffer that is live in the rest of the block."""
    if isinstance(buffer_slice, _BufferNode):
        raise TypeMismatchError(
            "T.realize needs a region",
            notes=(f"write the part that is live: {buffer_slice.name}[0:16]",),
        )
    return RealizeFrame(region_of(buffer_slice), storage_scope, convert(condition))


def allocate(
    extents: Any,
    dtype: str,
    scope: str = "global",
    condition: Any = None,
    annotations: Mapping[str, Any] | None = None,
    pointer: Any = None,
) -> AllocateFrame:
    """Allocate memory for the rest of the block; return the pointer (``pointer``: its type)."""
    extents = extents if isinstance(extents, (list, tuple)) else [extents]
    type_ = None if pointer is None else as_type(pointer)
    return AllocateFrame(extents, DataType(dtype), scope, condition, annotations, type_)


def allocate_const(
    data: Any,
    dtype: str,
    extents: Any,
    annotations: Mapping[str, Any] | None = None,
    pointer: Any = None,
) -> AllocateConstFrame:
    """Allocate constant memory for the rest of the block; return the pointer."""
    import numpy

    if isinstance(data, (list, tuple)):
        data = numpy.array(data, DataType(dtype).numpy())
    type_ = None if pointer is None else as_type(pointer)
    return AllocateConstFrame(data, DataType(dtype), list(extents), annotations, type_)


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> DeclBufferFrame:
    """Declare a buffer over memory (new without ``data``) for the rest of the block."""
    made = Buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    _remember(made)
    return DeclBufferFrame(made, data is None)


def attr(node: Any, attr_key: str, value: Any) -> AttrFrame:
    """Set an attribute for the rest of the block."""
    return AttrFrame(node, attr_key, value)


def env_thread(thread_tag: str, dtype: str = "int32") -> IterVar:
    """Return an iterator over threads of a GPU, for ``launch_thread``."""
    check_thread(thread_tag)
    return IterVar(None, Var("", dtype), IterVar.ThreadIndex, thread_tag)


def launch_thread(thread: Any, extent: Any) -> LaunchThreadFrame:
    """Run the rest of the block on a number of threads; return the variable that counts them."""
    extent = convert(extent)
    check_threads(getattr(thread, "thread_tag", thread), extent)
    if isinstance(thread, str):
        thread = env_thread(thread, extent.dtype)
    if thread.dom is None:
        # The iterator gets its domain where it is launched for the first time.
        object.__setattr__(thread, "dom", Range(extent))
    return LaunchThreadFrame(thread, extent)


def While(condition: Any) -> WhileFrame:
    """Open a loop that runs while the condition holds."""
    return WhileFrame(convert(condition))


def If(condition: Any) -> IfFrame:
    """Open a branch, with ``Then`` and ``Else`` inside."""
    return IfFrame(convert(condition))


def Then() -> ThenFrame:
    """Open the statements that run if the condition holds."""
    return ThenFrame()


def Else() -> ElseFrame:
    """Open the statements that run if the condition does not hold."""
    return ElseFrame()


def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store a value: ``buffer[indices] = value``; a value of another dtype is converted, but a
    fraction does not become an integer unasked.
    """
    from tilesmith.script.tir_types import check_kept, index_vectors

    span = IRBuilder.current().span
    indices = indices if isinstance(indices, (list, tuple)) else [indices]
    stored = buffer.dtype
    check_kept(value, stored, f"stored to the {stored} buffer '{buffer.name}'")
    if isinstance(value, PrimExpr) and value.dtype.element is not stored.element:
        if stored.lanes == 1 and not value.dtype.is_handle and not stored.is_handle:
            lanes = value.dtype.lanes
            value = operators.cast(stored.with_lanes(lanes) if lanes != 1 else stored, value)
    emit(BufferStore(buffer, value, index_vectors(buffer, indices), predicate, span))


def prefetch(buffer: Any, bounds: Any, locality: int = 3, cache: int = 1) -> Any:
    """Hint that a region is needed soon. With an address it is the instruction of that name."""
    if isinstance(bounds, (list, tuple)):
        emit(Prefetch(buffer, tuple(bounds), IRBuilder.current().span))
        return None
    return _op.prefetch(buffer, bounds, locality, cache)


def evaluate(value: Any) -> None:
    """Evaluate an expression for its side effect."""
    emit(Evaluate(value, IRBuilder.current().span))


# Values.


def var(dtype: str, name: str = "") -> Var:
    """Return a new variable."""
    return Var(name, dtype)


def buffer_var(dtype: str, storage_scope: str = "global") -> Var:
    """Return a new pointer."""
    return Ptr(dtype, storage_scope)


def min(a: Any, b: Any) -> PrimExpr:
    """Return the smaller of two values."""
    return operators.minimum(convert(a), b)


def max(a: Any, b: Any) -> PrimExpr:
    """Return the larger of two values."""
    return operators.maximum(convert(a), b)


def cast(value: Any, dtype: str) -> PrimExpr:
    """Convert a value to a dtype."""
    return operators.cast(dtype, convert(value))


def iter_var(v: Any, dom: Any, iter_type: Any, thread_tag: str) -> IterVar:
    """Return an iterator."""
    domain = None if dom is None else domain_of(dom)
    kind = IterVarType[iter_type] if isinstance(iter_type, str) else iter_type
    return IterVar(domain, v, kind, thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """Return a combiner: ``T.comm_reducer(lambda x, y: x + y, [T.float32(0)])``."""
    import inspect

    identity = tuple([convert(value) for value in identity])
    names = list(inspect.signature(combiner).parameters)
    count = len(identity)
    if len(names) != 2 * count:
        raise ScriptError(f"the combiner takes {2 * count} arguments, not {len(names)}")
    dtypes = [value.dtype for value in identity]
    lhs = [Var(name, dtype) for name, dtype in zip(names[:count], dtypes)]
    rhs = [Var(name, dtype) for name, dtype in zip(names[count:], dtypes)]
    result = combiner(*lhs, *rhs)
    result = result if isinstance(result, (tuple, list)) else (result,)
    return CommReducer(lhs, rhs, tuple([convert(value) for value in result]), identity)


def reduce(
    combiner: CommReducer,
    source: Sequence[Any],
    init: Sequence[Any],  # noqa: F811
    axis: Sequence[IterVar],  # noqa: F811
    condition: Any,
    value_index: int,
) -> Any:
    """Return one value of a reduction over iterators, as tensor expressions have it."""
    return Reduce(combiner, source, axis, condition, value_index, init)


def index_map(
    mapping: Callable[..., Any], *, inverse_index_map: Any = None, index_dtype: str = "int64"
) -> Any:
    """Return a mapping of indices: ``T.index_map(lambda i, j: (i // 4, j, i % 4))``."""
    from tilesmith.tir.index_map import IndexMap

    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype)


def target(target_config: Any, host: Any = None) -> Target:
    """Return a target, from a dictionary or a text."""
    return Target(target_config, host)


def func_gen(name: str) -> DTypeWord:
    """Return the word for a data type: ``T.func_gen("int8")`` is ``T.int8``."""
    return DTypeWord(name[0].lower() + name[1:])


def llvm_lookup_intrinsic_id(name: str) -> str:
    """Return the name that identifies an LLVM intrinsic in ``T.call_llvm_intrin``.

    Numbers of intrinsics change with LLVM's version; programs that look them up keep working.
    """
    if not name.startswith("llvm."):
        raise ScriptError(
            f"'{name}' is not an LLVM intrinsic", notes=("their names begin with llvm.",)
        )
    return name


def call_kernel(kernel: Any, launch_args: Any, *args: Any, **kwargs: Any) -> PrimExpr:
    """Raise an error: kernels of another compiler inside a script are not supported."""
    raise UnsupportedError(
        "T.call_kernel: kernels of other compilers cannot be put into a module",
        notes=(
            "write the kernel as a PrimFunc of the module and call it, or link C code: "
            "T.call_extern with the annotation import_c",
        ),
    )


class meta_var:
    """Keep ``x`` in ``x = T.meta_var(value)`` a name of the parser; no variable is made."""

    def __init__(self, value: Any) -> None:
        self.value = value
