"""The process that runs cases: one that cannot start, and one that is stopped."""

import os
import signal
import threading
import time

import pytest

from tests.testing.fuzz.mutations import MUTATIONS
from tilesmith.cli.interruptions import interruptible
from tilesmith.runtime.devices import opencl
from tilesmith.support.errors import WorkerStartError
from tilesmith.testing.fuzz import campaign, replay
from tilesmith.testing.fuzz.campaign import Options, Summary, fuzz
from tilesmith.testing.fuzz.isolated import IsolatedRunner
from tilesmith.testing.fuzz.seeds import Stopped

PLANTED = "tests.testing.fuzz.mutations"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (f"{PLANTED}:gone", "AttributeError: module .* has no attribute 'gone'"),
        ("tests.testing.fuzz.gone:fault", "ModuleNotFoundError: No module named .*gone"),
    ],
)
def test_a_patch_that_is_gone_is_said_at_once(patch, why):
    runner = IsolatedRunner(patch=patch)
    try:
        with pytest.raises(WorkerStartError, match=f"the worker cannot start: {why}"):
            runner.run_seed(0, "pass", "blocks")
    finally:
        runner.close()


def test_a_run_without_a_worker_ends():
    with pytest.raises(WorkerStartError, match="gone"):  # neither a finding nor a broken case
        fuzz(Options(seconds=600.0, patch=f"{PLANTED}:gone"))


def test_a_worker_that_dies_early_cannot_start(monkeypatch):
    monkeypatch.setattr("tilesmith.testing.fuzz.isolated._MODULE", "tilesmith.testing.no_worker")
    runner = IsolatedRunner()
    with pytest.raises(WorkerStartError, match="cannot start: a worker process died .exit code 1"):
        runner.run_seed(0, "pass", "blocks")
    runner.close()


def test_a_stopped_runner_finds_nothing():
    runner = IsolatedRunner()
    runner.run_seed(0, "pass", "blocks")
    threading.Timer(0.2, runner.stop).start()
    with pytest.raises(Stopped):
        for seed in range(1, 100_000):
            runner.run_seed(seed, "pass", "blocks")
    with pytest.raises(Stopped):
        runner.run_seed(0, "pass", "blocks")
    runner.close()


def test_what_an_interrupted_run_found_is_saved(tmp_path, monkeypatch):
    name = "flatten_buffer_in_the_wrong_order"
    _, expected, only = MUTATIONS[name]
    right = campaign.shrink

    def interrupted(*args):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return right(*args)

    monkeypatch.setattr(campaign, "shrink", interrupted)
    options = Options(
        600.0, only=only, field="blocks", patch=f"{PLANTED}:{name}", output=tmp_path,
        shrink_seconds=300.0,
    )  # fmt: skip
    latest = [Summary()]
    begin = time.monotonic()
    with interruptible() as interruption:
        fuzz(options, lambda summary: latest.append(summary))
    assert interruption.exit_code == 143 and time.monotonic() - begin < 250
    findings = latest[-1].findings
    assert any(signature.startswith(expected) for signature in findings)
    saved = list(tmp_path.iterdir())
    assert sorted(map(str, saved)) == sorted(finding["file"] for finding in findings.values())
    assert [replay.run_file(path) for path in saved] == [None] * len(saved)  # without the fault


DIES = """
import os, sys
from tilesmith.testing.fuzz import checks, device_checks
def die():
    def check(checker, module, lowered):
        for target, *_ in right(checker.device, checker.seed):
            if target.kind.name == "opencl" and "opencl" not in checker.without:
                checks.note_place("codegen", "opencl")
                sys.stderr.write({said!r})
                sys.stderr.flush()
                os.abort()
    right = device_checks.code_targets
    checks.check_code_for_devices = check
"""


@pytest.mark.parametrize(
    ("said", "is_foreign"),
    [
        ("in pocl_llvm_generate_workgroup_function_nowrite\n", True),
        ("Aborted in a kernel\n", False),
    ],
)
def test_a_death_in_the_compiler_of_pocl_is_counted(
    said, is_foreign, tmp_path, monkeypatch, capsys
):
    if not opencl(0).exist:
        pytest.skip("there is no OpenCL device")
    (tmp_path / "dies.py").write_text(DIES.format(said=said))
    monkeypatch.syspath_prepend(tmp_path)
    runner = IsolatedRunner(patch="dies:die")
    try:
        result = runner.run_seed(7, None, "memory")
    finally:
        runner.close()
    counted = result["counts"].get("unsupported opencl: PoCL's compiler kills the process", 0)
    assert counted == is_foreign
    if is_foreign:
        assert result["finding"] is None
    else:
        assert "kills the process (signal 6)" in result["finding"]["failure"]
        assert "Aborted in a kernel" in capsys.readouterr().err
