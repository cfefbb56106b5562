"""``T``: the words that are used in a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, IntervalSet
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const, convert, operators
from tilesmith.ir.queries import mentions
from tilesmith.script.builder import IRBuilder
from tilesmith.script.tir_frames import BlockFrame, ForFrame, InitFrame, PrimFuncFrame
from tilesmith.script.tir_types import region_of
from tilesmith.support.errors import ScriptError, TypeMismatchError
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.ranges import extent_between

__all__ = ["axis", "block", "block_attr", "domain_of", "init", "reads", "where", "writes"]


def block(name: str = "", no_realize: Any = False) -> BlockFrame:
    """Open a block: ``with T.block("C"):``."""
    if not isinstance(name, str):
        raise TypeMismatchError("T.block takes the name of the block, a text")
    return BlockFrame(name, no_realize)


def _block(word: str) -> BlockFrame:
    builder = IRBuilder.current()
    frame = builder.find_frame(BlockFrame, PrimFuncFrame)
    if not isinstance(frame, BlockFrame):
        raise ScriptError(
            f"T.{word} stands in a block", notes=('open one around it: with T.block("name"):',)
        )
    return frame


def init() -> InitFrame:
    """Open what the block does at the first value of its reduction axes: ``with T.init():``."""
    _block("init")
    return InitFrame()


def where(predicate: Any) -> None:
    """Set the predicate of the block."""
    frame = _block("where")
    if frame.predicate is not None:
        raise ScriptError("the block has a T.where already")
    frame.predicate = convert(predicate)


def _regions(word: str, buffer_slices: tuple) -> list[BufferRegion]:
    flat: list[Any] = []
    for item in buffer_slices:
        flat += item if isinstance(item, (list, tuple)) else [item]
    return [region_of(item) for item in flat]


def reads(*buffer_slices: Any) -> None:
    """Set the regions that the block reads."""
    frame = _block("reads")
    if frame.reads is not None:
        raise ScriptError("the block has a T.reads already")
    frame.reads = _regions("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """Set the regions that the block writes."""
    frame = _block("writes")
    if frame.writes is not None:
        raise ScriptError("the block has a T.writes already")
    frame.writes = _regions("writes", buffer_slices)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Set annotations of the block."""
    frame = _block("block_attr")
    frame.annotations = {**(frame.annotations or {}), **attrs}


class axis:
    """Make the iterators of a block, bound to values: ``vi = T.axis.spatial(16, i)``."""

    @staticmethod
    def _bind(dom: Any, binding: Any, kind: int, dtype: str | None) -> Var:
        frame = _block("axis")
        if isinstance(dom, int) and binding is not None:
            dom = const(dom, convert(binding).dtype)  # as with a loop: numbers follow the values
        domain = _over_all_iterations(domain_of(dom))
        if isinstance(domain.extent, IntImm) and domain.extent.value < 0:
            raise ScriptError(
                f"the extent of an axis cannot be negative, got {domain.extent.value}"
            )
        var = Var("", dtype or domain.extent.dtype)
        frame.iter_vars.append(IterVar(domain, var, kind, span=frame.builder.span))
        if binding is not None:
            frame.iter_values.append(convert(binding))
        elif not frame.no_realize:
            raise ScriptError("the axis needs a value: T.axis.spatial(extent, value)")
        return var

    @staticmethod
    def spatial(dom: Any, binding: Any = None, dtype: str | None = None) -> Var:
        """Make an axis whose values are independent of each other."""
        return axis._bind(dom, binding, IterVar.DataPar, dtype)

    @staticmethod
    def reduce(dom: Any, binding: Any = None, dtype: str | None = None) -> Var:
        """Make a reduction axis."""
        return axis._bind(dom, binding, IterVar.CommReduce, dtype)

    @staticmethod
    def scan(dom: Any, binding: Any = None, dtype: str | None = None) -> Var:
        """Make an axis whose values come in order."""
        return axis._bind(dom, binding, IterVar.Ordered, dtype)

    @staticmethod
    def opaque(dom: Any, binding: Any = None, dtype: str | None = None) -> Var:
        """Make an axis without any known property."""
        return axis._bind(dom, binding, IterVar.Opaque, dtype)

    @staticmethod
    def remap(kinds: str, bindings: Sequence[Any], dtype: str | None = None) -> Any:
        """Make axes that run over the domains of loops: ``T.axis.remap("SSR", [i, j, k])``."""
        if len(kinds) != len(bindings):
            raise ScriptError(
                f"T.axis.remap: {len(kinds)} kinds ('{kinds}') for {len(bindings)} loops",
                notes=("one letter for each loop: S spatial, R reduce",),
            )
        made = []
        for kind, binding in zip(kinds, bindings):
            number = {"S": IterVar.DataPar, "R": IterVar.CommReduce}.get(kind)
            if number is None:
                raise ScriptError(
                    f"T.axis.remap: unknown kind '{kind}'",
                    notes=("S: spatial, R: reduce; others: T.axis.scan, T.axis.opaque",),
                )
            low, extent = _loop_domain(binding)
            made.append(axis._bind(Range.from_min_extent(low, extent), binding, number, dtype))
        return made[0] if len(made) == 1 else made

    S, R = spatial, reduce


def _over_all_iterations(domain: Range) -> Range:
    """Return a domain that depends on loops around the block (``for j in range(i, 128)``) over all
    of their iterations: blocks are moved out of loops, and their domains with them.
    """
    loops = [
        pair
        for frame in IRBuilder.current().frames
        if isinstance(frame, ForFrame)
        for pair in zip(frame.vars, frame.domains)
    ]
    if not mentions([domain.min, domain.extent], {var for var, _ in loops}):
        return domain
    analyzer = Analyzer()
    low, last = domain.min, analyzer.simplify(operators.moved(domain.min + domain.extent, -1))
    for var, (start, extent) in reversed(loops):
        sets = {var: IntervalSet(start, analyzer.simplify(operators.moved(start + extent, -1)))}
        least, most = analyzer.int_set(low, sets), analyzer.int_set(last, sets)
        if not (least.has_lower_bound() and most.has_upper_bound()):
            return domain
        low, last = least.min_value, most.max_value
    return Range.from_min_extent(
        analyzer.simplify(low), analyzer.simplify(operators.moved(last - low, 1))
    )


def domain_of(dom: Any) -> Range:
    """Return an extent, a pair of bounds, or a range as a range."""
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, slice):
        dom = (dom.start or 0, dom.stop)
    if isinstance(dom, (tuple, list)):
        low, stop = operators.match_types(*dom)
        return Range.from_min_extent(low, extent_between(low, stop))
    return Range(convert(dom))


def _loop_domain(var: Any) -> tuple[PrimExpr, PrimExpr]:
    """Return the domain of the enclosing loop with this variable."""
    for frame in reversed(IRBuilder.current().frames):
        if isinstance(frame, ForFrame):
            for known, domain in zip(frame.vars, frame.domains):
                if known is var:
                    return domain
    name = f"'{var.name}'" if isinstance(var, Var) else "an expression"
    raise ScriptError(
        f"T.axis.remap needs variables of loops around the block, got {name}",
        notes=("use T.axis.spatial(extent, value) or T.axis.reduce(extent, value)",),
    )
