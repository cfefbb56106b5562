"""What a CPU can do at most: multiplying and adding in registers, reading from memory."""

from __future__ import annotations

import os
from typing import Any

import numpy

from tilesmith.inspect.peak import measure_compute_mad
from tilesmith.inspect.roofline.bandwidth import peak_bandwidth_tir
from tilesmith.inspect.roofline.kernels import counted_bytes, counted_operations, main_dtype
from tilesmith.inspect.roofline.registry import estimate_peak_bandwidth as bandwidth_by_target
from tilesmith.inspect.roofline.registry import estimate_peak_flops as flops_by_target
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.runtime.devices import Device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.threads import num_threads
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target, codegen

__all__ = [
    "estimate_peak_bandwidth", "estimate_peak_bandwidth_dram", "estimate_peak_fma_flops",
    "estimate_peak_fma_vector_flops", "peak_bandwidth_tir",
]  # fmt: skip

_DRAM_BYTES = 1 << 28
"""Read by a measurement of memory: more than caches hold."""
_STEPS = 1 << 14
"""Multiplications and additions of a thread, in each of its registers."""
_REGISTERS = 12
_ROWS = 4


def _here(target: Any, remote: Any) -> Target:
    if remote is not None:
        raise UnsupportedError(
            "roofline: only this machine is measured", notes=("run it there: remote=None",)
        )
    return Target(target)


def _lanes(target: Target, bits: int, width: int | None) -> int:
    return width or max(1, codegen.llvm_get_vector_width(target) // bits)


def estimate_peak_fma_vector_flops(
    target: Any,
    dev: Any,
    remote: Any,
    dtype: Any,
    vec_width: int | None = None,
    num_vector_registers: int | None = None,
) -> float:
    """Return the operations per second of multiplying and adding numbers of a dtype, in vectors of
    ``vec_width`` and as many registers as are given, on all threads.
    """
    chosen, kind = _here(target, remote), DataType(dtype)
    base, bits = ("float" if kind.is_float else "int"), kind.bits
    if bits < 8 or kind.lanes != 1:
        raise UnsupportedError(
            f"there is no peak of multiplying and adding numbers of the dtype '{kind}'",
            notes=("give a float or an integer of at least 8 bits",),
        )
    total = num_threads() * _STEPS
    lanes, registers = _lanes(chosen, bits, vec_width), num_vector_registers or _REGISTERS
    speed = measure_compute_mad(
        total, _STEPS, base, bits, lanes, chosen, None, None, dev or Device("cpu"), 5, registers
    )
    return speed * 1e9


def estimate_peak_fma_flops(
    func: Any,
    features: Any,
    target: Any,
    dev: Any,
    remote: Any = None,
    vec_width: int | None = None,
    num_vector_registers: int | None = None,
) -> tuple[float, float, str]:
    """Return the operations of a kernel, those that the CPU does in a second at most with numbers
    of the kernel's dtype, and the name of that limit. ``features`` may give "flops".
    """
    dtype = main_dtype(func)
    peak = estimate_peak_fma_vector_flops(
        target, dev, remote, dtype, vec_width, num_vector_registers
    )
    return counted_operations(func, features), peak, f"{dtype} FMA"


flops_by_target.register(estimate_peak_fma_flops, "cpu")


def estimate_peak_bandwidth_dram(
    target: Any, dev: Any, remote: Any = None, vec_width: int | None = None
) -> float:
    """Return the bytes per second that all threads together read from memory."""
    chosen = _here(target, remote)
    lanes, threads = _lanes(chosen, 32, vec_width), os.cpu_count() or 1
    _, _, threads_param, width_param = peak_bandwidth_tir.params
    sizes = {threads_param: threads, width_param: lanes}
    kernel = peak_bandwidth_tir.specialize(sizes).with_attr("global_symbol", "peak")
    count = max(1, _DRAM_BYTES // (4 * threads * _ROWS * lanes))
    data = nd.array(numpy.ones((threads, count, _ROWS, lanes), "float32"))
    sums = nd.array(numpy.zeros((threads, _ROWS, lanes), "float32"))
    measure = build(kernel, target=chosen).time_evaluator(
        "peak", dev or Device("cpu"), number=1, repeat=5
    )
    return float(threads * count * _ROWS * lanes * 4 / min(measure(data, sums).results))


def estimate_peak_bandwidth(
    func: Any,
    features: Any,
    target: Any,
    dev: Any,
    remote: Any = None,
    vec_width: int | None = None,
) -> tuple[float, float, str]:
    """Return the bytes that a kernel reads and writes at least, those that memory gives in a second
    at most, and the name of that limit. ``features`` may give "bytes".
    """
    peak = estimate_peak_bandwidth_dram(target, dev, remote, vec_width)
    return counted_bytes(func, features), peak, "DRAM"


bandwidth_by_target.register(estimate_peak_bandwidth, "cpu")
