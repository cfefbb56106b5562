"""`import tilesmith` is light, and no heavy package comes before it is needed."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
begin = time.perf_counter()
import {module}
seconds = time.perf_counter() - begin
print(seconds)
print(" ".join(sorted({{name.split(".")[0] for name in sys.modules}})))
print(sum(name.startswith("tilesmith") for name in sys.modules))
"""
HEAVY = {"numpy", "onnx", "onnxruntime", "torch", "llvmlite", "tvm_ffi", "ml_dtypes", "rich"}


def measure(module):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, names, count = done.stdout.splitlines()[-3:]
    return float(seconds), set(names.split()), int(count)


@pytest.mark.parametrize("module", ["tilesmith", "tilesmith.runtime", "tilesmith.error"])
def test_import_is_light(module):
    runs = [measure(module) for _ in range(3)]
    assert min(seconds for seconds, _, _ in runs) < 0.5
    _, names, count = runs[0]
    assert names & HEAVY == set()
    assert count <= 10


def test_the_runtime_imports_no_compiler():
    _, names, _ = measure("tilesmith.runtime.executable")
    assert names & (HEAVY - {"numpy", "tvm_ffi", "ml_dtypes"}) == set()


def test_public_names_are_listed_and_the_ground_resolves():
    program = (
        "import tilesmith as ts\n"
        "names = set(dir(ts))\n"
        "assert {'build', 'compile', 'nd', 'relax', 'tir', 'IRModule', '__version__'} <= names\n"
        "from tilesmith import runtime\n"
        "for name in runtime.PUBLIC: getattr(runtime, name)\n"
        "for name in ('nd', 'cpu', 'NDArray', 'register_func', 'load', 'error', 'DataType'):\n"
        "    getattr(ts, name)\n"
        "assert callable(runtime.device) and callable(ts.device)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
