"""Measurements of what the machine can do: sensible numbers, and programs that compute."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.contrib import peak
from tilesmith.inspect.peak import _multiply_kernel, _sum_kernel
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.tir.interpreter import run

HERE = ("llvm", None, None, ts.cpu())


@pytest.mark.parametrize("stride", [1, 4])
def test_the_kernel_adds_up_all_numbers(stride):
    data = np.random.default_rng(0).integers(0, 9, (8 * 3, 2)).astype("int32")
    total = np.zeros((8, 2), "int32")
    run(_sum_kernel(48, 3, stride, "int32", 2), data, total)
    assert total.sum() == data.sum() and (total > 0).all()


def test_the_kernel_multiplies_and_adds():
    given, result = np.full(24, 2, "int32"), np.zeros((3, 24), "int32")
    run(_multiply_kernel(3, 4, "int32", 2, 12), given, result)
    assert (result == ((((2 * 0 + 1) * 1 + 1) * 2 + 1) * 3 + 1)).all()


@pytest.mark.parametrize("stride", [1, 2])
def test_bandwidth(stride):
    assert 0.1 < peak.measure_bandwidth_sum(1 << 18, 64, stride, "float", 32, 8, *HERE, 2) < 1e5


def test_operations():
    assert 0.1 < peak.measure_compute_mad(1 << 12, 1 << 8, "float", 32, 8, *HERE, 2) < 1e5


def test_all_types():
    names = ["float32", "float64", "int32", "int8"]
    for measure in (peak.measure_bandwidth_all_types, peak.measure_compute_all_types):
        found = measure(1 << 16, 1 << 6, 1, *HERE, verbose=False)
        assert [name.partition("x")[0] for name, _ in found] == names
        assert all(speed > 0 for _, speed in found)


def test_other_machines_are_refused():
    with pytest.raises(UnsupportedError, match="another machine"):
        peak.measure_peak_all("llvm", None, "192.168.0.2", 9090)
    with pytest.raises(UnsupportedError, match="only this machine"):
        peak.measure_compute_mad(64, 8, "float", 32, 8, "llvm", None, "session", ts.cpu(), 1)
    with pytest.raises(UnsupportedError, match="CPUs are measured"):
        peak.measure_compute_mad(64, 8, "float", 32, 8, "cuda", None, None, ts.cpu(), 1)
    with pytest.raises(ShapeError, match="a group of threads takes 512"):
        peak.measure_bandwidth_sum(64, 64, 1, "float", 32, 8, *HERE, 1)
