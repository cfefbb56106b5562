"""Code that a pragma brings: LLVM text and C, in attributes and in annotations of loops."""

import numpy as np
import pytest

from tests.codegen.harness import HOST, Compiled, kernel
from tilesmith.codegen import c_compiler, llvm
from tilesmith.ir import Call, IRModule, StringImm, Var
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.tir import AttrStmt, BufferStore, For, ForKind, decl_buffer

LLVM = "define float @twice(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
C = "float twice(float x) { return x + x; }"
needs_compiler = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler here")
SOURCES = [("import_llvm", LLVM), pytest.param("import_c", C, marks=needs_compiler)]


def doubling(pragma, source, on_loop):
    a, b, i = (
        decl_buffer((8,), "float32", "a"),
        decl_buffer((8,), "float32", "b"),
        Var("i", "int32"),
    )
    call = Call("float32", "tir.call_extern", (StringImm("twice"), a[i]))
    store = BufferStore(b, call, [i])
    if on_loop:
        notes = {"pragma_" + pragma: source}
        return kernel([a, b], For(i, 0, 8, ForKind.SERIAL, store, None, notes))
    loop = For(i, 0, 8, ForKind.SERIAL, store)
    return kernel([a, b], AttrStmt(a.data, "pragma_" + pragma, StringImm(source), loop))


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize("pragma, source", SOURCES)
def test_imported_functions_are_linked(pragma, source, on_loop):
    x, y = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    assert Compiled(doubling(pragma, source, on_loop))(x, y) == 0
    np.testing.assert_array_equal(y, 2 * x)


@needs_compiler
@pytest.mark.parametrize("on_loop", [False, True])
def test_c_in_c(on_loop):
    x, y = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    assert Compiled(doubling("import_c", C + "\n", on_loop), Target("c"))(x, y) == 0
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("pragma, source", SOURCES)
def test_imports_from_files_reach_the_library(pragma, source, tmp_path):
    path = tmp_path / "imported.txt"
    path.write_text(source)
    module = Compiled(doubling(pragma, str(path), True)).module
    module.export_library(str(tmp_path / "library.so"))
    assert b"twice" in (tmp_path / "library.so").read_bytes()


@needs_compiler
def test_refused_c_says_so():
    with pytest.raises(CodegenError, match="refused the source"):
        Compiled(doubling("import_c", "float twice(float x) { return y; }", True))


def test_without_a_compiler_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(c_compiler, "find_compiler", lambda: None)
    monkeypatch.setattr(c_compiler, "find_spec", lambda name: None)
    with pytest.raises(CodegenError, match=r"(?s)no C compiler.*pip install ziglang"):
        Compiled(doubling("import_c", C, True))


def test_a_text_alone_cannot_hold_imports():
    module = IRModule({"kernel": doubling("import_c", C, True)})
    with pytest.raises(CodegenError, match="a text alone cannot hold"):
        llvm.emit_text(module, HOST)
