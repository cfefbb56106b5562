"""Programs for devices with threads, each with arguments and the results that numpy gives.

The same programs run on OpenCL devices (PoCL in the suite) and on NVIDIA GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilesmith
from tilesmith import te
from tilesmith.script import tir as T

THREADS = 64


@dataclass
class Program:
    """A program: what to build, and a function that makes arguments and expected results."""

    name: str
    build: Callable[[Any], Any]
    """A target → the built module."""
    case: Callable[[np.random.Generator], tuple[list[Any], dict[int, np.ndarray]]]
    """Arguments (arrays and numbers), and the expected contents of some of them."""
    tolerance: float = 1e-5
    is_for_ptx: bool = True
    """Whether LLVM's PTX has what the program needs."""

    def check(self, module: Any, device: Any, seed: int = 0) -> None:
        """Call the module on a device and compare the results."""
        values, expected = self.case(np.random.default_rng(seed))
        arguments = [
            tilesmith.nd.array(value, device) if isinstance(value, np.ndarray) else value
            for value in values
        ]
        module(*arguments)
        for number, wanted in expected.items():
            np.testing.assert_allclose(
                arguments[number].numpy(), wanted, rtol=self.tolerance, atol=self.tolerance
            )


PROGRAMS: dict[str, Program] = {}


def program(name: str, build: Callable[[Any], Any], **more: Any) -> Callable[[Any], Any]:
    """Register a program, whose case the decorated function makes."""

    def register(case: Any) -> Any:
        PROGRAMS[name] = Program(name, build, case, **more)
        return case

    return register


def bound(function: Any, block: str = "b", threads: int = THREADS) -> Callable[[Any], Any]:
    """Build a function whose block's loops are fused and bound to threads."""

    def build(target: Any) -> Any:
        schedule = tilesmith.tir.Schedule(function)
        loops = schedule.get_loops(schedule.get_block(block))
        outer, inner = schedule.split(schedule.fuse(*loops), [None, threads])
        schedule.bind(outer, "blockIdx.x")
        schedule.bind(inner, "threadIdx.x")
        return tilesmith.build(schedule.mod, target=target)

    return build


# -- one kernel, an odd size


@T.prim_func
def _add(A: T.Buffer((1003,), "float32"), B: T.Buffer((1003,), "float32"),
         C: T.Buffer((1003,), "float32")):  # fmt: skip
    for i in range(1003):
        with T.block("b"):
            v = T.axis.spatial(1003, i)
            C[v] = A[v] + B[v]


@program("add of an odd size", bound(_add))
def _add_case(rng):
    a, b = (rng.standard_normal(1003).astype("float32") for _ in range(2))
    return [a, b, np.zeros_like(a)], {2: a + b}


def build_wide(target: Any) -> Any:
    """Build ``B[i] = A[i] * 2`` for 1024 elements, four at once: memory has to be aligned."""

    @T.prim_func
    def wide(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        for i in range(1024):
            with T.block("b"):
                v = T.axis.spatial(1024, i)
                B[v] = A[v] * T.float32(2)

    schedule = tilesmith.tir.Schedule(wide)
    parts = schedule.split(schedule.get_loops(schedule.get_block("b"))[0], [None, 32, 4])
    for loop, axis in zip(parts, ("blockIdx.x", "threadIdx.x")):
        schedule.bind(loop, axis)
    schedule.vectorize(parts[2])
    return tilesmith.build(schedule.mod, target=target)


# -- symbolic sizes, a scalar, two kernels with a buffer in between


@T.prim_func
def _chain(a: T.handle, c: T.handle, alpha: T.float32):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (n, 16), "float32")
    B = T.alloc_buffer((n, 16), "float32")
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("b"):
                i, j = T.axis.remap("SS", [bx, tx])
                B[i, j] = A[i, j] * alpha
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("c"):
                i, j = T.axis.remap("SS", [bx, tx])
                C[i, j] = B[n - 1 - i, 15 - j] + T.float32(1)


