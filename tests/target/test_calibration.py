"""Figures of the machine model from a calibration, from the CPU's name, and from the target."""

import dataclasses
import json

import pytest

from tilesmith.support.errors import ConfigError, TargetError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs
from tilesmith.target import Target, machine_model, target_identity
from tilesmith.target.calibration import (
    Calibration,
    calibration,
    calibration_file,
    forget,
    store,
    this_cpu,
)
from tilesmith.target.machine import sources

HERE = Target("llvm")


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """Let each test begin without a calibration."""
    forget()
    with knobs.override(cache=True, cache_dir=tmp_path / "caches"):
        yield tmp_path / "caches"
    forget()


def found(**figures):
    return Calibration(this_cpu(), figures, {"gigahertz": 3.5}, "2026-01-02T03:04:05")


def test_a_calibration_is_kept_and_used():
    before, identity = machine_model(HERE), target_identity(HERE)
    path = store(found(l2_bandwidth=77.0, fma_latency=9, of_the_future=1.0))
    assert path == calibration_file() and calibration() == found(
        l2_bandwidth=77.0, fma_latency=9, of_the_future=1.0
    )
    model = machine_model(HERE)
    assert model == dataclasses.replace(before, l2_bandwidth=77.0, fma_latency=9)
    assert isinstance(model.fma_latency, int)
    assert sources(HERE)["l2_bandwidth"] == "calibrated" and sources(HERE)["cores"] == "system"
    assert sources(HERE)["l1_ways"] == sources(HERE)["l1_bytes"]  # the one follows from the other
    assert target_identity(HERE) != identity
    other = Target("llvm -mcpu=haswell")  # another machine, even if this is one
    assert machine_model(other).l2_bandwidth != 77.0
    store(found(l2_bandwidth=78.0))  # replaces the first
    assert machine_model(HERE) == dataclasses.replace(before, l2_bandwidth=78.0)


def test_the_target_has_the_last_word():
    store(found(l2_bandwidth=77.0))
    target = Target("llvm -machine=l2_bandwidth:60.5,fma-latency:5,has_gather:0 -num-cores=3")
    model = machine_model(target)
    assert (model.l2_bandwidth, model.fma_latency, model.has_gather) == (60.5, 5, False)
    origins = sources(target)
    assert origins["l2_bandwidth"] == origins["fma_latency"] == origins["cores"] == "target"
    assert str(Target(str(target))) == str(target)
    assert target_identity(target) != target_identity(HERE)


@pytest.mark.parametrize(
    ("text", "message"),
    [("l2_bandwith:3", "has no figure 'l2_bandwith'"), ("cores:3", "has no figure 'cores'"),
     ("fma_latency:4.5", "a positive whole number"), ("fma_latency", "a positive whole number"),
     ("l2_bandwidth:0", "a positive number"), ("has_fma:2", "0 or 1"),
     ("memory_bandwidth:inf", "a positive number")],
)  # fmt: skip
def test_figures_that_a_target_cannot_have(text, message):
    with pytest.raises(TargetError, match=message):
        machine_model(Target(f"llvm -machine={text}"))


def test_cpus_are_known_by_name():
    ice, lake = (machine_model(Target(f"llvm -mcpu={cpu}"))
                 for cpu in ("icelake-server", "skylake-avx512"))  # fmt: skip
    assert ice.l2_bytes > lake.l2_bytes and ice.l1_bytes > lake.l1_bytes
    assert machine_model(Target("llvm -mcpu=znver4")).fma_per_cycle == 1
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1")
    assert machine_model(arm).fma_per_cycle == 4
    assert sources(arm)["fma_per_cycle"] == "cpu neoverse-v1"


GOOD = {"version": 1, "cpu": "", "time": "now", "figures": {"l2_bandwidth": 5.0}, "facts": {}}
DAMAGED = {
    "half of it": json.dumps(GOOD)[:40],
    "no object": "[]",
    "a table is missing": json.dumps({**GOOD, "figures": None}),
    "a text": json.dumps({**GOOD, "figures": {"l2_bandwidth": "fast"}}),
    "not a number": json.dumps({**GOOD, "figures": {"l2_bandwidth": float("nan")}}),
    "a negative one": json.dumps({**GOOD, "figures": {"l2_bandwidth": -1}}),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_a_recorded_fallback(folder, text):
    before = machine_model(HERE)
    folder.mkdir()
    calibration_file().write_text(text.replace('"cpu": ""', f'"cpu": "{this_cpu()}"'))
    forget()
    with collect_fallbacks() as fallbacks:
        assert machine_model(HERE) == before
    ((fallback, _),) = fallbacks.rows()
    assert fallback.kind == "machine" and "doctor --calibrate" in fallback.reason


@pytest.mark.parametrize("change", [{"version": 0}, {"cpu": "another"}])
def test_what_was_written_elsewhere_is_left_alone(folder, change):
    before = machine_model(HERE)
    folder.mkdir()
    calibration_file().write_text(json.dumps({**GOOD, "cpu": this_cpu(), **change}))
    forget()
    with collect_fallbacks() as fallbacks:
        assert machine_model(HERE) == before
    assert not fallbacks.rows()


def test_without_caches_there_is_none():
    before = machine_model(HERE)
    store(found(l2_bandwidth=77.0))
    with knobs.override(cache=False):
        assert calibration() is None and machine_model(HERE) == before
        with pytest.raises(ConfigError, match="switched off"):
            store(found())
