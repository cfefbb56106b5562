"""Defines C functions for floats of 8 bits and fewer, and for elements that share a byte of memory.

A small float is kept as its code (`uint8_t`), an integer of fewer than 8 bits in an `int8_t` or
`uint8_t` within its range. In memory elements of fewer than 8 bits lie packed, the first in the
lowest bits.
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed

__all__ = ["is_small_float", "small_name", "small_type_helper"]


class _Format(NamedTuple):
    exponent_bits: int
    digits: int
    bias: int
    kind: str  # how the codes above the finite numbers are used; see `_KINDS`


_KINDS = ("IEEE", "ONE_NAN", "NO_MINUS_ZERO", "FINITE")
_FORMATS = {
    "float8_e3m4": _Format(3, 4, 3, "IEEE"),
    "float8_e4m3": _Format(4, 3, 7, "IEEE"),
    "float8_e5m2": _Format(5, 2, 15, "IEEE"),
    "float8_e4m3fn": _Format(4, 3, 7, "ONE_NAN"),
    "float8_e4m3b11fnuz": _Format(4, 3, 11, "NO_MINUS_ZERO"),
    "float8_e4m3fnuz": _Format(4, 3, 8, "NO_MINUS_ZERO"),
    "float8_e5m2fnuz": _Format(5, 2, 16, "NO_MINUS_ZERO"),
    "float4_e2m1fn": _Format(2, 1, 1, "FINITE"),
}
_SCALE = "float8_e8m0fnu"


def is_small_float(dtype: DataType) -> bool:
    """True if a dtype is a float of 8 bits or fewer that C code can hold."""
    return dtype.element in _FORMATS or dtype.element == _SCALE


def small_name(dtype: DataType) -> str:
    """Return a small dtype as part of a function's name: `e4m3fn`, `i4`, `u2`."""
    element = dtype.element
    if element.is_float:
        return element.rpartition("_")[2]
    return f"{'u' if element.is_uint else 'i'}{element.bits}"


_ANY_SMALL_FLOAT = """
/* Floats of 8 bits and fewer. IEEE: infinities and NaN at the top; ONE_NAN: the top code is NaN;
   NO_MINUS_ZERO: its code is NaN; FINITE: neither infinities nor NaN. */
enum { IEEE, ONE_NAN, NO_MINUS_ZERO, FINITE };
static inline float small_to_f32(uint32_t code, int exponent_bits, int digits, int bias, int kind) {
  const uint32_t top = (1u << (exponent_bits + digits)) - 1, one = 1u << digits;
  const uint32_t rest = code & top, infinity = top ^ (one - 1);
  const uint32_t exponent = rest >> digits, fraction = rest & (one - 1);
  float value = exponent ? ldexpf((float)(one + fraction), (int)exponent - bias - digits)
                         : ldexpf((float)fraction, 1 - bias - digits);
  if (kind == IEEE && rest >= infinity) value = rest == infinity ? INFINITY : NAN;
  if (kind == ONE_NAN && rest == top) value = NAN;
  if (kind == NO_MINUS_ZERO && code == top + 1) value = NAN;
  return code > top ? -value : value;
}
static inline uint8_t f32_to_small(float value, int exponent_bits, int digits, int bias, int kind) {
  const uint32_t top = (1u << (exponent_bits + digits)) - 1, one = 1u << digits;
  const uint32_t infinity = top ^ (one - 1);
  const uint32_t nan = kind == IEEE ? infinity | (one >> 1) : kind == ONE_NAN ? top : top + 1;
  const uint32_t largest = kind == IEEE ? infinity - 1 : kind == ONE_NAN ? top - 1 : top;
  const uint32_t beyond = kind == IEEE ? infinity : kind == FINITE ? top : nan;
  const float magnitude = fabsf(value);
  uint32_t code = beyond, sign = signbit(value) ? top + 1 : 0;
  if (isnan(value)) return (uint8_t)(kind == IEEE || kind == ONE_NAN ? nan | sign : nan);
  if (magnitude < INFINITY) {
    int exponent = magnitude > 0 ? ilogbf(magnitude) : -999;
    if (exponent < 1 - bias) exponent = 1 - bias; /* one step for all subnormal numbers */
    if (exponent <= (1 << exponent_bits) - bias) {
      /* halves to even; a carry goes into the exponent */
      code = (uint32_t)nearbyintf(ldexpf(magnitude, digits - exponent));
      code += (uint32_t)(exponent + bias - 1) << digits;
      if (code > largest) code = beyond;
    }
  }
  if (kind == NO_MINUS_ZERO && (code == 0 || code > top)) sign = 0;
  return (uint8_t)(code | sign);
}"""

