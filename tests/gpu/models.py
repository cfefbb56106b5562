"""Whole models for devices, each with inputs and the results that numpy gives.

The same models run on OpenCL devices (PoCL in the suite) and on NVIDIA GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilesmith
from tilesmith import relax
from tilesmith.relax import op
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T


@dataclass
class Model:
    """A module, and a function of a generator that gives inputs with the results to expect."""

    module: Callable[[], Any]
    cases: Callable[[np.random.Generator], list[tuple[tuple[Any, ...], list[Any]]]]
    runs_by_steps: bool = False
    tolerance: float = 2e-5
    kinds: tuple[str, ...] = ("opencl", "cuda")

    def check(self, run: Callable[..., Any], device: Any) -> None:
        """Call a function of the model on a device and compare the results, which are there."""
        for inputs, expected in self.cases(np.random.default_rng(7)):
            found = leaves(run(*[there(value, device) for value in inputs]))
            assert len(found) == len(expected)
            for made, wanted in zip(found, expected):
                if isinstance(made, int):
                    assert made == wanted
                    continue
                assert made.device == device
                assert str(made.dtype) == str(wanted.dtype)
                np.testing.assert_allclose(
                    made.numpy(), wanted, rtol=self.tolerance, atol=self.tolerance
                )


def there(value: Any, device: Any) -> Any:
    """Return arrays as tensors on a device."""
    if isinstance(value, tuple) and any(isinstance(one, np.ndarray) for one in value):
        return tuple([there(one, device) for one in value])
    return tilesmith.nd.array(value, device) if isinstance(value, np.ndarray) else value


def leaves(result: Any) -> list[Any]:
    """Return the tensors and numbers of a result in order."""
    if isinstance(result, (tuple, list)):
        return [leaf for one in result for leaf in leaves(one)]
    return [result]


def _param(name: str, shape: tuple[Any, ...], dtype: str = "float32") -> Any:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def _model(params: list[Any], body: Callable[..., Any]) -> Any:
    """Return a module whose `main` computes what `body` emits."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *params))
        builder.emit_func_output(result)
    return builder.get()


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.4).astype("float32")


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


# Layers of products

_W1, _B1, _W2 = _weights(33, 47), _weights(47, seed=1), _weights(47, 19, seed=2)


def _perceptron(rows: Any, dtype: str = "float32") -> Any:
    def body(emit: Any, x: Any) -> Any:
        weights = [relax.const(one.astype(dtype)) for one in (_W1, _B1, _W2)]
        hidden = emit(op.add(emit(op.matmul(x, weights[0])), weights[1]))
        return op.nn.softmax(emit(op.matmul(emit(op.nn.relu(hidden)), weights[2])))

    return _model([_param("x", (rows, 33), dtype)], body)


def _perceptron_cases(*rows: int, dtype: str = "float32") -> Any:
    def cases(random: np.random.Generator) -> Any:
        found = []
        for count in rows:
            x = random.standard_normal((count, 33)).astype(dtype)
            hidden = np.maximum(x.astype("float32") @ _W1 + _B1, 0)
            found.append(((x,), [_softmax(hidden @ _W2).astype(dtype)]))
        return found

    return cases


# Windows

_K1, _K2, _SHIFT = _weights(8, 3, 3, 3), _weights(8, 1, 3, 3, seed=1), _weights(8, seed=2)
_STATISTICS = [_weights(8, seed=number) for number in (3, 4, 5)] + [
    np.linspace(0.5, 2, 8, dtype="f4")
]
_HEAD = _weights(8, 10, seed=6)


def _convolutions() -> Any:
    def body(emit: Any, x: Any) -> Any:
        shift = relax.const(_SHIFT.reshape(1, 8, 1, 1))
        y = emit(op.nn.conv2d(x, relax.const(_K1), padding=1, strides=2))
        y = emit(op.nn.relu(emit(op.add(y, shift))))
        normal = emit(op.nn.batch_norm(y, *[relax.const(one) for one in _STATISTICS], axis=1))
        y = emit(relax.TupleGetItem(normal, 0))
        y = emit(op.nn.max_pool2d(y, (3, 3), strides=(2, 2), padding=(1, 1)))
        y = emit(op.nn.conv2d(y, relax.const(_K2), padding=1, groups=8))
        y = emit(op.reshape(emit(op.nn.adaptive_avg_pool2d(y, (1, 1))), (1, 8)))
        return op.matmul(y, relax.const(_HEAD))

    return _model([_param("x", (1, 3, 29, 31))], body)


