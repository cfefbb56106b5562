"""Measures the peak performance of one core: multiply-adds per second, and bytes per second from
each level of the memory. Speeds of kernels are quoted as shares of these.

The loops are LLVM text for the vectors of this machine, compiled by llvmlite. The best of many
short runs counts: a neighbour on the machine only ever slows a run down.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from llvmlite import binding

from tilesmith.target import Target, llvm_machine, machine_model

KIB = 1024


@contextmanager
def native_function(text: str, name: str, *argument_types: type) -> Iterator[Callable[..., float]]:
    """Yield the function `name` of an LLVM module, callable while the `with` block lasts."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    words = llvm_machine(Target("llvm"))
    machine = binding.Target.from_triple(words.triple).create_target_machine(
        cpu=words.cpu, features=words.features, opt=3
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


def _best_seconds(run: Callable[[], object], budget: float) -> float:
    """Return the shortest of as many runs as fit into `budget` seconds."""
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def peak_flops(budget: float = 0.5) -> float:
    """Return multiplications and additions per second of one core, float32."""
    model = machine_model(Target("llvm"))
    lanes, accumulators, count = model.lanes(32), 12, 20_000
    with native_function(
        fma_loop(lanes, accumulators), "fma", ctypes.c_int64, ctypes.c_float
    ) as fma:
        seconds = _best_seconds(lambda: fma(count, 0.5), budget)
    return 2 * lanes * accumulators * count / seconds


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


def measure() -> dict[str, float]:
    """Return all figures of this machine by name, in GFLOP/s and GB/s of one core."""
    model = machine_model(Target("llvm"))
    sizes = {
        "L1": model.l1_bytes // 2,
        "L2": model.l2_bytes // 2,
        "L3": min(model.l3_bytes // 4, 8 << 20) or 4 << 20,
        "memory": 256 << 20,
    }
    figures = {"float32 GFLOP/s": peak_flops() / 1e9}
    for level, size in sizes.items():
        figures[f"{level} ({size // KIB} KiB) GB/s"] = read_bandwidth(size) / 1e9
    return figures
