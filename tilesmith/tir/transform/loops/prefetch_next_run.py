"""PrefetchNextRun: prefetches a stream of memory long before it is read.

    for j in range(64):                     for j in range(64):
        for i in range(16):                     for i in range(16):
            for k in range(768):                    for k in range(768):
                for v in T.vectorized(48):              T.prefetch(T.address_of(
                    … B[j * 36864 + k * 48 + v]             B[(j + 1) * 36864 + (i * 768 + k) * 3]))
                                                        for v in T.vectorized(48):
                                                            … B[j * 36864 + k * 48 + v]

The loop ``k`` reads one run of memory without gaps, which ``i`` reads again, and after which ``j``
takes the next one. Only the first pass over a run waits for memory, but while it lasts nothing else
comes from there. So all passes together bring the next run, a few bytes in each step.

Loops with the annotation ``prefetch_next`` are looked at, and what they read in vectors. Prefetches
never fault: those of the last run may lie behind the end of the buffer.

Loops with the annotation ``prefetch_rows`` look up rows: see `prefetch_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilesmith.arith import Analyzer
from tilesmith.arith.pattern import detect_linear_equation
from tilesmith.ir import Call, IntImm, PrimExpr, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import prefetch
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, mentions
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads, statements
from tilesmith.tir.stmt import Evaluate, For, ForKind, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.loops.prefetch_rows import PREFETCH_ROWS, row_prefetches
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["PREFETCH_NEXT", "prefetch_next_run"]

PREFETCH_NEXT = "prefetch_next"
"""The annotation of the innermost loop of a run."""
_ANNOTATIONS = (PREFETCH_NEXT, PREFETCH_ROWS)
_LINE_BYTES = 64
_INTO_L2 = 2
"""The hint of locality: the run is as large as a part of the second cache."""
_MOST_LINES = 4
"""How many lines one step may bring: in more of them, a run is hardly read again."""


@dataclass(frozen=True)
class _Run:
    """A run of memory that loops read, and how it goes on."""

    load: BufferLoad
    following: PrimExpr
    """The index of the first element of the next run."""
    step: PrimExpr
    """The number of this step among those of all passes."""
    steps: PrimExpr
    """How many steps all passes have."""
    length: int
    """Elements of the run."""
    outer: Var
    """The variable of the loop that goes on to the next run."""


class _Injector(StatementRewriter):
    def __init__(self) -> None:
        self.around: list[For] = []
        self.shares: list[tuple[Var, PrimExpr, Var]] = []
        """Variables for shares that are computed in a loop, their values, the loop's variable."""

    def visit_For(self, loop: For) -> Stmt:
        self.around.append(loop)
        new = self.children(loop)
        for share, value, outer in self.shares:
            if outer is loop.loop_var:
                new = new.with_fields(body=LetStmt(share, value, new.body))
        if loop.annotations.get(PREFETCH_NEXT):
            kept = {key: one for key, one in loop.annotations.items() if key != PREFETCH_NEXT}
            found = _runs(loop, self.around)
            hints = [hint for run in found for hint in self.prefetches(run)]
            new = new.with_fields(annotations=kept, body=stmt_seq(*hints, new.body))
        if loop.annotations.get(PREFETCH_ROWS):
            kept = {key: one for key, one in new.annotations.items() if key != PREFETCH_ROWS}
            new = new.with_fields(annotations=kept, body=stmt_seq(*row_prefetches(loop), new.body))
        self.around.pop()
        return new

    def prefetches(self, run: _Run) -> list[Stmt]:
        """Return the prefetches of one step."""
        line = max(1, _LINE_BYTES // run.load.buffer.dtype.nbytes)
        dtype = run.following.dtype
        count = 1
        if not isinstance(run.steps, IntImm):
            share = Var("share", dtype)
            value = ops.floordiv(const(run.length - 1, dtype), run.steps) + const(1, dtype)
            self.shares.append((share, value, run.outer))
            done = run.step * share
        elif (
            run.steps.value > run.length
        ):  # several steps for an element; a power of two is a shift
            quotient = run.steps.value // run.length
            done = ops.floordiv(run.step, const(1 << (quotient.bit_length() - 1), dtype))
        else:
            each = -(-run.length // run.steps.value)
            count = -(-each // line)
            if count > _MOST_LINES:
                return []
            done = run.step * const(each if count == 1 else count * line, dtype)
        first = run.following + done
        return [_prefetch(run.load, first + const(line * number, dtype)) for number in range(count)]


def _runs(loop: For, around: Sequence[For]) -> list[_Run]:
    """Return the runs that the last of some loops, each inside of the one before, reads in
    vectors.
    """
    inside = [one for one in statements(loop.body) if isinstance(one, For)]
    lanes = {one.loop_var for one in inside if one.kind is ForKind.VECTORIZED}
    found: list[_Run] = []
    seen: list[BufferLoad] = []
    for load in loads(loop.body):
        is_new = all(load.buffer is not one.buffer for one in seen)
        is_flat = len(load.indices) == 1 and mentions(load.indices, {loop.loop_var})
        if is_new and is_flat and mentions(load.indices, lanes):
            run = _run(load, around, inside)
            if run is not None:
                seen.append(load)
                found.append(run)
    return found


def _run(load: BufferLoad, around: Sequence[For], inside: Sequence[For]) -> _Run | None:
    """Return the run that a load belongs to, None if loops do not read it as one."""
    (index,) = load.indices
    left = list(around)

    def take(is_used: bool) -> list[For]:
        """Take the innermost loops along which the load moves, or does not."""
        taken: list[For] = []
        while left and mentions(index, {left[-1].loop_var}) is is_used:
            taken.append(left.pop())
        return taken

    reading, repeating = take(True), take(False)
    repeating = [one for one in repeating if not ops.is_const(one.extent, 1)]
    if not left or not repeating:
        return None
    own = [*reading, *inside]
    length = _length(index, own)
    if length is None:
        return None
    start = {one.loop_var: one.min for one in own}
    outer = left[-1].loop_var
    following = substitute(index, {**start, outer: outer + const(1, outer.dtype)})
    step: PrimExpr = const(0, index.dtype)
    steps: PrimExpr = const(1, index.dtype)
    for one in reversed([*reading, *repeating]):
        extent = one.extent.astype(index.dtype)
        step = step * extent + (one.loop_var - one.min).astype(index.dtype)
        steps = steps * extent
    analyzer = Analyzer()
    steps = analyzer.simplify(steps)
    inner = {one.loop_var for one in [*reading, *repeating]}
    if not _is_wide_enough(load, index, length) or mentions(steps, inner):
        return None
    return _Run(load, analyzer.simplify(following), step, steps, length, outer)


def _is_wide_enough(load: BufferLoad, index: PrimExpr, length: int) -> bool:
    """Return whether indices behind the end of a buffer have bits enough."""
    if index.dtype.bits > 32:
        return True
    size = load.buffer.shape[0]
    return isinstance(size, IntImm) and size.value + 4 * length < 1 << 31


def _length(index: PrimExpr, loops: Sequence[For]) -> int | None:
    """Return how many elements loops read if they leave none out, None for any other index."""
    used = [one for one in loops if mentions(index, {one.loop_var})]
    if any(not isinstance(one.extent, IntImm) for one in used):
        return None
    found = detect_linear_equation(index, [one.loop_var for one in used])
    strides = [one.value for one in found[:-1] if isinstance(one, IntImm) and one.value > 0]
    if not found or len(strides) != len(used):
        return None
    reach = 1
    extents = [one.extent.value for one in used if isinstance(one.extent, IntImm)]
    for stride, extent in sorted(zip(strides, extents)):
        if stride > reach:
            return None
        reach += stride * (extent - 1)
    return reach


def _prefetch(load: BufferLoad, index: PrimExpr) -> Stmt:
    address = Call("handle", "tir.address_of", (BufferLoad(load.buffer, [index]),))
    return Evaluate(prefetch(address, 0, _INTO_L2, 1))


def _is_annotated(node: object) -> bool:
    return isinstance(node, For) and not node.annotations.keys().isdisjoint(_ANNOTATIONS)


@compiler_pass("tir.PrefetchNextRun")
def prefetch_next_run(func: PrimFunc) -> PrimFunc:
    """Prefetches in annotated loops what the loops around them read next."""
    if not any_node(func.body, _is_annotated):
        return func
    return func.with_body(_Injector().visit(func.body))
