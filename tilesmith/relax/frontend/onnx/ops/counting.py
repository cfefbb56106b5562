"""Counts of runs of numbers (n-grams): TfIdfVectorizer."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, static_shape, vector
from tilesmith.support.errors import FrontendError, OpAttributeInvalid


def _runs(node: OnnxNode, least: int, most: int) -> dict[int, Any]:
    """Return the pool's runs by length: a matrix with a row each."""
    pool = node.attribute("pool_int64s")
    if not pool:
        raise node.unsupported("a pool of texts", "map words to numbers outside of the model")
    starts = [int(start) for start in node.required("ngram_counts")] + [len(pool)]
    found = {}
    for length in range(1, len(starts)):
        part = numpy.array(pool[starts[length - 1] : starts[length]], "int64")
        if len(part) % length:
            raise OpAttributeInvalid(f"its pool has {len(part)} numbers for runs of {length}")
        found[length] = part.reshape(-1, length)
    if most > len(found):
        raise OpAttributeInvalid(f"its pool has no runs of {most}")
    return found


@converter("TfIdfVectorizer")
def _tf_idf_vectorizer(node: OnnxNode) -> Any:
    x = node[0]
    rank = rank_of(x)
    if rank not in (1, 2):
        raise FrontendError(f"it needs one row or a matrix of numbers, got rank {rank}")
    least, most = int(node.required("min_gram_length")), int(node.required("max_gram_length"))
    skips = int(node.required("max_skip_count"))
    runs = _runs(node, least, most)
    places = [int(place) for place in node.required("ngram_indexes")]
    if len(places) != sum(len(part) for part in runs.values()):
        raise OpAttributeInvalid(f"it has {len(places)} indexes for its runs")
    x = node.emit(x if dtype_of(x) == "int64" else op.astype(x, "int64"))
    width = static_shape(x, "TfIdfVectorizer")[-1]
    counts = []
    for length, rows in runs.items():
        if not len(rows):
            continue
        total: Any = None
        if least <= length <= most:
            for skip in range(skips + 1 if length > 1 else 1):
                part = _count(node, x, rows, width, skip + 1)
                if part is not None:
                    total = part if total is None else node.emit(op.add(total, part))
        if total is None:
            sizes = [*static_shape(x, "TfIdfVectorizer")[:-1], len(rows)]
            total = op.zeros(sizes, "float32")
        counts.append(node.emit(total))
    whole = counts[0] if len(counts) == 1 else node.emit(op.concat(counts, rank - 1))
    return _in_order(node, _weighted(node, whole), places, rank)


def _count(node: OnnxNode, x: Any, rows: Any, width: int, step: int) -> Any:
    """Return how often each run occurs with a distance between its elements; None if it cannot."""
    length = rows.shape[1]
    starts = width - (length - 1) * step
    axis = rank_of(x) - 1
    if starts <= 0:
        return None
    hits: Any = None
    for k in range(length):
        part = op.strided_slice(x, [axis], [k * step], [k * step + starts])
        same = op.equal(op.expand_dims(part, axis), Constant(rows[:, k : k + 1].copy()))
        hits = same if hits is None else op.logical_and(hits, same)
    return op.sum(op.astype(hits, "float32"), [axis + 1])


def _weighted(node: OnnxNode, counts: Any) -> Any:
    mode = node.choice("mode", "", "TF", "IDF", "TFIDF")
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = op.minimum(counts, vector([1.0], "float32"))
    weights = node.attribute("weights")
    return op.multiply(counts, vector(weights, "float32")) if weights else counts


def _in_order(node: OnnxNode, counts: Any, places: list[int], rank: int) -> Any:
    """Return the counts at the places of the result, 0 elsewhere."""
    if places == list(range(len(places))):
        return counts
    sizes = static_shape(node.emit(counts), "TfIdfVectorizer")[:-1]
    room = op.zeros([*sizes, max(places) + 1], "float32")
    index = numpy.broadcast_to(numpy.array(places), (*sizes, len(places)))
    where = Constant(numpy.ascontiguousarray(index))
    return op.scatter_elements(room, where, counts, rank - 1, "update")
