"""What `tilesmith.compile` and `PassContext` say of arguments of the wrong kind."""

import pytest

import tilesmith
from tilesmith.ir.pass_context import PassContext
from tilesmith.support.errors import ConfigError, TypeMismatchError

DIGITS = "examples/digits/digits.onnx"


@pytest.mark.parametrize(
    "shapes, message",
    [
        ([(1, 1, 8, 8)], 'maps names of inputs to shapes, got list.*{"image"'),
        ({"image": 3}, "the shape of 'image' is a list of sizes, got 3"),
        ({"image": "1,1,8,8"}, "a list of sizes, got '1,1,8,8'"),
        (
            {"image": ("1", 1, 8, 8)},
            "a size of 'image' is an integer, or the name .*got '1'",
        ),
        ({"image": (1.5, 1, 8, 8)}, "got 1.5"),
    ],
)
def test_shapes_of_inputs(shapes, message):
    with pytest.raises(TypeMismatchError, match=f"(?s){message}"):
        tilesmith.compile(DIGITS, input_shapes=shapes)


@pytest.mark.parametrize("level", ["three", None, [3]])
def test_optimisation_level(level):
    with pytest.raises(ConfigError, match="opt_level is a number"):
        PassContext(opt_level=level)
