"""The classical part of ONNX (`ai.onnx.ml`) on numbers: features, linear models, vector machines.

Texts and maps are refused: a tensor compiler has neither.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    rank_of,
    scalar,
    shape_of,
    static_shape,
    vector,
)
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError

DOMAIN = "ai.onnx.ml"

__all__ = ["DOMAIN", "labelled", "labels_of", "post_transform", "with_second_class"]


def _floats(node: OnnxNode, index: int = 0) -> Any:
    x = node[index]
    return node.emit(x if dtype_of(x) == "float32" else op.astype(x, "float32"))


def _rows(node: OnnxNode) -> Any:
    """Return the first input as a matrix of float32: a vector is one row."""
    x = _floats(node)
    return node.emit(op.expand_dims(x, 0)) if rank_of(x) == 1 else x


# Scores and labels


def labels_of(node: OnnxNode) -> Any:
    """Return the labels of a classifier, which have to be numbers."""
    for name in ("classlabels_int64s", "classlabels_ints"):
        found = node.attribute(name)
        if found:
            return numpy.array(found, "int64")
    if node.attribute("classlabels_strings"):
        raise UnsupportedError(
            "its labels are texts, and a compiled model computes with numbers",
            notes=("train it with numbers as labels, and map them to texts outside",),
        )
    raise OpAttributeInvalid("it needs labels: the attribute 'classlabels_ints' is missing")


def post_transform(node: OnnxNode, scores: Any, name: Any) -> Any:
    """Return scores after the node's function for them."""
    if name == "NONE":
        return scores
    if name == "SOFTMAX":
        return op.nn.softmax(scores, -1)
    if name == "LOGISTIC":
        return op.sigmoid(scores)
    if name == "SOFTMAX_ZERO":  # scores of 0 stay 0, and count for nothing
        zero = scalar(0, dtype_of(scores))
        is_there = op.not_equal(scores, zero)
        top = op.max(scores, [-1], True)
        powers = node.emit(op.where(is_there, op.exp(op.subtract(scores, top)), zero))
        total = op.sum(powers, [-1], True)
        return op.divide(
            powers, op.where(op.equal(total, zero), scalar(1, dtype_of(scores)), total)
        )
    if name == "PROBIT":
        raise node.unsupported("the post_transform PROBIT")
    raise OpAttributeInvalid(f"its attribute 'post_transform' is '{name}'")


def labelled(node: OnnxNode, scores: Any, labels: Any, transform: str) -> Any:
    """Return the labels of the largest scores, and the scores after their function."""
    place = op.argmax(scores, -1, False)
    found = place
    if not (labels == numpy.arange(len(labels))).all():
        found = op.take(Constant(labels), node.emit(place), 0)
    scores = post_transform(node, scores, transform)
    return found, scores if dtype_of(scores) == "float32" else op.astype(scores, "float32")


def with_second_class(
    node: OnnxNode, score: Any, labels: Any, transform: str, is_share: bool
) -> Any:
    """Return labels and both scores of two classes, of which only the second one has a score: a
    share of 1 (``is_share``), or a number whose sign decides.
    """
    dtype = dtype_of(score)
    threshold = scalar(0.5 if is_share else 0.0, dtype)
    place = op.astype(op.greater(score, threshold), "int64")
    found = op.take(Constant(labels), node.emit(op.reshape(place, [-1])), 0)
    if is_share:
        other = op.subtract(scalar(1, dtype), score)
    else:
        other = op.negative(score)
    both = node.emit(op.concat([other, score], -1))
    if transform == "LOGISTIC" and not is_share:
        both = op.sigmoid(both)
    elif transform not in ("NONE", "LOGISTIC"):
        both = post_transform(node, both, transform)
    return found, both if dtype == "float32" else op.astype(both, "float32")


# Features


@converter("ArrayFeatureExtractor", domain=DOMAIN)
def _array_feature_extractor(node: OnnxNode) -> Any:
    x, index = node[0], op.reshape(node[1], [-1])
    x = op.expand_dims(x, 0) if rank_of(x) == 1 else x
    return op.take(x, node.emit(index), rank_of(x) - 1 if rank_of(node[0]) > 1 else 1)


@converter("Binarizer", domain=DOMAIN)
def _binarizer(node: OnnxNode) -> Any:
    x = node[0]
    threshold = scalar(node.attribute("threshold", 0.0), dtype_of(x))
    return op.astype(op.greater(x, threshold), dtype_of(x))


@converter("FeatureVectorizer", domain=DOMAIN)
def _feature_vectorizer(node: OnnxNode) -> Any:
    parts = []
    for index in range(len(node)):
        part = _floats(node, index)
        parts.append(op.expand_dims(part, 1) if rank_of(part) == 1 else part)
    return parts[0] if len(parts) == 1 else op.concat(parts, 1)


