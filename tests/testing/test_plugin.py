"""The plugin for pytest, in a session of its own."""

import subprocess
import sys

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("x", [1, 2, 3, 4])
def test_first(x):
    print(f"[worker of first] {__import__('os').getpid()}")

@pytest.mark.gpu
def test_gpu():
    pass
"""


@pytest.fixture
def session(tmp_path):
    """Runs pytest with the plugin on the tests above."""
    (tmp_path / "test_some.py").write_text(TESTS)

    def run(*options):
        plugin = ["-p", "tilesmith.testing.plugin", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", *plugin, *options, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return run


def test_marks_that_leave_no_test_are_no_failure(session):
    assert session("-m", "gpu and not gpu").returncode == 0
    assert session("-k", "nothing").returncode == 5
    assert session("--strict-markers", "-m", "gpu").returncode == 0


def test_parameters_of_a_test_stay_in_one_process(session):
    done = session("-n", "2", "--dist", "loadscope", "-k", "first", "-rP")
    assert done.returncode == 0, done.stdout
    workers = {line for line in done.stdout.splitlines() if line.startswith("[worker of first]")}
    assert len(workers) == 1, done.stdout


def test_arguments_of_native_tests(session, tmp_path):
    (tmp_path / "test_some.py").write_text(
        "def test_native(gtest_args):\n    print('given:', repr(gtest_args))\n"
    )
    assert "given: '--gtest_filter=A.*'" in session("-s", "--gtest_args=--gtest_filter=A.*").stdout
    assert "given: ''" in session("-s").stdout
