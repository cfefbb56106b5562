"""Defines data types: `DataType("float32x4")` is an interned string that knows its code, bits and
lanes.

It compares and hashes as the string that it is, so that users write `x.dtype == "float32"`. There
is one object per data type: `is` holds between equal ones. "bool" is the boolean (1 bit, stored as
one byte), "handle" a pointer, "void" the absence of a value.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from tilesmith.support.errors import TypeMismatchError

if TYPE_CHECKING:
    import numpy

DLPACK_CODES: dict[str, int] = {
    "int": 0,
    "uint": 1,
    "float": 2,
    "handle": 3,
    "bfloat": 4,
    "bool": 6,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
    "float6_e2m3fn": 15,
    "float6_e3m2fn": 16,
    "float4_e2m1fn": 17,
}
"""Type codes as DLPack numbers them."""


class ScalableLanes(int):
    """The lanes of a scalable vector: a multiple of a factor (`vscale`) that the CPU decides.

    It is not equal to the same number of fixed lanes; its text is LLVM's notation.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalableLanes) and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __gt__(self, other: int) -> bool:
        return int(other) <= 1 or int(self) > int(other)  # always more than one lane

    def __mul__(self, other: int) -> ScalableLanes:
        return ScalableLanes(int(self) * int(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> ScalableLanes:
        return ScalableLanes(int(self) // int(other))

    def __hash__(self) -> int:
        return hash(("scalable", int(self)))

    def __str__(self) -> str:
        return f"vscale x {int(self)}"

    def __format__(self, form: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"T.vscale() * {int(self)}"


class DataTypeCode(IntEnum):
    """Numbers of the type codes, as DLPack has them."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
    BOOL = 6
    E3M4Float = 7
    E4M3Float = 8
    E4M3B11FNUZFloat = 9
    E4M3FNFloat = 10
    E4M3FNUZFloat = 11
    E5M2Float = 12
    E5M2FNUZFloat = 13
    E8M0FNUFloat = 14
    E2M3FNFloat6 = 15
    E3M2FNFloat6 = 16
    E2M1FNFloat4 = 17


_FIXED_BITS = {
    code: int(code[5]) for code in DLPACK_CODES if code.startswith("float") and code != "float"
}  # "float8_e4m3fn" names its width itself

_ALIASES = {
    "": "void",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "bfloat": "bfloat16",
    "uint1": "bool",
    "bool8": "bool",
    "boolean": "bool",
    "handle64": "handle",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
}
_VALID_BITS = {
    "int": range(1, 257),
    "uint": range(1, 257),
    "float": (16, 32, 64, 80, 128),
    "bfloat": (16,),
}
_SIZED = re.compile(r"(int|uint|float|bfloat)(\d+)\Z")
_CUSTOM = re.compile(r"(custom\[(.+)\])(\d+)\Z")
CUSTOM_CODES: dict[str, int] = {}
"""Type codes of the data types that a library defines, by name: "custom[NAME]32" has NAME's."""
_LANES = re.compile(r"(.+?)x(vscalex)?(\d+)\Z")


class DataType(str):
    """A data type. Attributes: `code` ("int", "uint", "float", "bfloat", "bool", "handle", "void",
    "float8_e4m3fn", …), `bits` of one lane, `lanes`, `element` (the scalar type), `nbytes` of a
    value with all its lanes, and the predicates `is_float`, `is_int`, `is_uint`, `is_integer`,
    `is_bool`, `is_handle`, `is_void`, `is_vector`, `is_scalable`.

    "float32xvscalex4" is a scalable vector: its `lanes` (a `ScalableLanes`) and `nbytes` are
    those of the smallest CPU."""

    code: str
    bits: int
    lanes: int
    nbytes: int
    element: DataType
    _numpy: numpy.dtype[Any]  # set when it is first asked for
    is_float: bool
    is_int: bool
    is_uint: bool
    is_integer: bool
    is_bool: bool
    is_handle: bool
    is_void: bool
    is_vector: bool
    is_scalable: bool

    _interned: ClassVar[dict[Any, DataType]] = {}

    def __new__(cls, name: Any = "void") -> DataType:
        try:
            return cls._interned[name]
        except (KeyError, TypeError):
            return _intern(name)

    @classmethod
    def of(cls, value: Any) -> DataType:
        """Return the data type of a string, a numpy dtype or scalar type, or an object with
        `.dtype`.
        """
        return cls(value)

    @classmethod
    def make(cls, code: str, bits: int, lanes: int = 1) -> DataType:
        """Return the data type of a code, bits per lane and lanes."""
        sized = code in ("int", "uint", "float", "bfloat") or code.startswith("custom[")
        base = f"{code}{bits}" if sized else code
        return cls(_with_lanes(base, lanes))

    @property
    def type_code(self) -> int:
        """Number of the code as in DLPack."""
        if self.is_custom:
            return CUSTOM_CODES[self.code[len("custom[") : -1]]
        return DLPACK_CODES["handle" if self.is_void else self.code]

    @property
    def is_custom(self) -> bool:
        """True for a type that a library defines, whose functions compute with its values."""
        return self.code.startswith("custom[")

    @property
    def itemsize(self) -> int:
        """Bytes of a value with all its lanes; equal to `nbytes`."""
        return self.nbytes

    def with_lanes(self, lanes: int) -> DataType:
        """Return the same element type with `lanes` lanes."""
        if lanes == self.lanes:
            return self
        return self.element if lanes == 1 else DataType(_with_lanes(self.element, lanes))

    def with_bits(self, bits: int) -> DataType:
        """Return the same code and lanes with `bits` bits per lane."""
        return self if bits == self.bits else DataType.make(self.code, bits, self.lanes)

    def numpy(self) -> numpy.dtype:
        """Return the numpy dtype, through ml_dtypes for bfloat16, float8 and below, int4; a vector
        is a subarray dtype. Raises TypeMismatchError for handle and void.
        """
        try:
            return self._numpy
        except AttributeError:
            self._numpy = _numpy_dtype(self)
            return self._numpy

    @property
    def min_value(self) -> int:
        """Smallest value of an integer or boolean type."""
        self._need_integer()
        return -(1 << (self.bits - 1)) if self.is_int else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer or boolean type."""
        self._need_integer()
        return (1 << (self.bits - 1)) - 1 if self.is_int else (1 << self.bits) - 1

    def _need_integer(self) -> None:
        if not (self.is_integer or self.is_bool):
            raise TypeMismatchError(f"'{self}' is not an integer type")

    def __copy__(self) -> DataType:
        return self

    def __deepcopy__(self, memo: Any) -> DataType:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return DataType, (str(self),)


def _intern(name: Any) -> DataType:
    text = name if isinstance(name, str) else _name_of(name)
    known = DataType._interned.get(text)
    if known is None:
        known = _make(str(text))
        DataType._interned.setdefault(str(known), known)
        known = DataType._interned[str(known)]
        DataType._interned[str(text)] = known
    # numpy dtypes and scalar types hash cheaply: the next look-up of one is a dictionary hit
    if isinstance(name, type) or type(name).__module__ == "numpy.dtypes":
        DataType._interned[name] = known
    return known


def _name_of(value: Any) -> str:
    """Return the name of a numpy dtype, a scalar type, a Python type, or of an object's `dtype`."""
    if value is bool:
        return "bool"
    if value is int:
        return "int32"
    if value is float:
        return "float32"
    name = getattr(value, "name", None)
    if isinstance(name, str) and type(value).__name__ != "ndarray":
        return name
    if isinstance(value, type):
        if value.__module__ in ("numpy", "ml_dtypes"):
            return {"bool_": "bool"}.get(value.__name__, value.__name__)
    elif hasattr(value, "dtype"):
        return str(DataType(value.dtype))
    text = str(value)
    text = text.removeprefix("torch.")
    if value is None or text.startswith("<"):
        raise TypeMismatchError(f"not a data type: {value!r}")
    return text


def _make(text: str) -> DataType:
    text = _ALIASES.get(text, text)
    base, lanes = text, 1
    vector = _LANES.match(text)
    if vector is not None:
        base, lanes = vector.group(1), int(vector.group(3))
        if vector.group(2):
            lanes = ScalableLanes(lanes)
        base = _ALIASES.get(base, base)
    code, bits = _code_and_bits(base, text)
    if lanes < 1:
        raise TypeMismatchError(f"data type '{text}' has no lanes")
    base = {"bool": "bool", "handle": "handle"}.get(code, base)
    self = str.__new__(DataType, _with_lanes(base, lanes))
    self.code, self.bits, self.lanes = code, bits, lanes
    self.nbytes = (max(bits, 8) if code == "bool" else bits) * int(lanes)
    self.nbytes = (self.nbytes + 7) // 8
    self.is_float = code.startswith(("float", "bfloat", "custom["))
    self.is_int = code == "int"
    self.is_uint = code == "uint"
    self.is_integer = self.is_int or self.is_uint
    self.is_bool = code == "bool"
    self.is_handle = code == "handle"
    self.is_void = code == "void"
    self.is_vector = lanes != 1
    self.is_scalable = isinstance(lanes, ScalableLanes)
    self.element = self if lanes == 1 else DataType(base)
    return self


def _with_lanes(base: str, lanes: int) -> str:
    if isinstance(lanes, ScalableLanes):
        return f"{base}xvscalex{int(lanes)}"
    return base if lanes == 1 else f"{base}x{lanes}"


def _code_and_bits(base: str, text: str) -> tuple[str, int]:
    if base == "bool":
        return "bool", 1
    if base == "handle":
        return "handle", 64
    if base == "void":
        return "void", 0
    if base in _FIXED_BITS:
        return base, _FIXED_BITS[base]
    custom = _CUSTOM.match(base)
    if custom is not None and custom.group(2) in CUSTOM_CODES:
        return custom.group(1), int(custom.group(3))
    sized = _SIZED.match(base)
    if sized is not None and int(sized.group(2)) in _VALID_BITS[sized.group(1)]:
        return sized.group(1), int(sized.group(2))
    raise TypeMismatchError(
        f"unknown data type '{text}'",
        notes=("known: bool, int8 … int64, uint8 … uint64, float16, float32, float64, bfloat16, "
               "float8_e4m3fn, …, handle; with lanes: float32x4",),
    )  # fmt: skip


def _numpy_dtype(dtype: DataType) -> numpy.dtype:
    import numpy

    if dtype.is_scalable:
        raise TypeMismatchError(f"numpy has no data type for '{dtype}'")
    if dtype.is_vector:
        return numpy.dtype((dtype.element.numpy(), (dtype.lanes,)))
    if dtype.is_handle or dtype.is_void or dtype.is_custom:
        raise TypeMismatchError(f"numpy has no data type for '{dtype}'")
    small = dtype.is_integer and dtype.bits in (2, 4)
    if dtype.is_float and dtype.code != "float" or small:
        from tilesmith.support.errors import MissingDependencyError

        try:
            import ml_dtypes
        except ImportError:
            raise MissingDependencyError("ml_dtypes", purpose=f"numpy's '{dtype}'") from None
        small_float: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, str(dtype)))
        return small_float
    try:
        return numpy.dtype(str(dtype))
    except TypeError:
        raise TypeMismatchError(f"numpy has no data type for '{dtype}'") from None
