"""The table of C99."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import Dialect

__all__ = ["C99", "c_type", "identifier"]

C99 = Dialect(
    name="c",
    title="C",
    types={
        "bool": "bool", "f32": "float", "f64": "double",
        "f16": "uint16_t", "bf16": "uint16_t",  # kept as their bits
        **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
        **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    },
    numbers={"u32": "{}u", "i64": "INT64_C({})", "u64": "UINT64_C({})"},
    smallest={"i32": "INT32_MIN", "i64": "INT64_MIN"},
    inline="static inline",
    constant="static {type} {name}[{count}] TS_ALIGNED",  # not const: kernels take plain pointers
    math_suffix="f",
)  # fmt: skip

c_type, identifier = C99.type, C99.identifier
