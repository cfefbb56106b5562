"""What one core can do is measured in plausible sizes; nothing is said about how fast it is."""

import pytest
from click.testing import CliRunner

from tilesmith.cli.main import tilesmith as main
from tilesmith.inspect import machine_speed
from tilesmith.support.knobs import knobs
from tilesmith.target import Target, machine_model
from tilesmith.target.calibration import forget, this_cpu


@pytest.fixture
def measured(monkeypatch):
    """Measure for a short time only; the arrays are small."""
    monkeypatch.setattr(machine_speed, "_level_sizes", lambda: dict.fromkeys(
        ("L1", "L2", "L3", "memory"), 1 << 14
    ))  # fmt: skip
    return machine_speed.calibrate(budget=0.01)


def test_a_calibration_has_the_figures_of_the_model(measured):
    model = machine_model(Target("llvm"))
    assert measured.cpu == this_cpu()
    assert {"l2_bandwidth", "memory_bandwidth", "loads_per_cycle"} <= set(measured.figures)
    assert all(value > 0 for value in measured.figures.values())
    if model.has_fma:
        assert 1 <= measured.figures["fma_per_cycle"] <= 4
        assert 2 <= measured.figures["fma_latency"] <= 20
    assert 0.3 < measured.facts["gigahertz"] < 10


def test_doctor_calibrates_and_shows_where_figures_come_from(tmp_path, monkeypatch, measured):
    monkeypatch.setattr(machine_speed, "calibrate", lambda: measured)
    with knobs.override(cache=True, cache_dir=tmp_path / "new"):
        forget()
        result = CliRunner().invoke(main, ["doctor", "--calibrate"])
        assert result.exit_code == 0, result.output
        assert (tmp_path / "new" / "calibration.json").exists()
        lines = [line for line in result.output.splitlines() if "memory_bandwidth" in line]
        assert len(lines) == 1 and "calibrated" in lines[0]
        assert measured.time in result.output
    forget()


def test_a_parallel_loop_costs_something(monkeypatch):
    seconds = machine_speed.fork_seconds()
    assert seconds is None or seconds >= 0
    monkeypatch.setattr(machine_speed, "num_threads", lambda: 1)
    assert machine_speed.fork_seconds() is None