@converter("Imputer", domain=DOMAIN)
def _imputer(node: OnnxNode) -> Any:
    x = node[0]
    is_float = dtype_of(x).is_float
    name = "imputed_value_floats" if is_float else "imputed_value_int64s"
    values = vector(node.required(name), dtype_of(x))
    if is_float:
        replaced = float(node.attribute("replaced_value_float", 0.0))
    else:
        replaced = int(node.attribute("replaced_value_int64", 0))
    if is_float and numpy.isnan(replaced):
        missing = op.isnan(x)
    else:
        missing = op.equal(x, scalar(replaced, dtype_of(x)))
    return op.where(missing, values, x)


@converter("Scaler", domain=DOMAIN)
def _scaler(node: OnnxNode) -> Any:
    x = _floats(node)
    offset = vector(node.attribute("offset") or [0.0], "float32")
    scale = vector(node.attribute("scale") or [1.0], "float32")
    return op.multiply(op.subtract(x, offset), scale)


@converter("Normalizer", domain=DOMAIN)
def _normalizer(node: OnnxNode) -> Any:
    x = _floats(node)
    norm = node.choice("norm", "MAX", "MAX", "L1", "L2")
    if norm == "MAX":
        size = op.max(x, [-1], True)
    elif norm == "L1":
        size = op.sum(op.abs(x), [-1], True)
    else:
        size = op.sqrt(op.sum(op.multiply(x, x), [-1], True))
    one, zero = scalar(1, "float32"), scalar(0, "float32")
    size = node.emit(size)
    return op.divide(x, op.where(op.equal(size, zero), one, size))


@converter("OneHotEncoder", domain=DOMAIN)
def _one_hot_encoder(node: OnnxNode) -> Any:
    """Give each category an element; a value that is none of them has only zeros."""
    categories = node.attribute("cats_int64s")
    if not categories:
        raise node.unsupported("categories that are texts", "map them to numbers outside")
    if not node.flag("zeros", True):
        raise node.unsupported("a check that each value is one of the categories (zeros=0)")
    x = node[0]
    x = node.emit(op.expand_dims(x, rank_of(x)))
    found = op.equal(op.astype(x, "int64"), vector(categories))
    return op.astype(found, "float32")


@converter("LabelEncoder", domain=DOMAIN, since=2)
def _label_encoder(node: OnnxNode) -> Any:
    """Replace each key by its value: look it up in the sorted keys."""
    keys, values = _table_of(node, "keys"), _table_of(node, "values")
    if keys is None or values is None or len(keys) != len(values):
        raise node.unsupported("an encoder of texts", "map texts to numbers outside of the model")
    x = node[0]
    kind = dtype_of(x)
    default = _default_of(node, values.dtype)
    _, first = numpy.unique(keys, return_index=True)  # sorted; the first of equal keys counts
    keys, values = keys[first].astype(kind.numpy()), values[first]
    has_nan = kind.is_float and len(keys) > 0 and bool(numpy.isnan(keys[-1]))
    place = op.astype(op.sum(op.astype(_is_below(x, keys, has_nan), "int32"), [-1]), "int64")
    place = node.emit(op.minimum(place, scalar(len(keys) - 1, "int64")))
    hit = op.equal(op.take(Constant(keys), place, 0), x)
    if has_nan:
        hit = op.logical_or(hit, op.isnan(x))
    return op.where(hit, op.take(Constant(values), place, 0), Constant(default))


def _is_below(x: Any, keys: Any, has_nan: bool) -> Any:
    """Return which keys are smaller than each element: NaN counts as the largest number."""
    wide = op.expand_dims(x, rank_of(x))
    found = op.less(Constant(keys), wide)
    if has_nan:
        found = op.logical_or(found, op.logical_and(op.isnan(wide), Constant(~numpy.isnan(keys))))
    return found


def _table_of(node: OnnxNode, word: str) -> Any:
    tensor = node.attribute(f"{word}_tensor")
    if tensor is not None:
        return tensor if tensor.dtype.kind in "biuf" else None
    for name, dtype in ((f"{word}_int64s", "int64"), (f"{word}_floats", "float32")):
        if node.attribute(name):
            return numpy.array(node.attribute(name), dtype)
    return None


def _default_of(node: OnnxNode, dtype: Any) -> Any:
    tensor = node.attribute("default_tensor")
    if tensor is not None:
        return tensor.reshape(()).astype(dtype)
    if dtype.kind == "f":
        return numpy.asarray(node.attribute("default_float", -0.0)).astype(dtype)
    return numpy.asarray(node.attribute("default_int64", -1)).astype(dtype)


@converter("ZipMap", domain=DOMAIN)
def _zip_map(node: OnnxNode) -> Any:
    raise node.unsupported(
        "a sequence of maps",
        "convert the model without it: skl2onnx takes options={'zipmap': False}",
    )


# Linear models


@converter("LinearRegressor", domain=DOMAIN)
def _linear_regressor(node: OnnxNode) -> Any:
    x = _rows(node)
    targets = int(node.attribute("targets", 1))
    weights = numpy.array(node.required("coefficients"), "float32").reshape(targets, -1)
    found = op.matmul(x, Constant(numpy.ascontiguousarray(weights.T)))
    intercepts = node.attribute("intercepts")
    if intercepts:
        found = op.add(found, vector(intercepts, "float32"))
    return post_transform(node, node.emit(found), node.attribute("post_transform", "NONE"))


