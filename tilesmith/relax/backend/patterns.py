"""Patterns of what libraries compute at once: products and convolutions with what follows them,
attention, normalisations.

Each function returns a pattern and names for its parts, as `FusionPattern` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.relax import op as operators
from tilesmith.relax.dpl.pattern import (
    DFPattern,
    GlobalVarPattern,
    TuplePattern,
    is_const,
    is_op,
    is_tuple_get_item,
    wildcard,
)
from tilesmith.relax.relations import sizes_of
from tilesmith.support.errors import UnknownNameError

__all__ = [
    "make_attention_pattern", "make_attention_rewrite_pattern", "make_conv2d_pattern",
    "make_fused_bias_activation_pattern", "make_layer_norm_pattern",
    "make_matmul_dequantize_pattern", "make_matmul_multiply_pattern", "make_matmul_pattern",
    "make_residual_block_pattern", "make_rms_norm_pattern", "make_stacked_attention_pattern",
]  # fmt: skip

Named = tuple[DFPattern, dict[str, DFPattern]]
"""A pattern, and the names of parts of it."""


def _call(name: str) -> Any:
    return is_op(name)


def _with_bias_and_activation(
    out: DFPattern, parts: dict[str, DFPattern], with_bias: bool, activation: str | None
) -> Named:
    if with_bias:
        parts["bias"] = bias = wildcard()
        out = _call("relax.add")(out, bias)
    return (out if activation is None else _call(activation)(out)), parts


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> Named:
    """Match an operator of two arguments (``lhs``, ``rhs``; the call is ``root``), then perhaps the
    addition of a ``bias``, then perhaps an activation.
    """
    lhs, rhs = wildcard(), wildcard()
    root = _call(op_name)(lhs, rhs)
    parts = {"lhs": lhs, "rhs": rhs, "root": root}
    return _with_bias_and_activation(root, parts, with_bias, activation)


def make_residual_block_pattern(
    node_output: DFPattern | tuple[DFPattern, Mapping[str, DFPattern]],
    binary_op: str = "relax.add",
    activation: str | None = None,
) -> Named:
    """Match the result of another pattern combined with a ``residual``, then perhaps an
    activation.
    """
    parts: Mapping[str, DFPattern] = {}
    if isinstance(node_output, tuple):
        node_output, parts = node_output
    residual, combine = wildcard(), _call(binary_op)
    out: DFPattern = combine(node_output, residual) | combine(residual, node_output)
    if activation is not None:
        out = _call(activation)(out)
    return out, {**parts, "residual": residual}


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> Named:
    """Match a convolution, then perhaps the addition of a bias and an activation."""
    return make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias, activation)


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> Named:
    """Match a product (with a transposed matrix), then perhaps the addition of a bias and an
    activation.
    """
    lhs, rhs = wildcard(), wildcard()
    right = _call("relax.permute_dims")(rhs) if transposed_rhs else rhs
    root = _call("relax.matmul")(lhs, right)
    parts = {"lhs": lhs, "rhs": rhs, "root": root}
    return _with_bias_and_activation(root, parts, with_bias, activation)


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> Named:
    """Match attention with a ``bias`` or without, or of sequences of different lengths
    (``var_len``).
    """
    query, key, value = wildcard(), wildcard(), wildcard()
    parts: dict[str, DFPattern] = {"query": query, "key": key, "value": value}
    arguments: list[DFPattern] = [query, key, value]
    name = "relax.nn.attention"
    if with_bias:
        parts["bias"] = wildcard()
        arguments.append(parts["bias"])
    elif var_len:
        name = "relax.nn.attention_var_len"
        for part in ("seqstart_q", "seqstart_k", "max_seqlen_q", "max_seqlen_k"):
            parts[part] = wildcard()
            arguments.append(parts[part])
    return _call(name)(*arguments), parts


def make_stacked_attention_pattern(
    start_op: str, with_bias: bool = False, layout: str = "BS3NH"
) -> Named:
    """Match attention whose query, key and value are parts of one tensor (``stacked_qkv``), made by
    ``start_op``: "split" or "strided_slice".

    ``layout``: "BS3NH", where the parts are reshaped, or "SBN3H", where they and the result are
    permuted.
    """
    stacked = wildcard()
    parts: dict[str, DFPattern] = {"stacked_qkv": stacked}
    names = ("query", "key", "value")
    raw: list[DFPattern] = []
    if start_op == "split":
        whole = parts["split"] = _call("relax.split")(stacked)
        raw = [is_tuple_get_item(whole, place) for place in range(3)]
    elif start_op == "strided_slice":
        for name in names:
            sliced = _call("relax.strided_slice")
            parts[f"strided_slice_{name}"] = one = sliced(stacked, varg_default_wildcard=True)
            raw.append(one)
    else:
        raise UnknownNameError(
            f"stacked attention begins with 'split' or 'strided_slice', not '{start_op}'"
        )
    if layout == "BS3NH":
        given = []
        for name, one in zip(names, raw):
            parts[f"{name}_reshape_list"] = wildcard()
            given.append(_call("relax.reshape")(one, parts[f"{name}_reshape_list"]))
    elif layout == "SBN3H":
        given = []
        for name, one in zip(names, raw):
            parts[f"{name[0]}_transpose"] = turned = _call("relax.permute_dims")(one)
            given.append(turned)
    else:
        raise UnknownNameError(f"the layout of stacked attention is BS3NH or SBN3H, not '{layout}'")
    if with_bias:
        parts["bias"] = wildcard()
        given.append(parts["bias"])
    out: DFPattern = _call("relax.nn.attention")(*given)
    return (_call("relax.permute_dims")(out) if layout == "SBN3H" else out), parts


def make_layer_norm_pattern() -> Named:
    """Match layer normalisation."""
    return _call("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard()), {}


def make_rms_norm_pattern() -> Named:
    """Match a call of a kernel of two tensors, ``inp`` and a weight; the check of the pattern looks
    at the kernel, ``gv``.
    """
    inp, weight, gv = wildcard(), wildcard(), GlobalVarPattern()
    out = _call("relax.call_tir")(gv, TuplePattern([inp, weight]))
    return out, {"gv": gv, "inp": inp, "rms_norm": out}


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> Named:
    """Match a product (with a transposed matrix) whose result is dequantized by constants ``scale``
    and ``zp``.
    """
    root, parts = make_matmul_pattern(transposed_rhs=transposed_rhs)
    parts["scale"], parts["zp"] = is_const(), is_const()
    return _call("relax.dequantize")(root, parts["scale"], parts["zp"]), parts


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> Named:
    """Match a product (with a transposed matrix) that is multiplied by the product of ``scaleA``
    and ``scaleB``, and converted.
    """
    root, parts = make_matmul_pattern(transposed_rhs=transposed_rhs)
    parts["scaleA"], parts["scaleB"] = wildcard(), wildcard()
    scale = _call("relax.multiply")(parts["scaleA"], parts["scaleB"])
    scaled = _call("relax.multiply")(root, scale)
    return _call("relax.astype")(scaled), parts


# Attention that is written out

_TO_HEADS = [0, 2, 1, 3]


def make_attention_rewrite_pattern(
    qkv_layout: str, out_layout: str, with_bias: bool, with_cast: bool, with_kv_repeat: bool = False
) -> tuple[DFPattern, Callable[[Any, dict[DFPattern, Any]], Any]]:
    """Match attention that is written out (product, scale, bias, softmax, product), and return with
    it what replaces a match by ``nn.attention``, for `rewrite_call`.

    The layouts are "BSNH" (batch, sequence, heads, size: the heads are moved forward before the
    products, or back behind them) or "BNSH" (they are in front). ``with_cast``: softmax is computed
    in another dtype. ``with_kv_repeat``: keys and values are repeated for groups of heads.
    """
    _check_layouts(qkv_layout, out_layout)
    permute, repeat = _call("relax.permute_dims"), _call("relax.repeat")
    query, key, value, bias = wildcard(), wildcard(), wildcard(), wildcard()
    repeats = [repeat(key), repeat(value)] if with_kv_repeat else [key, value]
    moves = [query, *repeats]
    if qkv_layout == "BSNH":
        moves = [permute(one) for one in moves]
    turned = permute(moves[1])
    product = _call("relax.matmul")(moves[0], turned)
    factor = is_const()
    multiplied = _call("relax.multiply")(product, factor)
    divided = _call("relax.divide")(product, factor)
    scores: Any = multiplied | divided
    if with_bias:
        scores = _call("relax.add")(scores, bias)
    if with_cast:
        scores = _call("relax.astype")(scores)
    soft = _call("relax.nn.softmax")(scores)
    weights = _call("relax.astype")(soft) if with_cast else soft
    out: DFPattern = _call("relax.matmul")(weights, moves[2])
    back = permute(out) if out_layout == "BSNH" else None
    chosen = out if back is None else back
    checked = [*moves] if qkv_layout == "BSNH" else []
    if back is not None:
        checked.append(back)

    def rewrite(expr: Any, found: dict[DFPattern, Any]) -> Any:
        if any(list(found[one].attrs.axes or ()) != _TO_HEADS for one in checked):
            return expr
        if list(found[turned].attrs.axes or ()) != [0, 1, 3, 2]:
            return expr
        if found[soft].attrs.axis not in (-1, 3) or found[factor].data.size != 1:
            return expr
        if with_kv_repeat and not _repeats_heads(found, repeats, qkv_layout):
            return expr
        scale = float(found[factor].data.numpy_view().reshape(()))
        if divided in found:
            scale = 1.0 / scale
        operands = [found[one] for one in (query, *repeats)]
        if qkv_layout == "BNSH":
            operands = [operators.permute_dims(one, _TO_HEADS) for one in operands]
        given = found[bias] if with_bias else None
        if given is not None and len(sizes_of(given.struct_info) or ()) != 4:
            return expr
        result = operators.nn.attention(*operands, given, scale)
        return operators.permute_dims(result, _TO_HEADS) if out_layout == "BNSH" else result

    return chosen, rewrite


def _check_layouts(*layouts: str) -> None:
    for layout in layouts:
        if layout not in ("BSNH", "BNSH"):
            raise UnknownNameError(f"the layout of attention is BSNH or BNSH, not '{layout}'")


def _repeats_heads(found: Any, repeats: Any, layout: str) -> bool:
    axis = layout.index("N")
    return all(found[one].attrs.axis in (axis, axis - 4) for one in repeats)
