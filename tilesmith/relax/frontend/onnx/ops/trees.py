"""Ensembles of decision trees (`ai.onnx.ml`): all trees are walked at once, level by level."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.classical import (
    DOMAIN,
    labelled,
    labels_of,
    post_transform,
    with_second_class,
)
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "MEMBER")
"""How a node compares, by the numbers of TreeEnsemble."""
_LEAF = -1


class _Forest:
    """Trees as vectors with an entry for each node; leaves follow themselves."""

    def __init__(self, count: int, targets: int, dtype: Any) -> None:
        self.mode = numpy.full(count, _LEAF)
        self.feature = numpy.zeros(count, "int64")
        self.split = numpy.zeros(count, DataType(dtype).numpy())
        self.follows = numpy.stack([numpy.arange(count)] * 2)  # if true, if not
        self.takes_missing = numpy.zeros(count, bool)
        self.members: dict[int, Any] = {}
        self.weights = numpy.zeros((count, targets), DataType(dtype).numpy())
        self.is_weighted = numpy.zeros((count, targets), bool)
        self.roots: list[int] = []

    def depth(self) -> int:
        """Return how many steps lead from the roots to the farthest leaf."""
        level, depth = set(self.roots), 0
        while True:
            level = {
                int(follower)
                for node in level
                if self.mode[node] != _LEAF
                for follower in self.follows[:, node]
            }
            if not level:
                return depth
            depth += 1
            if depth > len(self.mode):
                raise OpAttributeInvalid("its trees have a cycle")

    def leaves(self, node: OnnxNode, x: Any) -> Any:
        """Return the leaf that each row of ``x`` reaches in each tree: (rows, trees)."""
        rows = shape_of(x, 2)[0]
        roots = Constant(numpy.array([self.roots], "int64"))
        at = node.emit(op.broadcast_to(roots, [rows, len(self.roots)]))
        for _ in range(self.depth()):
            value = op.gather_elements(x, node.emit(op.take(Constant(self.feature), at, 0)), 1)
            goes = node.emit(self._test(node, node.emit(value), at))
            following = [op.take(Constant(part), at, 0) for part in self.follows.copy()]
            at = node.emit(op.where(goes, *following))
        return at

    def _test(self, node: OnnxNode, value: Any, at: Any) -> Any:
        split = node.emit(op.take(Constant(self.split), at, 0))
        compare = (
            op.less_equal, op.less, op.greater_equal, op.greater, op.equal, op.not_equal,
        )  # fmt: skip
        used = sorted({int(mode) for mode in self.mode if mode != _LEAF})
        mode = node.emit(op.take(Constant(self.mode.astype("int64")), at, 0))
        found: Any = None
        for number in used:
            hit = self._is_member(node, value, at) if number == 6 else compare[number](value, split)
            if found is not None:
                hit = op.where(op.equal(mode, scalar(number, "int64")), hit, found)
            found = node.emit(hit)
        if self.takes_missing.any():
            takes = op.take(Constant(self.takes_missing.astype("int8")), at, 0)
            found = op.logical_or(found, op.logical_and(op.astype(takes, "bool"), op.isnan(value)))
        return found if found is not None else op.zeros_like(at, "bool")

    def _is_member(self, node: OnnxNode, value: Any, at: Any) -> Any:
        """Return whether the value is in the node's set, a row of a table that NaN fills up."""
        width = max([len(values) for values in self.members.values()] or [1])
        table = numpy.full((len(self.mode), width), numpy.nan, self.split.dtype)
        for place, values in self.members.items():
            table[place, : len(values)] = values
        rows = op.take(Constant(table), at, 0)
        hits = op.astype(op.equal(rows, op.expand_dims(value, 2)), "int8")
        return op.astype(op.max(hits, [2]), "bool")

    def total(self, node: OnnxNode, x: Any, how: str) -> Any:
        """Return the combined weights of the leaves: (rows, targets)."""
        at = self.leaves(node, x)
        weights = node.emit(op.take(Constant(self.weights), at, 0))
        if how in ("SUM", "AVERAGE"):
            total = op.sum(weights, [1])
            if how == "SUM":
                return node.emit(total)
            return node.emit(op.divide(total, scalar(len(self.roots), dtype_of(total))))
        lowest = how == "MAX"
        limit = scalar(-numpy.inf if lowest else numpy.inf, dtype_of(weights))
        has = op.astype(op.take(Constant(self.is_weighted.astype("int8")), at, 0), "bool")
        found = (op.max if lowest else op.min)(op.where(has, weights, limit), [1])
        return node.emit(op.where(op.isfinite(found), found, scalar(0, dtype_of(weights))))


# TreeEnsemble (ai.onnx.ml 5)


@converter("TreeEnsemble", domain=DOMAIN, since=5)
def _tree_ensemble(node: OnnxNode) -> Any:
    splits = node.required("nodes_splits")
    leaf_targets = node.required("leaf_targetids")
    inner, targets = len(splits), int(node.required("n_targets"))
    forest = _Forest(inner + len(leaf_targets), targets, str(splits.dtype))
    forest.mode[:inner] = node.required("nodes_modes")
    forest.feature[:inner] = node.required("nodes_featureids")
    forest.split[:inner] = splits
    for side, word in enumerate(("true", "false")):
        places = numpy.array(node.required(f"nodes_{word}nodeids"))
        is_leaf = numpy.array(node.required(f"nodes_{word}leafs"), bool)
        forest.follows[side, :inner] = numpy.where(is_leaf, places + inner, places)
    missing = node.attribute("nodes_missing_value_tracks_true")
    if missing:
        forest.takes_missing[:inner] = missing
    forest.members = _members(node, forest.mode[:inner])
    places = numpy.arange(len(leaf_targets)) + inner
    forest.weights[places, leaf_targets] = node.required("leaf_weights")
    forest.is_weighted[places, leaf_targets] = True
    forest.roots = [int(root) for root in node.required("tree_roots")]
    how = ("AVERAGE", "SUM", "MIN", "MAX")[int(node.attribute("aggregate_function", 1))]
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    scores = forest.total(node, _matrix(node, str(splits.dtype)), how)
    return post_transform(node, scores, names[int(node.attribute("post_transform", 0))])


