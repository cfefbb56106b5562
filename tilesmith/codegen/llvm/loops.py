"""Writes loops in the form that LLVM keeps, with metadata that guides LLVM.

Loops with at least one iteration are written as do-while loops. Loops over finished vector code are
not vectorised again.
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.codegen.llvm.dtypes import local_name, register_type
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import IntImm
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import BufferStore, For, ForKind, Stmt

__all__ = ["PREFETCH_BYTES", "says_what_to_unroll", "write_loop"]

PREFETCH_BYTES = "prefetch_bytes"
"""The annotation of a loop that runs through memory: how far ahead its loads of vectors fetch."""
_NOT_UNROLLED, _UNROLLED = "pragma_unroll_disable", "llvm.loop.unroll"
_SHORT_COPY = 16 * 1024
"""Bytes of a row up to which a loop of vectors copies it sooner than memcpy (measured: by 3 to 9 %
for rows of 3 KB on Zen 5)."""


def says_what_to_unroll(body: Stmt) -> bool:
    """Return whether a function says of a loop that it stays as it is, or how often it is unrolled.

    Such a function has been scheduled with regard to this, all of it. LLVM would unroll more, such
    as loops around tiles: a seventh of its time, for kernels that are as fast (measured on Zen 3).
    """
    return any(
        key == _NOT_UNROLLED or key.startswith(_UNROLLED)
        for stmt in statements(body)
        if isinstance(stmt, For)
        for key in stmt.annotations
    )


def write_loop(
    emit: Values,
    loop: For,
    start: str,
    stop: str,
    runs_once: bool,
    statement: Callable[[Stmt], None],
) -> None:
    """Write the loop over `[start, stop)`, whose body `statement` writes; `runs_once`: there is at
    least one iteration.
    """
    out, scope = emit.out, emit.scope
    var, kind = loop.loop_var, register_type(loop.loop_var.dtype)
    hint = local_name(var.name)
    head, after = out.label("loop_" + hint), out.label("after_" + hint)
    less = "slt" if var.dtype.is_int else "ult"
    if not runs_once:
        enter = out.label("enter_" + hint)
        some = emit.define(f"icmp {less} {kind} {start}, {stop}")
        emit.write(f"br i1 {some}, label %{enter}, label %{after}")
        out.begin_block(enter)
    before = out.block
    emit.write(f"br label %{head}")
    out.begin_block(head)
    place = len(out.lines)
    out.lines.append("")
    number = out.number()
    name, following = f"%{hint}.{number}", f"%{hint}.next.{number}"
    emit.variables[var] = name
    outer_vectors, scope.uses_vectors = scope.uses_vectors, False
    outer_prefetch = scope.prefetch_bytes
    scope.prefetch_bytes = int(loop.annotations.get(PREFETCH_BYTES, 0)) or outer_prefetch
    scope.copies_rows |= bool(scope.loop_vars) and _is_short_copy(loop)
    scope.loop_vars.append(var)
    statement(loop.body)
    scope.loop_vars.pop()
    scope.prefetch_bytes = outer_prefetch
    no_wrap = " nuw nsw" if var in emit.facts.non_negative else " nsw"
    emit.write(f"{following} = add{no_wrap if var.dtype.is_int else ''} {kind} {name}, 1")
    again = emit.define(f"icmp {less} {kind} {following}, {stop}")
    advice = _loop_advice(emit, loop)
    emit.write(f"br i1 {again}, label %{head}, label %{after}{advice}")
    out.lines[place] = (
        f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{out.block} ]"
    )
    scope.uses_vectors = outer_vectors or scope.uses_vectors
    out.begin_block(after)
    emit.forget()


def _is_short_copy(loop: For) -> bool:
    """Return whether a loop copies a row of a few KB, vector by vector."""
    store, extent = loop.body, loop.extent
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return False
    size = store.value.dtype.nbytes if store.value.dtype.lanes > 1 else 0
    return isinstance(extent, IntImm) and 0 < extent.value * size <= _SHORT_COPY


def _loop_advice(emit: Values, loop: For) -> str:
    """Return LLVM's metadata for a loop, from its kind, its annotations and its body."""
    advice = []
    notes = loop.annotations
    if loop.kind is ForKind.UNROLLED:
        constant = isinstance(loop.extent, IntImm)
        advice.append('!"llvm.loop.unroll.full"' if constant else '!"llvm.loop.unroll.enable"')
    elif notes.get(_NOT_UNROLLED) or (
        emit.scope.unrolls_on_request and not any(key.startswith(_UNROLLED) for key in notes)
    ):
        advice.append('!"llvm.loop.unroll.disable"')
    for key, value in notes.items():
        if key.startswith("llvm.loop."):
            if isinstance(value, bool) and key.endswith(".enable"):
                advice.append(f'!"{key}", i1 {str(value).lower()}')
            elif isinstance(value, int) and not isinstance(value, bool):
                advice.append(f'!"{key}", i32 {value}')
            elif value:
                advice.append(f'!"{key}"')
    wraps = loop.loop_var in emit.scope.wrapping
    stays_scalar = emit.scope.uses_vectors or wraps
    if stays_scalar and not any("llvm.loop.vectorize" in line for line in advice):
        if wraps and not emit.scope.uses_vectors:
            reason = "its variable is reduced by a mask; LLVM would vectorize it wrongly"
            record_fallback("vectorization", f"loop '{loop.loop_var.name}'", reason)
        advice.append('!"llvm.loop.vectorize.enable", i1 false')
    if not advice:
        return ""
    return f", !llvm.loop {emit.text.metadata.loop(advice)}"
