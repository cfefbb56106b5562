"""Saved text and bitcode are modules again; names that a module does not have."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te
from tilesmith.support.errors import ArtifactError, CodegenError, TilesmithError


@pytest.mark.parametrize("form", ["ll", "bc"])
def test_text_and_bitcode_are_loaded(form, tmp_path):
    a = te.placeholder((5,), name="A")
    written = tilesmith.build(te.create_prim_func([a, te.compute((5,), lambda i: a[i] * 3)]))
    written.save(tmp_path / f"code.{form}")
    loaded = tilesmith.runtime.load_module(tmp_path / f"code.{form}")
    source = np.arange(5, dtype="float32")
    target = tilesmith.nd.empty((5,))
    loaded["main"](tilesmith.nd.array(source), target)
    np.testing.assert_array_equal(target.numpy(), source * 3)
    assert loaded.type_key == loaded.kind == "llvm" and loaded.function_names == ["main"]
    loaded.export_library(tmp_path / "code.so")


def test_files_that_hold_no_code(tmp_path):
    (tmp_path / "code.bc").write_bytes(b"abc")
    with pytest.raises(ArtifactError, match="not LLVM bitcode"):
        tilesmith.runtime.load_module(tmp_path / "code.bc")
    (tmp_path / "code.ll").write_text("define i32 @f( {")
    with pytest.raises(CodegenError, match="LLVM refused"):
        tilesmith.runtime.load_module(tmp_path / "code.ll")


def test_text_for_another_machine_can_be_seen(tmp_path):
    a = te.placeholder((5,), name="A")
    function = te.create_prim_func([a, te.compute((5,), lambda i: a[i] * 3)])
    for triple in ("aarch64-linux-gnu", "i686-linux-gnu"):
        written = tilesmith.build(function, target=f"llvm -mtriple={triple}")
        assert not written.is_runnable
        written.save(tmp_path / "code.ll")
        loaded = tilesmith.runtime.load_module(tmp_path / "code.ll")
        assert not loaded.is_runnable and loaded.get_source("asm")


def test_missing_functions():
    a = te.placeholder((5,), name="A")
    module = tilesmith.build(te.create_prim_func([a, te.compute((5,), lambda i: a[i] * 3)]))
    for kind in (AttributeError, ValueError, KeyError, TilesmithError):
        with pytest.raises(kind, match="no function 'nothing'"):
            module["nothing"]
        with pytest.raises(kind, match="unknown global function 'nothing'"):
            tilesmith.get_global_func("nothing")