_SCALE_HELPERS = {
    "e8m0fnu_to_f32": """
static inline float e8m0fnu_to_f32(uint8_t code) { /* an exponent alone */
  return code == 255 ? NAN : ldexpf(1.0f, code - 127);
}""",
    "f32_to_e8m0fnu": """
static inline uint8_t f32_to_e8m0fnu(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (bits == 0 || bits >= 0x7f800000u) return 255; /* zero, negative, infinite, no number */
  if (bits < 0x00800000u) return bits > 0x00400000u;
  return (uint8_t)((bits + 0x00400000u) >> 23);
}""",
}

_WIDE_TO_SINGLE = """
/* A float whose last bit says whether anything was lost: rounding it again rounds once. */
static inline float f64_to_odd_f32(double value) {
  float near = (float)value;
  uint32_t bits;
  if ((double)near == value || isnan(value)) return near;
  memcpy(&bits, &near, 4);
  if (fabs((double)near) > fabs(value)) --bits;
  bits |= 1;
  memcpy(&near, &bits, 4);
  return near;
}"""


Helper = tuple[str, tuple[str, ...]]
"""The text of a function, and the names of the functions that it needs."""


def small_type_helper(name: str) -> Helper | None:
    """Return the text of a helper by its name, and the helpers that it needs; None for other
    names.
    """
    return _HELPERS.get(name)


def _conversions(dtype: str, form: _Format) -> dict[str, Helper]:
    """Return `e4m3fn_to_f32` and `f32_to_e4m3fn`."""
    short = small_name(DataType(dtype))
    words = f"{form.exponent_bits}, {form.digits}, {form.bias}, {form.kind}"
    widen, narrow = f"{short}_to_f32", f"f32_to_{short}"
    return {
        widen: (
            f"static inline float {widen}(uint8_t code) {{ return small_to_f32(code, {words}); }}",
            ("small_floats",),
        ),
        narrow: (
            f"static inline uint8_t {narrow}(float value) "
            f"{{ return f32_to_small(value, {words}); }}",
            ("small_floats",),
        ),
    }


def _packed_helpers(dtype: DataType) -> dict[str, Helper]:
    """Return `wrap_i4`, `load_i4` and `store_i4`."""
    bits, kind, short = dtype.bits, "int8_t" if dtype.is_int else "uint8_t", small_name(dtype)
    each, mask, half = 8 // bits, (1 << bits) - 1, 1 << (bits - 1)
    wrapped = f"((x & {mask}) ^ {half}) - {half}" if dtype.is_int else f"x & {mask}"
    wrap, load, store = f"wrap_{short}", f"load_{short}", f"store_{short}"
    loaded = f"((const uint8_t*)data)[index / {each}] >> index % {each} * {bits}"
    value = f"{wrap}({loaded})" if dtype.is_integer else f"(uint8_t)({loaded} & {mask})"
    return {
        wrap: (f"static inline {kind} {wrap}(int32_t x) {{ return ({kind})({wrapped}); }}", ()),
        load: (
            f"static inline {kind} {load}(const void* data, int64_t index) {{\n"
            f"  return {value};\n}}",
            (wrap,) if dtype.is_integer else (),
        ),
        store: (
            f"static inline void {store}(void* data, int64_t index, {kind} value) {{\n"
            f"  uint8_t* byte = (uint8_t*)data + index / {each};\n"
            f"  const int shift = (int)(index % {each}) * {bits};\n"
            f"  *byte = (uint8_t)((*byte & ~({mask} << shift)) | ((value & {mask}) << shift));\n}}",
            (),
        ),
    }


def _packed_types() -> list[DataType]:
    names = [f"{sign}{bits}" for sign in ("int", "uint") for bits in (1, 2, 4)]
    found = [DataType(name) for name in names if name != "uint1"] + [DataType("float4_e2m1fn")]
    return [dtype for dtype in found if is_packed(dtype)]


_HELPERS: dict[str, Helper] = {
    "small_floats": (_ANY_SMALL_FLOAT.strip("\n"), ()),
    "f64_to_odd_f32": (_WIDE_TO_SINGLE.strip("\n"), ()),
    **{name: (text.strip("\n"), ()) for name, text in _SCALE_HELPERS.items()},
}
for _dtype, _form in _FORMATS.items():
    _HELPERS |= _conversions(_dtype, _form)
for _packed in _packed_types():
    _HELPERS |= _packed_helpers(_packed)
