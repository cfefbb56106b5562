"""DenseToSparse, Conv2dToSparse, SimplifyFCTranspose: let layers use weights of another form.

`relay.data_dep_optimization` writes the weights in that form and applies these passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import Call, Constant, Var, const, var
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.sparse_weights import blocks_of, conv2d_matrix
from tilesmith.relay.transform.calls import is_call, make, rewrite_functions
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import functions_of

__all__ = ["Conv2dToSparse", "Conv2dToSparse2", "DenseToSparse", "SimplifyFCTranspose"]


def _with_new_params(
    mod: IRModule, new: dict[str, list[Var]], change: Callable[[Any], Any]
) -> IRModule:
    """Rewrite functions with ``change``; a parameter that then is not used gives way to the ones
    that ``new`` has for its name.
    """
    for variable, function in functions_of(mod):
        body = rewrite(function.body, change)
        if body is function.body:
            continue
        used = set(free_vars(body))
        params: list[Var] = []
        for param in function.params:
            others = [one for one in new.get(param.name_hint, ()) if one in used]
            if not others or param in used:
                params.append(param)
            params += others
        mod[variable] = Function(params, body, None, function.type_params, function.attrs)
    return mod


def _sparse_vars(name: str, shape: Sequence[int], dtype: str = "float32") -> list[Var]:
    """Return variables for the parts of a sparse matrix, given their sizes in one list."""
    sizes = [int(size) for size in shape]
    types = [
        TensorType(sizes[:-2], dtype),
        TensorType(sizes[-2:-1], "int32"),
        TensorType(sizes[-1:], "int32"),
    ]
    return [var(f"{name}.{part}", type_) for part, type_ in zip(_PARTS, types)]


_PARTS = ("data", "indices", "indptr")


def _table(names: Iterable[Any], shapes: Iterable[Any]) -> dict[str, list[Var]]:
    return {str(name): _sparse_vars(str(name), shape) for name, shape in zip(names, shapes)}


def _weight_in(node: Any, operator: str, table: dict[str, list[Var]]) -> list[Var] | None:
    """Return the parts of the sparse matrix for the weight of a call, if it has become one."""
    if not is_call(node, operator) or not isinstance(node.args[1], Var):
        return None
    return table.get(node.args[1].name_hint)


@relay_pass("DenseToSparse", 0, ["InferType"])
def DenseToSparse(
    mod: IRModule, weight_name: Iterable[str], weight_shape: Iterable[Any]
) -> IRModule:
    """Let dense layers use sparse weights: those with the names, of which ``weight_shape`` has the
    sizes of the three parts, in one list each.
    """
    table = _table(weight_name, weight_shape)

    def changed(node: Any) -> Any:
        parts = _weight_in(node, "nn.dense", table)
        return node if parts is None else make("nn.sparse_dense", node.args[0], *parts)

    return _with_new_params(mod, table, changed)


def _suits(call: Call, layout: str, kernel_size: int) -> bool:
    """Return whether ``nn.sparse_conv2d`` computes a convolution."""
    attrs: Any = call.attrs
    around = kernel_size // 2
    kernel = {"NHWC": "HWIO", "NCHW": "OIHW"}.get(layout)
    window = attrs.kernel_size
    return (
        attrs.data_layout == layout
        and attrs.kernel_layout == kernel
        and attrs.out_layout in ("", layout)
        and attrs.groups == 1
        and (window is None or set(window) == {kernel_size})
        and set(attrs.strides) == set(attrs.dilation) == {1}
        and set(attrs.padding) == {around}
        and not attrs.out_dtype
    )


@relay_pass("Conv2dToSparse", 0, ["InferType"])
def Conv2dToSparse(
    mod: IRModule,
    weight_name: Iterable[str],
    weight_shape: Iterable[Any],
    layout: str,
    kernel_size: int,
) -> IRModule:
    """Let convolutions that keep the size of the image use sparse weights: those with the names, of
    which ``weight_shape`` has the sizes of the three parts, in one list each.
    """
    table = _table(weight_name, weight_shape)

    def changed(node: Any) -> Any:
        parts = _weight_in(node, "nn.conv2d", table)
        if parts is None or not _suits(node, layout, kernel_size):
            return node
        attrs = {"layout": layout, "kernel_size": kernel_size}
        return make("nn.sparse_conv2d", node.args[0], *parts, **attrs)

    return _with_new_params(mod, table, changed)


@relay_pass("Conv2dToSparse2", 0, ["InferType"])
def Conv2dToSparse2(
    mod: IRModule,
    layout: str,
    kernel_size: int,
    blocksize: Iterable[int],
    sparsity_threshold: float,
) -> IRModule:
    """Let convolutions that keep the size of the image use sparse weights, where the weight is a
    constant of which at least a part, the threshold, is 0.
    """
    block = tuple(blocksize)

    def changed(node: Any) -> Any:
        if not is_call(node, "nn.conv2d") or not isinstance(node.args[1], Constant):
            return node
        weight = node.args[1].data.numpy()
        spatial = weight.shape[:2] if layout == "NHWC" else weight.shape[2:]
        sparsity = 1 - numpy.count_nonzero(weight) / weight.size
        is_wanted = set(spatial) == {kernel_size} and sparsity >= sparsity_threshold
        if not is_wanted or not _suits(node, layout, kernel_size):
            return node
        parts = [const(part) for part in blocks_of(conv2d_matrix(weight, layout), block)]
        attrs = {"layout": layout, "kernel_size": kernel_size}
        return make("nn.sparse_conv2d", node.args[0], *parts, **attrs)

    return rewrite_functions(mod, changed)


@relay_pass("SimplifyFCTranspose", 0, ["InferType"])
def SimplifyFCTranspose(mod: IRModule, target_weight_name: Iterable[str]) -> IRModule:
    """Let dense layers use weights that are given transposed: ``w.T`` in the place of
    ``transpose(w)``, for the weights with the names.
    """
    names = {str(name) for name in target_weight_name}
    new: dict[str, list[Var]] = {}

    def changed(node: Any) -> Any:
        inner: Any = node.args[1] if is_call(node, "nn.dense") else None
        if not is_call(inner, "transpose") or not isinstance(inner.args[0], Var):
            return node
        weight = inner.args[0]
        if weight.name_hint not in names:
            return node
        if weight.name_hint not in new:
            type_: Any = weight.checked_type
            swapped = TensorType(list(type_.shape)[::-1], type_.dtype)
            new[weight.name_hint] = [var(f"{weight.name_hint}.T", swapped)]
        return node.with_fields(args=(node.args[0], new[weight.name_hint][0]))

    return _with_new_params(mod, new, changed)
