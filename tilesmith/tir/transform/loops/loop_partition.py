"""LoopPartition: divides a loop so that its middle part needs no bounds condition.

    for i in range(n):                          for i in range((n * 8 - 7) // 8):
        for j in range(8):                          for j in range(8):
            if T.likely(i * 8 + j < m):                 B[i * 8 + j] = A[i * 8 + j]
                B[i * 8 + j] = A[i * 8 + j]         for i in range(the rest of n): ... as before ...

It considers conditions inside ``T.likely``; in a loop with ``pragma_loop_partition_hint`` all
conditions. Loops of constant extent are divided only if they have the hint, or the option
``partition_const_loop`` of ``tir.LoopPartition`` says so; then at all conditions as well. With
``pragma_loop_partition_tails`` the last part is one iteration of known sizes. The parts
start at zero; in them the conditions are constants where they are decided, for Simplify to remove.
With ``pragma_loop_partition_branches`` the parts of a loop of constant extent are branches of one
loop: a parallel one, whose threads share all of them.
Where the blocks of a grid count as a loop, a branch tells those without the condition. A loop in
which threads exchange values stays whole if each of them would divide it at another place: all have
to be in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    IntImm,
    Let,
    Node,
    Or,
    PrimExpr,
    Range,
    Rewriter,
    Select,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name, is_call
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.queries import (
    has_side_effect,
    loads,
    reads_memory,
    stores,
    uses_variable,
)
from tilesmith.tir.stmt import AttrStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.loops.partition_tails import TAILS, slack_of, tails_by_size
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = [
    "Conditions",
    "Partitioner",
    "Replacer",
    "exchanges_values",
    "limit_of",
    "loop_partition",
    "loop_partition_as_configured",
]

HINT = "pragma_loop_partition_hint"
BRANCHES = "pragma_loop_partition_branches"
_OPPOSITE = {LT: GE, LE: GT, GT: LE, GE: LT, EQ: NE, NE: EQ}


Limit = tuple[PrimExpr | None, PrimExpr | None]
"""The start and the end (exclusive) of a range of iterations; None: that of the loop."""


class Conditions:
    """Collects the comparisons below a loop that decide branches, with the loops in between.

    Each loop asks for those below it, so the walk keeps its own stack: it is a good part of the
    time of the pass.
    """

    enters_expressions = True

    def __init__(self, var: Var, only_likely: bool, body: Stmt) -> None:
        self.var = var
        self.only_likely = only_likely
        self.inner: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self.hidden: set[Var] = set()  # bound to values inside of the loop
        self.found: list[PrimExpr] = []
        self.limits: dict[tuple[int, bool], Limit | None] = {}  # what `Partitioner.limit` found
        self.collect(body)

    def collect(self, body: Stmt) -> None:
        """Walk a body in the order of its text."""
        stack: list[Any] = [body]
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is For:
                self.enter_loop(node)
                stack.append(node.body)
            elif kind is AttrStmt:
                self.enter_threads(node)
                stack.append(node.body)
            elif self.enters_expressions or isinstance(node, Stmt):
                if kind is IfThenElse or kind is Select:
                    self.add(node.condition, not self.only_likely)
                elif kind is LetStmt or kind is Let:
                    self.hidden.add(node.var)
                elif kind is Call and is_call(node, "tir.if_then_else"):
                    self.add(node.args[0], not self.only_likely)
                node.push_children(stack)

    def enter_loop(self, loop: For) -> None:
        """Note the first and last value of a loop's variable."""
        self.inner[loop.loop_var] = (loop.min, ops.moved(loop.min + loop.extent, -1))

    def enter_threads(self, attribute: AttrStmt) -> None:
        """Note the first and last value of a thread's variable."""
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            var = attribute.node.var
            last = ops.moved(ops.cast(var.dtype, attribute.value), -1)
            self.inner[var] = (const(0, var.dtype), last)

    def add(self, condition: PrimExpr, wanted: bool) -> None:
        if is_call(condition, "tir.likely"):
            self.add(condition.args[0], True)
        elif isinstance(condition, (And, Or)):
            self.add(condition.a, wanted)
            self.add(condition.b, wanted)
        elif wanted and isinstance(condition, (LT, LE, GT, GE, EQ, NE)):
            if condition.a.dtype.is_int and self.is_wanted(condition):
                self.found.append(condition)

    def is_wanted(self, condition: PrimExpr) -> bool:
        """Return whether a comparison depends on the loop, but not on memory or on inner variables
        other than loop variables.
        """
        return (
            uses_variable(condition, {self.var})
            and not uses_variable(condition, self.hidden)
            and not reads_memory(condition)
        )


