"""Defines the small functions that files include where their code needs them, in any dialect.

C has no names for some of TensorIR's operators, such as division that rounds down. Each is a
function of the file, named after the operator and the dtype. Texts have `{inline}` for what stands
before a function, `{type}`, `{short}` and `{unsigned}` for those by dtype, `{i64}` and its like for
types.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.codegen.c_family.dialect import Dialect, short
from tilesmith.runtime.dtype import DataType

__all__ = ["HELPERS_BY_TYPE", "SCALE_ROUNDED", "helper_words"]

HELPERS_BY_TYPE: Mapping[str, str] = {
    # the smallest number divided by -1 would overflow, or trap
    "truncdiv": """
{inline} {type} truncdiv_{short}({type} a, {type} b) {{
  return b == -1 ? ({type})(0 - ({unsigned})a) : ({type})(a / b);
}}""",
    "truncmod": """
{inline} {type} truncmod_{short}({type} a, {type} b) {{
  return b == -1 ? ({type})0 : ({type})(a % b);
}}""",
    "floordiv": """
{inline} {type} floordiv_{short}({type} a, {type} b) {{
  if (b == -1) return ({type})(0 - ({unsigned})a);
  const {type} quotient = ({type})(a / b), rest = ({type})(a % b);
  return ({type})(quotient - (rest != 0 && (rest < 0) != (b < 0)));
}}""",
    "floormod": """
{inline} {type} floormod_{short}({type} a, {type} b) {{
  if (b == -1) return 0;
  const {type} rest = ({type})(a % b);
  return ({type})(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}}""",
    # keeps the first operand unless the second is strictly better: NaN stays where it comes first,
    # as it does with Python's min and max
    "min": """
{inline} {type} min_{short}({type} a, {type} b) {{ return b < a ? b : a; }}""",
    "max": """
{inline} {type} max_{short}({type} a, {type} b) {{ return b > a ? b : a; }}""",
    "pow": """
{inline} {type} pow_{short}({type} base, {type} exponent) {{
  {type} result = 1;{negative}
  for (; exponent; exponent = ({type})(exponent / 2)) {{
    if (exponent % 2) result = ({type})(result * base);
    base = ({type})(base * base);
  }}
  return result;
}}""",
}
"""Operator → function, for each dtype."""
_NEGATIVE_POWER = """
  if (exponent < 0) return ({type})(base == 1 ? 1 : base + 1 ? 0 : (exponent % 2 ? base : 1));"""

SCALE_ROUNDED = """
{inline} {i64} scale_rounded({i64} value, {i64} factor, {i64} shift) {{
  const {i64} product = value * factor;
  return shift > 0 ? (product + (({i64})1 << (shift - 1))) >> shift : product << -shift;
}}"""


def helper_words(dialect: Dialect, dtype: DataType | None) -> dict[str, str]:
    """Return what stands for the words in braces in a helper's text."""
    words = dict(dialect.types) | {"inline": dialect.inline}
    if dtype is not None:
        kind = unsigned = dialect.type(dtype)
        if dtype.is_int:
            unsigned = dialect.type(DataType(f"uint{max(8, dtype.bits)}"))
        negative = "" if dtype.is_uint else _NEGATIVE_POWER.format(type=kind)
        words |= {"type": kind, "short": short(dtype), "unsigned": unsigned, "negative": negative}
    return words
