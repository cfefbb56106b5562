"""Registers data types that a library defines: their names, and the functions that compute with
them.

    register("posit", 150)
    register_op(create_lower_func({(32, 16): "FloatToPosit16"}), "Cast", "llvm", "float", "posit")
    register_op(create_lower_func({16: "Posit16Add"}), "Add", "llvm", "posit")

Programs then say "custom[posit]16"; ``tir.transform.LowerCustomDatatypes`` replaces each operation
by the result of the registered function, and keeps values as unsigned integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import Call, Cast, FloatImm, PrimExpr, StringImm
from tilesmith.ir.intrinsics import CUSTOM_LEAST_VALUES
from tilesmith.runtime.dtype import CUSTOM_CODES, DLPACK_CODES, DataType
from tilesmith.support.errors import ConfigError, UnknownNameError

__all__ = [
    "create_lower_func", "create_min_lower_func", "find_lower_func", "get_type_code",
    "get_type_name", "get_type_registered", "lower_call_pure_extern", "lower_ite", "register",
    "register_min_func", "register_op", "stored_dtype",
]  # fmt: skip

FIRST_CODE = 129
_lowering: dict[tuple[str, ...], Callable[[Any], PrimExpr]] = {}


def register(type_name: str, type_code: int) -> None:
    """Make "custom[type_name]BITS" a data type. ``type_code`` is chosen by the caller, from 129
    on.
    """
    if type_code < FIRST_CODE or type_code > 255:
        raise ConfigError(
            f"a custom data type has a code from {FIRST_CODE} to 255, got {type_code}"
        )
    for name, code in CUSTOM_CODES.items():
        if code == type_code and name != type_name:
            raise ConfigError(f"the type code {type_code} belongs to '{name}' already")
    CUSTOM_CODES[type_name] = type_code


def get_type_name(type_code: int) -> str:
    """Return the name of a registered type code."""
    for name, code in CUSTOM_CODES.items():
        if code == type_code:
            return name
    raise UnknownNameError(f"no custom data type has the code {type_code}")


def get_type_code(type_name: str) -> int:
    """Return the type code of a registered name."""
    if type_name not in CUSTOM_CODES:
        known = ", ".join(sorted(CUSTOM_CODES)) or "none"
        raise UnknownNameError(f"no custom data type '{type_name}'", notes=(f"there are: {known}",))
    return CUSTOM_CODES[type_name]


def get_type_registered(type_code: int) -> bool:
    """True if a type code belongs to a custom data type."""
    return type_code in CUSTOM_CODES.values()


def _check_name(name: str) -> None:
    if name not in DLPACK_CODES:
        get_type_code(name)


def register_op(
    lower_func: Callable[[Any], PrimExpr],
    op_name: str,
    target: str,
    src_type_name: str,
    dest_type_name: str | None = None,
    intrinsic_name: str | None = None,
) -> None:
    """Register the lowering of an operation on a type, for targets of a kind.

    ``op_name`` is the class of the expression ("Add", "Cast", "FloatImm", "LT", ...) or "Call",
    then with ``intrinsic_name`` ("tir.exp"). ``dest_type_name`` is the other type of a Cast.
    ``lower_func`` gets the expression with lowered operands.
    """
    _check_name(src_type_name)
    key = [target, op_name]
    if op_name == "Cast":
        if dest_type_name is None:
            raise ConfigError("a Cast needs dest_type_name")
        _check_name(dest_type_name)
        key += [src_type_name, dest_type_name]
    elif op_name == "Call":
        if intrinsic_name is None:
            raise ConfigError("a Call needs intrinsic_name")
        key += [intrinsic_name, src_type_name]
    else:
        key.append(src_type_name)
    _lowering[tuple(key)] = lower_func


def find_lower_func(*key: str) -> Callable[[Any], PrimExpr] | None:
    """Return the function registered for a target's kind, an operation and its types."""
    return _lowering.get(key)


def register_min_func(func: Callable[[int], PrimExpr], type_name: str) -> None:
    """Register the smallest value of a type: ``func(bits)``."""
    get_type_code(type_name)
    CUSTOM_LEAST_VALUES[f"custom[{type_name}]"] = func


def create_min_lower_func(
    extern_func_map: Mapping[int, str], type_name: str
) -> Callable[[int], PrimExpr]:
    """Return a function of the number of bits that calls the C function of that width."""

    def lower(num_bits: int) -> PrimExpr:
        if num_bits not in extern_func_map:
            raise ConfigError(f"there is no least value of {num_bits} bits for '{type_name}'")
        dtype = f"custom[{type_name}]{num_bits}"
        return Call(dtype, "tir.call_pure_extern", (StringImm(extern_func_map[num_bits]),))

    return lower


def stored_dtype(dtype: DataType) -> DataType:
    """Return the unsigned integer that holds a custom type; other types as they are."""
    return DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes) if dtype.is_custom else dtype


def create_lower_func(extern_func_map: Mapping[Any, str]) -> Callable[[Any], PrimExpr]:
    """Return a function for ``register_op`` that calls C functions.

    ``extern_func_map`` gives their names by the number of bits, of a Cast by the bits of the
    operand and of the result.
    """

    def lower(op: Any) -> PrimExpr:
        if isinstance(op, Cast):
            key: Any = (op.value.dtype.bits, op.dtype.bits)
            arguments: tuple[PrimExpr, ...] = (op.value,)
        elif isinstance(op, FloatImm):
            key, arguments = op.dtype.bits, (FloatImm("float64", op.value),)
        elif isinstance(op, Call):
            key, arguments = op.dtype.bits, tuple(op.args)
        else:
            key, arguments = op.a.dtype.bits, (op.a, op.b)
        if key not in extern_func_map:
            known = ", ".join([str(bits) for bits in extern_func_map])
            raise ConfigError(
                f"no function was registered for {type(op).__name__} of {key} bits",
                notes=(f"there are functions for: {known}",),
            )
        name = StringImm(extern_func_map[key])
        return Call(stored_dtype(op.dtype), "tir.call_pure_extern", (name, *arguments))

    return lower


def lower_ite(ite_op: Call) -> PrimExpr:
    """Lower a choice between custom values to one between the integers that hold them."""
    return Call(stored_dtype(ite_op.dtype), ite_op.op, ite_op.args)


def lower_call_pure_extern(op: Call) -> PrimExpr:
    """Lower a call with a custom result to one that returns the integer that holds it."""
    return Call(stored_dtype(op.dtype), op.op, op.args)
