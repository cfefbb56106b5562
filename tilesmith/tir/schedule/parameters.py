"""Defines the kinds of parameters of schedule primitives: the accepted arguments, their resolved
values, and their form in traces.

A primitive says the kinds by its annotations:

    def tile(loop: LoopCursor, size: int) -> list[LoopCursor]: ...

Plain types and cursors have a kind each (``kind_of``); what needs more is an ``Annotated`` type:
``Factors``, ``StorageScope``, ``ReadBuffer``, ... A primitive with an argument of its own makes its
kind with ``Adapted``.
"""

from __future__ import annotations

import operator
import random
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from tilesmith.ir import GlobalVar, IntImm, PrimExpr
from tilesmith.support.errors import InternalError, ScheduleError
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, FunctionCursor, LoopCursor, cursor_of
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.methods import PrimitiveMethods
from tilesmith.tir.schedule.state import StmtSRef, is_mark
from tilesmith.tir.schedule.trace import Argument
from tilesmith.tir.stmt import BlockRealize, For
from tilesmith.tir.storage_scopes import SCOPES_TEXT, is_storage_scope

__all__ = [
    "Adapted", "AnnotationValue", "BlockBuffer", "BufferChoice", "Decision", "Decisions",
    "Drawn", "DtypeText", "Factors", "FunctionName", "Generator", "LoopOrMark",
    "NamedBuffer", "ParameterKind", "ReadBuffer", "StorageScope", "Targets", "WrittenBuffer",
    "kind_of",
]  # fmt: skip


class ParameterKind:
    """Defines how one kind of argument is checked, resolved, and recorded in the trace."""

    users_type = "Any"
    """The annotation that users see."""
    is_hidden = False
    """Given by the schedule, not by users."""
    is_recorded = True
    """Part of the instruction's inputs or attributes."""
    argument = Argument("")
    """How the trace keeps it; the name is the parameter's."""
    accepts_names = False
    """Users may name a block instead of giving its variable."""

    def with_variables(self, sch: PrimitiveMethods, value: Any) -> Any:
        """Return an argument with variables of blocks in the place of their names, where it
        ``accepts_names``, so that the trace keeps which blocks were found.
        """
        return sch.get_block(value) if isinstance(value, str) else value

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        """Return the value that is passed to the primitive.

        ``known`` holds the other parameters: those before this one resolved, the rest as given.
        A value over sampled variables is given as ``Drawn``.
        """
        return value

    def kept(self, value: Any, resolved: Any) -> Any:
        """Return the value that is recorded in the trace: the given one for inputs, else the
        resolved one.
        """
        return value if self.argument.is_input else resolved


def _wrong(name: str, wanted: str, value: Any) -> ScheduleError:
    return refuse(f"'{name}' is {wanted}, got {value!r}")


