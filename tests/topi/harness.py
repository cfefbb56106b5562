"""Checks a compute against its meaning in numpy or torch: compiled, and by the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te
from tilesmith.tir import interpreter


class Case(NamedTuple):
    """One operator: how it is built, what it means, on which inputs."""

    name: str
    build: Callable[..., Any]
    meaning: Callable[..., Any]
    inputs: tuple
    rtol: float = 1e-5


def real(*shape, seed=0, low=-2.0, high=2.0):
    """Random float32."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype("float32")


def whole(*shape, seed=0, low=-9, high=9):
    """Random int32."""
    return np.random.default_rng(seed).integers(low, high, shape).astype("int32")


def torch_function(name: str, *args: Any, **kwargs: Any) -> np.ndarray:
    """A function of torch.nn.functional on numpy arrays."""
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    return getattr(torch.nn.functional, name)(*tensors, **kwargs).numpy()


def check(case: Case, index_dtype: str | None = None) -> None:
    """Build a case and compare what it computes with its meaning."""
    tensors = [te.placeholder(x.shape, str(x.dtype), f"x{k}") for k, x in enumerate(case.inputs)]
    made = case.build(*tensors)
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    wanted = case.meaning(*case.inputs)
    wanted = list(wanted) if isinstance(made, (list, tuple)) else [wanted]
    function = te.create_prim_func([*tensors, *results], index_dtype_override=index_dtype)
    for run in (compiled, interpreted) if index_dtype is None else (compiled,):
        got = run(function, case.inputs, results)
        for one, want in zip(got, wanted):
            assert one.shape == np.shape(want)
            np.testing.assert_allclose(
                one.astype("float64"), np.asarray(want, "float64"), rtol=case.rtol, atol=1e-5
            )


def _outputs(results):
    return [np.zeros([int(s) for s in r.shape], r.dtype.numpy()) for r in results]


def compiled(function, inputs, results):
    outputs = [ts.nd.array(x) for x in _outputs(results)]
    ts.build(function, target="llvm")["main"](*[ts.nd.array(x) for x in inputs], *outputs)
    return [out.numpy() for out in outputs]


def interpreted(function, inputs, results):
    outputs = _outputs(results)
    interpreter.run(function, *[x.copy() for x in inputs], *outputs)
    return outputs