def _members(node: OnnxNode, modes: Any) -> dict[int, Any]:
    """Return the sets of the nodes that ask for membership: NaN separates them."""
    values = node.attribute("membership_values")
    found: dict[int, Any] = {}
    asking = iter([place for place, mode in enumerate(modes) if mode == 6])
    if values is None:
        return found
    begin = 0
    for end in numpy.nonzero(numpy.isnan(values))[0]:
        found[next(asking)] = values[begin:end]
        begin = end + 1
    return found


def _matrix(node: OnnxNode, dtype: Any) -> Any:
    x = node[0] if rank_of(node[0]) == 2 else op.expand_dims(node[0], 0)
    return node.emit(x if dtype_of(x) == dtype else op.astype(x, dtype))


# Regressors and classifiers (ai.onnx.ml 1 to 4)


def _numbers(node: OnnxNode, name: str, default: Any = None) -> Any:
    """Return an attribute of numbers, or the tensor that it may be instead."""
    found = node.attribute(name + "_as_tensor")
    if found is None:
        found = node.attribute(name)
    return default if found is None else numpy.asarray(found)


def _forest(node: OnnxNode, kind: str, targets: int) -> _Forest:
    """Return the trees of a node; ``kind`` begins the names of the leaves' attributes."""
    ids, trees = node.required("nodes_nodeids"), node.required("nodes_treeids")
    places = {pair: place for place, pair in enumerate(zip(trees, ids))}
    values = _numbers(node, "nodes_values")
    dtype = "float64" if values.dtype == numpy.float64 and dtype_of(node[0]) == "float64" else None
    forest = _Forest(len(ids), targets, dtype or "float32")
    followers = [node.required(f"nodes_{word}nodeids") for word in ("true", "false")]
    missing = node.attribute("nodes_missing_value_tracks_true")
    for place, (mode, tree) in enumerate(zip(node.required("nodes_modes"), trees)):
        if mode == "LEAF":
            continue
        if mode not in _MODES:
            raise OpAttributeInvalid(f"a node of its trees has the mode '{mode}'")
        forest.mode[place] = _MODES.index(mode)
        for side in (0, 1):
            forest.follows[side, place] = places[tree, followers[side][place]]
    forest.feature[:] = node.required("nodes_featureids")
    forest.split[:] = values
    forest.feature[forest.mode == _LEAF] = 0
    if missing:
        forest.takes_missing[:] = missing
    reached = {
        int(place) for side in (0, 1) for place in forest.follows[side][forest.mode != _LEAF]
    }
    forest.roots = [place for place in range(len(ids)) if place not in reached]
    weights = _numbers(node, f"{kind}_weights")
    entries = [node.required(f"{kind}_{word}") for word in ("treeids", "nodeids", "ids")]
    for tree, inner, target, weight in zip(*entries, weights):
        forest.weights[places[tree, inner], target] += weight
        forest.is_weighted[places[tree, inner], target] = True
    return forest


@converter("TreeEnsembleRegressor", domain=DOMAIN)
def _tree_ensemble_regressor(node: OnnxNode) -> Any:
    targets = int(node.required("n_targets"))
    forest = _forest(node, "target", targets)
    how = node.choice("aggregate_function", "SUM", "SUM", "AVERAGE", "MIN", "MAX")
    scores = forest.total(node, _matrix(node, str(forest.split.dtype)), how)
    base = _numbers(node, "base_values")
    if base is not None and len(base):
        scores = op.add(scores, Constant(base.astype(forest.split.dtype)))
    scores = post_transform(node, scores, node.attribute("post_transform", "NONE"))
    return scores if dtype_of(scores) == "float32" else op.astype(scores, "float32")


@converter("TreeEnsembleClassifier", domain=DOMAIN)
def _tree_ensemble_classifier(node: OnnxNode) -> Any:
    labels = labels_of(node)
    ids = node.required("class_ids")
    forest = _forest(node, "class", max(len(labels), max(ids) + 1))
    scores = forest.total(node, _matrix(node, str(forest.split.dtype)), "SUM")
    base = _numbers(node, "base_values")
    if base is not None and len(base) == len(labels):
        scores = op.add(scores, Constant(base.astype(forest.split.dtype)))
    transform = str(node.attribute("post_transform", "NONE"))
    if len(labels) == 2 and len(set(ids)) == 1:
        score = op.strided_slice(node.emit(scores), [1], [ids[0]], [ids[0] + 1])
        if base is not None and len(base) == 1:
            score = op.add(score, Constant(base.astype(forest.split.dtype)))
        is_share = bool((_numbers(node, "class_weights") >= 0).all())
        return with_second_class(node, node.emit(score), labels, transform, is_share)
    return labelled(node, node.emit(scores), labels, transform)
