"""suggest_layout_transforms, has_reshape_pattern, sizes in struct infos, pipelines by name."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.driver import pipelines
from tilesmith.relax import analysis
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError
from tilesmith.tir import IndexMap
from tilesmith.tir.analysis import unscheduled_blocks


@T.prim_func
def two_steps(a: T.Buffer((8, 16)), b: T.Buffer((16,)), c: T.Buffer((16, 8)), d: T.Buffer((8, 16))):
    e = T.alloc_buffer((8, 16))
    for i, j in T.grid(8, 16):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            e[vi, vj] = a[vi, vj] + b[vj]
    for i, j in T.grid(8, 16):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            d[vi, vj] = e[vi, vj] * c[vj, vi]


@T.prim_func
def product(a: T.Buffer((8, 4)), b: T.Buffer((4, 16)), c: T.Buffer((8, 16))):
    for i, j, k in T.grid(8, 16, 4):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]


@T.prim_func
def diagonal(a: T.Buffer((8, 8)), c: T.Buffer((8,))):
    for i in range(8):
        with T.block("diagonal"):
            vi = T.axis.spatial(8, i)
            c[vi] = a[vi, vi]


def shown(suggestions):
    """Return {block: {itself or a buffer: the places of (1, 5, 9)}}"""
    return {
        block.name_hint: {
            getattr(key, "name_hint", None) or key.name: [
                int(value) for value in one.map_indices([1, 5, 9][: len(one.initial_indices)])
            ]
            for key, one in found.items()
        }
        for block, found in suggestions.items()
    }


def test_layouts_go_back_through_blocks():
    packed = lambda i, j: (i, j // 4, j % 4)
    assert shown(analysis.suggest_layout_transforms(two_steps, [packed])) == {
        # of c (j, i) the place follows the block's: first i, then j
        "second": {"second": [1, 1, 1], "e": [1, 1, 1], "c": [5, 0, 1]},
        "first": {"first": [1, 1, 1], "a": [1, 1, 1], "b": [0, 1]},
    }


def test_axes_that_are_summed_stay_last():
    found = shown(analysis.suggest_layout_transforms(product, [lambda i, j: (j, i)]))
    # the summed axis comes behind, also for b: (k, j) is (j, k) then
    assert found == {"product": {"product": [5, 1, 9], "b": [5, 1]}}


def test_given_maps_and_what_they_do_not_tell():
    index_map = IndexMap.from_func(lambda i: (i // 4, i % 4))
    assert shown(analysis.suggest_layout_transforms(diagonal, [index_map])) == {
        "diagonal": {"diagonal": [0, 1]}
    }
    with pytest.raises(ShapeError, match="2 transformations for 1 results"):
        analysis.suggest_layout_transforms(diagonal, [index_map, index_map])
    assert len(unscheduled_blocks(diagonal)) == 1


def test_copies_in_order():
    @T.prim_func
    def flat(a: T.Buffer((2, 3)), b: T.Buffer((6,))):
        for i in range(6):
            with T.block("flat"):
                vi = T.axis.spatial(6, i)
                b[vi] = a[vi // 3, vi % 3]

    assert analysis.has_reshape_pattern(func=flat)
    assert not analysis.has_reshape_pattern(func=product)


def test_sizes_in_struct_infos():
    n, m = T.int64(), T.int64()
    info = R.Tensor((n, m + 1), "float32")
    assert len(analysis.tir_vars_in_struct_info(sinfo=info)) == 2
    assert [one.same_as(n) for one in analysis.definable_tir_vars_in_struct_info(sinfo=info)] == [
        True
    ]


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.exp(x)
            gv = R.add(y, y)
            R.output(gv)
        return gv


@pytest.mark.parametrize("make", [pipelines.zero_pipeline, pipelines.default_build_pipeline])
def test_pipelines(make):
    x = np.ones(3, "float32")
    built = relax.build(Model, "llvm", pipeline=make())
    np.testing.assert_allclose(built(x).numpy(), 2 * np.exp(x), rtol=1e-6)
    assert "default_build" in pipelines.PIPELINE_MAP and "zero" in pipelines.PIPELINE_MAP
