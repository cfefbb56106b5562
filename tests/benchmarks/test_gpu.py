"""The benchmark of a GPU without one: what it would measure compiles, and measuring works beside
OpenCL; without a device it says so.
"""

import json

import pytest
from click.testing import CliRunner

import tilesmith as ts
from benchmarks import gpu, tables
from tilesmith import topi
from tilesmith.schedule_rules.gpu import first_rule
from tilesmith.target import Target


def test_every_kernel_has_a_schedule():
    target = Target("cuda -arch=sm_90")
    found = gpu.workloads()
    assert len({one.name for one in found}) == len(found) > 15
    for one in found:
        if not isinstance(one.make, gpu.Step):
            tensors = [gpu.te.placeholder(shape, name="x") for shape in one.inputs]
            func = gpu.te.create_prim_func([*tensors, one.make(*tensors)])
            assert first_rule(func, target) is not None, one.name


def test_without_a_device():
    if ts.cuda(0).exist:
        pytest.skip("there is a CUDA device")
    result = CliRunner().invoke(gpu.main, [])
    assert result.exit_code == 0


def test_compile_only(capsys):
    gpu.compile_all([one for one in gpu.workloads() if "2 a + b 8192" in one.name],
                    Target("cuda -arch=sm_80"))  # fmt: skip
    assert "2 a + b" in capsys.readouterr().out


def test_contests_and_their_table(monkeypatch, tmp_path):
    if not ts.opencl(0).exist:
        pytest.skip("no OpenCL device")
    pytest.importorskip("torch")
    monkeypatch.setattr(gpu, "COPIED", 1 << 20)
    monkeypatch.setattr(gpu, "LAUNCHES", 3)
    monkeypatch.setattr(gpu, "compile_seconds", lambda arch: {"NVRTC": 0.5, "cache": 0.01})
    softmax = gpu.Workload(
        "softmax", ((64, 128),), topi.nn.softmax, lambda t, a: t.softmax(a, -1)
    )  # fmt: skip
    records, facts = gpu.run([softmax], Target("opencl"), gpu.Rival("opencl"), 2)
    assert not records["softmax"]["failures"] and records["softmax"]["share"] > 0
    gpu.save("gpu", records, tmp_path / "gpu.json", **facts)
    assert json.loads((tmp_path / "gpu.json").read_text())["settings"]["device"]
    part = tables.page_part(tmp_path)
    assert "### Kernels on a GPU, OpenCL (opencl)" in part
    assert "Kernels that only move data reach" in part and "| softmax |" in part
    assert set(facts["launch_seconds"]) == {"tilesmith", "torch", "tilesmith, native code"}
    assert "compiled in: NVRTC 500 ms; cache 10 ms." in part
