import os
import tarfile

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices import enabled
from tilesmith.runtime.module import Module, load_module
from tilesmith.runtime.timing import BenchmarkResult, time_call
from tilesmith.support.errors import (
    ArtifactError,
    ConfigError,
    UnknownNameError,
    UnsupportedError,
)


@pytest.fixture
def module(threads_object):
    return Module(
        "llvm",
        objects=[threads_object],
        function_names=["count_threads", "nothing", "refuse"],
        entry_name="count_threads",
        formats={"ll": "; text", "asm": lambda: b"made when asked"},
    )


def call(module):
    counts = ts.nd.array(np.zeros(8, "int32"))
    module(counts)
    return counts.numpy()[0]


def test_functions(module):
    assert call(module) >= 1
    assert module["nothing"]() is None
    assert module.entry_func is not None and module.entry_name == "count_threads"
    assert module.implements_function("nothing") and not module.implements_function("nobody")
    with pytest.raises(UnknownNameError, match="(?s)no function 'nobody'\n.*count_threads"):
        module["nobody"]


def test_entry_of_a_module_that_names_none(threads_object):
    module = Module("llvm", objects=[threads_object])
    with pytest.raises(UnknownNameError, match="no entry function"):
        module()
    one = Module("python", functions={"only": ts.register_func("test.only", lambda: 3, True)})
    assert one.entry_name == "only" and one() == 3


def test_imports(module):
    outer = Module("c", functions={})
    outer.import_module(module)
    assert outer.imported_modules == [module]
    assert outer["nothing"]() is None
    assert not outer.implements_function("nothing")
    assert outer.implements_function("nothing", query_imports=True)
    outer.clear_imports()
    assert outer.imported_modules == []


def test_sources(module, tmp_path):
    assert module.type_key == "llvm" and module.format == "ll"
    assert module.get_source() == "; text"
    assert module.get_source("asm") == module.get_source("s") == "made when asked"
    with pytest.raises(UnsupportedError, match="(?s)no format 'cu'\n.*ll, asm, o"):
        module.get_source("cu")
    module.save(tmp_path / "m.ll")
    assert (tmp_path / "m.ll").read_text() == "; text"
    module.save(tmp_path / "code", "o")
    assert (tmp_path / "code").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("suffix", ["so", "o", "tar"])
def test_export_and_load(module, tmp_path, suffix):
    path = tmp_path / f"library.{suffix}"
    module.export_library(path)
    assert os.listdir(tmp_path) == [path.name]
    loaded = load_module(path)
    counts = ts.nd.array(np.zeros(8, "int32"))
    loaded["count_threads"](counts)
    assert counts.numpy()[0] >= 1
    if suffix == "so":
        assert loaded.function_names == module.function_names


def test_export_with_a_compiler_of_ones_own(module, tmp_path):
    def archive(output, files, level):
        assert level == 3
        with tarfile.open(output, "w") as out:
            for file in files:
                out.add(file, os.path.basename(file))

    path = tmp_path / "x.tar"
    module.export_library(path, fcompile=archive, level=3)
    assert load_module(path)["nothing"]() is None


def test_export_refusals(module, tmp_path):
    with pytest.raises(UnsupportedError, match="what kind of library"):
        module.export_library(tmp_path / "x.bin")
    source_only = Module("c", formats={"c": "int x;"})
    with pytest.raises(UnsupportedError, match="no object code"):
        source_only.export_library(tmp_path / "x.so")
    assert os.listdir(tmp_path) == []


def test_foreign_code_is_not_run(threads_object):
    module = Module("llvm", objects=[threads_object], function_names=["f"], runnable=False)
    with pytest.raises(UnknownNameError, match="for another machine"):
        module["f"]
    assert module.is_dso_exportable and not module.is_runnable


@pytest.mark.parametrize(
    "name, contents", [("x.so", b"no"), ("x.tar", b"no"), ("x.bin", b"no"), ("x.tsm", b"PKno")]
)
def test_load_refuses_what_it_does_not_know(tmp_path, name, contents):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ArtifactError, match=name):
        load_module(tmp_path / name)
    with pytest.raises(ArtifactError, match="cannot read"):
        load_module(tmp_path / "missing.so")


def test_time_evaluator(module):
    counts = ts.nd.array(np.zeros(8, "int32"))
    measured = module.time_evaluator(module.entry_name, ts.cpu(), number=3, repeat=4)(counts)
    assert len(measured.results) == 4
    assert 0 < measured.min <= measured.median <= measured.max
    assert "mean (ms)" in str(measured)


def test_numbers_of_calls():
    calls = []
    time_call(lambda: calls.append(1), number=3, repeat=2)
    assert len(calls) == 1 + 6
    before = []
    time_call(lambda: None, preprocess=lambda: before.append(1), repeat=3)
    assert len(before) == 3
    long_enough = time_call(lambda: None, number=1, min_repeat_ms=2)
    assert long_enough.mean < 1e-3
    with pytest.raises(ConfigError):
        time_call(lambda: None, number=0)


def test_statistics():
    found = BenchmarkResult([1.0, 2.0, 6.0])
    assert (found.mean, found.median, found.min, found.max) == (3.0, 2.0, 1.0, 6.0)
    assert found.std == pytest.approx(np.std([1, 2, 6]))


def test_enabled():
    assert enabled("llvm") and not enabled("cuda -arch=sm_80") and not enabled("toaster")
