"""Defines traces: the instructions of a schedule, which can be printed, saved and replayed.

An instruction names a kind from the table ``KINDS``, its inputs (random variables, expressions,
lists of them), its attributes (plain values), and the random variables that it made. Sampling
instructions have a decision besides, kept by the trace so that it can be changed.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal, NamedTuple

from tilesmith.ir import Var
from tilesmith.ir.printing.config import SPELLING
from tilesmith.support.errors import ScheduleError, TilesmithError, reason_of
from tilesmith.support.registry import Registry
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.schedule.sizes import sizes_by_name
from tilesmith.tir.schedule.trace_values import (
    Text,
    from_json,
    python_text,
    random_variables,
    substituted,
    to_json,
)

__all__ = ["KINDS", "Argument", "BlockRV", "Instruction", "InstructionKind", "LoopRV", "Trace"]


class BlockRV:
    """A random variable for a block of the program."""

    __slots__ = ("__weakref__",)


class LoopRV:
    """A random variable for a loop of the program."""

    __slots__ = ("__weakref__",)


class Argument(NamedTuple):
    """Defines how an instruction stores an argument of its primitive, and how the argument is
    printed.
    """

    name: str
    is_input: bool = False
    """Random variables and expressions over them, else plain values (attributes)."""
    form: Literal["one", "list", "rest"] = "one"
    """``list``: several random variables; ``rest``: all positional arguments from here on."""
    as_tuple: bool = False
    as_function: bool = False
    optional: bool = False
    """Left out where it is empty."""

    def __str__(self) -> str:
        return {"one": "", "list": "*", "rest": "**"}[self.form] + self.name


class InstructionKind:
    """A kind of instruction: the method that executes it, and its arguments."""

    __slots__ = ("arguments", "is_postproc", "is_pure", "method", "name", "returns_list")

    def __init__(
        self,
        name: str,
        method: str,
        arguments: Sequence[Argument] = (),
        *,
        is_pure: bool = False,
        is_postproc: bool = False,
        returns_list: bool = False,
    ) -> None:
        self.name = name
        self.method = method
        self.arguments = tuple(arguments)
        self.is_pure = is_pure
        self.is_postproc = is_postproc
        self.returns_list = returns_list

    @property
    def inputs(self) -> list[Argument]:
        """The arguments that hold random variables."""
        return [argument for argument in self.arguments if argument.is_input]

    @property
    def attrs(self) -> list[Argument]:
        """The arguments that are plain values."""
        return [argument for argument in self.arguments if not argument.is_input]

    @staticmethod
    def get(name: str) -> InstructionKind:
        """Return the kind of that name."""
        return KINDS.get(name)

    def same_as(self, other: object) -> bool:
        """True if both are one object."""
        return self is other

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


KINDS: Registry[InstructionKind] = Registry("instruction kind")
"""Filled by the declarations of the primitives."""


class Instruction:
    """One step of a trace."""

    __slots__ = ("attrs", "inputs", "kind", "outputs")

    def __init__(
        self, kind: Any, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        self.kind: InstructionKind = InstructionKind.get(kind) if isinstance(kind, str) else kind
        self.inputs = list(inputs)
        self.attrs = list(attrs)
        self.outputs = list(outputs)

    def same_as(self, other: object) -> bool:
        """True if both are one object."""
        return self is other

    def arguments(self, translate: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments of the method, with random variables replaced."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        inputs, attrs = iter(self.inputs), iter(self.attrs)
        for argument in self.kind.arguments:
            value = next(inputs) if argument.is_input else next(attrs)
            if not argument.is_input:
                named[argument.name] = value
            elif argument.form == "rest":
                positional += [translate(item) for item in value]
            elif argument.form == "list":
                items = None if value is None else [translate(item) for item in value]
                named[argument.name] = items
            else:
                named[argument.name] = translate(value)
        return positional, named

    def as_python(self, names: dict[int, str], decision: Any = None) -> str:
        """Return the instruction as a line of Python with the given names of random variables."""
        positional, named = self.arguments(lambda value: Text(python_text(value, names)))
        arguments = [str(value) for value in positional]
        for argument in self.kind.arguments:
            value = named.get(argument.name)
            if argument.form == "rest" or (argument.optional and not value):
                continue
            arguments.append(f"{argument.name}={_argument_text(argument, value, names)}")
        if decision is not None:
            arguments.append(f"decision={python_text(decision, names)}")
        call = f"sch.{self.kind.method}({', '.join(arguments)})"
        outputs = ", ".join([names[id(output)] for output in self.outputs])
        if self.outputs and len(self.outputs) == 1 and self.kind.returns_list:
            outputs += ","
        return f"{outputs} = {call}" if outputs else call

    def __str__(self) -> str:
        """Return the instruction as a line of Python, with names that are unique within it."""
        names: dict[int, str] = {}
        for value in (*random_variables(self.inputs), *self.outputs):
            if isinstance(value, (BlockRV, LoopRV)) or any(value is o for o in self.outputs):
                _give_name(value, names)
        return self.as_python(names)

    __repr__ = __str__


def _argument_text(argument: Argument, value: Any, names: dict[int, str]) -> str:
    if argument.as_tuple and isinstance(value, (list, tuple)):
        return "(" + ", ".join([python_text(item, names) for item in value]) + ")"
    return python_text(value, names, argument.as_function)


def _give_name(variable: Any, names: dict[int, str], taken: Container[str] = ()) -> None:
    letter = "b" if isinstance(variable, BlockRV) else "l" if isinstance(variable, LoopRV) else "v"
    name = f"{letter}{len(names)}"
    while name in taken:
        name += "_"
    names.setdefault(id(variable), name)


class Trace:
    """Instructions in order, with the decisions of those that sample."""

    def __init__(
        self, insts: Sequence[Instruction] = (), decisions: dict[Instruction, Any] | None = None
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Remove the last instruction; never past ``enter_postproc``."""
        if not self.insts or self.insts[-1].kind.is_postproc:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        """Return the decision of a sampling instruction, or None."""
        return self.decisions.get(inst)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """Return a copy in which one instruction has another decision."""
        return Trace(self._instructions(remove_postproc), {**self.decisions, inst: decision})

    def copy(self) -> Trace:
        """Return an independent trace with the same instructions."""
        return Trace(self.insts, self.decisions)

    def _instructions(self, remove_postproc: bool) -> list[Instruction]:
        if not remove_postproc:
            return list(self.insts)
        kept = []
        for inst in self.insts:
            if inst.kind.is_postproc:
                break
            kept.append(inst)
        return kept

    def apply_to_schedule(
        self,
        sch: Any,
        remove_postproc: bool,
        decision_provider: Callable[[Instruction, list[Any], list[Any], Any], Any] | None = None,
    ) -> None:
        """Execute the instructions on another schedule; a provider may change the decisions."""
        table: dict[int, Any] = {}

        def translate(value: Any) -> Any:
            return substituted(value, table)

        insts = self._instructions(remove_postproc)
        own = sizes_by_name(sch)
        for size in self._sizes(insts):
            table[id(size)] = own.get(size.name, size)
        for inst in insts:
            positional, named = inst.arguments(translate)
            for name, value in named.items():
                if isinstance(value, IndexMap):  # an attribute that may hold sampled variables
                    named[name] = translate(value)
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(
                    inst, positional + list(named.values()), inst.attrs, decision
                )
            if decision is not None:
                named["decision"] = decision
            result = getattr(sch, inst.kind.method)(*positional, **named)
            outputs = (
                result if isinstance(result, (list, tuple)) else [] if result is None else [result]
            )
            if len(outputs) != len(inst.outputs):
                raise ScheduleError(
                    f"replaying {inst.kind.name} gave {len(outputs)} results where the trace "
                    f"has {len(inst.outputs)}",
                    notes=("the trace was made for another program",),
                )
            for old, new in zip(inst.outputs, outputs):
                table[id(old)] = new

    def simplified(self, remove_postproc: bool) -> Trace:
        """Return a copy without the pure instructions whose results are not used."""
        kept: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self._instructions(remove_postproc)):
            if inst.kind.is_pure and not any(id(output) in used for output in inst.outputs):
                continue
            kept.append(inst)
            maps = [value for value in inst.attrs if isinstance(value, IndexMap)]
            used.update([id(value) for value in random_variables([*inst.inputs, *maps])])
        kept.reverse()
        return Trace(kept, {inst: self.decisions[inst] for inst in kept if inst in self.decisions})

    def _sizes(self, insts: Sequence[Instruction]) -> list[Var]:
        """Return the size variables of the scheduled function that instructions use."""
        made = {id(output) for inst in self.insts for output in inst.outputs}
        used = [random_variables([*inst.inputs, *inst.attrs]) for inst in insts]
        sizes = [v for values in used for v in values if isinstance(v, Var) and id(v) not in made]
        return list(dict.fromkeys(sizes))

    def _names(self) -> dict[int, str]:
        """Return the names of random variables, and of the size variables, which keep theirs."""
        names: dict[int, str] = {}
        sizes = self._sizes(self.insts)
        taken = {size.name for size in sizes}
        for inst in self.insts:
            for output in inst.outputs:
                _give_name(output, names, taken)
        if len(taken) < len(sizes):
            raise ScheduleError(
                "the trace uses different variables of one name "
                f"({', '.join(sorted([size.name for size in sizes]))}), so it cannot be written",
                notes=("give the size variables of the function different names",),
            )
        return names | {id(size): size.name for size in sizes}

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """Return one line of Python for each instruction, after one for each size variable of the
        function that they use.

        The lines use ``sch``, and where they hold maps, expressions or functions ``IndexMap``,
        ``T`` (``tilesmith.script.tir``), ``tir`` and ``ir``.
        """
        names = self._names()
        insts = self._instructions(remove_postproc)
        sizes = [
            f"{size} = tir.schedule.get_size_var(sch, {json.dumps(size.name)})"
            for size in self._sizes(insts)
        ]
        return sizes + [inst.as_python(names, self.decisions.get(inst)) for inst in insts]

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Return plain lists: rows ``[kind, inputs, attrs, outputs]``, and pairs ``[number,
        decision]``. Several variables of one argument are inputs of their own."""
        names = self._names()
        insts = self._instructions(remove_postproc)
        rows = [
            [
                inst.kind.name,
                to_json(_flat(inst), names, is_input=True),
                to_json(inst.attrs, names),
                [names[id(output)] for output in inst.outputs],
            ]
            for inst in insts
        ]
        decisions = [
            [number, to_json(self.decisions[inst], names)]
            for number, inst in enumerate(insts)
            if inst in self.decisions
        ]
        return [rows, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Any) -> None:
        """Replay the result of ``as_json`` on a schedule.

        Raises ScheduleError for an invalid trace, naming the instruction that cannot be read.
        """
        rows, chosen = _rows(json_obj)
        table: dict[str, Any] = {**sizes_by_name(sch)}
        for number, row in enumerate(rows):
            inst, outputs = _instruction(number, row, table, type(sch))
            try:
                positional, named = inst.arguments(lambda value: value)
                if number in chosen:
                    named["decision"] = chosen[number]
                result = getattr(sch, inst.kind.method)(*positional, **named)
            except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
                raise _broken(number, inst.kind.name, reason_of(error)) from error
            made = (
                result if isinstance(result, (list, tuple)) else [] if result is None else [result]
            )
            if len(made) != len(outputs):
                reason = f"it gave {len(made)} results, the trace names {len(outputs)}"
                raise _broken(number, inst.kind.name, reason)
            table.update(zip(outputs, made))

    def show(self, style: str | None = None, black_format: bool | None = None) -> None:
        """Print the trace as Python: coloured in terminals and notebooks.

        ``style``: as in ``IRModule.show``. ``black_format`` is accepted and needs no black.
        """
        from tilesmith.ir.printing.highlight import print_highlighted

        print_highlighted(str(self), style)

    def __str__(self) -> str:
        body = self.as_python() or ["pass"]
        is_long = any("ir.load_json(" in line for line in body)
        package = SPELLING.package
        lines = [f"# from {package} import {'ir, tir' if is_long else 'tir'}"]
        if any("IndexMap." in line for line in body):
            lines.append(f"# from {package}.tir import IndexMap")
        if any("T." in line for line in body):
            lines.append(f"# from {package}.script import tir as T")
        lines.append("def apply_trace(sch: tir.Schedule) -> None:")
        return "\n".join(lines + ["  " + line for line in body])


def _rows(json_obj: Any) -> tuple[list[Any], dict[int, Any]]:
    """Return the rows of a trace in JSON form, and the decisions by number of row."""
    try:
        if isinstance(json_obj, (str, bytes)):
            json_obj = json.loads(json_obj)
        rows, decisions = json_obj
        chosen = {int(number): value for number, value in decisions}
        rows = list(rows)
    except (TypeError, ValueError) as error:
        raise ScheduleError(f"this is not a trace in JSON form: {error}") from None
    for number in chosen:
        if not 0 <= number < len(rows):
            reason = f"a decision for instruction {number}, of {len(rows)}"
            raise ScheduleError(f"this is not a trace in JSON form: {reason}")
    return rows, chosen


def _flat(inst: Instruction) -> list[Any]:
    """Return the inputs of an instruction with those of its list, which is the last, in a row."""
    wanted = inst.kind.inputs
    if not wanted or wanted[-1].form == "one":
        return inst.inputs
    return [*inst.inputs[:-1], *(inst.inputs[-1] or ())]


def _grouped(inputs: list[Any], wanted: list[Argument]) -> list[Any]:
    """Return inputs in a row with the last of them as the list that the instruction takes."""
    if not wanted or wanted[-1].form == "one" or len(inputs) < len(wanted) - 1:
        return inputs
    single = len(wanted) - 1
    return [*inputs[:single], inputs[single:]]


def _with_defaults(attrs: list[Any], kind: InstructionKind, schedule: type) -> list[Any]:
    """Return attributes, those that an older log lacks with the defaults of the method."""
    parameters = inspect.signature(getattr(schedule, kind.method)).parameters
    defaults = [
        parameters[one.name].default if one.name in parameters else inspect.Parameter.empty
        for one in kind.attrs[len(attrs) :]
    ]
    return attrs if inspect.Parameter.empty in defaults else [*attrs, *defaults]


def _instruction(
    number: int, row: Any, table: dict[str, Any], schedule: type
) -> tuple[Instruction, list[str]]:
    """Return one row as an instruction, and the names of its outputs."""
    try:
        kind, inputs, attrs, outputs = row
    except (TypeError, ValueError):
        raise _broken(number, "", f"expected [kind, inputs, attrs, outputs], got {row!r}") from None
    lists = (inputs, attrs, outputs)
    if not isinstance(kind, str) or not all(isinstance(part, list) for part in lists):
        raise _broken(number, "", f"expected [kind, inputs, attrs, outputs], got {row!r}")
    try:
        found = InstructionKind.get(kind)
        inputs = _grouped(inputs, found.inputs)
        attrs = _with_defaults(attrs, found, schedule)
        inst = Instruction(
            found, from_json(inputs, table, is_input=True), from_json(attrs, table), ()
        )
    except (TilesmithError, TypeError, ValueError, KeyError) as error:
        raise _broken(number, kind, str(error)) from error
    for what, given, wanted in (
        ("inputs", inputs, found.inputs), ("attributes", attrs, found.attrs),
    ):  # fmt: skip
        if len(given) != len(wanted):
            names = ", ".join([str(argument) for argument in wanted])
            reason = f"{len(given)} {what} instead of {len(wanted)} ({names})"
            raise _broken(number, kind, reason)
    return inst, outputs


def _broken(number: int, kind: str, reason: str) -> ScheduleError:
    return ScheduleError(f"instruction {number} of the trace ({kind or 'unknown'}): {reason}")
