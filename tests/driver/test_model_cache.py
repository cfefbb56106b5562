"""A model is compiled once; what the cache holds is checked, once for each state of its file."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilesmith
from tilesmith.driver import model as model_module
from tilesmith.ir.pass_context import PassContext
from tilesmith.runtime.executable import Executable
from tilesmith.support import file_memory
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs

X = np.arange(8, dtype="float32").reshape(2, 4)


def write_model(path, factor, **options):
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [from_array(np.full(4, factor, "float32"), "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(made, path, **options)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(file_memory, "_SECONDS_UNTIL_SETTLED", -10.0)
    path = tmp_path / "model.onnx"
    write_model(path, 2)
    with knobs.override(cache=True, cache_dir=tmp_path / "cache", workers=1):
        yield path


def entry():
    (found,) = model_module.MODEL_CACHE.entries()
    return found.path


@pytest.mark.parametrize("is_as_written", [True, False])
def test_a_model_from_the_cache_is_checked_once(path, monkeypatch, is_as_written):
    """What this version has just written needs no check; what may have changed since needs one."""
    tilesmith.compile(str(path))
    if not is_as_written:
        moment = entry().stat().st_mtime_ns
        os.utime(entry(), ns=(moment, moment + 1))
    checks = []
    monkeypatch.setattr(model_module, "_checked", lambda file: checks.append(file) or "as written")
    for _ in range(3):
        np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)
    assert checks == [entry()] * (not is_as_written)


def test_a_damaged_entry_is_made_anew(path):
    tilesmith.compile(str(path))
    tilesmith.compile(str(path))
    place, content = entry(), bytearray(entry().read_bytes())
    at = content.find(np.full(4, 2, "float32").tobytes())
    assert at > 0
    content[at : at + 4] = np.float32(3).tobytes()
    moment = place.stat().st_mtime_ns
    place.write_bytes(content)
    os.utime(place, ns=(moment, moment + 1))
    np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)


def test_a_changed_model_is_compiled_again(path):
    tilesmith.compile(str(path))
    moment = path.stat().st_mtime_ns
    write_model(path, 3)
    os.utime(path, ns=(moment, moment + 1))
    np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 3 * X)


def lead(link, target):
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def test_links_that_lead_elsewhere(path):
    """What is remembered of a file names no link through which it was once found."""
    other, link = path.with_name("other.onnx"), path.with_name("link.onnx")
    write_model(other, 3)
    for target, factor in ((path, 2), (other, 3)):
        lead(link, target)
        np.testing.assert_array_equal(tilesmith.compile(str(link))(X).numpy(), factor * X)
    np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)


def test_external_data_behind_links(path):
    write_model(path, 5, save_as_external_data=True, location="w", size_threshold=0)
    folder = path.parent
    (folder / "w").rename(folder / "w5")
    (folder / "w7").write_bytes(np.full(4, 7, "float32").tobytes())
    for name, factor in (("w5", 5), ("w7", 7)):
        lead(folder / "w", name)
        np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), factor * X)


def test_what_the_cache_does_not_hold_is_made_with_the_same_settings(path, monkeypatch):
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        tilesmith.compile(str(path))
        cached = tilesmith.compile(str(path))
    seen = []
    plain = model_module.compile

    def compile(*arguments, **options):
        seen.append(PassContext.current().config)
        return plain(*arguments, **options)

    monkeypatch.setattr(model_module, "compile", compile)
    assert cached.observed_program() is not None
    assert seen == [{"tir.instrument_bound_checkers": True}]


PROGRAM = """
import sys
import numpy as np
import tilesmith
from tilesmith.driver.model import MODEL_CACHE
print("ready", flush=True)
sys.stdin.readline()
model = tilesmith.compile(sys.argv[1])
print(model(np.ones((2, 4), "float32")).numpy().sum(), MODEL_CACHE.misses)
"""


def test_two_processes_compile_a_model_at_once(path, tmp_path):
    folder = tmp_path / "cache"
    environment = os.environ | {
        "TILESMITH_CACHE": "1", "TILESMITH_CACHE_DIR": str(folder), "TILESMITH_WORKERS": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", PROGRAM, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 2
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    assert [run.communicate()[0] for run in runs] == ["16.0 1\n"] * 2
    assert [run.returncode for run in runs] == [0, 0]
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert all(len(file.name) == 64 for file in files)  # nothing temporary is left
    assert entry() in files and not fallback_counts_of(path)


def fallback_counts_of(path):
    """Return the kinds of fallbacks of a model that is in the cache."""
    with collect_fallbacks() as report:
        np.testing.assert_array_equal(tilesmith.compile(str(path))(X).numpy(), 2 * X)
    return [row.kind for row, _ in report.rows() if row.kind == "cache"]


@pytest.mark.parametrize("state", ["compiled", "cached", "pruned"])
def test_what_the_cache_holds_is_copied(path, monkeypatch, state):
    model = tilesmith.compile(str(path))
    model = tilesmith.compile(str(path)) if state == "cached" else model
    plain, copy = path.with_name("plain.tsm"), path.with_name("copy.tsm")
    model.save(plain)
    if state == "pruned":
        entry().unlink()
    else:
        monkeypatch.setattr(Executable, "save", None)
    model_module.save_artifact(model, copy)
    assert copy.read_bytes() == plain.read_bytes()
    assert copy.stat().st_mode == plain.stat().st_mode
