"""Measures what one core of this machine can do: its clock, multiply-adds per second and their
latency, bytes per second from each level of the memory, and what a parallel loop costs.

    calibration = calibrate()            # about three seconds
    store(calibration)                   # from then on the machine model has these figures

Speeds of kernels are quoted as shares of these. The loops are LLVM text for the vectors of this
machine. The best of many short runs counts: a neighbour on the machine only ever slows a run down.
`inspect.peak` measures the same through tensor programs, for any dtype and all threads.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilesmith import te
from tilesmith.codegen.llvm.machine_code import initialise, target_machine
from tilesmith.ir import const
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.runtime.devices import Device
from tilesmith.runtime.threads import num_threads
from tilesmith.target import Target, llvm_machine, machine_model
from tilesmith.target.calibration import Calibration, this_cpu
from tilesmith.tir import PrimFunc, ir_builder

__all__ = ["calibrate", "clock", "fork_seconds", "measure", "peak_flops", "read_bandwidth"]

KIB = 1024


@contextmanager
def native_function(text: str, name: str, *argument_types: type) -> Iterator[Callable[..., float]]:
    """Yield the function `name` of an LLVM module, callable while the `with` block lasts."""
    from llvmlite import binding

    initialise()
    words = llvm_machine(Target("llvm"))
    machine = target_machine(
        {"triple": words.triple, "cpu": words.cpu, "features": words.features}, opt_level=3
    )
    module = binding.parse_assembly(text)
    module.triple = words.triple
    image = machine.emit_object(module)
    jit = binding.create_lljit_compiler()
    library = binding.JITLibraryBuilder().add_object_img(image).export_symbol(name).link(jit, name)
    yield ctypes.CFUNCTYPE(ctypes.c_float, *argument_types)(library[name])


def fma_loop(lanes: int, accumulators: int) -> str:
    """Return a loop that does nothing but multiply-adds in registers."""
    vector = f"<{lanes} x float>"
    phis, steps = [], []
    for i in range(accumulators):
        phis.append(f"  %a{i} = phi {vector} [ splat (float 0.0), %entry ], [ %b{i}, %loop ]")
        operands = f"{vector} %x, {vector} %x, {vector} %a{i}"
        steps.append(f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({operands})")
    sums = [f"  %s0 = fadd {vector} %b0, %b1"]
    sums += [f"  %s{i} = fadd {vector} %s{i - 1}, %b{i + 1}" for i in range(1, accumulators - 1)]
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @fma(i64 %count, float %seed) {{
entry:
  %x0 = insertelement {vector} poison, float %seed, i32 0
  %x = shufflevector {vector} %x0, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{chr(10).join(phis)}
{chr(10).join(steps)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  %result = extractelement {vector} %s{accumulators - 2}, i32 0
  ret float %result
}}"""


def read_loop(lanes: int, loads: int) -> str:
    """Return a loop that reads an array `rounds` times, `loads` vectors per step."""
    vector = f"<{lanes} x float>"
    lines = []
    for i in range(loads):
        lines += [
            f"  %p{i} = getelementptr {vector}, ptr %p, i64 {i}",
            f"  %v{i} = load {vector}, ptr %p{i}, align 4",
            f"  %b{i} = fadd {vector} %a{i}, %v{i}",
        ]
    phis = [
        f"  %a{i} = phi {vector} [ splat (float 0.0), %round ], [ %b{i}, %loop ]"
        for i in range(loads)
    ]
    sums = [f"  %s0 = fadd {vector} %b0, %b1"]
    sums += [f"  %s{i} = fadd {vector} %s{i - 1}, %b{i + 1}" for i in range(1, loads - 1)]
    return f"""
define float @read(ptr %data, i64 %floats, i64 %rounds) {{
entry:
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r1, %after ]
  %t = phi float [ 0.0, %entry ], [ %t1, %after ]
  br label %loop
loop:
  %i = phi i64 [ 0, %round ], [ %next, %loop ]
{chr(10).join(phis)}
  %p = getelementptr float, ptr %data, i64 %i
{chr(10).join(lines)}
  %next = add i64 %i, {lanes * loads}
  %more = icmp slt i64 %next, %floats
  br i1 %more, label %loop, label %after
after:
{chr(10).join(sums)}
  %e = extractelement {vector} %s{loads - 2}, i32 0
  %t1 = fadd float %t, %e
  %r1 = add i64 %r, 1
  %again = icmp slt i64 %r1, %rounds
  br i1 %again, label %round, label %done
done:
  ret float %t1
}}"""


def clock_loop(steps: int) -> str:
    """Return a loop of additions that wait for each other: a cycle each."""
    lines, last = [], "%x"
    for i in range(steps):
        lines += [f'  %h{i} = call i64 asm "", "=r,0"(i64 {last})', f"  %y{i} = add i64 %h{i}, %i"]
        last = f"%y{i}"
    return f"""
define float @clock(i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = phi i64 [ 0, %entry ], [ {last}, %loop ]
{chr(10).join(lines)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  %result = sitofp i64 {last} to float
  ret float %result
}}"""


def _best_seconds(run: Callable[[], object], budget: float) -> float:
    """Return the shortest of as many runs as fit into `budget` seconds."""
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def clock(budget: float = 0.2) -> float:
    """Return the cycles per second of one core."""
    steps, count = 64, 2000
    with native_function(clock_loop(steps), "clock", ctypes.c_int64) as run:
        return steps * count / _best_seconds(lambda: run(count), budget)


