import numpy as np
import pytest

from tests.topi.harness import Case, check
from tilesmith import te, tir, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.target import Target
from tilesmith.topi import helpers


@pytest.mark.parametrize(
    "function, yes, no",
    [
        (topi.nchw_pack_layout, "NCHW4n16c", "NCHW16c"),
        (topi.nchw_xc_layout, "NCHW16c", "NCHW4n16c"),
        (topi.ncw_pack_layout, "NCW4n16c", "NCW16c"),
        (topi.ncw_xc_layout, "NCW16c", "NCW"),
    ],
)
def test_layouts_are_told(function, yes, no):
    assert function(yes) and not function(no) and not function("NHWC")


@pytest.mark.parametrize(
    "got, want",
    [
        (topi.get_max_power2_factor(48), 16),
        (topi.get_max_power2_factor(48, 8), 8),
        (topi.get_max_power2_factor(7), 1),
        (topi.get_shape((1, 32, 7, 7), "NCHW", "NCHW16c"), (1, 2, 7, 7, 16)),
        (topi.get_shape((1, 2, 3, 4), "NCHW", "NHWC"), (1, 3, 4, 2)),
        (topi.get_const_float(tir.const(0.5, "float32")), 0.5),
        (topi.get_float_tuple((0.5, tir.const(1.5, "float32"))), (0.5, 1.5)),
        (topi.is_empty_shape((3, 0)), True),
        (topi.is_dynamic_shape((3, te.var("n") + 1)), True),
        (topi.is_dynamic_shape((3, 4)), False),
        (topi.swap([1, 2, 3, 4], 1), [1, 4, 3, 2]),
        (int(topi.ceil_div(7, 2)), 4),
        (int(helpers.prod((2, 3, 4))), 24),
    ],
)
def test_what_they_give(got, want):
    assert got == want


def test_the_current_target_is_told():
    assert not topi.is_target("cpu")
    with Target("llvm"):
        assert topi.is_target(["gpu", "cpu"]) and not topi.is_target("gpu")


@pytest.mark.parametrize("b, e, s", [(1, 8, 3), (7, 0, -2), (0, 10, 1)])
def test_places_in_slices(b, e, s):
    size = 10
    chosen = list(range(size))[b:e:s]
    case = Case(
        "places",
        lambda x: [
            te.compute((size,), lambda i: topi.within_index(b, e, s, i).astype("int32")),
            te.compute((size,), lambda i: topi.make_idx(b, e, s, len(chosen), i)),
        ],
        lambda x: [
            np.array([i in chosen for i in range(size)]),
            np.array([np.clip((i - b) // s, 0, len(chosen) - 1) for i in range(size)]),
        ],
        (np.zeros(1, "float32"),),
    )
    check(case)


CONSTANTS = [
    Case("vector", lambda: topi.const_vector([1.5, -2.0, 3.25]), lambda: [1.5, -2.0, 3.25], ()),
    Case(
        "matrix",
        lambda: topi.const_matrix(np.arange(6, dtype="int32").reshape(2, 3)),
        lambda: np.arange(6).reshape(2, 3),
        (),
    ),
]


@pytest.mark.parametrize("case", CONSTANTS, ids=["vector", "matrix"])
def test_constants(case):
    check(case)


def test_what_is_refused():
    with pytest.raises(ShapeError):
        topi.const_vector([[1.0]])
    with pytest.raises(OpAttributeInvalid, match="constant float"):
        topi.get_const_float(te.var("x", "float32"))
    assert topi.InvalidShapeError is ShapeError
