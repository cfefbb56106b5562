"""Rotary position embeddings (RoFormer, arXiv:2104.09864) and how they are scaled to longer texts.

Feature ``d`` of a head, of ``d_range`` features, is turned together with the one half of the range
away by the angle ``s * theta ** (-(2 d % d_range) / d_range)`` at position ``s``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.frontend.nn import op
from tilesmith.relax.frontend.nn.core import Tensor
from tilesmith.support.errors import ShapeError, UnknownNameError, UnsupportedError
from tilesmith.tir import PrimFunc

__all__ = [
    "llama_rope", "llama_rope_with_position_map", "rope_freq_default", "rope_freq_llama3",
    "rope_freq_longrope", "rotated", "switch_rope_freq_func",
]  # fmt: skip

Frequencies = tuple[PrimExpr, PrimExpr, dict[SymbolicVar, PrimExpr]]
"""Cosine and sine of an angle, over variables whose values come with them."""


def _float(value: Any) -> Any:
    return value if isinstance(value, PrimExpr) else tir.const(value, "float32")


def _share(d: Any, d_range: int) -> Any:
    """Return how far a feature is in its half of the range: from 0 to below 1."""
    return tir.Cast("float32", d * 2 % d_range) / _float(d_range)


def rope_freq_default(
    s: SymbolicVar, d: SymbolicVar, d_range: int, theta: float, dtype: str
) -> Frequencies:
    """Return cosine and sine of the angle at position ``s`` for feature ``d``."""
    angle = tir.Cast("float32", s) / tir.power(_float(theta), _share(d, d_range))
    variable = SymbolicVar("freq", "float32")
    cosine = tir.cos(variable).astype(dtype)
    return cosine, tir.sin(variable).astype(dtype), {variable: angle}


def rope_freq_llama3(
    s: SymbolicVar,
    d: SymbolicVar,
    d_range: int,
    theta: float,
    dtype: str,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> Frequencies:
    """Return cosine and sine as Llama 3.1 scales them: low frequencies are divided by ``factor``,
    high ones stay, and those between go from one to the other.
    """
    plain = SymbolicVar("orig_freq", "float32")
    turns = _float(original_max_position_embeddings / (2 * math.pi)) * plain
    part = (turns - _float(low_freq_factor)) / _float(high_freq_factor - low_freq_factor)
    smooth = SymbolicVar("smooth", "float32")
    scaled = (_float(1) - smooth) * plain / _float(factor) + smooth * plain
    angle = SymbolicVar("smoothed_freq", "float32")
    values = {
        angle: tir.Cast("float32", s) * scaled,
        smooth: tir.max(_float(0), tir.min(_float(1), part)),
        plain: _float(1) / tir.power(_float(theta), _share(d, d_range)),
    }
    return tir.cos(angle).astype(dtype), tir.sin(angle).astype(dtype), values


def rope_freq_longrope(
    s: SymbolicVar,
    d: SymbolicVar,
    d_range: int,
    theta: float,
    dtype: str,
    max_position_embeddings: int,
    original_max_position_embeddings: int,
    ext_factors: Any = None,
) -> Frequencies:
    """Return cosine and sine as LongRoPE (arXiv:2402.13753) scales them: each frequency is divided
    by a factor of its own (``ext_factors``, a buffer of half the range), and both grow with the
    length.
    """
    ratio = max_position_embeddings / original_max_position_embeddings
    growth = 1.0
    if ratio > 1:
        growth = math.sqrt(1 + math.log(ratio) / math.log(original_max_position_embeddings))
    divisor = tir.power(_float(theta), _share(d, d_range))
    if ext_factors is not None:
        divisor = ext_factors[d % (d_range // 2)] * divisor
    angle = SymbolicVar("freq", "float32")
    cosine = (tir.cos(angle) * _float(growth)).astype(dtype)
    sine = (tir.sin(angle) * _float(growth)).astype(dtype)
    return cosine, sine, {angle: tir.Cast("float32", s) / divisor}


_LLAMA3 = (
    "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
)  # fmt: skip
_LONGROPE = ("max_position_embeddings", "original_max_position_embeddings")


def switch_rope_freq_func(rope_scaling: dict[str, Any]) -> Callable[..., Frequencies]:
    """Return the function for a scaling: a dictionary as in the configuration of a model."""
    kind = (rope_scaling or {}).get("rope_type")
    known: dict[Any, tuple[Callable[..., Frequencies], tuple[str, ...]]] = {
        None: (rope_freq_default, ()),
        "default": (rope_freq_default, ()),
        "llama3": (rope_freq_llama3, _LLAMA3),
        "longrope": (rope_freq_longrope, _LONGROPE),
    }
    if kind not in known:
        raise UnsupportedError(
            f"there is no scaling of rotary positions '{kind}'",
            notes=("rope_type: default, llama3, longrope",),
        )
    function, names = known[kind]
    missing = [name for name in names if name not in rope_scaling]
    if missing:
        raise UnknownNameError(f"the scaling '{kind}' lacks '{missing[0]}'")
    return functools.partial(function, **{name: rope_scaling[name] for name in names})


def rotated(
    load: Callable[[Any], Any],
    place: tuple[Any, Any, int],
    frequencies: Any,
    theta: Any,
    dtype: str,
) -> Any:
    """Return a feature after the rotation. ``load`` gives a feature before it, ``place`` has the
    position, the feature, and how many features are turned.
    """
    position, feature, count = place
    cosine, sine, values = frequencies(position, feature, count, theta, dtype)
    half = count // 2
    other = tir.if_then_else(
        feature < half, -load(feature + half), load(feature - half)
    )  # fmt: skip
    made = cosine * load(feature) + sine * other
    for variable, value in values.items():
        made = tir.Let(variable, value, made)
    return made


def _turned(rotary_dim: int | None, head_dim: Any) -> int:
    count = head_dim if rotary_dim is None else rotary_dim
    if not isinstance(count, int) or count % 2 or not 0 < count <= int(head_dim):
        raise ShapeError(
            f"{count} of {head_dim} features cannot be turned in pairs",
            notes=("rotary_dim is even, and at most the size of a head",),
        )
    return count


def llama_rope(
    qkv: Tensor,
    total_seq_len: SymbolicVar,
    theta: float,
    scale: float,
    num_q_heads: int,
    num_kv_heads: int,
    rope_scaling: dict[str, Any],
    rotary_dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Divide (batch, sequence, heads, features) into queries, keys, values, and turn the first two.

    The sequence is the end of a text of ``total_seq_len`` tokens; positions are times ``scale``.
    """
    count = _turned(rotary_dim, qkv.shape[3])
    frequencies = switch_rope_freq_func(rope_scaling)
    dtype = qkv.dtype

    def fused_rope(data: Any, total: Any) -> list[Any]:
        batch, length, _, features = data.shape

        def part(first: int, heads: int, turns: bool, name: str) -> Any:
            def element(b: Any, s: Any, h: Any, d: Any) -> Any:
                def load(feature: Any) -> Any:
                    return data[b, s, first + h, feature]

                if not turns:
                    return load(d)
                position = tir.Cast("float32", s + (total - length)) * _float(scale)
                turned = rotated(load, (position, d, count), frequencies, theta, dtype)
                return tir.if_then_else(d < count, turned, load(d))

            return te.compute((batch, length, heads, features), element, name=name)

        first_v = num_q_heads + num_kv_heads
        return [
            part(0, num_q_heads, True, "q"),
            part(num_q_heads, num_kv_heads, True, "k"),
            part(first_v, num_kv_heads, False, "v"),
        ]

    made: tuple[Tensor, Tensor, Tensor] = op.tensor_expr_op(
        fused_rope, "llama_rope", [qkv, total_seq_len]
    )
    return made


