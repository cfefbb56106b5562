"""Where programs are typed: in cells of notebooks, and at the prompt."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import textwrap
import time

import pytest

from tests.compat.test_tvm import run
from tilesmith.support.errors import ScriptError

FUNCTION = """
@T.prim_func
def f(A: T.Buffer((N,), "float32")):
    for i in range(N):
        A[i] = {value}
"""
MODULE = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((N,), "float32")):
        A[0] = {value}
"""


@pytest.fixture
def names() -> dict:
    from tilesmith.script import ir, tir

    return {"T": tir, "I": ir, "N": 4, "__name__": "__main__"}


def execute_cell(names: dict, text: str, number: int) -> None:
    """Run a cell as notebooks do: its text is known to ``linecache`` under a name of its own."""
    name = f"<ipython-input-{number}-0123456789ab>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), names)


@pytest.mark.parametrize("text", [FUNCTION, MODULE], ids=["function", "module"])
def test_cells(names: dict, text: str):
    execute_cell(names, text.format(value=1.0), 1)
    execute_cell(names, text.format(value=2.0), 2)  # the same cell, changed
    assert "T.float32(2.0)" in str(names["f"] if text is FUNCTION else names["Module"])


def test_cells_with_a_time_and_nested_functions(names: dict):
    name, text = "/tmp/ipykernel_1/12345.py", "def make():\n" + textwrap.indent(FUNCTION, "    ")
    text = text.format(value=3.0) + "\n    return f\n"
    linecache.cache[name] = (len(text), time.time(), text.splitlines(True), name)
    keep, linecache.checkcache = linecache.checkcache, lambda filename=None: None  # as IPython
    try:
        exec(compile(text, name, "exec"), names)
        assert "T.float32(3.0)" in str(names["make"]())
    finally:
        linecache.checkcache = keep


def test_errors_show_the_line_of_the_cell(names: dict):
    with pytest.raises(ScriptError) as found:
        execute_cell(names, FUNCTION.format(value="unknown_name"), 3)
    assert "<ipython-input-3-0123456789ab>:5:16" in str(found.value)
    assert "A[i] = unknown_name" in str(found.value)


def test_text_that_is_known_by_the_code(names: dict, monkeypatch: pytest.MonkeyPatch):
    """Newer prompts call every entry <stdin> and keep its text beside the code."""
    text = FUNCTION.format(value=4.0)
    monkeypatch.setattr(
        linecache, "_getlines_from_code", lambda code: text.splitlines(True), raising=False
    )
    monkeypatch.delitem(linecache.cache, "<stdin>", raising=False)
    exec(compile(text, "<stdin>", "exec"), names)
    linecache.cache.pop("<stdin>", None)
    assert "T.float32(4.0)" in str(names["f"])


PROMPT = """
import tilesmith.compat.tvm as alias; alias.install()
import numpy as np
import tvm
n = tvm.var("n")
a = tvm.placeholder((n,), name="a")
b = tvm.compute((n,), lambda i: a[i] * 2.0, name="b")
s = tvm.create_schedule(b.op)
print("stages", len(s.stages))
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    A[0] = 1.0

g = tvm.script.from_source('''
@T.prim_func
def g(A: T.Buffer((4,), "float32")):
    A[0] = 1.0
''')
values = tvm.nd.array(np.zeros(4, "float32"))
tvm.build(g, target="llvm")(values)
print("first", values.asnumpy()[0])
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this prompt keeps the texts")
def test_the_prompt():
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=PROMPT,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )
    assert "stages 2" in done.stdout and "first 1.0" in done.stdout, done.stderr
    assert "the source text of '<stdin>' is not available" in done.stderr
    assert "IPython" in done.stderr and "tilesmith.script.from_source" in done.stderr


def test_a_module_as_a_program(tmp_path):
    (tmp_path / "program.py").write_text("import topi, tvm\nprint(tvm.const(3, 'int32').value)\n")
    done = subprocess.run(
        [sys.executable, "-m", "tilesmith.compat.tvm", "-m", "program"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )
    assert done.stdout == "3\n", done.stderr


def test_text_that_is_executed():
    done = run(
        """
        import tilesmith.compat.tvm as alias
        alias.install()
        import tvm
        assert tvm.compute((4,), lambda i: i * 2).dtype == "int32"
        """
    )
    assert done.returncode == 0, done.stderr
