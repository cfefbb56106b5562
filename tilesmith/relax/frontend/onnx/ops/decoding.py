"""Attention as decoders have it (com.microsoft): rotated positions, shared heads, a cache of keys
and values, quantised weights.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.contrib import attend, heads_of, score_mask, whole_bias
from tilesmith.relax.frontend.onnx.ops.run_time import size_vector
from tilesmith.relax.frontend.onnx.registry import MICROSOFT, converter
from tilesmith.relax.frontend.onnx.values import Size, dtype_of, rank_of, scalar, shape_of
from tilesmith.support.errors import OpAttributeRequired, ShapeError

# Rotated positions


def rotated(node: OnnxNode, x: Any, places: Any, tables: tuple[Any, Any], interleaved: bool) -> Any:
    """Rotate pairs of elements of (batch, sequence, heads, head) by the angles of positions
    (batch, sequence), whose cosines and sines are in ``tables``.
    """
    head = shape_of(x, 4)[3]
    half = shape_of(tables[0], 2)[1]
    if not isinstance(head, int) or not isinstance(half, int):
        raise ShapeError("the size of a head has to be constant")
    cosine, sine = [node.emit(op.expand_dims(op.take(table, places, 0), 2)) for table in tables]
    whole, width = x, 2 * half
    if width < head:
        x = node.emit(op.strided_slice(x, [3], [0], [width]))
    if interleaved:
        first, second = [op.strided_slice(x, [3], [at], [width], [2]) for at in (0, 1)]
    else:
        first, second = [op.strided_slice(x, [3], [at], [at + half]) for at in (0, half)]
    first, second = node.emit(first), node.emit(second)
    real = op.subtract(op.multiply(first, cosine), op.multiply(second, sine))
    imaginary = op.add(op.multiply(first, sine), op.multiply(second, cosine))
    real, imaginary = node.emit(real), node.emit(imaginary)
    if interleaved:
        found = op.reshape(op.stack([real, imaginary], 4), ShapeExpr(shape_of(x)))
    else:
        found = op.concat([real, imaginary], 3)
    found = node.emit(found)
    if width == head:
        return found
    rest = op.strided_slice(whole, [3], [width], [head])
    return node.emit(op.concat([found, rest], 3))


@converter("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(node: OnnxNode) -> Any:
    x, places = node[0], node[1]
    rank = rank_of(x)
    tables = (node[2], node[3])
    if node.flag("is_packed_batching"):
        raise node.unsupported("sequences that are packed into one")
    if rank == 4:
        parts = node.emit(op.permute_dims(x, [0, 2, 1, 3]))
    else:
        count = int(node.attribute("num_heads", 0))
        hidden, half = shape_of(x, 3)[2], shape_of(tables[0], 2)[1]
        parts = node.emit(heads_of(x, count or hidden // (2 * half)))
    batch, length = shape_of(parts)[:2]
    places = op.astype(places, "int64")
    if rank_of(places) < 2:  # the position of the first element
        steps = op.expand_dims(op.arange(0, length, 1, "int64"), 0)
        places = op.add(op.reshape(places, [1, 1]), steps)
        places = op.broadcast_to(places, ShapeExpr([batch, length]))
    found = rotated(node, parts, node.emit(places), tables, node.flag("interleaved"))
    if rank == 4:
        return op.permute_dims(found, [0, 2, 1, 3])
    return op.reshape(found, ShapeExpr(shape_of(x)))


# A cache of keys and values


def _new_parts(node: OnnxNode, heads: int, shared: int) -> list[Any]:
    """Return queries, keys and values (batch, sequence, heads, head), which may come in one."""
    query = node[0]
    if node.has(1):
        return [
            node.emit(heads_of(node[index], count))
            for index, count in ((0, heads), (1, shared), (2, shared))
        ]
    hidden = shape_of(query, 3)[2]
    head = hidden // (heads + 2 * shared)
    found, begin = [], 0
    for count in (heads, shared, shared):
        part = op.strided_slice(query, [2], [begin * head], [(begin + count) * head])
        found.append(node.emit(heads_of(node.emit(part), count)))
        begin += count
    return found


class _Cache:
    """Where the new elements of each sequence go, and how long the cache is then."""

    def __init__(self, node: OnnxNode, length: Size) -> None:
        self.node, self.length = node, length
        self.before: Size = shape_of(node[3], 4)[2] if node.has(3) else 0
        lengths = op.reshape(op.astype(node[5], "int64"), [-1])
        extent = op.reshape(size_vector(node, [length]), [])
        total = op.add(lengths, scalar(1, "int64"))
        old = op.subtract(total, extent)
        # A first run has no past, and its sequences may be filled up at their ends.
        old = op.maximum(old, scalar(0, "int64"))
        if isinstance(self.before, int) and self.before == 0:
            old = op.multiply(old, scalar(0, "int64"))
        steps = op.expand_dims(op.arange(0, length, 1, "int64"), 0)
        self.places = node.emit(op.add(op.expand_dims(node.emit(old), 1), steps))
        self.after: Size = self.before + length

    def joined(self, index: int, new: Any) -> Any:
        """Return the cache (batch, heads, sequence, head) with new elements written into it."""
        node = self.node
        new = node.emit(op.permute_dims(new, [0, 2, 1, 3]))
        if isinstance(self.before, int) and self.before == 0:
            return new
        sizes = shape_of(new, 4)
        room = op.zeros(ShapeExpr(sizes), dtype_of(new))
        wide = node.emit(op.concat([node[index], room], 2))
        where = op.expand_dims(self.places, [1, 3])
        where = node.emit(op.broadcast_to(where, ShapeExpr(sizes)))
        return node.emit(op.scatter_elements(wide, where, new, 2, "update"))

    def mask(self, window: int, dtype: Any) -> Any:
        """Return score offsets (batch, 1, queries, keys): later keys do not count, nor those that
        are as far back as ``window``.
        """
        keys = op.reshape(op.arange(0, self.after, 1, "int64"), [1, 1, self.after])
        own = op.expand_dims(self.places, 2)
        seen = op.less_equal(keys, own)
        if window > 0:
            near = op.greater(keys, op.subtract(own, scalar(window, "int64")))
            seen = op.logical_and(seen, near)
        away = scalar(-10000.0 if dtype == "float16" else -1e30, dtype)
        return self.node.emit(op.expand_dims(op.where(seen, scalar(0, dtype), away), 1))


@converter("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(node: OnnxNode) -> Any:
    heads, shared = int(node.required("num_heads")), int(node.required("kv_num_heads"))
    refused = {
        "a cap on scores (softcap)": bool(node.attribute("softcap", 0.0)),
        "smooth_softmax": node.flag("smooth_softmax"),
        "a head sink": node.has(11),
        "a quantised cache": node.has(12) or node.has(13),
        "normalised queries and keys": node.has(14) or node.has(15),
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise node.unsupported(what)
    query, key, value = _new_parts(node, heads, shared)
    cache = _Cache(node, shape_of(query)[1])
    if node.flag("do_rotary"):
        tables = (node[7], node[8])
        places = op.astype(node[9], "int64") if node.has(9) else cache.places
        is_interleaved = node.flag("rotary_interleaved")
        query, key = [rotated(node, part, places, tables, is_interleaved) for part in (query, key)]
    keys, values = cache.joined(3, key), cache.joined(4, value)
    parts = [query]
    for part in (keys, values):
        wide = op.permute_dims(part, [0, 2, 1, 3])
        parts.append(node.emit(op.repeat(wide, heads // shared, 2) if heads > shared else wide))
    bias = cache.mask(int(node.attribute("local_window_size", -1)), dtype_of(query))
    if node.has(10):
        bias = op.add(bias, node[10])
    return attend(node, parts, node.emit(whole_bias(bias, parts))), keys, values


# Quantised weights


@converter("QAttention", domain=MICROSOFT)
def _quantised_attention(node: OnnxNode) -> Any:
    """Convert self attention of integers: one product gives queries, keys and values."""
    count = node.attribute("num_heads")
    if not count:
        raise OpAttributeRequired("it needs the attribute 'num_heads'")
    if node.has(8) or node.wants(1) or node.flag("do_rotary"):
        raise node.unsupported("keys and values of earlier calls")
    centred = []
    for index, zero_index in ((0, 6), (1, 7)):
        wide = op.astype(node[index], "int32")
        if node.has(zero_index):
            wide = op.subtract(wide, op.astype(node[zero_index], "int32"))
        centred.append(node.emit(wide))
    total = op.astype(node.emit(op.matmul(*centred)), "float32")
    factor = op.multiply(node[3], node[4])
    total = node.emit(op.add(op.multiply(total, factor), node[2]))
    size = shape_of(total, 3)[2] // 3
    parts = []
    for begin in (0, size, 2 * size):
        part = node.emit(op.strided_slice(total, [2], [begin], [begin + size]))
        parts.append(node.emit(heads_of(part, count)))
    bias = score_mask(node, 5, "float32")
    return attend(node, parts, None if bias is None else node.emit(whole_bias(bias, parts)))