def _items(name: str, wanted: str, value: Any) -> list[Any]:
    """Return the items of a sequence; a text is not one here."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return list(value)
    raise _wrong(name, wanted, value)


def _whole(name: str, value: Any, wanted: str = "a whole number") -> int:
    """Return a number given as an integer of Python, numpy or the IR."""
    try:
        return int(value) if isinstance(value, IntImm) else operator.index(value)
    except TypeError:
        raise _wrong(name, wanted, value) from None


# --- loops and blocks -----------------------------------------------------------------------------


class _Loop(ParameterKind):
    users_type = "LoopRV"
    argument = Argument("", is_input=True)

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        sref = sch.variables.sref(value)
        if is_mark(sref):
            advice = "only compute_at and reverse_compute_at accept marks"
            raise refuse(f"expected a loop, got the mark {sref!r}", None, advice)
        stmt = sch.state.stmt(sref)
        if type(stmt) is not For:
            advice = "sch.get_loops(block) gives the loops around a block, outermost first"
            raise refuse(f"expected a loop, got the block '{stmt.block.name_hint}'", None, advice)
        return LoopCursor(sch.state, sref)


class _LoopOrMark(_Loop):
    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        sref = sch.variables.sref(value)
        return sref if is_mark(sref) else super().resolve(sch, name, value, known)


class _BlockOrLoop(ParameterKind):
    users_type = "BlockRV | LoopRV | str"
    argument = Argument("", is_input=True)
    accepts_names = True

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        return cursor_of(sch.state, sch.variables.sref(value))


class _Block(ParameterKind):
    users_type = "BlockRV | str"
    argument = Argument("", is_input=True)
    accepts_names = True

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        sref = sch.variables.sref(value)
        stmt = sch.state.stmt(sref)
        if type(stmt) is not BlockRealize:
            reason = f"expected a block, got the loop '{stmt.loop_var.name}'"
            raise refuse(reason, None, 'sch.get_block("name") gives a block')
        return BlockCursor(sch.state, sref)


class _Blocks(_Block):
    users_type = "Sequence[BlockRV | str] | None"
    argument = Argument("", is_input=True, form="list", optional=True)

    def with_variables(self, sch: PrimitiveMethods, value: Any) -> Any:
        one = super().with_variables
        blocks = value or []
        if isinstance(blocks, str) or not isinstance(blocks, Iterable):
            return blocks  # refused by ``resolve``
        return [one(sch, block) for block in blocks]

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        one = super().resolve
        blocks = _items(name, "a list of blocks", value or [])
        return [one(sch, name, block, known) for block in blocks]


class _Targets(_BlockOrLoop):
    """A loop or block, or several blocks."""

    users_type = "BlockRV | LoopRV | Sequence[BlockRV | str]"

    def with_variables(self, sch: PrimitiveMethods, value: Any) -> Any:
        one = super().with_variables
        if isinstance(value, (list, tuple)):
            return [one(sch, block) for block in value]
        return one(sch, value)

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if isinstance(value, (list, tuple)):
            return [_BLOCK.resolve(sch, name, block, known) for block in value]
        return [super().resolve(sch, name, value, known)]


class _Rest(ParameterKind):
    """All remaining positional arguments."""

    def __init__(self, kind: ParameterKind) -> None:
        self.kind = kind
        self.users_type = kind.users_type
        self.argument = kind.argument._replace(form="rest")
        self.accepts_names = kind.accepts_names

    def with_variables(self, sch: PrimitiveMethods, value: Any) -> Any:
        return [self.kind.with_variables(sch, item) for item in value]

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        return [self.kind.resolve(sch, name, item, known) for item in value]

    def kept(self, value: Any, resolved: Any) -> Any:
        return list(value)


class _Function(ParameterKind):
    """A function by its name; None for the schedule's current function."""

    users_type = "str | None"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        variable: GlobalVar | None = sch.func_working_on
        if value is not None:
            variable = sch.state.mod.get_global_var(value)
        if variable is None:
            names = ", ".join(v.name_hint for v in sch.state.mod.get_global_vars())
            raise ScheduleError(
                f"the module has several functions ({names})",
                notes=("name one: sch.get_block(name, func_name=...) or sch.work_on(func_name)",),
            )
        return FunctionCursor(sch.state, variable)

    def kept(self, value: Any, resolved: Any) -> Any:
        return resolved.name


# --- plain values ---------------------------------------------------------------------------------


class _Flag(ParameterKind):
    users_type = "bool"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if value is True or value is False:
            return value
        if isinstance(value, (int, IntImm)) and int(value) in (0, 1):
            return bool(int(value))
        raise _wrong(name, "True or False", value)


class _Number(ParameterKind):
    users_type = "int"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if value.__class__ is int:
            return value
        if isinstance(value, PrimExpr):
            value = sch.variables.value(value)
        try:
            return operator.index(value)
        except TypeError:
            raise _wrong(name, "a whole number", value) from None


class _Numbers(_Number):
    users_type = "Sequence[int]"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        one = super().resolve
        numbers = _items(name, "a list of whole numbers", () if value is None else value)
        return [one(sch, name, item, known) for item in numbers]