def _seconds_of_multiply_adds(accumulators: int, budget: float) -> float:
    """Return the seconds of a step, in which each accumulator is added to once."""
    count = 240_000 // accumulators
    text = fma_loop(machine_model(Target("llvm")).lanes(32), accumulators)
    with native_function(text, "fma", ctypes.c_int64, ctypes.c_float) as fma:
        return _best_seconds(lambda: fma(count, 0.5), budget) / count


_MOST_ACCUMULATORS = 12
"""More than the multiplications of all ports take cycles, fewer than there are registers."""


def peak_flops(budget: float = 0.5) -> float:
    """Return multiplications and additions per second of one core, float32."""
    lanes = machine_model(Target("llvm")).lanes(32)
    seconds = _seconds_of_multiply_adds(_MOST_ACCUMULATORS, budget)
    return 2 * lanes * _MOST_ACCUMULATORS / seconds


def read_bandwidth(size: int, budget: float = 0.5) -> float:
    """Return bytes per second that one core reads from an array of `size` bytes, again and
    again.
    """
    lanes, loads = machine_model(Target("llvm")).lanes(32), 8
    step = lanes * loads
    floats = max(step, size // 4 // step * step)
    # Written, because untouched pages are all mapped to the same page.
    array = np.ones(floats + 16, dtype="float32")
    offset = (-array.ctypes.data % 64) // 4
    address = array.ctypes.data + 4 * offset
    rounds = max(1, (4 << 20) // size)
    arguments = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    with native_function(read_loop(lanes, loads), "read", *arguments) as read:
        seconds = _best_seconds(lambda: read(address, floats, rounds), budget)
    return 4 * floats * rounds / seconds


_DEPENDENT_STEPS = 3000


def _loop(threads: int, kind: str) -> PrimFunc:
    """Return a function each of whose iterations keeps a thread busy for some microseconds."""
    given = te.placeholder((threads,), "float32", "given")

    def statement(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        builder = ir_builder.create()
        source, result = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        with builder.for_range(0, threads, "thread", kind=kind) as thread:
            total = builder.allocate("float32", (1,), "total", scope="local")
            total[0] = source[thread]
            with builder.for_range(0, _DEPENDENT_STEPS, "step"):
                total[0] = total[0] * const(0.5, "float32") + const(1, "float32")
            result[thread] = total[0]
        return builder.get()

    made = te.extern((threads,), [given], statement, name="result", dtype="float32")
    return te.create_prim_func([given, made])


def fork_seconds() -> float | None:
    """Return what it costs to start a loop on all threads and to wait for its end, while they are
    awake; None where there is one thread.
    """
    threads = num_threads()
    if threads < 2:
        return None
    best = []
    for count, kind in ((1, "serial"), (threads, "parallel")):
        function = build(_loop(count, kind), target="llvm")
        timed = function.time_evaluator("main", Device("cpu"), number=50, repeat=200)
        arrays = [nd.array(np.zeros(count, "float32")) for _ in range(2)]
        best.append(min(timed(*arrays).results))
    return max(0.0, best[1] - best[0])


def _level_sizes() -> dict[str, int]:
    model = machine_model(Target("llvm"))
    return {
        "L1": model.l1_bytes // 2,
        "L2": model.l2_bytes // 2,
        "L3": min(model.l3_bytes // 4, 8 << 20) or 4 << 20,
        "memory": 256 << 20,
    }


def measure() -> dict[str, float]:
    """Return all figures of this machine by name, in GFLOP/s and GB/s of one core."""
    figures = {"float32 GFLOP/s": peak_flops() / 1e9}
    for level, size in _level_sizes().items():
        figures[f"{level} ({size // KIB} KiB) GB/s"] = read_bandwidth(size) / 1e9
    return figures


def _rounded(value: float) -> float:
    """Return two significant digits: the next calibration shall find the same, and caches hold."""
    return float(f"{value:.2g}")


def calibrate(budget: float = 0.3) -> Calibration:
    """Measure the figures of the machine model, each for about `budget` seconds."""
    model = machine_model(Target("llvm"))
    hertz = clock(budget)
    figures: dict[str, float] = {}
    if model.has_fma:
        step = _seconds_of_multiply_adds(_MOST_ACCUMULATORS, budget)
        figures["fma_per_cycle"] = max(1, round(_MOST_ACCUMULATORS / (step * hertz)))
        latency = _seconds_of_multiply_adds(2, budget) * hertz
        figures["fma_latency"] = max(1, round(latency))
    bandwidths = {level: read_bandwidth(size, budget) / hertz
                  for level, size in _level_sizes().items()}  # fmt: skip
    figures["loads_per_cycle"] = max(1, round(bandwidths["L1"] / model.vector_bytes))
    figures["l2_bandwidth"] = _rounded(bandwidths["L2"])
    if model.l3_bytes:
        figures["l3_bandwidth"] = _rounded(bandwidths["L3"])
    figures["memory_bandwidth"] = _rounded(bandwidths["memory"])
    fork = fork_seconds()
    if fork is not None:
        figures["fork_cycles"] = max(100.0, _rounded(fork * hertz))
    facts = {
        "gigahertz": round(hertz / 1e9, 2),
        "l1_bandwidth": _rounded(bandwidths["L1"]),
        "peak_gflops": round(peak_flops(budget) / 1e9, 1),
        "threads": float(num_threads()),
    }
    when = time.strftime("%Y-%m-%dT%H:%M:%S")
    return Calibration(cpu=this_cpu(), figures=figures, facts=facts, time=when)
