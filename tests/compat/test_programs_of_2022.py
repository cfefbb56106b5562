"""Programs in the spelling of 2022 run unchanged: each file of ``programs_of_2022``, in its own
process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tilesmith.compat.tvm.relax_types import DynTensorType, ShapeType
from tilesmith.ir import assert_structural_equal
from tilesmith.relax import TensorStructInfo, Var, const
from tilesmith.script import from_source

PROGRAMS = sorted((Path(__file__).parent / "programs_of_2022").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program):
    command = [sys.executable, "-m", "tilesmith.compat.tvm", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("ok\n")


@pytest.mark.parametrize(
    "shape, kind, expected",
    [
        ((2, 3), DynTensorType(2, "int8"), TensorStructInfo((2, 3), "int8")),
        ([4], DynTensorType(), TensorStructInfo((4,), "float32")),
        (None, DynTensorType(3, "float32"), TensorStructInfo(None, "float32", ndim=3)),
    ],
)
def test_variables_of_a_shape_and_a_type(shape, kind, expected):
    var = Var("x", shape, kind)
    assert_structural_equal(var.struct_info, expected)
    assert isinstance(var.checked_type, DynTensorType) and not isinstance(kind, ShapeType)
    again = Var("y", var.shape_, var._checked_type_)
    assert_structural_equal(again.struct_info, expected)


def test_constants_of_a_type():
    assert const([1, 2], DynTensorType(1, "float16")).data.dtype == "float16"


@pytest.mark.parametrize(
    "bare, known",
    [
        ('Tensor((2, "n"), "int8")', 'R.Tensor((2, "n"), "int8")'),
        ('Tensor((2, n * 2), "int8")', 'R.Tensor((2, "n * 2"), "int8")'),
        ("Tuple(Tensor((n, 2)), Shape((n,)))", 'R.Tuple(R.Tensor(("n", 2)), R.Shape(["n"]))'),
        ("Object", "R.Object"),
        ("\"Tensor((n,), 'int8')\"", 'R.Tensor(("n",), "int8")'),
    ],
)
def test_bare_words_of_annotations(bare, known):
    text = "@R.function\ndef main(s: R.Shape(['n']), x: {}):\n    return x"
    assert_structural_equal(from_source(text.format(bare)), from_source(text.format(known)))
