"""Programs as users of classic schedules and of the IR builder write them for GPUs: tiles and
virtual threads, reductions with rfactor, scans, kernels statement by statement, topi.cuda.

They run wherever those of `programs` do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilesmith
from tests.gpu.programs import Program
from tilesmith import te, tir, topi

CLASSIC: dict[str, Program] = {}


def program(name: str, build: Callable[[Any], Any], **more: Any) -> Callable[[Any], Any]:
    """Register a program, whose case the decorated function makes."""

    def register(case: Any) -> Any:
        CLASSIC[name] = Program(name, build, case, **more)
        return case

    return register


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random float32."""
    return rng.standard_normal(shape).astype("float32")


# -- a product: tiles in shared memory, registers, virtual threads, double buffers


def _build_product(target: Any) -> Any:
    size, threads, tile = 128, 8, 64
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), "c")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(one, "shared", [c]) for one in (a, b)]
    local = [s.cache_read(one, "local", [c]) for one in shared]
    sums = s.cache_write(c, "local")
    tx, ty = (te.thread_axis((0, threads), f"threadIdx.{axis}") for axis in "xy")
    inside = []
    for axis, block, column, virtual in zip(c.op.axis, "yx", (ty, tx), ("vy", "vx")):
        outer, inner = s[c].split(axis, factor=tile)
        s[c].bind(outer, te.thread_axis(f"blockIdx.{block}"))
        many, inner = s[c].split(inner, nparts=2)
        s[c].bind(many, te.thread_axis((0, 2), "vthread", name=virtual))
        one, inner = s[c].split(inner, nparts=threads)
        s[c].bind(one, column)
        inside.append((outer, many, one, inner))
    s[c].reorder(*[axis for part in zip(*inside) for axis in part])
    s[sums].compute_at(s[c], inside[1][2])
    outer, inner = s[sums].split(sums.op.reduce_axis[0], factor=8)
    s[sums].reorder(outer, inner, *sums.op.axis)
    for tensor, own in zip(shared, local):
        s[tensor].compute_at(s[sums], outer)
        s[own].compute_at(s[sums], inner)
        row, _ = s[tensor].split(tensor.op.axis[0], nparts=threads)
        column, lanes = s[tensor].split(tensor.op.axis[1], nparts=threads)
        s[tensor].bind(row, ty)
        s[tensor].bind(column, tx)
        s[tensor].vectorize(lanes)  # 32 bytes, which are two accesses of CUDA
        s[tensor].double_buffer()
    s[shared[1]].storage_align(shared[1].op.axis[0], 32, 8)
    return tilesmith.build(s, [a, b, c], target=target)


@program("a product by tiles", _build_product, tolerance=1e-3)
def _product_case(rng):
    a, b = floats(rng, 128, 128), floats(rng, 128, 128)
    return [a, b, np.zeros_like(a)], {2: a.T @ b}


# -- reductions by threads: blocks of 512, two values at once, half precision


def _build_wide_sums(target: Any) -> Any:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), "b")
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, s[b].split(b.op.reduce_axis[0], factor=16)[1])
    block, row = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    return tilesmith.build(s, [a, b], target=target)


@program("sums of 512 threads", _build_wide_sums, tolerance=1e-4)
def _wide_sums_case(rng):
    a = floats(rng, int(rng.integers(1, 80)), int(rng.integers(1, 200)))
    return [a, np.zeros(len(a), "float32")], {1: a.sum(1)}


def _build_argmax(target: Any) -> Any:
    def larger(x: Any, y: Any) -> tuple[Any, Any]:
        return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(larger, lambda i, v: (tir.const(-1, i), te.min_value(v)), "argmax")
    m, n = te.var("m"), te.var("n")
    index = te.placeholder((m, n), "int32", "index")
    value = te.placeholder((m, n), "float32", "value")
    k = te.reduce_axis((0, n), "k")
    first, second = te.compute((m,), lambda i: argmax((index[i, k], value[i, k]), axis=k), "out")
    s = te.create_schedule(first.op)
    parts = s.rfactor(first, s[first].split(s[first].op.reduce_axis[0], factor=32)[1])
    tx = te.thread_axis("threadIdx.x")
    s[first].bind(s[first].op.axis[0], te.thread_axis("blockIdx.x"))
    s[first].bind(s[first].op.reduce_axis[0], tx)
    s[parts[0]].compute_at(s[first], s[first].op.reduce_axis[0])
    s[first].set_store_predicate(tx.var.equal(0))
    return tilesmith.build(s, [index, value, first, second], target=target)