@program("two kernels, symbolic", lambda target: tilesmith.build(_chain, target=target))
def _chain_case(rng):
    a = rng.standard_normal((int(rng.integers(1, 40)), 16)).astype("float32")
    return [a, np.zeros_like(a), 0.5], {1: (a * np.float32(0.5))[::-1, ::-1] + 1}


# -- threads exchange values through global memory, behind a barrier


@T.prim_func
def _exchange(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8, 128), "float32"),
              C: T.Buffer((8, 128), "float32")):  # fmt: skip
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("b"):
                i, j = T.axis.remap("SS", [bx, tx])
                T.where(tx < 1)
                B[i, j] = A[i, j] * T.float32(2)
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("c"):
                i, j = T.axis.remap("SS", [bx, tx])
                C[i, j] = A[i, j] * T.rsqrt(B[i, 0])


@program("exchange in global memory", lambda target: tilesmith.build(_exchange, target=target))
def _exchange_case(rng):
    a = rng.uniform(1, 2, (8, 128)).astype("float32")
    return [a, np.zeros_like(a), np.zeros_like(a)], {2: a / np.sqrt(2 * a[:, :1])}


# -- memory that a function declares before it launches its threads; a block as large as a row


@T.prim_func
def _reversed(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), "float32", scope="shared")
    own = T.alloc_buffer((1,), "float32", scope="local")
    own[0] = A[bx * 32 + tx]
    S[tx] = own[0]
    T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = S[31 - tx]


@program("memory around a launch", lambda target: tilesmith.build(_reversed, target=target))
def _reversed_case(rng):
    a = rng.standard_normal(128).astype("float32")
    return [a, np.zeros_like(a)], {1: a.reshape(4, 32)[:, ::-1].reshape(-1)}


@T.prim_func
def _mirrored(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "float32")
    B = T.match_buffer(b, (4, n), "float32")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(n, thread="threadIdx.x"):
            with T.block("b"):
                i, j = T.axis.remap("SS", [bx, tx])
                B[i, j] = A[i, n - 1 - j]


@program("blocks of a size of the launch", lambda target: tilesmith.build(_mirrored, target=target))
def _mirrored_case(rng):
    a = rng.standard_normal((4, int(rng.integers(1, 60)))).astype("float32")
    return [a, np.zeros_like(a)], {1: a[:, ::-1]}


# -- scalars of several types


@T.prim_func
def _scalars(A: T.Buffer((6,), "float32"), a: T.int8, b: T.uint16, c: T.int64, d: T.float16,
             e: T.float64, f: T.bool):  # fmt: skip
    for tx in T.thread_binding(6, thread="threadIdx.x"):
        with T.block("b"):
            i = T.axis.spatial(6, tx)
            A[i] = T.if_then_else(
                i == 0, T.Cast("float32", a),
                T.if_then_else(
                    i == 1, T.Cast("float32", b),
                    T.if_then_else(
                        i == 2, T.Cast("float32", c),
                        T.if_then_else(
                            i == 3, T.Cast("float32", d),
                            T.if_then_else(i == 4, T.Cast("float32", e),
                                           T.if_then_else(f, T.float32(1), T.float32(0))),
                        ),
                    ),
                ),
            )  # fmt: skip


@program("scalars", lambda target: tilesmith.build(_scalars, target=target))
def _scalars_case(rng):
    wanted = np.array([-5, 65000, 2**40, 0.333251953125, 0.1, 1], "float32")
    return [np.zeros(6, "float32"), -5, 65000, 2**40, 1 / 3, 0.1, True], {0: wanted}


# -- kernels in a loop of the host


@T.prim_func
def _steps(A: T.Buffer((4, 96), "float32"), B: T.Buffer((96,), "float32")):
    for step in T.serial(4):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("b"):
                    s, i = T.axis.reduce(4, step), T.axis.spatial(96, bx * 32 + tx)
                    with T.init():
                        B[i] = T.float32(0)
                    B[i] = B[i] * T.float32(2) + A[s, i]