@converter("LinearClassifier", domain=DOMAIN)
def _linear_classifier(node: OnnxNode) -> Any:
    x, labels = _rows(node), labels_of(node)
    features = shape_of(x)[1]
    if not isinstance(features, int):
        raise node.unsupported("a symbolic number of features")
    weights = numpy.array(node.required("coefficients"), "float32").reshape(-1, features)
    scores = op.matmul(x, Constant(numpy.ascontiguousarray(weights.T)))
    intercepts = node.attribute("intercepts")
    if intercepts:
        scores = op.add(scores, vector(intercepts, "float32"))
    scores, transform = node.emit(scores), str(node.attribute("post_transform", "NONE"))
    if len(weights) == 1 and len(labels) == 2:
        return with_second_class(node, scores, labels, transform, False)
    return labelled(node, scores, labels, transform)


# Vector machines


def _kernel(node: OnnxNode, x: Any, vectors: Any) -> Any:
    """Return the kernel of each row of ``x`` with each support vector."""
    kind = node.choice("kernel_type", "LINEAR", "LINEAR", "POLY", "RBF", "SIGMOID")
    gamma, shift, degree = [*(node.attribute("kernel_params") or []), 0.0, 0.0, 0.0][:3]
    product = node.emit(op.matmul(x, Constant(numpy.ascontiguousarray(vectors.T))))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        own = op.sum(op.multiply(x, x), [1], True)
        other = Constant((vectors**2).sum(1)[None])
        twice = op.multiply(product, scalar(2, "float32"))
        distance = op.subtract(op.add(own, other), twice)
        return op.exp(op.multiply(distance, scalar(-gamma, "float32")))
    inner = op.multiply(product, scalar(gamma, "float32"))
    inner = op.add(inner, scalar(shift, "float32"))
    return op.tanh(inner) if kind == "SIGMOID" else op.power(inner, scalar(degree, "float32"))


@converter("SVMRegressor", domain=DOMAIN)
def _svm_regressor(node: OnnxNode) -> Any:
    x = _rows(node)
    if node.flag("one_class"):
        raise node.unsupported("a machine of one class")
    count = int(node.attribute("n_supports", 0))
    factors = numpy.array(node.required("coefficients"), "float32")
    if count:
        vectors = numpy.array(node.required("support_vectors"), "float32").reshape(count, -1)
        found = op.matmul(node.emit(_kernel(node, x, vectors)), Constant(factors.reshape(-1, 1)))
    else:
        features = static_shape(x, "SVMRegressor")[1]
        found = op.matmul(x, Constant(factors.reshape(-1, features).T.copy()))
    rho = node.attribute("rho") or [0.0]
    found = op.add(found, vector([rho[0]], "float32"))
    return post_transform(node, node.emit(found), node.attribute("post_transform", "NONE"))


@converter("SVMClassifier", domain=DOMAIN)
def _svm_classifier(node: OnnxNode) -> Any:
    """Let each pair of classes vote; the first class with the most votes wins."""
    x, labels = _rows(node), labels_of(node)
    counts = node.attribute("vectors_per_class")
    if not counts:
        raise node.unsupported("a classifier without support vectors")
    if node.attribute("prob_a"):
        raise node.unsupported(
            "probabilities of a vector machine", "train it with probability=False"
        )
    vectors = numpy.array(node.required("support_vectors"), "float32").reshape(sum(counts), -1)
    factors = numpy.array(node.required("coefficients"), "float32").reshape(len(counts) - 1, -1)
    kernel = node.emit(_kernel(node, x, vectors))
    rho = list(node.required("rho"))
    weights, votes = _pairs(counts, factors)
    scores = op.add(op.matmul(kernel, Constant(weights)), vector(rho, "float32"))
    scores = node.emit(scores)
    positive = op.astype(op.greater(scores, scalar(0, "float32")), "float32")
    for_first, for_second = Constant(votes[0]), Constant(votes[1])
    other = op.subtract(scalar(1, "float32"), positive)
    total = op.add(op.matmul(positive, for_first), op.matmul(node.emit(other), for_second))
    place = node.emit(op.argmax(node.emit(total), -1, False))
    if len(labels) == 2:  # one score, negative for the first class
        scores = op.concat([scores, op.negative(scores)], -1)
    transform = node.attribute("post_transform", "NONE")
    return op.take(Constant(labels), place, 0), post_transform(node, node.emit(scores), transform)


def _pairs(counts: list[int], factors: Any) -> tuple[Any, list[Any]]:
    """Return the weights of the support vectors for each pair of classes, and the matrices that
    count the votes for the first and the second one of a pair.
    """
    starts = numpy.concatenate([[0], numpy.cumsum(counts)])
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    weights = numpy.zeros((int(starts[-1]), len(pairs)), "float32")
    votes = [numpy.zeros((len(pairs), len(counts)), "float32") for _ in range(2)]
    for column, (i, j) in enumerate(pairs):
        first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        weights[first, column] = factors[j - 1, first]
        weights[second, column] = factors[i, second]
        votes[0][column, i] = votes[1][column, j] = 1
    return weights, votes