@program("the place of the largest", _build_argmax)
def _argmax_case(rng):
    value = floats(rng, 9, int(rng.integers(1, 120)))
    index = np.tile(np.arange(value.shape[1], dtype="int32"), (9, 1))
    results = [np.zeros(9, "int32"), np.zeros(9, "float32")]
    return [index, value, *results], {2: value.argmax(1), 3: value.max(1)}


def _build_half_maximum(target: Any) -> Any:
    a = te.placeholder((8, 100), "float16", "a")
    k = te.reduce_axis((0, 100), "k")
    b = te.compute((8,), lambda i: te.max(a[i, k], axis=k), "b")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].split(b.op.reduce_axis[0], 32)[1], te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    return tilesmith.build(s, [a, b], target=target)


@program("a maximum of halves", _build_half_maximum)
def _half_maximum_case(rng):
    a = floats(rng, 8, 100).astype("float16")
    return [a, np.zeros(8, "float16")], {1: a.max(1)}


# -- scans: each step a kernel, and all steps in one kernel


def _build_running_sum(target: Any) -> Any:
    m, n = te.var("m"), te.var("n")
    x, state = te.placeholder((m, n), name="x"), te.placeholder((m, n))
    first = te.compute((1, n), lambda _, i: x[0, i])
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    result = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(result.op)
    for one in (first, step):
        block, inner = s[one].split(one.op.axis[1], factor=64)
        s[one].bind(block, te.thread_axis("blockIdx.x"))
        s[one].bind(inner, te.thread_axis("threadIdx.x"))
    return tilesmith.build(s, [x, result], target=target)


@program("a running sum", _build_running_sum, tolerance=1e-4)
def _running_sum_case(rng):
    x = floats(rng, int(rng.integers(1, 12)), int(rng.integers(1, 150)))
    return [x, np.zeros_like(x)], {1: x.cumsum(0)}


def _build_recurrent(target: Any) -> Any:
    steps, batch, hidden = 4, 8, 32
    x, w = te.placeholder((steps, batch, hidden), name="x"), te.placeholder((hidden, hidden))
    state = te.placeholder((steps, batch, hidden))
    k = te.reduce_axis((0, hidden), "k")
    first = te.compute((1, batch, hidden), lambda _, i, j: x[0, i, j])
    product = te.compute(
        (steps, batch, hidden), lambda t, i, j: te.sum(state[t - 1, i, k] * w[k, j], axis=k)
    )
    step = te.compute(
        (steps, batch, hidden), lambda t, i, j: te.tanh(product[t, i, j] + x[t, i, j])
    )
    result = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(result.op)
    threads = [te.thread_axis((0, batch), "blockIdx.x"), te.thread_axis((0, hidden), "threadIdx.x")]
    s[result].env_threads(threads)
    for one in (first, step):
        for axis, bound in zip(one.op.axis[1:], threads):
            s[one].bind(axis, bound)
    s[product].set_scope("local")
    s[product].compute_at(s[step], step.op.axis[2])
    return tilesmith.build(s, [x, w, result], target=target)


@program("a recurrent layer in one kernel", _build_recurrent)
def _recurrent_case(rng):
    x, w = floats(rng, 4, 8, 32), floats(rng, 32, 32) * np.float32(0.1)
    states = [x[0]]
    for one in x[1:]:
        states.append(np.tanh(states[-1] @ w + one))
    return [x, w, np.zeros_like(x)], {2: np.stack(states)}


# -- kernels by the IR builder


def built(size: int, dtype: str, write: Callable[..., None], count: int = 0) -> Any:
    """Build a function of one tensor, whose kernel ``write(builder, a, b, thread)`` writes for 64
    threads; ``count`` is the size of the result, by default the same."""

    def build(target: Any) -> Any:
        a = te.placeholder((size,), dtype, "a")

        def body(ins: Any, outs: Any) -> Any:
            builder = tir.ir_builder.create()
            tx = te.thread_axis("threadIdx.x")
            builder.scope_attr(tx, "thread_extent", 64)
            write(builder, builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0]), tx.var)
            return builder.get()

        b = te.extern((count or size,), [a], body, "b", dtype)
        return tilesmith.build(te.create_schedule(b.op), [a, b], target=target)

    return build


def _barrier(builder: Any) -> None:
    builder.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))