@program("a host's loop", lambda target: tilesmith.build(_steps, target=target))
def _steps_case(rng):
    a = rng.standard_normal((4, 96)).astype("float32")
    return [a, np.zeros(96, "float32")], {1: ((a[0] * 2 + a[1]) * 2 + a[2]) * 2 + a[3]}


# -- shared memory, static and dynamic, with barriers


def _transpose(scope: str) -> Callable[[Any], Any]:
    def build(target: Any) -> Any:
        n, m = te.var("n"), te.var("m")
        data = te.placeholder((n, m), "float32", "data")
        out = te.compute((m, n), lambda i, j: data[j, i], "out")
        function = te.create_prim_func([data, out])
        schedule = tilesmith.tir.Schedule(function)
        block = schedule.get_block("out")
        i, j = schedule.get_loops(block)
        by, ty = schedule.split(i, [None, 16])
        bx, tx = schedule.split(j, [None, 16])
        schedule.reorder(by, bx, ty, tx)
        copy = schedule.cache_read(block, 0, scope)
        schedule.compute_at(copy, bx)
        rows, columns = schedule.get_loops(copy)[-2:]
        names = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
        for loop, name in zip((by, bx, ty, tx), names):
            schedule.bind(loop, name)
        schedule.bind(rows, "threadIdx.y")
        schedule.bind(columns, "threadIdx.x")
        return tilesmith.build(schedule.mod, target=target)

    return build


def _transpose_case(rng):
    shape = tuple(int(size) for size in rng.integers(1, 70, 2))
    a = rng.standard_normal(shape).astype("float32")
    return [a, np.zeros(shape[::-1], "float32")], {1: a.T}


program("transpose, shared", _transpose("shared"))(_transpose_case)
program("transpose, dynamic shared", _transpose("shared.dyn"))(_transpose_case)


# -- kernels written with launch_thread, whose function allocates the memory of their threads


@T.prim_func
def _reversed_rows(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6, 64), "float32"),
                   C: T.Buffer((6, 64), "float32")):  # fmt: skip
    bx = T.launch_thread("blockIdx.x", 6)
    tx = T.launch_thread("threadIdx.x", 64)
    tile = T.alloc_buffer((64,), scope="shared")
    turn = T.alloc_buffer((1,), "int32", scope="local")
    tile[tx] = A[bx, tx]
    T.tvm_storage_sync("shared")
    B[bx, tx] = tile[63 - tx]
    turn[0] = 0
    while turn[0] < 2:
        C[bx, tx] = B[bx, tx] + T.Cast("float32", turn[0])
        turn[0] = turn[0] + 1


@program(
    "memory of launched threads", lambda target: tilesmith.build(_reversed_rows, target=target)
)
def _reversed_rows_case(rng):
    a = rng.standard_normal((6, 64)).astype("float32")
    return [a, np.zeros_like(a), np.zeros_like(a)], {1: a[:, ::-1], 2: a[:, ::-1] + 1}


# -- reductions across threads


@T.prim_func
def _row_sums(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i, k in T.grid(n, m):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] += A[vi, vk]


def _build_row_sums(target: Any) -> Any:
    schedule = tilesmith.tir.Schedule(_row_sums)
    i, k = schedule.get_loops(schedule.get_block("sum"))
    _, tx = schedule.split(k, [None, 64])
    schedule.bind(i, "blockIdx.x")
    schedule.bind(tx, "threadIdx.x")
    return tilesmith.build(schedule.mod, target=target)


@program("sums across threads", _build_row_sums, tolerance=1e-4)
def _row_sums_case(rng):
    a = rng.standard_normal((7, int(rng.integers(1, 300)))).astype("float32")
    return [a, np.zeros(7, "float32")], {1: a.sum(1)}


# -- classic schedules


