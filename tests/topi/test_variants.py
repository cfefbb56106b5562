"""Functions that are made from one that takes the argument in which they differ."""

import inspect
import pickle
import typing

import pytest

from tilesmith import topi
from tilesmith.topi.variants import variant


def _scaled(factor: int, value: int, plus: int = 0) -> int:
    return factor * value + plus


def test_a_variant_has_the_other_parameters_and_a_name_of_its_own():
    doubled = variant("doubled", _scaled, 2, "Return twice a value.", plus=1)
    assert str(inspect.signature(doubled)) == "(value: int, plus: int = 1) -> int"
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Return twice a value.")
    assert typing.get_type_hints(doubled) == {"value": int, "plus": int, "return": int}
    assert (doubled(3), doubled(3, 5), doubled(plus=5, value=3), _scaled(2, 3)) == (7, 11, 11, 6)


def test_a_wrong_argument_is_named_with_the_variant():
    doubled = variant("doubled", _scaled, 2, "Return twice a value.")
    with pytest.raises(TypeError, match=r"doubled\(\): got an unexpected keyword argument 'minus'"):
        doubled(3, minus=1)


@pytest.mark.parametrize(
    "name, signature",
    [
        (
            "conv2d_nhwc",
            "Input, Filter, stride, padding, dilation, out_dtype, "
            "auto_scheduler_rewritten_layout, meta_schedule_original_shape",
        ),
        ("conv1d_ncw", "data, kernel, strides, padding, dilation, out_dtype"),
        ("group_conv1d_nwc", "data, kernel, strides, padding, dilation, groups, out_dtype"),
        ("conv3d_ncdhw", "Input, Filter, stride, padding, dilation, groups, out_dtype"),
        (
            "group_conv2d_transpose_nchw",
            "data, kernel, stride, padding, out_dtype, output_padding, groups",
        ),
    ],
)
def test_convolutions_keep_the_parameters_that_users_know(name, signature):
    function = getattr(topi.nn, name)
    assert ", ".join(inspect.signature(function).parameters) == signature
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("rank, layout", [(1, "NCW"), (2, "NCHW"), (3, "NCDHW")])
def test_each_rank_has_its_default_layout(rank, layout):
    for room, name in ((topi.nn, f"pool{rank}d"), (topi.image, f"resize{rank}d")):
        assert inspect.signature(getattr(room, name)).parameters["layout"].default == layout