def _write_histogram(builder: Any, a: Any, b: Any, thread: Any) -> None:
    before = builder.allocate("int32", (1,), name="before", scope="local")
    with builder.if_scope(thread < 16):
        b[thread] = 0
    _barrier(builder)
    with builder.for_range(0, 16) as step:
        with builder.if_scope(step * 64 + thread < 1000):
            place = tir.call_intrin("handle", "tir.address_of", b[a[step * 64 + thread]])
            before[0] = tir.call_intrin("int32", "tir.atomic_add", place, 1)


@program("a histogram", built(1000, "int32", _write_histogram, 16))
def _histogram_case(rng):
    a = rng.integers(0, 16, 1000).astype("int32")
    return [a, np.zeros(16, "int32")], {1: np.bincount(a, minlength=16)}


def _write_prefix_sums(builder: Any, a: Any, b: Any, thread: Any) -> None:
    shared = builder.allocate("int32", (64,), name="shared", scope="shared")
    before = builder.allocate("int32", (1,), name="before", scope="local")
    shared[thread] = a[thread]
    with builder.for_range(0, 6) as step:
        distance = tir.const(1, "int32") << step
        _barrier(builder)
        before[0] = tir.if_then_else(thread >= distance, shared[tir.max(thread - distance, 0)], 0)
        _barrier(builder)
        shared[thread] += before[0]
    b[thread] = shared[thread]


@program("prefix sums", built(64, "int32", _write_prefix_sums))
def _prefix_sums_case(rng):
    a = rng.integers(-9, 9, 64).astype("int32")
    return [a, np.zeros_like(a)], {1: a.cumsum()}


def _write_lengths(builder: Any, a: Any, b: Any, thread: Any) -> None:
    rest = builder.allocate("int32", (2,), name="rest", scope="local")
    rest[0] = a[thread]
    rest[1] = 0
    with builder.while_loop(rest[0] > 0):
        rest[0] = rest[0] // 2
        rest[1] += 1
    b[thread] = builder.let("twice", rest[1] * 2)


@program("a loop until something holds", built(64, "int32", _write_lengths))
def _lengths_case(rng):
    a = rng.integers(0, 500, 64).astype("int32")
    return [a, np.zeros_like(a)], {1: [2 * int(x).bit_length() for x in a]}


# -- operators of topi.cuda with their schedules


def operators(shapes: Any, compute: Callable[..., Any], schedule: str) -> Callable[[Any], Any]:
    """Build an operator of topi.cuda on float32 of some shapes, with a schedule of topi.cuda."""

    def build(target: Any) -> Any:
        inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        with tilesmith.target.Target(target):
            out = compute(*inputs)
            s = getattr(topi.cuda, schedule)([out])
        return tilesmith.build(s, [*inputs, out], target=target)

    return build


_ROWS = ((5, 77),)
_sort = operators(_ROWS, lambda x: topi.cuda.sort(x, axis=1, is_ascend=1), "schedule_sort")
_scan = operators(_ROWS, lambda x: topi.cuda.cumsum(x, axis=1), "schedule_scan")
_topk = operators(_ROWS, lambda x: topi.cuda.topk(x, 5, ret_type="values"), "schedule_topk")
_one_row = operators(((77,),), lambda x: topi.cuda.sort(x, axis=0, is_ascend=1), "schedule_sort")
_softmax = operators(_ROWS, topi.nn.softmax, "schedule_softmax")


@program("topi.cuda.sort", _sort)
def _sort_case(rng):
    x = floats(rng, 5, 77)
    return [x, np.zeros_like(x)], {1: np.sort(x, 1)}


@program("topi.cuda.sort of one row", _one_row)
def _one_row_case(rng):
    x = floats(rng, 77)
    return [x, np.zeros_like(x)], {1: np.sort(x)}


@program("topi.cuda.cumsum", _scan, tolerance=1e-4)
def _scan_case(rng):
    x = floats(rng, 5, 77)
    return [x, np.zeros_like(x)], {1: x.cumsum(1)}


@program("topi.cuda.topk", _topk)
def _topk_case(rng):
    x = floats(rng, 5, 77)
    return [x, np.zeros((5, 5), "float32")], {1: -np.sort(-x, 1)[:, :5]}


@program("topi.cuda's softmax", _softmax)
def _softmax_case(rng):
    x = floats(rng, 5, 77)
    exponentials = np.exp(x - x.max(1, keepdims=True))
    return [x, np.zeros_like(x)], {1: exponentials / exponentials.sum(1, keepdims=True)}
