"""Debug information: the line table of an object names the lines of the script."""

import inspect
import re

import numpy as np
import pytest

import tilesmith
from tilesmith import tir
from tilesmith.script import tir as T

SCRIPT, LOWERED = {"tir.debug_script": True}, {"tir.enable_debug": True}


@T.prim_func
def scaled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    for i in T.parallel(64):
        with T.block("b"):
            v = T.axis.spatial(64, i)
            B[v] = T.exp(A[v])  # in the parallel loop
    for j in range(n):
        B[j % 64] = A[j % 64] * T.float32(2)  # in the serial loop
    assert n < 1000, "ValueError: n is too large"  # the assertion


def line_of(words):
    """The number in this file of the line with a comment."""
    source = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(n for n, line in enumerate(source, 1) if line.endswith("# " + words))


def build(function, target="llvm", config=SCRIPT):
    with tilesmith.transform.PassContext(config=config):
        return tilesmith.build(function, target=target)


def table(assembly):
    """(file, line) of all `.loc` directives of an assembly text."""
    files = {}
    for number, names in re.findall(r"^\s*\.file\s+(\d+)\s+(.*)$", assembly, re.MULTILINE):
        files[number] = re.findall(r'"([^"]*)"', names)[-1]
    places = re.findall(r"^\s*\.loc\s+(\d+)\s+(\d+)", assembly, re.MULTILINE)
    return {(files[file], int(line)) for file, line in places}


@pytest.mark.parametrize("target", ["llvm", "llvm -mtriple=aarch64-linux-gnu"])
def test_lines_of_the_script(target):
    places = table(build(scaled, target).get_source("asm"))
    own = {line for file, line in places if file.endswith("test_debug_information_script.py")}
    wanted = ("in the parallel loop", "in the serial loop", "the assertion")
    assert own >= {line_of(words) for words in wanted}


def test_object_has_a_line_table(tmp_path):
    from shutil import which
    from subprocess import run

    build(scaled).save(str(tmp_path / "scaled.o"))
    content = (tmp_path / "scaled.o").read_bytes()
    assert b".debug_line" in content and b"test_debug_information_script.py" in content
    dump = which("llvm-dwarfdump") or which("objdump")
    if dump is not None:
        option = "--debug-line" if "llvm" in dump else "--dwarf=decodedline"
        lines = run([dump, option, tmp_path / "scaled.o"], capture_output=True, text=True).stdout
        assert re.search(rf"\b{line_of('in the serial loop')}\b", lines)


def test_code_still_works_and_nothing_is_written_unless_asked():
    plain = build(scaled, config={})
    assert "!dbg" not in plain.get_source("ll") and b".debug_line" not in plain.objects[0]
    module = build(scaled)
    assert "!DILocation" in module.get_source("ll")  # also when asked for later
    a, b = np.linspace(0, 1, 64).astype("f4"), np.zeros(64, "f4")
    module(a, b, 3)
    np.testing.assert_allclose(b[:3], a[:3] * 2)
    np.testing.assert_allclose(b[3:], np.exp(a[3:]), rtol=1e-6)
    with pytest.raises(ValueError, match="n is too large"):
        module(a, b, 1000)


def test_lines_of_the_lowered_program():
    with tilesmith.transform.PassContext(config=LOWERED):
        (shown,) = tilesmith.lower(scaled).functions.values()
    text = shown.script().splitlines()
    places = table(build(scaled, config=LOWERED).get_source("asm"))
    lines = {line for file, line in places if file.endswith("scaled.tir")}
    stored = [n for n, line in enumerate(text, 1) if re.search(r"B(_1)?\[.*\] = ", line)]
    assert len(stored) == 2 and set(stored) <= lines


def test_statements_of_another_file_keep_their_place():
    from tilesmith.ir.span import Span

    module = tilesmith.lower(scaled)
    function = next(iter(module.functions.values()))

    class Moved(tir.transform.statement_rewriter.StatementRewriter):
        def visit_BufferStore(self, store):
            return store.with_fields(span=Span("/elsewhere/other.py", 77, 77, 3, 9))

    moved = function.with_body(Moved().visit(function.body))
    code = build(tilesmith.IRModule({"scaled": moved})).get_source("asm")
    assert any(file.endswith("other.py") and line == 77 for file, line in table(code))