class _Reals(ParameterKind):
    users_type = "Sequence[float]"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        wanted = "a list of numbers"
        try:
            return [float(item) for item in _items(name, wanted, value)]
        except (TypeError, ValueError):
            raise _wrong(name, wanted, value) from None


class _Text(ParameterKind):
    users_type = "str"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if not isinstance(value, str):
            raise _wrong(name, "a string", value)
        return value


class _Dtype(ParameterKind):
    users_type = "str"

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        return str(value)


class _Scope(_Text):
    """A storage scope known to targets, optionally with a tag: ``shared.dyn``,
    ``global.texture``.
    """

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        scope = super().resolve(sch, name, value, known)
        if scope and not is_storage_scope(scope):
            raise refuse(f"'{scope}' is not a storage scope", known.get("block"), SCOPES_TEXT)
        return scope


class _Factors(ParameterKind):
    """Numbers, expressions over sampled values, and None for a factor that follows from the
    extent."""

    users_type = "Sequence[int | PrimExpr | None]"
    argument = Argument("", is_input=True, form="list")

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _wrong(name, "a list of factors, such as [None, 4]", value)
        factors = [sch.variables.value(factor) for factor in value]
        for factor in factors:
            is_size = isinstance(factor, PrimExpr) and factor.dtype.is_integer
            if not (factor is None or is_size or isinstance(factor, int)):
                raise _wrong(name, "a list of whole numbers, and None for one that follows", value)
        return factors

    def kept(self, value: Any, resolved: Any) -> Any:
        return list(value)


class _Annotation(ParameterKind):
    """A value, list or dictionary; sampled values in it are replaced by numbers."""

    argument = Argument("", is_input=True)

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([self.resolve(sch, name, item, known) for item in value])
        if isinstance(value, dict):
            return {key: self.resolve(sch, name, item, known) for key, item in value.items()}
        return sch.variables.value(value) if isinstance(value, PrimExpr) else value


# --- buffers --------------------------------------------------------------------------------------


class _BufferNumber(ParameterKind):
    """A buffer that the parameter ``block`` reads (writes), given by its index, its name, or
    itself.

    Where ``access`` is left open, the parameter ``buf_type`` says which of the two.
    """

    users_type = "int | str | Buffer"

    def __init__(self, access: str = "") -> None:
        self.access = access

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if isinstance(value, (int, IntImm)):
            return int(value)
        access, block = self.access or known["buf_type"], known["block"].block
        regions = block.reads if access == "read" else block.writes
        for number, region in enumerate(regions):
            if region.buffer is value or region.buffer.name == value:
                return number
        names = ", ".join(region.buffer.name for region in regions)
        raise ScheduleError(
            f"block '{block.name_hint}' does not {access} '{value}'; it does: {names}"
        )


class BufferChoice(NamedTuple):
    """A buffer among those that a block reads or writes."""

    access: str
    number: int


class _BlockBuffer(ParameterKind):
    """A buffer that the parameter ``block`` uses, given as ``("read", k)``, ``("write", k)``, its
    name, or itself.
    """

    users_type = "tuple[str, int] | str | Buffer"
    argument = Argument("", as_tuple=True)

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if isinstance(value, (tuple, list)) and len(value) == 2:
            access, index = value
            if isinstance(access, int):
                access, index = index, access
            if access not in ("read", "write"):
                raise ScheduleError(
                    f"a buffer is ('read', number) or ('write', number), got {value!r}"
                )
            return BufferChoice(access, _whole(name, index, "('read' or 'write', whole number)"))
        block = known["block"].block
        for access, regions in (("write", block.writes), ("read", block.reads)):
            for number, region in enumerate(regions):
                if region.buffer is value or region.buffer.name == value:
                    return BufferChoice(access, number)
        raise ScheduleError(f"block '{block.name_hint}' neither reads nor writes '{value}'")

    def kept(self, value: Any, resolved: Any) -> Any:
        return tuple(resolved)


