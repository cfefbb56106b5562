"""Measures what this machine's CPU can do at most, with kernels that are compiled for it.

    measure_bandwidth_all_types(1 << 26, 1024, 10, "llvm", None, None, tilesmith.cpu())
    measure_compute_all_types(1 << 20, 4096, 10, "llvm", None, None, tilesmith.cpu())

Bandwidth is that of adding up a tensor, operations those of multiplying and adding in registers. In
both, loops run on all threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith import te, tir
from tilesmith.ir import const
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.runtime.devices import Device
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.target import Target, codegen
from tilesmith.tir import PrimFunc, Schedule, ir_builder

__all__ = [
    "measure_bandwidth_all_types", "measure_bandwidth_sum", "measure_compute_all_types",
    "measure_compute_mad", "measure_peak_all",
]  # fmt: skip

_log = logging.getLogger("tilesmith.peak")

_CHAINS = 12
"""Independent sums of a thread: more than a multiplication takes cycles, fewer than registers."""
_TYPES = (("float", 32), ("float", 64), ("int", 32), ("int", 8))


def _machine(target: Any, target_host: Any, remote: Any, dev: Any) -> tuple[Target, Device]:
    """Return the target and the device of a measurement; UnsupportedError for other machines."""
    found, device = Target(target, target_host), dev if dev is not None else Device("cpu")
    if remote is not None:
        raise UnsupportedError(
            "peak: only this machine is measured", notes=("run it there: remote=None",)
        )
    if found.get_target_device_type() != Device.kDLCPU or device.type != "cpu":
        raise UnsupportedError(f"peak: CPUs are measured, not '{found}' on {device}")
    return found, device


def _dtype(base_type: str, bits: int) -> str:
    return f"{base_type}{bits}"


def _sum_kernel(items: int, per_thread: int, stride: int, dtype: str, lanes: int) -> PrimFunc:
    """Return a function that adds up vectors: each thread takes ``per_thread`` vectors of the
    tensor, ``stride`` apart.
    """
    rows = items // (per_thread * lanes)
    data = te.placeholder((rows * per_thread, lanes), dtype, "data")
    step = te.reduce_axis((0, per_thread), "step")

    def part(row: Any, lane: Any) -> Any:
        begin = row // stride * (stride * per_thread) + row % stride
        return te.sum(data[begin + step * stride, lane], step)

    total = te.compute((rows, lanes), part, "total")
    schedule = Schedule(te.create_prim_func([data, total]))
    block = schedule.get_block("total")
    row, lane, inner = schedule.get_loops(block)
    schedule.reorder(row, inner, lane)
    schedule.parallel(row)
    schedule.vectorize(lane)
    schedule.decompose_reduction(block, inner)
    function: PrimFunc = schedule.mod["main"]
    return function


def measure_bandwidth_sum(
    total_item: int,
    item_per_thread: int,
    stride: int,
    base_type: str,
    bits: int,
    lanes: int,
    target: Any,
    target_host: Any,
    remote: Any,
    dev: Any,
    n_times: int,
) -> float:
    """Return the gigabytes per second at which a tensor of ``total_item`` numbers is added up in
    vectors of ``lanes``, ``item_per_thread`` of them in each thread, ``stride`` vectors apart.
    """
    found, device = _machine(target, target_host, remote, dev)
    part = item_per_thread * lanes * stride
    if total_item < part:
        raise ShapeError(f"peak: {total_item} numbers, a group of threads takes {part}")
    items = total_item // part * part
    dtype = _dtype(base_type, bits)
    function = build(_sum_kernel(items, item_per_thread, stride, dtype, lanes), target=found)
    rows = items // (item_per_thread * lanes)
    data = nd.array(numpy.ones((rows * item_per_thread, lanes), dtype))
    total = nd.array(numpy.zeros((rows, lanes), dtype))
    measure = function.time_evaluator("main", device, number=n_times, repeat=3)
    return items * bits / 8 / min(measure(data, total).results) / 1e9


def _multiply_kernel(
    threads: int, per_thread: int, dtype: str, lanes: int, chains: int
) -> PrimFunc:
    """Return a function in which each thread multiplies and adds to vectors in registers."""
    width = chains * lanes
    given = te.placeholder((width,), dtype, "given")

    def statement(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        builder = ir_builder.create()
        source, result = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        with builder.for_range(0, threads, "thread", kind="parallel") as thread:
            sums = builder.allocate(dtype, (width,), "sums", scope="local")
            with builder.for_range(0, width, "place", kind="vectorize") as place:
                sums[place] = source[place]
            with builder.for_range(0, per_thread, "step") as step:
                factor = tir.Cast(dtype, step)
                with builder.for_range(0, chains, "chain", kind="unroll") as chain:
                    with builder.for_range(0, lanes, "lane", kind="vectorize") as lane:
                        place = chain * lanes + lane
                        sums[place] = sums[place] * factor + const(1, dtype)
            with builder.for_range(0, width, "place", kind="vectorize") as place:
                result[thread, place] = sums[place]
        return builder.get()

    made = te.extern((threads, width), [given], statement, name="result", dtype=dtype)
    return te.create_prim_func([given, made])


def measure_compute_mad(
    total_item: int,
    item_per_thread: int,
    base_type: str,
    bits: int,
    lanes: int,
    target: Any,
    target_host: Any,
    remote: Any,
    dev: Any,
    n_times: int,
    chains: int = _CHAINS,
) -> float:
    """Return the thousand millions of operations per second of multiplying and adding: each thread
    keeps ``chains`` vectors of ``lanes`` numbers and does ``item_per_thread`` steps, ``total_item``
    in all.
    """
    found, device = _machine(target, target_host, remote, dev)
    dtype = _dtype(base_type, bits)
    threads = max(1, total_item // item_per_thread)
    function = build(_multiply_kernel(threads, item_per_thread, dtype, lanes, chains), target=found)
    width = chains * lanes
    given = nd.array(numpy.ones(width, dtype))
    result = nd.array(numpy.zeros((threads, width), dtype))
    measure = function.time_evaluator("main", device, number=n_times, repeat=3)
    seconds = min(measure(given, result).results)
    return 2 * threads * item_per_thread * width / seconds / 1e9


def _vector_lanes(target: Any, bits: int) -> int:
    return max(1, codegen.llvm_get_vector_width(Target(target)) // bits)


def measure_bandwidth_all_types(
    total_item: int,
    item_per_thread: int,
    n_times: int,
    target: Any,
    target_host: Any,
    remote: Any,
    dev: Any,
    verbose: bool = True,
) -> list[tuple[str, float]]:
    """Return the gigabytes per second for each dtype, named with its lanes ("float32x16")."""
    found = []
    for base_type, bits in _TYPES:
        lanes = _vector_lanes(target, bits)
        speed = max(
            measure_bandwidth_sum(
                total_item, item_per_thread, stride, base_type, bits, lanes, target, target_host,
                remote, dev, n_times,
            )
            for stride in (1, 4)
        )  # fmt: skip
        found.append((f"{_dtype(base_type, bits)}x{lanes}", speed))
        if verbose:
            _log.info("%s: %.1f GB/s", *found[-1])
    return found


def measure_compute_all_types(
    total_item: int,
    item_per_thread: int,
    n_times: int,
    target: Any,
    target_host: Any,
    remote: Any,
    dev: Any,
    verbose: bool = True,
) -> list[tuple[str, float]]:
    """Return the thousand millions of operations per second for each dtype, named with its
    lanes.
    """
    found = []
    for base_type, bits in _TYPES:
        lanes = _vector_lanes(target, bits)
        speed = measure_compute_mad(
            total_item, item_per_thread, base_type, bits, lanes, target, target_host, remote, dev,
            n_times,
        )  # fmt: skip
        found.append((f"{_dtype(base_type, bits)}x{lanes}", speed))
        if verbose:
            _log.info("%s: %.1f GOP/s", *found[-1])
    return found


def measure_peak_all(
    target: Any, target_host: Any = None, host: str | None = None, port: int | None = None
) -> dict[str, list[tuple[str, float]]]:
    """Return bandwidth and operations per second of this machine for all dtypes; ``host`` may name
    no other machine.
    """
    if host not in (None, "localhost", "127.0.0.1"):
        raise UnsupportedError(
            f"peak: '{host}' is another machine", notes=("run it there, without a host",)
        )
    rest = (target, target_host, None, Device("cpu"))
    return {
        "bandwidth": measure_bandwidth_all_types(1 << 25, 1 << 10, 5, *rest),
        "compute": measure_compute_all_types(1 << 22, 1 << 14, 5, *rest),
    }
