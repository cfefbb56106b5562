"""`tilesmith doctor` lists the devices, and says what a kind without any lacks."""

import pytest

import tilesmith as ts
from tests.runtime.fake_cuda import FakeDriver
from tilesmith.cli.doctor import examine_devices
from tilesmith.runtime.cuda import driver
from tilesmith.testing import requires_c_compiler


@pytest.fixture(autouse=True)
def other_driver():
    driver.unload()
    yield
    driver.unload()


def rows_of(kind):
    return [row for row in examine_devices() if row["device"].startswith(kind)]


@requires_c_compiler
def test_devices(monkeypatch):
    fake = FakeDriver()
    fake.reset()
    monkeypatch.setenv("TILESMITH_CUDA_DRIVER", str(fake.path))
    first, second = rows_of("cuda")
    assert first == {
        "device": "cuda(0)",
        "problem": "",
        "name": "Fake GPU 0",
        "kind": "gpu",
        "compute_version": "9.0",
        "driver_version": "13.0",
        "processors": 132,
        "memory_bytes": 1 << 40,
    }
    assert second["device"] == "cuda(1)"


def test_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESMITH_CUDA_DRIVER", str(tmp_path / "none.so"))
    (row,) = rows_of("cuda")
    assert "none.so" in row["problem"] and "install NVIDIA's driver" in row["problem"]


def test_opencl():
    rows = rows_of("opencl")
    assert rows and bool(rows[0]["problem"]) != ts.opencl(0).exist