class Replacer(Rewriter):
    """Replaces conditions by constants; ``fold`` removes the branches that they decide."""

    def __init__(self, conditions: Iterable[PrimExpr], value: bool = True, fold: bool = True):
        self.conditions = {id(condition): value for condition in conditions}
        self.fold = fold

    def visit_CompareOp(self, expr: Any) -> PrimExpr:
        value = self.conditions.get(id(expr))
        return self.children(expr) if value is None else const(value, "bool")

    def visit_And(self, expr: And) -> PrimExpr:
        new = self.children(expr)
        return ops.logical_and(new.a, new.b) if new is not expr and self.fold else new

    def visit_Call(self, call: Call) -> PrimExpr:
        new = self.children(call)
        name = called_name(call)
        if self.fold and new is not call and ops.is_const(new.args[0], 1):
            if name == "tir.likely":
                return new.args[0]
            if name == "tir.if_then_else":
                return new.args[1]
        return new

    def visit_Select(self, expr: Select) -> PrimExpr:
        new = self.children(expr)
        return new.true_value if self.fold and ops.is_const(new.condition, 1) else new

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = self.children(branch)
        return new.then_case if self.fold and ops.is_const(new.condition, 1) else new


class Partitioner(ScopedAnalyzer, Rewriter):
    """Partitions outer loops first; inner loops divide the remaining conditions further."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.divide_constant = bool(config.get("partition_const_loop", False))
        self.unroll_undivided = bool(
            config.get("unroll_loop_with_partition_hint_no_interval", False)
        )
        self.keep_single = bool(config.get("no_unroll_loop_with_extent_one", False))
        self.hinted: For | None = None  # a loop under an attribute
        self.whole = 0  # the elements of a whole iteration of the next loop, from an attribute
        self.in_branches = False  # whether the next loop stays one, from an attribute
        self.differing: set[Var] = set()  # variables whose values differ between threads

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        hinted = bool(loop.annotations.get(HINT, False)) or loop is self.hinted
        whole, self.whole = self.whole or int(loop.annotations.get(TAILS, 0)), 0
        in_branches = self.in_branches or bool(loop.annotations.get(BRANCHES, False))
        self.in_branches = False
        if HINT in loop.annotations or whole or in_branches:
            hints = (HINT, TAILS, BRANCHES)
            kept = {key: value for key, value in loop.annotations.items() if key not in hints}
            loop = loop.with_fields(annotations=kept)
        is_constant = isinstance(loop.extent, IntImm)
        is_whole = loop.kind is ForKind.THREAD_BINDING or (
            loop.kind is ForKind.VECTORIZED and not is_constant  # lanes of a scalable vector
        )
        if not is_whole and (hinted or self.divide_constant or not is_constant):
            everywhere = hinted or (self.divide_constant and is_constant)
            divided = self.divided(loop, not everywhere, whole, in_branches)
            if divided is not None:
                return divided
            if hinted and self.unroll_undivided and is_constant and loop.kind is ForKind.SERIAL:
                loop = loop.with_fields(kind=ForKind.UNROLLED)
        return super().visit_For(loop)

    def divided(
        self, loop: For, only_likely: bool, whole: int = 0, in_branches: bool = False
    ) -> Stmt | None:
        """Return the loop in up to three parts; None if no condition can be decided. ``whole``: the
        last part is for an iteration of fewer elements than that; ``in_branches``: the parts are
        branches of one loop, if their sizes are constant.
        """
        conditions = Conditions(loop.loop_var, only_likely, loop.body)
        if not conditions.found:
            return None
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        body = self.settled(loop, conditions)
        divided = self.longest_stretch(loop, conditions, only_likely)
        if divided is None:
            return None if body is loop.body else super().visit_For(loop.with_fields(body=body))
        (begin, end, decided), value = divided
        if uses_variable([begin, end], self.differing) and exchanges_values(body):
            return None if body is loop.body else super().visit_For(loop.with_fields(body=body))
        stop = loop.min + loop.extent
        middle = Replacer(decided, value, fold=False).visit(body)
        ends = (loop.min, begin, end, self.analyzer.simplify(stop))
        limits = [one.value for one in ends if isinstance(one, IntImm)]
        if in_branches and len(limits) == len(ends):
            return self.branches(loop, limits, body, middle)
        parts = [
            self.part(loop, loop.min, begin, body, renewed=True),
            self.part(loop, begin, end, middle),
        ]
        tails = None
        if whole and value:
            rest = loop.with_fields(body=body)
            tails = tails_by_size(rest, end, decided, conditions.inner, whole, self.analyzer)
        if tails is None:
            tails = self.part(loop, end, stop, body, renewed=True)
        parts.append(tails)
        return stmt_seq(*[self.again(part, loop, only_likely) for part in parts])

    def branches(self, loop: For, limits: list[int], outer: Stmt, middle: Stmt) -> Stmt:
        """Return a loop that runs a body between the two inner limits, before and behind them
        copies of another one, and partition the bodies."""
        var = loop.loop_var
        found: Stmt | None = None
        for low, high, body in reversed([*zip(limits, limits[1:], (outer, middle, outer))]):
            if low >= high:
                continue
            values = {var: const(low, var.dtype)} if high == low + 1 else {}
            body = renew_defs(body, values) if body is outer else substitute(body, values)
            self.analyzer.bind(var, Range(low, high))
            body = self.visit(body)
            found = body if found is None else IfThenElse(var < high, body, found)
        return loop.with_fields(body=found)

    def longest_stretch(
        self, loop: For, conditions: Conditions, only_likely: bool
    ) -> tuple[tuple[PrimExpr, PrimExpr, list[PrimExpr]], bool] | None:
        """Return iterations in which conditions have one value: all of them, else, where all count,
        the first that has such iterations (of exclusive conditions no two hold together)."""
        every = conditions.found
        for chosen in (every, *([] if only_likely else [[one] for one in every])):
            conditions.found = chosen
            for value in (True, False):
                found = self.free_stretch(loop, conditions, value)
                if found is not None:
                    return found, value
        return None

    def again(self, part: Stmt, loop: For, only_likely: bool) -> Stmt:
        """Partition a part of a loop once more: its remaining conditions may be decided."""
        if not isinstance(part, For) or part.loop_var.name != loop.loop_var.name:
            return self.visit(part)
        if isinstance(part.extent, IntImm):
            divided = self.divided(part, only_likely)
            return super().visit_For(part) if divided is None else divided
        conditions = Conditions(part.loop_var, only_likely, part.body)
        self.analyzer.bind(part.loop_var, Range.from_min_extent(part.min, part.extent))
        return super().visit_For(part.with_fields(body=self.settled(part, conditions)))

    def settled(self, loop: For, conditions: Conditions) -> Stmt:
        """Replace loop-invariant conditions by constants; the others stay in
        ``conditions.found``.
        """
        body, rest = loop.body, []
        stop = loop.min + loop.extent
        settled: dict[bool, list[PrimExpr]] = {True: [], False: []}
        for condition in conditions.found:
            for value in settled:
                limit = self.limit(condition, loop, conditions, value)
                if limit is not None and self.covers(limit, loop.min, stop):
                    settled[value].append(condition)
                    break
            else:
                rest.append(condition)
        conditions.found = rest
        for value, decided in settled.items():
            if decided:
                body = Replacer(decided, value, fold=False).visit(body)
        return body

    def covers(self, limit: Limit, begin: PrimExpr, stop: PrimExpr) -> bool:
        low, high = limit
        return (low is None or self.analyzer.can_prove(low <= begin)) and (
            high is None or self.analyzer.can_prove(high >= stop)
        )

    def limit(self, condition: Any, loop: For, conditions: Conditions, value: bool) -> Limit | None:
        """Return the range of iterations in which a condition is known to have a value."""
        key = id(condition), value
        if key not in conditions.limits:
            if not value:
                condition = _OPPOSITE[type(condition)](condition.a, condition.b)
            found = limit_of(condition, loop.loop_var, conditions.inner, self.analyzer)
            conditions.limits[key] = found
        return conditions.limits[key]

    def free_stretch(
        self, loop: For, conditions: Conditions, value: bool = True
    ) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]] | None:
        """Return the range of iterations (the end exclusive) in which conditions are known to hold,
        and these conditions.

        With ``value`` false: in which they are known to fail.
        """
        if not conditions.found:
            return None
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        simplify = self.analyzer.simplify
        stop = simplify(loop.min + loop.extent)
        begin, end, proven = loop.min, stop, []
        for condition in conditions.found:
            limit = self.limit(condition, loop, conditions, value)
            if limit is None:
                continue
            proven.append(condition)
            low, high = limit
            if low is not None:
                begin = ops.maximum(begin, low)
            if high is not None:
                end = ops.minimum(end, high)
        if begin is not loop.min:
            begin = simplify(ops.minimum(begin, stop))
        if end is not stop:
            end = simplify(ops.maximum(end, begin))
        if not proven or self.analyzer.can_prove(end <= begin):
            return None
        # Between the ends of the loop, so that its dtype holds them, whatever the condition's is.
        dtype = loop.loop_var.dtype
        return simplify(ops.cast(dtype, begin)), simplify(ops.cast(dtype, end)), proven

    def part(
        self, loop: For, low: PrimExpr, high: PrimExpr, body: Stmt, renewed: bool = False
    ) -> Stmt:
        """Return the iterations from ``low`` up to ``high``, counted from zero. With
        ``renewed`` their body is a copy that can stand beside ``body``."""
        extent = self.analyzer.simplify(high - low)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return Evaluate(const(0, "int32"))
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        zero = const(0, var.dtype)
        is_loop = self.keep_single or not ops.is_const(extent, 1)
        values = {loop.loop_var: (var if is_loop else zero) + low}
        body = renew_defs(body, values) if renewed else substitute(body, values)
        if not is_loop:
            return body
        return loop.with_fields(loop_var=var, min=zero, extent=extent, body=body)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        if uses_variable(let.value, self.differing):
            self.differing.add(let.var)
        return super().visit_LetStmt(let)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Divide the blocks of a grid by a branch: those in the middle need no condition."""
        if attribute.attr_key == HINT:  # counts for the first loop inside
            body = attribute.body
            while isinstance(body, AttrStmt) and body.attr_key.startswith("pragma_"):
                body = body.body
            self.hinted = body if isinstance(body, For) else None
            return self.visit(attribute.body)
        if attribute.attr_key == TAILS:
            value: Any = attribute.value
            self.whole = int(value)
            return self.visit(attribute.body)
        if attribute.attr_key == BRANCHES:
            self.in_branches = True
            return self.visit(attribute.body)
        tag = getattr(attribute.node, "thread_tag", "")
        if attribute.attr_key in ("thread_extent", "virtual_thread") and "thread" in tag:
            self.differing.add(attribute.node.var)
        if attribute.attr_key != "thread_extent" or not tag.startswith("blockIdx"):
            return super().visit_AttrStmt(attribute)
        if not self.divide_constant and isinstance(attribute.value, IntImm):
            return super().visit_AttrStmt(attribute)
        var = attribute.node.var
        extent = ops.cast(var.dtype, attribute.value)
        grid = For(var, const(0, var.dtype), extent, ForKind.SERIAL, attribute.body)
        conditions = Conditions(var, True, attribute.body)
        found = self.free_stretch(grid, conditions)
        if found is None:
            return super().visit_AttrStmt(attribute)
        begin, end, decided = found
        inside = []
        if not ops.is_const(begin, 0):
            inside.append(var >= begin)
        if not self.analyzer.can_prove(end >= extent):
            inside.append(var < end)
        threads = [attribute]
        while isinstance(body := threads[-1].body, AttrStmt) and body.attr_key == "thread_extent":
            threads.append(body)
            dtype = body.node.var.dtype
            if body.node.thread_tag.startswith("threadIdx"):
                self.differing.add(body.node.var)
            self.analyzer.bind(body.node.var, Range(ops.cast(dtype, body.value)))
        middle = self.visit(Replacer(decided, fold=False).visit(body))
        if inside:
            other = renew_defs(body)
            middle = IfThenElse(ops.all_of(*inside), middle, other)
        for one in reversed(threads):
            middle = one.with_fields(body=middle)
        return middle


