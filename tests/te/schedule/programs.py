"""Programs of classic schedules for tests, and how their results are compared."""

import numpy as np

from tests.codegen.opencl_harness import OPENCL, run_on_opencl
from tilesmith import lower, te
from tilesmith.tir.analysis import verify_memory
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.cooperation import launches_threads
from tilesmith.tir.interpreter.options import DEFAULT_OPTIONS

rng = np.random.default_rng(0)


def interpreted(s, args, *inputs, options=DEFAULT_OPTIONS):
    """The last argument after the lowered schedule has run in the interpreter on ``inputs``."""
    result = args[-1]
    shape = [int(size) for size in result.shape]
    found = np.full(shape, 77, str(result.dtype))
    run(lower(s, args, simple_mode=True)["main"], *inputs, found, options=options)
    return found


def check(s, args, wanted, *inputs, rtol=1e-5, options=DEFAULT_OPTIONS):
    """Compare the last argument with what is wanted: in the interpreter, and on an OpenCL device
    where all loops of the program are bound to threads.
    """
    function = lower(s, args, simple_mode=True)["main"]
    found = interpreted(s, args, *inputs, options=options)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-5)
    if launches_threads(function) and verify_memory(function.with_attr("target", OPENCL)):
        got = np.full_like(found, 77)
        if run_on_opencl(s, *inputs, got, parameters=args):
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-5)


def rows(n=9, m=7):
    """A chain of an elementwise stage and a sum of rows, and its result."""
    A = te.placeholder((n, m), name="A")
    D = te.compute((n, m), lambda i, j: A[i, j] * 2.0 + 1.0, name="D")
    k = te.reduce_axis((0, m), name="k")
    C = te.compute((n,), lambda i: te.sum(D[i, k], axis=k), name="C")
    a = rng.random((n, m), dtype="float32")
    return A, D, C, a, (a * 2 + 1).sum(1)


def convolution(n=9):
    """A padded convolution with a window of 3, and its result."""
    A = te.placeholder((n, n), name="A")
    W = te.placeholder((3, 3), name="W")
    P = te.compute(
        (n + 2, n + 2),
        lambda y, x: te.if_then_else(te.all(y >= 1, y <= n, x >= 1, x <= n), A[y - 1, x - 1], 0.0),
        name="P",
    )
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    C = te.compute(
        (n, n), lambda y, x: te.sum(P[y + ry, x + rx] * W[ry, rx], axis=[ry, rx]), name="C"
    )
    a, w = rng.random((n, n), dtype="float32"), rng.random((3, 3), dtype="float32")
    padded = np.pad(a, 1)
    wanted = sum(padded[i : i + n, j : j + n] * w[i, j] for i in range(3) for j in range(3))
    return A, W, P, C, (a, w), wanted
