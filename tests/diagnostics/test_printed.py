"""What Python, and pytest, print after a mistake: the user's line, a marker, advice, and no frames
of Tilesmith. Each program runs in a process of its own."""

import os
import subprocess
import sys

import pytest

BUILDER = """from tilesmith import relax
from tilesmith.script import relax as R

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((4, 5), "float32"))
y = relax.Var("y", R.Tensor((3, 6), "float32"))
"""
SCRIPT = "from tilesmith.script import from_source, relax as R, tir as T\n\n\n"


def printed(program, tmp_path, *command, detail="short"):
    file = tmp_path / "test_mistake.py"
    file.write_text(program)
    ended = subprocess.run(
        [sys.executable, *command, str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TILESMITH_TRACEBACK": detail},
    )
    assert ended.returncode == 1
    return ended.stdout + ended.stderr


PROGRAMS = {
    "shapes": (
        BUILDER
        + """with bb.function("main", [x, y]):
    z = bb.emit(
        relax.op.add(x, y)
    )
    bb.emit_func_output(z)
""",
        "cannot broadcast (4, 5) with (3, 6): 4 and 3 differ",
        "z = bb.emit(",
        "    ^^^^^^^^",
        "where they are equal or one is 1",
    ),
    "no result": (
        BUILDER + 'with bb.function("main", [x]):\n    bb.emit(relax.op.add(x, x))\n',
        "the function 'main' has no result",
        'with bb.function("main", [x]):',
        "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "call emit_func_output(value) at its end",
    ),
    "outside of a function": (
        BUILDER + "z = bb.match_cast(x, R.Tensor((4, 5)))\n",
        "match_cast needs a function",
        "z = bb.match_cast(x, R.Tensor((4, 5)))",
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "write `with bb.function(name, params):` around it",
    ),
    "a block that was not begun": (
        BUILDER + "bb.end_block()\n",
        "end_block ends no block",
        "bb.end_block()",
        "^^^^^^^^^^^^^^",
        "each call belongs to one of begin_binding_block",
    ),
    "no function": (
        BUILDER + 'bb.add_func(3, "three")\n',
        "a function of a module is a PrimFunc or a relax.Function, got 3",
        'bb.add_func(3, "three")',
        "^^^^^^^^^^^^^^^^^^^^^^^",
        "make one with @T.prim_func",
    ),
    "text that is not Python": (
        SCRIPT
        + 'f = from_source("""\n@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n'
        + '    for i in range(4)\n        A[i] = T.float32(1)\n""")\n',
        "not valid Python: expected ':'",
        "    for i in range(4)",
        "                     ^",
        "end the line that begins a block with a colon",
    ),
    "unknown word in an annotation": (
        SCRIPT + "@T.prim_func\ndef f(A: T.Bufer((4,))):\n    A[0] = T.float32(1)\n",
        "T has no word 'Bufer'",
        "def f(A: T.Bufer((4,))):",
        "         ^^^^^^^",
        "did you mean 'Buffer'?",
    ),
    "size in an annotation": (
        SCRIPT + '@R.function\ndef f(x: R.Tensor(("n", 4.5), "float32")):\n    return x\n',
        "a size is an integer, got",
        'def f(x: R.Tensor(("n", 4.5), "float32")):',
        "         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "",
    ),
    "class that is no module": (
        SCRIPT + "@T.prim_func\nclass F:\n    pass\n",
        "T.prim_func decorates a function, 'F' is a class",
        "@T.prim_func",
        " ^^^^^^^^^^^",
        "a class of functions is a module: @I.ir_module",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_python_prints(name, tmp_path):
    program, problem, line, marker, advice = PROGRAMS[name]
    text = printed(program, tmp_path)
    shown = text[text.index(problem) :].splitlines()
    number = next(number for number, other in enumerate(shown) if other.endswith(line))
    start = shown[number].index(line)
    assert shown[number + 1].rstrip() == " " * start + marker
    assert advice in text
    frames = [one for one in text.splitlines() if one.startswith("  File ")]
    assert all("test_mistake.py" in one for one in frames)


TESTS = (
    BUILDER
    + """

def test_outside():
    bb.emit(relax.op.add(x, x))

"""
)


def test_what_pytest_prints(tmp_path):
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    text = printed(TESTS, tmp_path, *options)
    assert "emit needs a function" in text and "bb.emit(relax.op.add(x, x))" in text
    assert "block_builder.py" not in text
    assert "block_builder.py" in printed(TESTS, tmp_path, *options, detail="full")