def exchanges_values(stmt: Stmt) -> bool:
    """Return whether threads may hand values to each other inside of a statement: through memory on
    the chip, which it writes and reads, or by a call.
    """
    written = {one.buffer.data for one in stores(stmt) if _may_be_shared(one.buffer)}
    return has_side_effect(stmt) or any(one.buffer.data in written for one in loads(stmt))


def _may_be_shared(buffer: Buffer) -> bool:
    scope = buffer.scope()
    return scope not in ("", "global") and not scope.startswith("local")


def limit_of(
    condition: Any, var: Var, inner: Mapping[Var, Any], analyzer: Analyzer
) -> Limit | None:
    """Return the start and end (exclusive) of the range of a loop variable in which a condition is
    always true.

    Narrow integers wrap around, so that no such range follows from their arithmetic.
    """
    if not (condition.a.dtype.is_int and condition.a.dtype.bits >= 32):
        return None
    if isinstance(condition, EQ):
        return _limit_of_equality(condition, var, inner, analyzer)
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    if _coefficient(condition.a - condition.b, var, analyzer) is None:
        plain = analyzer.simplify(condition)  # of ``i // 4 < 2`` this makes ``i < 8``
        if ops.is_const(plain, 1):
            return None, None
        condition = plain if isinstance(plain, (LT, LE, GT, GE)) else condition
    slack = slack_of(condition, analyzer)
    if slack is None:
        return None
    # its least value over the loops inside counts
    for name in reversed(list(inner)):
        if not uses_variable(slack, {name}):
            continue
        factor = _coefficient(slack, name, analyzer)
        if factor is None:
            return None
        first, last = inner[name]
        end = first if factor > 0 else last
        slack = analyzer.simplify(substitute(slack, {name: ops.cast(name.dtype, end)}))
    factor = _coefficient(slack, var, analyzer)
    if factor is None or factor == 0:
        return None
    rest = analyzer.simplify(slack - var * factor)
    if uses_variable(rest, {var, *inner}):
        return None
    if factor > 0:
        return analyzer.simplify(ops.floordiv(-rest, factor) + 1), None
    return None, analyzer.simplify(ops.floordiv(rest - 1, -factor) + 1)


