"""The record of an operator: one place for every fact about it.

    relu = unary("nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)")
    Op.get("relax.nn.relu").spec        # the record; passes and executors ask it, never a name

``relax.op.declaration`` makes records. The function that users call is made from the record, too. A
record knows no graph nodes of its own: inference and gradient get the call that they are asked
about, and everything else works on attributes, arrays and tensors.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, TypeAlias

from tilesmith.relax.attrs import REQUIRED, Schema
from tilesmith.support.errors import InternalError, TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = [
    "Agreement", "Argument", "Compute", "Execution", "Gradient", "Layout", "OpSpec", "Precision",
    "no_gradient", "parse_arguments", "topi",
]  # fmt: skip

_BY_PLACE = inspect.Parameter.POSITIONAL_OR_KEYWORD
_BY_NAME = inspect.Parameter.KEYWORD_ONLY

Compute: TypeAlias = str | Callable[..., Any]
"""Where to find a tensor expression, or a function ``(attrs, *inputs)`` that makes it."""


class _Inventory:
    """Stands for `tilesmith.topi`, which loads when the first program is made: graphs can be built,
    parsed and inspected without tensor expressions.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tilesmith.topi"), name)


topi: Any = _Inventory()

Agreement: TypeAlias = tuple[str, Any, Any]
"""What has a size, this size, and the size that it has to be."""

Gradient = Callable[[Any, Any, Any, Any], list[Any]]
"""``(variable, call, gradient of the result, builder)`` → one gradient for each argument, None
where nothing flows back."""


