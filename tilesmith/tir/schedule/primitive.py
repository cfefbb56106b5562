"""Declarations of schedule primitives.

A primitive is one function, which gets cursors and plain values and gives cursors:

    @primitive()
    def unroll(loop: LoopCursor) -> None:
        \"\"\"Unroll a loop.\"\"\"
        loop.replace(loop.stmt.with_fields(kind=ForKind.UNROLLED))

From its signature and text come the method ``Schedule.unroll``, the checks of its arguments, what
random variables stand for and the new ones that it gives, the kind of instruction in the trace
("Unroll"), its line in Python, and the name in front of its refusals (``raise refuse(...)``).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

from tilesmith.support.errors import InternalError, ScheduleError, TypeMismatchError
from tilesmith.support.registry import Registry
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import Refusal
from tilesmith.tir.schedule.methods import PrimitiveMethods
from tilesmith.tir.schedule.parameters import Drawn, ParameterKind, kind_of
from tilesmith.tir.schedule.trace import KINDS, Instruction, InstructionKind
from tilesmith.tir.schedule.verify import verify_state

__all__ = [
    "PRIMITIVES", "Primitive", "Sampled", "SampledLoop", "SampledNumber", "SampledNumbers",
    "forget", "primitive",
]  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])
_EMPTY = inspect.Parameter.empty


class Sampled(NamedTuple):
    """The result of a sampling primitive, and the decision for the trace."""

    result: Any
    decision: Any


class ResultKind:
    """The result of a primitive, and the random variables that users get for it."""

    def __init__(self, users_type: str, new: Callable[[PrimitiveMethods, Any], Any] | None) -> None:
        self.users_type = users_type
        self.new = new
        self.is_list = users_type.startswith("list")


def _numbers(sch: PrimitiveMethods, values: Sequence[int]) -> list[Any]:
    return sch.variables.new_numbers(values, len(sch.trace.insts))


_LOOP = ResultKind("LoopRV", lambda sch, loop: sch.variables.new_loop(loop))
SampledLoop = Annotated[Sampled, _LOOP]
SampledNumber = Annotated[Sampled, ResultKind("Var", lambda sch, one: _numbers(sch, [one])[0])]
SampledNumbers = Annotated[Sampled, ResultKind("list[Var]", _numbers)]

_RESULTS: dict[Any, ResultKind] = {
    type(None): ResultKind("None", None),
    bool: ResultKind("bool", None),
    LoopCursor: _LOOP,
    BlockCursor: ResultKind("BlockRV", lambda sch, block: sch.variables.new_block(block)),
    list[LoopCursor]: ResultKind(
        "list[LoopRV]", lambda sch, loops: [sch.variables.new_loop(loop) for loop in loops]
    ),
    list[BlockCursor]: ResultKind(
        "list[BlockRV]", lambda sch, blocks: [sch.variables.new_block(block) for block in blocks]
    ),
}


class Parameter(NamedTuple):
    """A parameter of a primitive."""

    name: str
    kind: ParameterKind
    default: Any
    is_rest: bool
    is_keyword: bool


class Primitive:
    """The record of a primitive: all facts about it."""

    def __init__(
        self,
        function: Callable[..., Any],
        trace: str,
        *,
        is_composed: bool,
        aliases: Sequence[str],
        former_names: Mapping[str, str],
        no_sampler: str,
        options: dict[str, bool],
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.is_composed = is_composed
        self.aliases = tuple(aliases)
        self.former_names = dict(former_names)
        self.no_sampler = no_sampler
        types = typing.get_type_hints(function, include_extras=True)
        self.parameters = [
            Parameter(
                name,
                kind_of(types[name], one.kind is one.VAR_POSITIONAL),
                one.default,
                one.kind is one.VAR_POSITIONAL,
                one.kind is one.KEYWORD_ONLY,
            )
            for name, one in inspect.signature(function).parameters.items()
        ]
        self._kinds = [(one.name, one.kind) for one in self.parameters]
        self._defaults = {one.name: one.default for one in self.parameters}
        # What positions alone can give: the frequent case, which needs no search by name.
        self._is_plain = not any(
            one.is_rest or one.is_keyword or one.kind.is_hidden for one in self.parameters
        )
        self._needed = sum(one.default is _EMPTY for one in self.parameters)
        self.result = _result_kind(function, types["return"])
        self.signature = self._signature()
        self.kind: InstructionKind | None = None
        recorded = [p for p in self.parameters if p.kind.is_recorded]
        self._recorded = [(p.name, p.kind, p.kind.argument.is_input) for p in recorded]
        self._naming = [(p.name, p.kind) for p in self.parameters if p.kind.accepts_names]
        if trace:
            arguments = [p.kind.argument._replace(name=p.name) for p in recorded]
            is_list = self.result.is_list
            self.kind = InstructionKind(
                trace, self.name, arguments, returns_list=is_list, **options
            )

    def __repr__(self) -> str:
        return f"Primitive({self.name})"

    @property
    def only_looks(self) -> bool:
        """Return whether the primitive only queries: it neither changes the program nor draws
        random numbers.
        """
        is_pure = self.kind is not None and self.kind.is_pure
        return is_pure and not any(one.kind.is_hidden for one in self.parameters)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The docstring that users read."""
        return inspect.getdoc(self.function) or ""

    def _usage(self) -> str:
        names = [name for name in self.signature.parameters if name != "self"]
        return f"({', '.join(names)})"

    def _signature(self) -> inspect.Signature:
        """Return the signature of the method, as users see it."""
        form = inspect.Parameter
        shown = [form("self", form.POSITIONAL_OR_KEYWORD)]
        for one in self.parameters:
            if one.kind.is_hidden:
                continue
            place = form.KEYWORD_ONLY if one.is_keyword else form.POSITIONAL_OR_KEYWORD
            shown.append(
                form(
                    one.name,
                    form.VAR_POSITIONAL if one.is_rest else place,
                    default=one.default,
                    annotation=one.kind.users_type,
                )
            )
        return inspect.Signature(shown, return_annotation=self.result.users_type)

    def method(self) -> Callable[..., Any]:
        """Return the method of schedules."""

        def method(self: PrimitiveMethods, *args: Any, **kwargs: Any) -> Any:
            return carry_out(self, args, kwargs)

        carry_out = self.carry_out
        method.__name__ = self.name
        method.__qualname__ = f"Schedule.{self.name}"
        method.__module__ = self.function.__module__
        method.__doc__ = self.function.__doc__
        method.__signature__ = self.signature  # type: ignore[attr-defined]
        return method

    # --- carrying it out --------------------------------------------------------------------------

    def carry_out(
        self, sch: PrimitiveMethods, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Resolve the arguments, call the function, record the instruction, and return the
        result.
        """
        given = self._bind(sch, args, kwargs)
        known = given.copy()
        before = sch.state.copy() if self.is_composed else None
        try:
            for name, kind in self._naming:
                given[name] = known[name] = kind.with_variables(sch, given[name])
            for name, kind in self._kinds:
                value = kind.resolve(sch, name, given[name], known)
                if value.__class__ is Drawn:
                    given[name], value = value
                known[name] = value
            result = self.function(*known.values()) if self._is_plain else self._call(known)
        except Exception as error:
            if before is not None:
                sch.state.restore(before)
            self._raise(sch, error)
        return self._finish(sch, given, known, result)

    def _call(self, resolved: dict[str, Any]) -> Any:
        """Call the function with arguments of all kinds, given by name."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for one in self.parameters:
            if one.is_rest:
                positional += resolved[one.name]
            elif one.is_keyword:
                named[one.name] = resolved[one.name]
            else:
                positional.append(resolved[one.name])
        return self.function(*positional, **named)

    def _raise(self, sch: PrimitiveMethods, error: Exception) -> NoReturn:
        """Raise the error for the user: with the name of the primitive, in the requested detail."""
        level = sch.error_render_level
        if isinstance(error, Refusal):
            shown = error.named(self.name) if level == "detail" else None
            message = f"{self.name}: {error.message}"
        elif isinstance(error, ScheduleError) and level != "detail":
            shown, message = None, error.message
        else:
            raise error
        if shown is None:
            shown = ScheduleError(message if level == "fast" else "schedule error")
        raise shown.with_traceback(error.__traceback__) from None

    def _bind(
        self, sch: PrimitiveMethods, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments by name, with defaults."""
        if self._is_plain and not kwargs and self._needed <= len(args) <= len(self._kinds):
            given = self._defaults.copy()
            given.update(zip(self._defaults, args))
            return given
        if self.former_names:
            kwargs = {self.former_names.get(name, name): value for name, value in kwargs.items()}
        given = {}
        used, left, is_missing = 0, len(kwargs), False
        for name, kind, default, is_rest, is_keyword in self.parameters:
            if is_rest:
                given[name] = args[used:]
                used = len(args)
            elif used < len(args) and not is_keyword and not kind.is_hidden:
                given[name] = args[used]
                used += 1
            elif name in kwargs and not kind.is_hidden:
                given[name] = kwargs[name]
                left -= 1
            else:
                given[name] = default
                is_missing = is_missing or (default is _EMPTY and not kind.is_hidden)
        if used < len(args) or left or is_missing:
            try:
                self.signature.bind(sch, *args, **kwargs)
            except TypeError as error:
                raise TypeMismatchError(
                    f"Schedule.{self.name}: {error}",
                    notes=(f"usage: sch.{self.name}{self._usage()}",),
                ) from None
        return given

    def _finish(
        self, sch: PrimitiveMethods, given: dict[str, Any], known: dict[str, Any], result: Any
    ) -> Any:
        """Make random variables for the result, and record the instruction."""
        decision = None
        if isinstance(result, Sampled):
            result, decision = result
        if self.result.new is not None:
            result = self.result.new(sch, result)
        if self.kind is None:
            return result
        inputs: list[Any] = []
        attrs: list[Any] = []
        for name, kind, is_input in self._recorded:
            kept = kind.kept(given[name], known[name])
            if is_input:
                inputs.append(kept)
            else:
                attrs.append(kept)
        outputs = result if self.result.is_list else [] if result is None else [result]
        sch.trace.append(Instruction(self.kind, inputs, attrs, outputs), decision)
        if sch.state.debug_mask:
            verify_state(sch.state)
        return result


def _result_kind(function: Callable[..., Any], annotation: Any) -> ResultKind:
    for found in getattr(annotation, "__metadata__", ()):
        if isinstance(found, ResultKind):
            return found
    if annotation not in _RESULTS:
        raise InternalError(
            f"primitive '{function.__name__}' gives {annotation!r}, which no kind of result fits",
            notes=("a primitive gives None, cursors, lists of cursors, or what it has sampled",),
        )
    return _RESULTS[annotation]


# --- the table ------------------------------------------------------------------------------------

PRIMITIVES: Registry[Primitive] = Registry("schedule primitive")
"""All primitives by the names of their methods."""


def primitive(
    *,
    trace: str | None = None,
    is_pure: bool = False,
    is_postproc: bool = False,
    is_composed: bool = False,
    aliases: Sequence[str] = (),
    former_names: Mapping[str, str] = MappingProxyType({}),
    no_sampler: str = "",
) -> Callable[[Function], Function]:
    """Declare a function as a primitive; the function itself is returned unchanged.

    ``trace``: the name of its instructions, made from the function's if not given; "" where the
    trace does not keep it. ``is_pure``: it changes nothing, so an instruction whose results are
    not used can be dropped. ``is_composed``: it carries out other primitives, whose changes are
    taken back if it is refused. ``former_names``: older names of parameters and the present
    ones. ``no_sampler``: why the fuzzer does not draw it (else it has a sampler in
    ``testing/fuzz``).
    """

    def declare(function: Function) -> Function:
        name = function.__name__
        kind = name.title().replace("_", "") if trace is None else trace
        options = {"is_pure": is_pure, "is_postproc": is_postproc}
        record = Primitive(
            function, kind, is_composed=is_composed, aliases=aliases, former_names=former_names,
            no_sampler=no_sampler, options=options,
        )  # fmt: skip
        PRIMITIVES.register(name, record)
        if record.kind is not None:
            KINDS.register(kind, record.kind)
        for one in (name, *aliases):
            setattr(PrimitiveMethods, one, record.method())
        return function

    return declare


def forget(name: str) -> None:
    """Remove a primitive: its method, its kind of instruction, its record."""
    record = PRIMITIVES.get(name)
    PRIMITIVES.remove(name)
    if record.kind is not None:
        KINDS.remove(record.kind.name)
    for one in (name, *record.aliases):
        delattr(PrimitiveMethods, one)
