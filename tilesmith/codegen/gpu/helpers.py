"""Defines the small functions that a file for a device includes where its code needs them, beside
those of all of C's family.

Texts have the words in braces that `c_family.helpers` names.
"""

from __future__ import annotations

import re

from tilesmith.codegen.c_family.helpers import HELPERS_BY_TYPE, SCALE_ROUNDED, helper_words
from tilesmith.codegen.c_family.small_types import small_type_helper
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError

__all__ = ["helper_text"]

_FIXED = {
    "scale_rounded": SCALE_ROUNDED,
    # a float whose last bit says whether anything was lost: rounding it again rounds once
    "f64_to_odd_f32": """// needs: f32_bits bits_f32
{inline} float f64_to_odd_f32(double value) {{
  const float near = (float)value;
  if ((double)near == value || isnan(value)) return near;
  {u32} bits = f32_bits(near);
  if (fabs((double)near) > fabs(value)) --bits;
  return bits_f32(bits | 1);
}}""",
    "e8m0fnu_to_f32": """
{inline} float e8m0fnu_to_f32({u8} code) {{ /* an exponent alone */
  return code == 255 ? NAN : ldexp(1.0f, code - 127);
}}""",
    "f32_to_e8m0fnu": """// needs: f32_bits
{inline} {u8} f32_to_e8m0fnu(float value) {{
  const {u32} bits = f32_bits(value);
  if (bits == 0 || bits >= 0x7f800000u) return 255; /* zero, negative, infinite, no number */
  if (bits < 0x00800000u) return bits > 0x00400000u;
  return ({u8})((bits + 0x00400000u) >> 23);
}}""",
}
_C_WORDS = {
    "uint32_t": "u32", "uint8_t": "u8", "int32_t": "i32", "int8_t": "i8", "int64_t": "i64",
}  # fmt: skip


def helper_text(
    name: str, dialect: DeviceDialect, dtype: DataType | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a helper, and the names of the helpers and headers that it needs."""
    text = dialect.helpers.get(name) or _FIXED.get(name)
    if text is None and dtype is not None:
        text = HELPERS_BY_TYPE.get(name)
    if text is None:
        text, needs = _small_types(name, dialect)
        return text.replace("static inline", dialect.inline), needs
    found = re.match(r"\s*// (?:needs|include): ([\w. ]+)\n", text)
    needs = tuple(found[1].split()) if found else ()
    text = text[found.end() :] if found else text
    return text.strip("\n").format(**helper_words(dialect, dtype)), needs


def _small_types(name: str, dialect: DeviceDialect) -> tuple[str, tuple[str, ...]]:
    """Return a helper of floats or integers below 8 bits: that of C with the dialect's words."""
    if name.startswith(("load_", "store_")):
        return _packed_access(name, dialect)
    found = small_type_helper(name)
    if found is None:
        raise CodegenError(f"there is no helper '{name}' for {dialect.title}")
    text, needs = found
    for word, kind in _C_WORDS.items():
        text = re.sub(rf"\b{word}\b", dialect.types[kind], text)
    text = text.replace("nearbyintf", "rint").replace("ilogbf", "ilogb")
    text = text.replace("ldexpf", "ldexp").replace("fabsf", "fabs")
    return text, needs


def _packed_access(name: str, dialect: DeviceDialect) -> tuple[str, tuple[str, ...]]:
    """Return `load_i4_SPACE` or `store_i4_SPACE`. A store changes its byte in one atomic step where
    other threads may change the rest of it: in all memory but a thread's own.
    """
    action, kind, where = name.split("_")
    bits, is_float = (4, True) if kind == "e2m1fn" else (int(kind[1:]), False)
    space = {"global": "__global ", "local": "__local "}.get(where, "")
    space = space if dialect.name == "opencl" else ""
    byte, word, value = dialect.types["u8"], dialect.types["u32"], dialect.types[
        "u8" if is_float or kind[0] == "u" else "i8"
    ]  # fmt: skip
    each, mask = 8 // bits, (1 << bits) - 1
    index = dialect.types["i64"]
    if action == "load":
        loaded = f"((const {space}{byte}*)data)[index / {each}] >> index % {each} * {bits}"
        needs = () if is_float else (f"wrap_{kind}",)
        found = f"({byte})({loaded} & {mask})" if is_float else f"wrap_{kind}({loaded})"
        return (
            f"{dialect.inline} {value} {name}(const {space}void* data, {index} index) {{\n"
            f"  return {found};\n}}"
        ), needs
    head = f"{dialect.inline} void {name}({space}void* data, {index} index, {value} value) {{\n"
    if where == "private":
        return head + (
            f"  {byte}* const at = ({byte}*)data + index / {each};\n"
            f"  const int shift = (int)(index % {each}) * {bits};\n"
            f"  *at = ({byte})((*at & ~({mask} << shift)) | ((value & {mask}) << shift));\n}}"
        ), ()
    pointer = f"volatile {space}{word}*"
    size = "size_t" if dialect.name == "opencl" else "unsigned long long"
    exchange = "atomic_cmpxchg" if dialect.name == "opencl" else "atomicCAS"
    place = pointer if dialect.name == "opencl" else f"{word}*"
    return head + (
        f"  const {size} address = ({size})data + index / {each};\n"
        f"  {place} const at = ({place})(address & ~({size})3);\n"
        f"  const int shift = (int)(address & 3) * 8 + (int)(index % {each}) * {bits};\n"
        f"  {word} seen, before = *at;\n"
        "  do {\n"
        "    seen = before;\n"
        f"    before = {exchange}(at, seen, "
        f"(seen & ~({mask}u << shift)) | (({word})(value & {mask}) << shift));\n"
        "  } while (before != seen);\n}"
    ), ()
