"""Programs that schedules are tried on: how each is built, and what it means in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilesmith import te, tir, topi
from tilesmith.topi import nn
from tilesmith.topi import testing as meaning


class Program(NamedTuple):
    """A program: its schedule's name, how it is built, what it means, its inputs' shapes."""

    name: str
    schedule: str
    build: Callable[..., Any]
    meaning: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


_pair = tir.comm_reducer(
    lambda x, y: (
        tir.Select(x[1] >= y[1], x[0], y[0]),
        tir.Select(x[1] >= y[1], x[1], y[1]),
    ),
    lambda place, value: (tir.const(-1, place), tir.min_value(value)),
    name="argmax",
)


def pairs(data: Any, axis: int) -> Any:
    """Positions and values of the largest elements, as a reduction of pairs."""
    k = te.reduce_axis((0, data.shape[axis]), name="k")

    def element(i: Any) -> Any:
        return _pair((k.var, data(k, i) if axis == 0 else data(i, k)), axis=k)

    return te.compute((data.shape[1 - axis],), element, name="pairs")


def total(data: Any) -> Any:
    """The sum of all elements by one reduction."""
    k = te.reduce_axis((0, data.shape[0]), name="k")
    return te.compute((), lambda: te.sum(data(k), axis=k), name="total")


def running(data: Any) -> Any:
    """Running sums by te.scan, and a stage behind it."""
    m, n = data.shape
    state = te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: data(0, i))
    update = te.compute((m, n), lambda t, i: state(t - 1, i) + data(t, i))
    return topi.multiply(te.scan(first, update, state, inputs=[data]), 2.0)


def doubled(data: Any) -> Any:
    """Twenty sums of a tensor with itself: inlined, it would be a million terms."""
    for _ in range(20):
        data = topi.add(data, data)
    return data


def long_chain(data: Any) -> Any:
    """More elementwise stages than are written into one expression."""
    for _ in range(70):
        data = topi.add(data, 0.5)
    return data


def shared(data: Any) -> Any:
    """An expensive stage that is read twice."""
    e = topi.exp(data)
    return topi.divide(e, topi.add(e, 1.0))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def conv(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 1) -> np.ndarray:
    return meaning.conv2d_nchw_python(x, w, stride, padding)


PROGRAMS = [
    # elementwise: rows of whole vectors, of a vector and a rest, of less than a vector; one element
    Program("exp", "injective", topi.exp, np.exp, ((4, 130),)),
    Program("scalar", "injective", topi.exp, np.exp, ((),)),
    Program(
        "four_axes",
        "injective",
        lambda a: topi.exp(topi.add(a, 1.0)),
        lambda a: np.exp(a + 1),
        ((4, 3, 7, 9),),
    ),
    Program("vector", "injective", lambda a, b: topi.add(a, b), np.add, ((35001,), (35001,))),
    Program("broadcast", "injective", topi.add, np.add, ((64, 530), (530,))),
    Program("transpose", "injective", topi.transpose, np.transpose, ((65, 33),)),
    Program(
        "concatenate",
        "concatenate",
        lambda a, b: topi.concatenate([a, b], 1),
        lambda a, b: np.concatenate([a, b], 1),
        ((5, 3), (5, 7)),
    ),
    Program("doubled", "injective", doubled, lambda a: a * 2.0**20, ((4, 13),)),
    Program("long_chain", "injective", long_chain, lambda a: a + 35, ((4, 13),)),
    Program("shared", "injective", shared, sigmoid, ((40, 33),)),
    # reductions: rows, columns, everything, pairs
    Program("rows", "reduce", lambda a: topi.sum(a, 1), lambda a: a.sum(1), ((33, 130),)),
    Program("columns", "reduce", lambda a: topi.sum(a, 0), lambda a: a.sum(0), ((33, 130),)),
    Program("everything", "reduce", topi.sum, np.sum, ((128, 130),)),
    Program("total", "reduce", total, np.sum, ((20001,),)),
    Program("largest", "reduce", lambda a: topi.max(a, 1), lambda a: a.max(1), ((33, 17),)),
    Program("argmax", "reduce", lambda a: topi.argmax(a, 1), lambda a: a.argmax(1), ((33, 130),)),
    Program(
        "row_pairs", "reduce", lambda a: pairs(a, 1), lambda a: (a.argmax(1), a.max(1)), ((9, 130),)
    ),
    Program(
        "column_pairs",
        "reduce",
        lambda a: pairs(a, 0),
        lambda a: (a.argmax(0), a.max(0)),
        ((130, 9),),
    ),
    Program("mean", "reduce", lambda a: topi.mean(a, 1), lambda a: a.mean(1), ((33, 130),)),
    Program("mean_columns", "reduce", lambda a: topi.mean(a, 0), lambda a: a.mean(0), ((33, 37),)),
    Program("variance", "reduce", lambda a: topi.variance(a, 1), lambda a: a.var(1), ((33, 130),)),
    Program(
        "layer_norm",
        "reduce",
        lambda a, g, b: nn.layer_norm(a, g, b, -1),
        normalized,
        ((12, 130), (130,), (130,)),
    ),
    Program("softmax", "softmax", nn.softmax, softmax, ((33, 130),)),
    Program(
        "softmax_inside",
        "softmax",
        lambda a: nn.softmax(a, 1),
        lambda a: softmax(a, 1),
        ((2, 5, 6, 7),),
    ),
    Program("log_softmax", "softmax", nn.log_softmax, lambda a: np.log(softmax(a)), ((5, 130),)),
    # products
    Program(
        "dense",
        "dense",
        lambda a, b, c: nn.relu(nn.dense(a, b, c)),
        lambda a, b, c: relu(a @ b.T + c),
        ((33, 130), (65, 130), (65,)),
    ),
    Program(
        "two_products",
        "dense",
        lambda a, b, c: topi.add(nn.dense(a, b), nn.dense(a, c)),
        lambda a, b, c: a @ b.T + a @ c.T,
        ((33, 64), (32, 64), (32, 64)),
    ),
    Program(
        "two_outputs",
        "dense",
        lambda a, b: (lambda d: [d, nn.relu(d)])(nn.dense(a, b)),
        lambda a, b: (a @ b.T, relu(a @ b.T)),
        ((9, 64), (32, 64)),
    ),
    Program("matmul", "matmul", topi.matmul, np.matmul, ((64, 32), (32, 64))),
    Program("matmul_odd", "matmul", topi.matmul, np.matmul, ((127, 37), (37, 131))),
    Program(
        "batch_matmul",
        "batch_matmul",
        nn.batch_matmul,
        lambda a, b: a @ b.transpose(0, 2, 1),
        ((3, 31, 48), (3, 16, 48)),
    ),
    Program(
        "attention",
        "softmax",
        lambda q, k: nn.softmax(nn.batch_matmul(q, k)),
        lambda q, k: softmax(q @ k.transpose(0, 2, 1)),
        ((2, 17, 33), (2, 19, 33)),
    ),
    Program(
        "conv2d",
        "conv2d_nchw",
        lambda a, b: nn.relu(nn.conv2d_nchw(a, b, 1, 1, 1)),
        lambda a, b: relu(conv(a, b)),
        ((1, 16, 14, 14), (8, 16, 3, 3)),
    ),
    Program(
        "conv2d_odd",
        "conv2d_nchw",
        lambda a, b: nn.conv2d_nchw(a, b, 2, 1, 1),
        lambda a, b: conv(a, b, 2),
        ((2, 5, 13, 13), (7, 5, 3, 3)),
    ),
    Program(
        "conv2d_point",
        "conv2d_nchw",
        lambda a, b: nn.conv2d_nchw(a, b, 1, 0, 1),
        lambda a, b: conv(a, b, 1, 0),
        ((1, 16, 1, 1), (8, 16, 1, 1)),
    ),
    Program(
        "conv2d_nhwc",
        "conv2d_nhwc",
        lambda a, b: nn.conv2d_nhwc(a, b, 1, 1, 1),
        lambda a, b: meaning.conv2d_nhwc_python(a, b, 1, 1),
        ((1, 9, 9, 16), (3, 3, 16, 32)),
    ),
    Program(
        "depthwise",
        "depthwise_conv2d_nchw",
        lambda a, b: nn.depthwise_conv2d_nchw(a, b, 1, 1, 1),
        lambda a, b: meaning.depthwise_conv2d_python_nchw(a, b, 1, "SAME"),
        ((1, 8, 14, 14), (8, 1, 3, 3)),
    ),
    Program(
        "max_pool",
        "adaptive_pool",
        lambda a: nn.pool2d(a, [2, 2], [2, 2], [1, 1], [0] * 4, "max"),
        lambda a: a.reshape(1, 8, 7, 2, 7, 2).max((3, 5)),
        ((1, 8, 14, 14),),
    ),
    Program(
        "global_pool",
        "adaptive_pool",
        lambda a: nn.global_pool(a, "avg"),
        lambda a: a.mean((2, 3), keepdims=True),
        ((1, 8, 14, 14),),
    ),
    Program(
        "lrn",
        "lrn",
        lambda a: nn.lrn(a, 5, 1, 1e-4, 0.75, 2),
        lambda a: meaning.lrn_python(a, 5, 1, 2, 1e-4, 0.75),
        ((1, 8, 9, 9),),
    ),
    # what is no expression of its indices stays as it is
    Program(
        "sort",
        "sort",
        lambda a: topi.exp(topi.sort(topi.negative(a))),
        lambda a: np.exp(np.sort(-a)),
        ((5, 33),),
    ),
    Program("scan", "injective", running, lambda a: 2 * a.cumsum(0), ((7, 33),)),
]