def _windows(x: np.ndarray, size: int, step: int, fill: float) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
    return found[:, :, ::step, ::step]


def _convolution_cases(random: np.random.Generator) -> Any:
    x = random.standard_normal((1, 3, 29, 31)).astype("float32")
    y = np.einsum("nchwij,ocij->nohw", _windows(x, 3, 2, 0), _K1)
    y = np.maximum(y + _SHIFT.reshape(1, 8, 1, 1), 0)
    gamma, beta, mean, variance = [one.reshape(1, 8, 1, 1) for one in _STATISTICS]
    y = gamma * (y - mean) / np.sqrt(variance + 1e-5) + beta
    y = _windows(y, 3, 2, -np.inf).max((-2, -1))
    y = np.einsum("nchwij,cij->nchw", _windows(y, 3, 1, 0), _K2[:, 0])
    return [((x,), [(y.mean((2, 3)) @ _HEAD).astype("float32")])]


# A block of a transformer

_TABLE, _SCALE, _BIAS = _weights(50, 24), _weights(24, seed=1), _weights(24, seed=2)
_QKVO = [_weights(24, 24, seed=number) for number in range(3, 7)]


def _attention(tokens: Any) -> Any:
    def body(emit: Any, ids: Any) -> Any:
        x = emit(op.take(relax.const(_TABLE), ids, axis=0))
        h = emit(op.nn.layer_norm(x, relax.const(_SCALE), relax.const(_BIAS), axes=[-1]))
        q, k, v = [emit(op.matmul(h, relax.const(one))) for one in _QKVO[:3]]
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [1, 0]))))
        shares = emit(op.nn.softmax(emit(op.multiply(scores, relax.const(np.float32(24**-0.5))))))
        mixed = emit(op.matmul(emit(op.matmul(shares, v)), relax.const(_QKVO[3])))
        y = emit(op.add(x, mixed))
        return relax.Tuple([y, emit(op.argmax(y, axis=1))])

    return _model([_param("ids", (tokens,), "int64")], body)


def _attention_cases(*counts: int) -> Any:
    def cases(random: np.random.Generator) -> Any:
        found = []
        for count in counts:
            ids = random.integers(0, 50, count)
            x = _TABLE[ids]
            h = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            q, k, v = [(h * _SCALE + _BIAS) @ one for one in _QKVO[:3]]
            y = x + _softmax(q @ k.T * np.float32(24**-0.5)) @ v @ _QKVO[3]
            found.append(((ids,), [y, y.argmax(1)]))
        return found

    return cases


# Inputs and constants as results, tuples, shapes, nothing to compute


@I.ir_module
class _Results:
    @R.function
    def main(
        x: R.Tensor(("n", 3), "float32"),
        pair: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((0, 5), "float32")),
        sizes: R.Shape(["k"]),
    ):
        n, k = T.int64(), T.int64()
        with R.dataflow():
            y = R.add(x, x)
            z = R.broadcast_to(R.sum(x), (k,))
            empty = R.multiply(pair[1], pair[1])
            R.output(y, z, empty)
        return (x, y, (y, R.const([1.0, 2.0], "float32"), pair[0]), z, empty, R.shape([n * 2, k]))


def _result_cases(random: np.random.Generator) -> Any:
    found = []
    for rows in (4, 0):
        x, pair = random.standard_normal((rows, 3)).astype("f4"), np.float32([5, 6])
        inputs = (x, (pair, np.empty((0, 5), "float32")), (3,))
        constant, total = np.float32([1, 2]), np.full(3, x.sum(), "float32")
        expected = [
            x,
            x * 2,
            x * 2,
            constant,
            pair,
            total,
            np.empty((0, 5), "float32"),
            2 * rows,
            3,
        ]
        found.append((inputs, expected))
    return found


