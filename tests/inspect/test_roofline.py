"""Kernels are compared with what the machine can do at most."""

import numpy as np
import pytest

import tilesmith
from tilesmith import relay, te
from tilesmith.compat import tvm as alias
from tilesmith.inspect.roofline import (
    SaveLoweredTIR,
    registry,
    roofline_analysis,
    roofline_from_existing,
    x86,
)
from tilesmith.inspect.roofline.kernels import counted_bytes, counted_operations, main_dtype
from tilesmith.ir.transform import PassContext
from tilesmith.runtime.profiling import Duration, Report
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target

CPU = tilesmith.cpu()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Measurements of a moment."""
    monkeypatch.setattr(x86, "_DRAM_BYTES", 1 << 20)
    monkeypatch.setattr(x86, "_STEPS", 1 << 8)


def product(rows=8, columns=4, inner=16, dtype="float32"):
    a, b = te.placeholder((rows, inner), dtype, "a"), te.placeholder((inner, columns), dtype, "b")
    k = te.reduce_axis((0, inner), "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")
    return te.create_prim_func([a, b, c])


def test_what_a_kernel_does_is_counted():
    kernel = product(dtype="float16")
    assert counted_operations(kernel) == 2 * 8 * 4 * 16
    assert counted_bytes(kernel) == 2 * (8 * 16 + 16 * 4 + 8 * 4)
    assert main_dtype(kernel) == "float16"
    assert (
        counted_operations(kernel, {"flops": 7}) == 7 and counted_bytes(kernel, {"bytes": 3}) == 3
    )


def test_open_sizes_are_refused():
    n = te.var("n")
    a = te.placeholder((n,), "float32", "a")
    kernel = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)])
    with pytest.raises(UnsupportedError, match="open size"):
        counted_bytes(kernel)


def test_the_machine_is_measured():
    few = x86.estimate_peak_fma_vector_flops("llvm", CPU, None, "float32", 1, 1)
    many = x86.estimate_peak_fma_vector_flops("llvm", CPU, None, "float32", 8, 8)
    assert 1e6 < few < many  # one number at a time waits for the one before
    assert 1e8 < x86.estimate_peak_bandwidth_dram("llvm", CPU, vec_width=8) < 1e13
    with pytest.raises(UnsupportedError, match="this machine"):
        x86.estimate_peak_bandwidth_dram("llvm", CPU, remote=object())


def test_the_target_chooses_who_measures():
    kernel = product()
    with Target("llvm"):
        count, peak, name = registry.estimate_peak_flops(kernel, None, "llvm", CPU, None)
        assert count == 2 * 8 * 4 * 16 and peak > 0 and name == "float32 FMA"
        count, peak, name = registry.estimate_peak_bandwidth(kernel, None, "llvm", CPU)
        assert count == counted_bytes(kernel) and peak > 0 and name == "DRAM"
    with Target("cuda"), pytest.raises(UnsupportedError, match="cuda"):
        registry.estimate_peak_flops(kernel, None, "cuda", CPU, None)


def test_a_report_says_what_bounds_a_kernel(monkeypatch):
    """With limits that are known: 100 operations and 10 bytes per second."""
    monkeypatch.setattr(x86.flops_by_target, "_versions", {"cpu": lambda *a: (0, 100.0, "f")})
    monkeypatch.setattr(x86.bandwidth_by_target, "_versions", {"cpu": lambda *a: (0, 10.0, "b")})
    a = te.placeholder((10,), "float32", "a")
    add = te.create_prim_func([a, te.compute((10,), lambda i: a[i] + 1.0)])
    calls = [
        {"Name": "add", "Duration (us)": Duration(16e6)},  # 80 bytes take at least 8 seconds
        {"Name": "dot_1", "Kernel": "dot", "Duration (us)": Duration(40.96e6)},
        {"Name": "unknown", "Duration (us)": Duration(1.0)},
    ]
    kernels = {"add": add, "dot": product(8, 8, 16).with_attr("estimated_flops", 2048)}
    found = roofline_from_existing(Report(calls), kernels, "llvm", CPU)
    added, dot, unknown = found.calls
    assert added["Bound"] == "memory" and added["Estimated FLOPs"].count == 10
    assert added["Percent of Theoretical Optimal"].ratio == pytest.approx(50)
    assert added["Bandwidth"].ratio == pytest.approx(5) and added["Loaded Bytes"].count == 80
    # 2048 operations take 20.5 seconds, its 1280 bytes 128
    assert dot["Bound"] == "memory" and dot["Arithmetic Intensity"].ratio == pytest.approx(1.6)
    assert "Bound" not in unknown
    assert found.configuration["Estimated Peak FLOP/s (f)"].ratio == 100
    monkeypatch.setattr(x86.bandwidth_by_target, "_versions", {"cpu": lambda *a: (0, 1e6, "b")})
    again = roofline_from_existing(Report(calls), kernels, "llvm", CPU).calls[1]
    assert again["Bound"] == "compute"
    assert again["Percent of Theoretical Optimal"].ratio == pytest.approx(50)


def test_a_program_is_analysed():
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(5, 8))
    function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    report = roofline_analysis(function, {"w": np.ones((5, 8), "float32")}, "llvm", CPU)
    (call,) = [one for one in report.calls if "dense" in one["Kernel"] or "matmul" in one["Kernel"]]
    assert call["Bound"] in ("compute", "memory")
    assert call["Estimated FLOPs"].count >= 2 * 4 * 5 * 8
    assert 0 < call["Percent of Theoretical Optimal"].ratio
    assert "Percent of Theoretical Optimal" in str(report)
    with pytest.raises(UnsupportedError, match="this machine"):
        roofline_analysis(function, None, "llvm", CPU, remote=object())


def test_lowered_kernels_are_kept():
    saved = SaveLoweredTIR()
    with PassContext(instruments=[saved]):
        tilesmith.build(product(), target="llvm")
    (kernel,) = saved.functions.values()
    assert counted_operations(kernel) >= 2 * 8 * 4 * 16
    assert "T.block" not in str(kernel)


def test_users_names():
    alias.install()
    try:
        from tvm import utils
        from tvm.utils.roofline import cuda, profiler_vm

        assert utils.roofline_analysis is roofline_analysis and profiler_vm.enabled()
        with pytest.raises(UnsupportedError, match="GPUs"):
            cuda.estimate_peak_flops(None, None, "cuda", None, None)
    finally:
        alias.uninstall()