def _limit_of_equality(
    condition: EQ, var: Var, inner: Mapping[Var, Any], analyzer: Analyzer
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the only iteration in which an equation holds, if it depends on this loop alone."""
    difference = analyzer.difference(condition.a, condition.b)
    if difference is None:
        return None
    factor = _coefficient(difference, var, analyzer)
    if factor is None or abs(factor) != 1:
        return None
    rest = analyzer.simplify((difference - var * factor) * -factor)
    if uses_variable(rest, {var, *inner}):
        return None
    return rest, analyzer.simplify(rest + 1)


def _coefficient(expr: PrimExpr, var: Var, analyzer: Analyzer) -> int | None:
    """Return the constant coefficient of a variable in an expression; None where it is not
    linear."""
    moved = substitute(expr, {var: var + 1})
    change = analyzer.simplify(moved - expr)
    return change.value if isinstance(change, IntImm) else None


def _is_likely(node: Node) -> bool:
    return is_call(node, "tir.likely")


class _LikelyRemover(Rewriter):
    """Removes ``T.likely``, which later passes do not read."""

    def visit_Call(self, call: Call) -> PrimExpr:
        call = self.children(call)
        return call.args[0] if is_call(call, "tir.likely") else call


def loop_partition(func: PrimFunc, config: Mapping[str, Any] | None = None) -> PrimFunc:
    """Return ``func`` with loops divided along their conditions, without ``T.likely``.

    ``config`` is the option of the pass.
    """
    partitioner = Partitioner(config or {})
    for buffer in func.buffer_map.values():  # sizes are not negative
        for size in [size for size in buffer.shape if isinstance(size, Var)]:
            partitioner.analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    body = partitioner.visit(func.body)
    if any_node(body, _is_likely):
        body = _LikelyRemover().visit(body)
    return func.with_body(body)


@compiler_pass(
    "tir.LoopPartition",
    options={
        "partition_const_loop": False,
        "no_unroll_loop_with_extent_one": False,
        "unroll_loop_with_partition_hint_no_interval": False,
    },
)
def loop_partition_as_configured(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Divides loops so that their middle part needs no bounds condition."""
    return loop_partition(func, options)