# Values that decide what is done next


@I.ir_module
class _Choices:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return _Choices.loop(R.const(0, "int64"), y)

    @R.function(private=True)
    def loop(i: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        go_on = R.less(i, R.const(3, "int64"))
        if go_on:
            r = _Choices.loop(R.add(i, R.const(1, "int64")), R.add(x, R.const(1.0, "float32")))
        else:
            r = x
        return r


def _choice_cases(random: np.random.Generator) -> Any:
    x = random.standard_normal(4).astype("float32")
    return [((np.array(True), x), [x * 2 + 3]), ((np.array(False), x), [x * x + 3])]


@I.ir_module
class _DataDependent:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        places = R.nonzero(x)
        return places, R.sort(x, axis=-1)


def _data_dependent_cases(random: np.random.Generator) -> Any:
    x = random.integers(0, 3, 23).astype("float32")
    return [((x,), [np.stack(np.nonzero(x)), np.sort(x)])]


@tilesmith.register_func("tests.gpu.half", override=True)
def _half(x: Any, out: Any) -> None:
    assert x.device == out.device
    tilesmith.nd.array(x.numpy() / 2).copyto(out)


@I.ir_module
class _Registered:
    @R.function
    def main(x: R.Tensor((6,), "float32")):
        y = R.add(x, x)
        z = R.call_dps_packed("tests.gpu.half", (y,), out_sinfo=R.Tensor((6,), "float32"))
        return R.multiply(z, z)


def _registered_cases(random: np.random.Generator) -> Any:
    x = random.standard_normal(6).astype("float32")
    return [((x,), [x * x])]


# Kernels of the user's


@I.ir_module
class _Kernels:
    @T.prim_func
    def add_one(x: T.Buffer((40,), "float32"), y: T.Buffer((40,), "float32")):
        for b in T.thread_binding(5, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("add"):
                    i = T.axis.spatial(40, b * 8 + t)
                    y[i] = x[i] + T.float32(1)

    @T.prim_func
    def double(x: T.Buffer((40,), "float32")):
        for i in range(40):
            with T.block("double"):
                v = T.axis.spatial(40, i)
                x[v] = x[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((40,), "float32")):
        y = R.call_tir(_Kernels.add_one, (x,), out_sinfo=R.Tensor((40,), "float32"))
        z = R.call_tir_inplace(
            _Kernels.double, (y,), inplace_indices=[0], out_sinfo=R.Tensor((40,), "float32")
        )
        return (y, z)


def _kernel_cases(random: np.random.Generator) -> Any:
    x = random.standard_normal(40).astype("float32")
    return [((x,), [x + 1, (x + 1) * 2])]


def _size() -> Any:
    return tilesmith.tir.Var("n", "int64")


MODELS: dict[str, Model] = {
    "perceptron": Model(lambda: _perceptron(5), _perceptron_cases(5)),
    "perceptron, any batch": Model(lambda: _perceptron(_size()), _perceptron_cases(7, 1, 130)),
    "perceptron, half": Model(
        lambda: _perceptron(5, "float16"),
        _perceptron_cases(5, dtype="float16"),
        tolerance=5e-3,
        kinds=("cuda",),
    ),
    "convolutions": Model(_convolutions, _convolution_cases, tolerance=1e-4),
    "attention, any length": Model(
        lambda: _attention(_size()), _attention_cases(13, 5), tolerance=1e-4
    ),
    "results": Model(lambda: _Results, _result_cases),
    "choices": Model(lambda: _Choices, _choice_cases, runs_by_steps=True),
    "sizes that depend on data": Model(
        lambda: _DataDependent, _data_dependent_cases, runs_by_steps=True
    ),
    "registered functions": Model(lambda: _Registered, _registered_cases, runs_by_steps=True),
    "kernels": Model(lambda: _Kernels, _kernel_cases),
}
