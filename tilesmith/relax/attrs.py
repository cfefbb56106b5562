"""Attributes of calls: one class, checked against the operator's schema.

CONV2D = Schema(strides=ints(1, 1), padding=ints(0, 0), groups=integer(1), out_dtype=dtype(None))
attrs = CONV2D.check("relax.nn.conv2d", {"strides": [2, 2]})
attrs.strides        # (2, 2)
attrs.groups         # 1, the default
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping
from typing import Any

from tilesmith.ir import Node, attributes
from tilesmith.ir import data as data_field
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, OpAttributeRequired

__all__ = [
    "REQUIRED", "Attrs", "DictAttrs", "Schema", "anything", "boolean", "dtype", "integer",
    "integer_or_ints", "ints", "number", "optional", "optional_integer", "optional_ints",
    "optional_number", "paddings", "repeated", "scalar", "text",
]  # fmt: skip


class Attrs(Node, key="relax.Attrs", slots=("schema",)):
    """The attributes of a call: a read-only mapping whose keys can be read as Python attributes."""

    values_: Mapping[str, Any] = data_field()

    def __init__(self, values: Mapping[str, Any] | None = None, schema: Any = None) -> None:
        self.values_ = attributes(values)
        self.schema = schema

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name not in ("values_", "schema"):
            try:
                return self.values_[name]
            except KeyError:
                pass
        raise AttributeError(f"the call has no attribute '{name}'")

    def __getitem__(self, name: str) -> Any:
        return self.values_[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values_

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or ``default``."""
        return self.values_.get(name, default)

    def keys(self) -> KeysView[str]:
        """Return the names of the attributes."""
        return self.values_.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of name and value."""
        return self.values_.items()

    def get_int(self, key: str) -> int:
        """Return an attribute as an integer."""
        return int(self.values_[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """Return an attribute as a tuple of integers."""
        return tuple([int(value) for value in self.values_[key]])

    def get_str(self, key: str) -> str:
        """Return an attribute as a string."""
        return str(self.values_[key])

    def list_field_info(self) -> list[Any]:
        """Return the declarations of the attributes, if the operator has a schema."""
        return list(self.schema.fields.values()) if self.schema is not None else []


DictAttrs = Attrs


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()


class AttrField:
    """One declared attribute: its name, default and the conversion that checks it."""

    __slots__ = ("convert", "default", "description", "name")

    def __init__(self, convert: Callable[[Any], Any], default: Any, description: str) -> None:
        self.name = ""
        self.convert = convert
        self.default = default
        self.description = description

    def __repr__(self) -> str:
        return f"{self.name}: {self.description} = {self.default!r}"


def _plain(value: Any) -> Any:
    """Return the Python number in a scalar of the graph (``PrimValue``) or a constant
    (``IntImm``).
    """
    for _ in range(2):
        value = getattr(value, "value", value)
    return value


def _as_ints(value: Any) -> tuple[int, ...]:
    if isinstance(value, (str, bytes)):
        raise TypeError
    if hasattr(value, "__iter__"):
        return tuple([_as_int(item) for item in value])
    return (_as_int(value),)


def _as_int(value: Any) -> int:
    value = _plain(value)
    if isinstance(value, float) and not value.is_integer():
        raise TypeError
    return int(value)


def _as_float(value: Any) -> float:
    return float(_plain(value))


def _as_bool(value: Any) -> bool:
    return bool(_plain(value))


def _as_text(value: Any) -> str:
    value = getattr(value, "value", value)
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_dtype(value: Any) -> DataType | None:
    if value is None or value == "":
        return None
    value = DataType(value)
    return None if value.is_void else value


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def integer(default: Any = REQUIRED, least: int | None = None) -> AttrField:
    """Declare an integer, of at least ``least``."""

    def convert(value: Any) -> int:
        number = _as_int(value)
        if least is not None and number < least:
            raise ValueError
        return number

    return AttrField(convert, default, "an integer" + _at_least(least))


def _at_least(least: int | None) -> str:
    return "" if least is None else f", at least {least}"


def optional_integer(default: Any = None) -> AttrField:
    """Declare an integer or None."""
    return AttrField(_optional(_as_int), default, "an integer or None")


def ints(*default: int) -> AttrField:
    """Declare a tuple of integers; a single integer stands for a tuple of one. Required if without
    a default.
    """
    return AttrField(_as_ints, default or REQUIRED, "a list of integers")


def optional_ints(default: Any = None) -> AttrField:
    """Declare a tuple of integers or None."""
    return AttrField(_optional(_as_ints), default, "a list of integers or None")


def integer_or_ints(default: Any = REQUIRED) -> AttrField:
    """Declare an integer, or several."""

    def convert(value: Any) -> int | tuple[int, ...]:
        return _as_ints(value) if isinstance(value, (list, tuple)) else _as_int(value)

    return AttrField(convert, default, "an integer or a list of integers")


def optional(field: AttrField) -> AttrField:
    """Declare the same field with None allowed, which is the default."""
    return AttrField(_optional(field.convert), None, field.description + " or None")


def repeated(count: int, default: int = 1, least: int | None = None) -> AttrField:
    """Declare ``count`` integers, one for each axis, of at least ``least``; a single one holds for
    all of them.
    """

    def convert(value: Any) -> tuple[int, ...]:
        values = _as_ints(value)
        if len(values) not in (1, count):
            raise ValueError
        if least is not None and min(values) < least:
            raise ValueError
        return values * count if len(values) == 1 else values

    wanted = f"an integer or {count} of them" if count > 1 else "an integer"
    return AttrField(convert, (default,) * count, wanted + _at_least(least))


def paddings(count: int) -> AttrField:
    """Declare padding before each of ``count`` axes, then after each; one number, one for each
    axis, or both sides.
    """

    def convert(value: Any) -> tuple[int, ...]:
        values = _as_ints(value)
        if len(values) not in (1, count, 2 * count) or min(values) < 0:
            raise ValueError
        return values * (2 * count // len(values))

    wanted = f"1, {count} or {2 * count} integers (before, then after), at least 0"
    return AttrField(convert, (0,) * (2 * count), wanted)


def number(default: Any = REQUIRED) -> AttrField:
    """Declare a float."""
    return AttrField(_as_float, default, "a number")


def _as_scalar(value: Any) -> int | float:
    value = _plain(value)
    if isinstance(value, (bool, int)):
        return int(value)
    return float(value)


def scalar(default: Any = REQUIRED) -> AttrField:
    """Declare an integer or a float, kept as it is."""
    return AttrField(_as_scalar, default, "a number")


def optional_number(default: Any = None) -> AttrField:
    """Declare a float or None."""
    return AttrField(_optional(_as_float), default, "a number or None")


def boolean(default: Any = REQUIRED) -> AttrField:
    """Declare True or False."""
    return AttrField(_as_bool, default, "True or False")


def text(default: Any = REQUIRED) -> AttrField:
    """Declare a string; None is allowed if it is the default."""
    convert = _optional(_as_text) if default is None else _as_text
    return AttrField(convert, default, "a string")


def dtype(default: Any = None) -> AttrField:
    """Declare a dtype; None and "" mean that it follows from the arguments."""
    default = default if default is REQUIRED else _as_dtype(default)
    return AttrField(_as_dtype, default, "a dtype")


def anything(default: Any = None) -> AttrField:
    """Declare any value that attributes may hold."""
    return AttrField(lambda value: value, default, "any value")


class Schema:
    """The attributes that an operator takes, in order."""

    __slots__ = ("defaults", "fields")

    def __init__(self, **fields: AttrField) -> None:
        self.fields = fields
        for name, field in fields.items():
            field.name = name
        self.defaults: Attrs | None = None
        if all(field.default is not REQUIRED for field in fields.values()):
            self.defaults = Attrs({name: f.default for name, f in fields.items()}, self)

    def check(self, op_name: str, values: Any) -> Attrs:
        """Check attributes and fill in the defaults.

        Raises OpAttributeInvalid for an unknown name or a wrong value, OpAttributeRequired for a
        missing one; both name the operator.
        """
        if not values and self.defaults is not None:
            return self.defaults
        if isinstance(values, Attrs):
            if values.schema is self:
                return values
            values = values.values_
        values = dict(values or {})
        checked = {}
        for name, field in self.fields.items():
            if name not in values:
                if field.default is REQUIRED:
                    raise OpAttributeRequired(f"{op_name} needs the attribute '{name}'")
                checked[name] = field.default
                continue
            value = values.pop(name)
            try:
                checked[name] = field.convert(value)
            except (TypeError, ValueError):
                raise OpAttributeInvalid(
                    f"attribute '{name}' of {op_name} must be {field.description}, got {value!r}"
                ) from None
        if values:
            unknown = next(iter(values))
            near = difflib.get_close_matches(unknown, self.fields, n=1)
            known = ", ".join(self.fields) or "none"
            raise OpAttributeInvalid(
                f"{op_name} has no attribute '{unknown}'",
                notes=(f"did you mean '{near[0]}'?" if near else f"attributes: {known}",),
            )
        return Attrs(checked, self)
