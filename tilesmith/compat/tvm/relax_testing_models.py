"""Makes small models for tests, as ``tvm.relax.testing`` does: matrix products and attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax import BlockBuilder, Var, op
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import UnsupportedError

__all__ = [
    "get_relax_attention_module", "get_relax_matmul_module", "get_relax_stacked_attention_module",
]  # fmt: skip


def _module(params: list[Var], compute: Callable[[BlockBuilder], Any]) -> IRModule:
    """Return a module whose ``main`` computes one value in a dataflow block."""
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(compute(builder))
        builder.emit_func_output(result)
    made: IRModule = builder.get()
    return made


def _tensor(name: str, shape: Any, dtype: Any) -> Var:
    return Var(name, TensorStructInfo(shape, dtype))


def get_relax_matmul_module(
    x_shape: Any,
    y_shape: Any,
    in_dtype: str,
    out_dtype: str | None = None,
    transposed_y: bool = False,
    bias_shape: Any = None,
    activation: Callable[[Any], Any] | None = None,
    residual_bin_op: Callable[[Any, Any], Any] | None = None,
    residual_activation: Callable[[Any], Any] | None = None,
) -> IRModule:
    """Return a product of ``x`` and ``y``, with what is asked for behind it: a bias, an activation,
    a residual that is joined by a binary operator, another activation.
    """
    dtype = out_dtype or in_dtype
    x, y = _tensor("x", x_shape, in_dtype), _tensor("y", y_shape, in_dtype)
    axes = [*range(len(y_shape) - 2), len(y_shape) - 1, len(y_shape) - 2]
    right = op.permute_dims(y, axes) if transposed_y else y
    params = [x, y]
    result = op.matmul(x, right, out_dtype=dtype)
    shape: Any = result.struct_info
    if bias_shape is not None:
        params.append(_tensor("bias", bias_shape, dtype))
        result = op.add(result, params[-1])
    if activation is not None:
        result = activation(result)
    if residual_bin_op is not None:
        params.append(_tensor("residual", shape.shape, dtype))
        result = residual_bin_op(result, params[-1])
    if residual_activation is not None:
        result = residual_activation(result)
    return _module(params, lambda builder: result)


def get_relax_attention_module(
    q_shape: Any,
    k_shape: Any,
    v_shape: Any,
    *,
    dtype: str,
    bias_shape: Any = None,
    qk_scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> IRModule:
    """Return the attention of queries, keys and values (batch, sequence, heads, head size)."""
    shapes = {"q": q_shape, "k": k_shape, "v": v_shape}
    if bias_shape is not None:
        shapes["bias"] = bias_shape
    params = [_tensor(name, shape, dtype) for name, shape in shapes.items()]
    options: dict[str, Any] = {
        "scale": qk_scale,
        "causal_mask": causal_mask,
        "window_size": window_size,
    }
    return _module(params, lambda builder: op.nn.attention(*params, **options))


def _parts(op_name: str, stacked: Any, ends: Sequence[int], axis: int) -> list[Any]:
    """Return three parts of a tensor along an axis: by one operator, or by three."""
    first, second, third = ends
    if op_name == "split":
        whole = op.split(stacked, [first, second], axis=axis)
        return [whole[number] for number in range(3)]
    if op_name != "strided_slice":
        raise UnsupportedError(f"op is 'split' or 'strided_slice', got '{op_name}'")
    bounds = [(0, first), (first, second), (second, third)]
    return [op.strided_slice(stacked, [axis], [begin], [end]) for begin, end in bounds]


def get_relax_stacked_attention_module(
    qkv: Any,
    b: int,
    s: int,
    n: int,
    h: int,
    h_v: int,
    op: str,
    bias: Any = None,
    qk_scale: float | None = None,
    single_shape: bool = False,
    layout: str = "BS3NH",
) -> IRModule:
    """Return attention of queries, keys and values that lie in one tensor ``qkv`` (an array, which
    tells shape and dtype): (b, s, all heads of each) in the layout "BS3NH", (s, b, all of a head)
    in "SBN3H". ``single_shape``: all parts have the head size ``h``.
    """
    size_v = h if single_shape else h_v
    params = [_tensor("qkv", qkv.shape, str(qkv.dtype))]
    if bias is not None:
        params.append(_tensor("bias", bias.shape, str(bias.dtype)))
    if layout not in ("BS3NH", "SBN3H"):
        raise UnsupportedError(f"the layout is 'BS3NH' or 'SBN3H', got '{layout}'")

    given_bias = params[1] if bias is not None else None

    def compute(builder: BlockBuilder) -> Any:
        if layout == "BS3NH":
            ends = (n * h, 2 * n * h, n * (2 * h + size_v))
            parts = _parts(op, params[0], ends, 2)
            sizes = (h, h, size_v)
            parts = [_reshape(one, (b, s, n, size)) for one, size in zip(parts, sizes)]
            return _attention(*parts, given_bias, scale=qk_scale)
        heads = builder.emit(_reshape(params[0], (s, b, n, 2 * h + size_v)))
        parts = _parts(op, builder.emit(_permute(heads)), (h, 2 * h, 2 * h + size_v), 3)
        return _permute(_attention(*parts, given_bias, scale=qk_scale))

    return _module(params, compute)


_attention: Any = op.nn.attention
_reshape: Any = op.reshape


def _permute(value: Any) -> Any:
    """Exchange batch and sequence."""
    return _permute_dims(value, [1, 0, 2, 3])


_permute_dims = op.permute_dims