def no_gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Return no gradient: the operator is constant almost everywhere, or its result is an index."""
    return [None] * len(orig_call.args)


class Precision(IntEnum):
    """What ToMixedPrecision does with calls; the numbers are the ones users know."""

    ALWAYS = 0  # gains from narrow inputs: products, convolutions
    FOLLOW = 1  # as narrow as its inputs
    NEVER = 2  # keeps full precision
    ANY = 3  # takes what it is given: conversions


class Layout(Enum):
    """How an operator depends on the order of the axes of its tensors."""

    FIXED = "axes have a meaning"
    ELEMENTWISE = "any order of axes, the same for all tensors"
    NAMED = "the attributes `layout` and `out_layout` name the order of the axes"


class Execution(Enum):
    """Which executor carries out a call, and how. All kinds but KERNEL stay as they are in
    LegalizeOps.
    """

    KERNEL = "a PrimFunc that LegalizeOps makes of the operator's compute"
    CALL_TIR = "a PrimFunc of the module, results allocated by the caller"
    CALL_KERNEL = "a PrimFunc of the module, results among the arguments"
    CALL_DPS_PACKED = "a registered function that writes its results into its last arguments"
    CALL_PACKED = "a registered function that returns its result"
    CALL_BUILTIN = "a function of the runtime"
    MAKE_CLOSURE = "a function with its first arguments fixed"
    INVOKE_CLOSURE = "a call of a closure"
    ALLOC_TENSOR = "new memory for a tensor"
    ALLOC_STORAGE = "new memory of so many bytes"
    TENSOR_IN_STORAGE = "a tensor at an offset of a storage"
    SHAPE_OF = "the sizes of a tensor"
    TENSOR_TO_SHAPE = "the elements of a vector as sizes"
    SHAPE_TO_TENSOR = "sizes as the elements of a vector"
    APPEND = "a tensor with one more element along its first axis"
    HOST = "the numpy evaluation, on the host"


@dataclass(frozen=True, slots=True)
class Argument:
    """One operand: its name, how the user's function converts what it is given
    (`declaration.CONVERT`), and whether it may be left out."""

    name: str
    kind: str = "value"
    is_optional: bool = False


def parse_arguments(text: str) -> tuple[Argument, ...]:
    """Parse ``"data bias? shape:shape"``: names, ``:kind``, ``?`` for optional."""
    found = []
    for word in text.split():
        name, _, kind = word.rstrip("?").partition(":")
        found.append(Argument(name, kind or "value", word.endswith("?")))
    return tuple(found)


@dataclass(slots=True)
class OpSpec:
    """One operator.

    * ``infer(call)`` gives the struct info of a call.
    * ``compute`` makes its tensor expression: ``"topi.nn.softmax"`` is a function of topi that
      takes the inputs and then the attributes, each under its own name; where names or forms
      differ, a function ``(attrs, *inputs)`` calls topi.
    * ``agreeing(call)`` yields sizes of its arguments that have to be equal; where that is not
      known, they are compared when the program runs.
    * ``counts(attrs, *inputs)`` of an operator whose sizes depend on data makes a vector of these
      sizes, and what the compute takes after the inputs; the compute gets the sizes first:
      ``compute(attrs, sizes, *inputs, *rest)``.
    * ``evaluate(attrs, *arrays)`` is its meaning in numpy, for constants and as the oracle.
    * ``gradient(variable, call, output_grad, builder)``: see `Gradient`; None: not differentiable.
    * ``view_of`` is the number of the argument whose memory the result shares, in other sizes.
    * ``host`` is the runtime's own name of an operation whose execution is HOST
      (`runtime.program`).
    * ``is_identity``: the result is the first argument; only passes before LegalizeOps see it.
    """

    name: str
    arguments: tuple[Argument, ...]
    infer: Callable[[Any], Any]
    schema: Schema | None = None
    agreeing: Callable[[Any], Iterable[Agreement]] | None = None
    compute: Compute | None = None
    counts: Callable[..., Any] | None = None
    evaluate: Callable[..., Any] | None = None
    gradient: Gradient | None = None
    precision: Precision = Precision.NEVER
    layout: Layout = Layout.FIXED
    view_of: int | None = None
    execution: Execution = Execution.KERNEL
    host: str = ""
    is_identity: bool = False
    is_pure: bool = True
    description: str = ""

    @property
    def short_name(self) -> str:
        """The last part of the name; it names the PrimFunc made from the operator."""
        return self.name.rsplit(".", 1)[-1]

    def compute_function(self) -> Callable[..., Any] | None:
        """Return the compute as a function ``(attrs, *inputs)``."""
        if isinstance(self.compute, str):
            self.compute = self._topi_call(self.compute)
        return self.compute

    def _topi_call(self, name: str) -> Callable[..., Any]:
        """Return a function that calls a topi function with every attribute under its own name."""
        function = resolve("tilesmith." + name.replace(".", ":", 1))
        attributes = list(self.schema.fields) if self.schema is not None else []
        unknown = set(attributes) - set(inspect.signature(function).parameters)
        if unknown:
            raise InternalError(
                f"{self.name}: {name} does not take {', '.join(sorted(unknown))}",
                notes=("give a function (attrs, *inputs) that calls topi as its compute",),
            )
        return lambda attrs, *inputs: function(*inputs, **{key: attrs[key] for key in attributes})

    def signature(self) -> inspect.Signature:
        """Return the signature of the function that users call: arguments, then attributes."""
        empty = inspect.Parameter.empty
        defaults = {one.name: None if one.is_optional else empty for one in self.arguments}
        for name, field in self.schema.fields.items() if self.schema is not None else ():
            defaults[name] = empty if field.default is REQUIRED else field.default
        parameters, has_default, by_name = [], False, False
        for name, default in defaults.items():
            # Required parameters after optional ones are keyword-only.
            has_default |= default is not empty
            by_name |= has_default and default is empty
            kind = _BY_NAME if by_name else _BY_PLACE
            parameters.append(inspect.Parameter(name, kind, default=default))
        return inspect.Signature(parameters)

    def check_count(self, count: int) -> None:
        """Refuse calls with too few operands, or of kernels with too many."""
        needed = [one.name for one in self.arguments if not one.is_optional]
        if count < len(needed):
            raise TypeMismatchError(f"{self.name} needs the argument '{needed[count]}'")
        if count > len(self.arguments) and self.execution is Execution.KERNEL:
            raise TypeMismatchError(f"{self.name} has {len(self.arguments)} arguments, not {count}")

    def bind(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Bind operands and attributes of ``function(*args, **named)``; raises TypeError as Python
        does.
        """
        count = len(self.arguments)
        if len(args) == count and not named:
            return list(args), named
        fields = self.schema.fields if self.schema is not None else {}
        if len(args) > count + len(fields):
            raise TypeError(
                f"{self.short_name}() takes {count + len(fields)} arguments, got {len(args)}"
            )
        operands = list(args[:count])
        for argument in self.arguments[len(args) :]:
            if argument.name in named:
                operands.append(named.pop(argument.name))
            elif argument.is_optional:
                operands.append(None)
            else:
                raise TypeMismatchError(f"{self.short_name}() needs the argument '{argument.name}'")
        attributes = dict(zip(fields, args[count:]))
        for name, value in named.items():
            if name in attributes or name not in fields:
                twice = name in attributes or name in [one.name for one in self.arguments]
                problem = "got more than one value for" if twice else "has no argument"
                raise TypeMismatchError(f"{self.short_name}() {problem} '{name}'")
            attributes[name] = value
        return operands, attributes