def llama_rope_with_position_map(
    theta: float,
    scale: float,
    head_dim: int,
    num_q_heads: int,
    num_kv_heads: int,
    dtype: str,
    rope_scaling: dict[str, Any],
    rotary_dim: int | None = None,
) -> PrimFunc:
    """Return the kernel that divides (sequence, heads, features) into queries, keys and values, and
    turns the first two by the positions of a map.

        fused_rope(qkv, position_map, q, k, v, apply_rope)     apply_rope: int64, 0 leaves all as is
        fused_rope(qkv, position_map, q, k, v, ext_factors)    for the scaling "longrope"
    """
    count = _turned(rotary_dim, head_dim)
    frequencies = switch_rope_freq_func(rope_scaling)
    is_long = (rope_scaling or {}).get("rope_type") == "longrope"
    length = te.var("seq_len", "int64")
    heads = num_q_heads + 2 * num_kv_heads
    data = te.placeholder((length, heads, head_dim), dtype, name="qkv")
    places = te.placeholder((length,), "int32", name="position_map")
    factors = te.placeholder((count // 2,), "float32", name="ext_factors")
    apply_rope = te.var("apply_rope", "int64")
    if is_long:
        frequencies = functools.partial(frequencies, ext_factors=factors)

    def part(first: int, number: int, turns: bool, name: str) -> Any:
        def element(s: Any, h: Any, d: Any) -> Any:
            def load(feature: Any) -> Any:
                return data[s, first + h, feature]

            if not turns:
                return load(d)
            position = tir.Cast("float32", places[s]) * _float(scale)
            turned = rotated(load, (position, d, count), frequencies, theta, dtype)
            applies = d < count if is_long else tir.all(apply_rope > 0, d < count)
            return tir.if_then_else(applies, turned, load(d))

        return te.compute((length, number, head_dim), element, name=name)

    results = [
        part(0, num_q_heads, True, "q"),
        part(num_q_heads, num_kv_heads, True, "k"),
        part(num_q_heads + num_kv_heads, num_kv_heads, False, "v"),
    ]
    last = factors if is_long else apply_rope
    made: PrimFunc = te.create_prim_func(
        [data, places, *results, last], index_dtype_override="int64"
    )
    return made.with_attr("global_symbol", "fused_rope").with_attr("tir.noalias", True)