class Drawn(NamedTuple):
    """A value over sampled variables, which the trace keeps, and its present value."""

    pattern: Any
    value: Any


class Adapted(ParameterKind):
    """An argument of one primitive that ``adapt(known, value)`` converts.

    ``known``: see ``ParameterKind.resolve``. ``wanted``: what to call the argument where it is
    neither a function nor an index map.
    """

    def __init__(
        self,
        adapt: Callable[[Mapping[str, Any], Any], Any],
        users_type: str = "Any",
        as_function: bool = False,
        wanted: str = "",
    ) -> None:
        self.adapt = adapt
        self.users_type = users_type
        self.wanted = wanted
        self.argument = Argument("", as_function=as_function)

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if self.wanted and not callable(value) and not isinstance(value, IndexMap):
            raise _wrong(name, self.wanted, value)
        made = self.adapt(known, value)
        if isinstance(made, IndexMap):
            numbers = sch.variables.numbers(made.symbols())
            if numbers:
                return Drawn(made, made.with_symbols(numbers))
        return made

    def kept(self, value: Any, resolved: Any) -> Any:
        return value if isinstance(value, IndexMap) else resolved


# --- sampling -------------------------------------------------------------------------------------


class _Decision(ParameterKind):
    """A decision of a sampling primitive; the trace stores it beside the instruction."""

    is_recorded = False
    argument = Argument("", optional=True)

    def __init__(self, users_type: str) -> None:
        self.users_type = users_type

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        if isinstance(value, (list, tuple)):
            return [_whole(name, item) for item in value]
        return None if value is None else _whole(name, value)


class _Generator(ParameterKind):
    """The random number generator of the schedule."""

    is_hidden = True
    is_recorded = False

    def resolve(self, sch: PrimitiveMethods, name: str, value: Any, known: dict[str, Any]) -> Any:
        return sch.random


# --- which annotation means which kind ------------------------------------------------------------

_BLOCK = _Block()

LoopOrMark = Annotated[LoopCursor | StmtSRef, _LoopOrMark()]
Targets = Annotated[list[Cursor], _Targets()]
FunctionName = Annotated[FunctionCursor | None, _Function()]
StorageScope = Annotated[str, _Scope()]
DtypeText = Annotated[str, _Dtype()]
Factors = Annotated[list[int | PrimExpr | None], _Factors()]
AnnotationValue = Annotated[Any, _Annotation()]
ReadBuffer = Annotated[int, _BufferNumber("read")]
WrittenBuffer = Annotated[int, _BufferNumber("write")]
NamedBuffer = Annotated[int, _BufferNumber()]
BlockBuffer = Annotated[BufferChoice, _BlockBuffer()]
Decision = Annotated[int | None, _Decision("int | None")]
Decisions = Annotated[list[int] | None, _Decision("Sequence[int] | None")]
Generator = Annotated[random.Random, _Generator()]

_KINDS: dict[Any, ParameterKind] = {
    LoopCursor: _Loop(),
    BlockCursor: _BLOCK,
    Cursor: _BlockOrLoop(),
    list[BlockCursor]: _Blocks(),
    bool: _Flag(),
    int: _Number(),
    str: _Text(),
    list[int]: _Numbers(),
    list[float]: _Reals(),
}


def kind_of(annotation: Any, is_rest: bool = False) -> ParameterKind:
    """Return the kind for the annotation of a primitive's parameter; ``is_rest`` for ``*name``."""
    if is_rest:
        return _Rest(kind_of(annotation))
    for found in getattr(annotation, "__metadata__", ()):
        if isinstance(found, ParameterKind):
            return found
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = [part for part in typing.get_args(annotation) if part is not type(None)]
    try:
        return _KINDS[annotation]
    except (KeyError, TypeError):
        raise InternalError(
            f"no kind of schedule parameters belongs to the annotation {annotation!r}",
            notes=("annotate with a cursor, a plain type, or an Annotated type with its kind",),
        ) from None
