"""General schedules keep the results of programs: compiled for this CPU, interpreted for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.opencl_harness import run_on_opencl
from tests.topi.schedules.programs import PROGRAMS, Program
from tilesmith import te, topi
from tilesmith.target import Target
from tilesmith.tir import interpreter


def made(program: Program) -> tuple[list[Any], list[Any]]:
    """The inputs and the outputs of a program, as tensors."""
    inputs = [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(program.shapes)]
    result = program.build(*inputs)
    return inputs, list(result) if isinstance(result, (list, tuple)) else [result]


def values(program: Program) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.uniform(-1, 1, shape).astype("float32") for shape in program.shapes]


def check(program: Program, inputs: list[np.ndarray], got: list[np.ndarray]) -> None:
    wanted = program.meaning(*inputs)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    for one, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-4)


def places(outputs: list[Any]) -> list[np.ndarray]:
    return [np.full([int(n) for n in out.shape], 7, out.dtype.numpy()) for out in outputs]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_on_this_cpu(program):
    inputs, outputs = made(program)
    schedule = getattr(topi.generic, f"schedule_{program.schedule}", None)
    schedule = schedule or getattr(topi.x86, f"schedule_{program.schedule}")
    with Target("llvm"):
        sch = schedule(outputs)
    function = ts.build(sch, [*inputs, *outputs], "llvm")
    arrays = values(program)
    results = [ts.nd.array(place) for place in places(outputs)]
    function(*[ts.nd.array(one) for one in arrays], *results)
    check(program, arrays, [one.numpy() for one in results])


# The interpreter steps through each thread: tiles of these take seconds.
SLOW = (
    "dense",
    "matmul",
    "matmul_odd",
    "conv2d_nhwc",
    "two_products",
    "vector",
    "broadcast",
    "total",
)
SMALLER = [
    Program(
        "dense",
        "dense",
        lambda a, b, c: topi.nn.relu(topi.nn.dense(a, b, c)),
        lambda a, b, c: np.maximum(a @ b.T + c, 0),
        ((9, 10), (17, 10), (17,)),
    ),
    Program("matmul", "matmul", topi.matmul, np.matmul, ((16, 9), (9, 32))),
]


@pytest.mark.parametrize(
    "program",
    [one for one in PROGRAMS if one.name not in SLOW and one.name != "scan"] + SMALLER,
    ids=lambda program: program.name,
)
def test_on_a_gpu_in_the_interpreter(program):
    inputs, outputs = made(program)
    with Target("cuda"):
        sch = topi.cuda.schedule_injective(outputs)
        function = ts.lower(sch, [*inputs, *outputs])["main"]
    arrays, results = values(program), places(outputs)
    interpreter.run(function, *arrays, *results)
    check(program, arrays, results)
    results = places(outputs)
    if run_on_opencl(sch, *arrays, *results, parameters=[*inputs, *outputs]):
        check(program, arrays, results)


@pytest.mark.parametrize("target", ["opencl", "vulkan", "rocm", "opencl -device=mali"])
@pytest.mark.parametrize(
    "program",
    [one for one in PROGRAMS if one.name in ("softmax_inside", "log_softmax", "argmax", "rows")],
    ids=lambda program: program.name,
)
def test_limits_of_other_gpus(program, target):
    inputs, outputs = made(program)
    with Target(target):
        sch = topi.generic.schedule_reduce(outputs)
        function = ts.lower(sch, [*inputs, *outputs])["main"]
    arrays, results = values(program), places(outputs)
    interpreter.run(function, *arrays, *results)
    check(program, arrays, results)


@pytest.mark.parametrize(
    "program",
    [one for one in PROGRAMS if one.name in ("exp", "rows", "softmax", "matmul", "conv2d", "mean")],
    ids=lambda program: program.name,
)
def test_kernels_compile_for_nvptx(program):
    inputs, outputs = made(program)
    with Target("nvptx"):
        sch = topi.generic.schedule_injective(outputs)
        built = ts.build(sch, [*inputs, *outputs], "nvptx")
    text = built.imported_modules[0].get_source("ptx") if built.imported_modules else ""
    assert ".entry" in text or ".visible .entry" in text


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "int64"])
@pytest.mark.parametrize("transposed", [False, True], ids=["columns", "rows"])
def test_products_of_other_dtypes(dtype, transposed):
    a = te.placeholder((6, 33), dtype, name="a")
    b = te.placeholder((17, 33) if transposed else (33, 17), dtype, name="b")
    c = topi.nn.dense(a, b) if transposed else topi.matmul(a, b)
    sch = topi.generic.schedule_dense([c])
    left, right = (
        np.random.default_rng(k).integers(-3, 4, [int(n) for n in t.shape]).astype(dtype)
        for k, t in enumerate((a, b))
    )
    result = ts.nd.array(np.zeros((6, 17), dtype))
    ts.build(sch, [a, b, c], "llvm")(ts.nd.array(left), ts.nd.array(right), result)
    want = left.astype("float64") @ (right.T if transposed else right)
    np.testing.assert_array_equal(result.numpy(), want.astype("int64").astype(dtype))


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_symbolic_sizes(rows):
    n = te.var("n")
    a = te.placeholder((n, 37), name="a")
    b = te.placeholder((16, 37), name="b")
    c = topi.nn.softmax(topi.nn.dense(a, b))
    function = ts.build(topi.x86.schedule_softmax([c]), [a, b, c], "llvm")
    random = np.random.default_rng(0)
    left, right = (random.uniform(-1, 1, (m, 37)).astype("float32") for m in (rows, 16))
    result = ts.nd.array(np.zeros((rows, 16), "float32"))
    function(ts.nd.array(left), ts.nd.array(right), result)
    products = np.exp(left @ right.T)
    np.testing.assert_allclose(result.numpy(), products / products.sum(1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize("stride", [2, -2, 3])
@pytest.mark.parametrize("count", [2, 7, 16])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_vectors_of_distant_elements(stride, count, dtype):
    """Vectors with a stride of 2 are two rows: they may not read beyond the last element."""
    size = abs(stride) * (count - 1) + 1
    a = te.placeholder((size,), dtype, name="a")
    first = 0 if stride > 0 else size - 1
    b = te.compute((count,), lambda i: a[i * stride + first], name="b")
    sch = te.create_schedule(b.op)
    sch[b].vectorize(b.op.axis[0])
    memory = (np.arange(size) % 100).astype(dtype)
    result = ts.nd.array(np.zeros(count, dtype))
    ts.build(sch, [a, b], "llvm")(ts.nd.array(memory), result)
    np.testing.assert_array_equal(result.numpy(), memory[first::stride][:count])