def _build_classic(target: Any) -> Any:
    n = te.var("n")
    a, b = te.placeholder((n, 32), "float32", "a"), te.placeholder((32, 24), "float32", "b")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((n, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    d = te.compute((n, 24), lambda i, j: c[i, j] * 2.0 + 1.0, "d")
    schedule = te.create_schedule(d.op)
    i, j = d.op.axis
    block, row = schedule[d].split(i, 4)
    schedule[d].bind(block, te.thread_axis("blockIdx.x"))
    schedule[d].bind(row, te.thread_axis("threadIdx.y"))
    schedule[d].bind(j, te.thread_axis((0, 24), "threadIdx.x"))
    schedule[c].set_scope("local")
    schedule[c].compute_at(schedule[d], j)
    return tilesmith.build(schedule, [a, b, d], target=target, name="main")


@program("a classic schedule", _build_classic, tolerance=1e-4)
def _classic_case(rng):
    n = int(rng.integers(1, 30))
    a = rng.standard_normal((n, 32)).astype("float32")
    b = rng.standard_normal((32, 24)).astype("float32")
    return [a, b, np.zeros((n, 24), "float32")], {2: a @ b * 2 + 1}


def _build_two_stages(target: Any) -> Any:
    """Two root stages: the first result lies in memory of the device between two kernels."""
    n = te.var("n")
    a = te.placeholder((n,), "float32", "a")
    b = te.compute((n,), lambda i: a[i] * 3.0, "b")
    c = te.compute((n,), lambda i: b[n - 1 - i] - 1.0, "c")
    schedule = te.create_schedule(c.op)
    for stage in (b, c):
        block, thread = schedule[stage].split(stage.op.axis[0], 32)
        schedule[stage].bind(block, te.thread_axis("blockIdx.x"))
        schedule[stage].bind(thread, te.thread_axis("threadIdx.x"))
    return tilesmith.build(schedule, [a, c], target=target, name="main")


@program("two classic stages", _build_two_stages)
def _two_stages_case(rng):
    a = rng.standard_normal(int(rng.integers(1, 500))).astype("float32")
    return [a, np.zeros_like(a)], {1: a[::-1] * 3 - 1}


# -- half precision


@T.prim_func
def _half(A: T.Buffer((77,), "float16"), B: T.Buffer((77,), "float16")):
    for i in range(77):
        with T.block("b"):
            v = T.axis.spatial(77, i)
            B[v] = A[v] * T.float16(1.5) + T.float16(0.25)


@program("half precision", bound(_half), tolerance=2e-3)
def _half_case(rng):
    a = rng.standard_normal(77).astype("float16")
    return [a, np.zeros_like(a)], {1: a * np.float16(1.5) + np.float16(0.25)}


# -- what benchmarks and errors need


@T.prim_func
def exchange_between_blocks(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Blocks read what other blocks wrote, behind a barrier of all of them, and write behind
    another one: the kernel is launched so that all blocks run at once."""
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(16, "threadIdx.x"):
            with T.block("all"):
                A[bx * 16 + tx] = A[bx * 16 + tx] + T.float32(1)
                T.tvm_storage_sync("global")
                B[bx * 16 + tx] = A[63 - bx * 16 - tx] + T.float32(1)
                T.tvm_storage_sync("global")
                A[bx * 16 + tx] = A[bx * 16 + tx] + T.float32(1)


@T.prim_func
def _faulty(A: T.Buffer((32,), "float32"), far: T.int64):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("b"):
            i = T.axis.spatial(32, tx)
            A[T.Cast("int64", i) + far] = T.float32(1)


def build_faulty(target: Any) -> Any:
    """Build a function that writes so many elements behind its tensor."""
    return tilesmith.build(_faulty, target=target)


@T.prim_func
def _nothing(A: T.Buffer((1,), "float32")):
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        with T.block("b"):
            i = T.axis.spatial(1, tx)
            A[i] = T.float32(0)


def build_smallest(target: Any) -> Any:
    """Build a function whose kernel does next to nothing: what remains is the launch."""
    return tilesmith.build(_nothing, target=target)
