"""The fields of the proof machine: each draws programs that run, and what it is there for."""

import json
import random

import numpy as np
import pytest

import tilesmith
from tilesmith.ir import IRModule, structural_equal
from tilesmith.runtime.nd import from_dlpack
from tilesmith.script import from_source
from tilesmith.testing.fuzz import calls, intrinsics, layouts
from tilesmith.testing.fuzz.cases import argument_sets, make_case, run_case
from tilesmith.testing.fuzz.checks import Checker
from tilesmith.testing.fuzz.fields import FIELDS
from tilesmith.testing.fuzz.recipe import build, unbound_sizes
from tilesmith.testing.fuzz.sure import is_sure
from tilesmith.tir import Schedule


@pytest.mark.parametrize("field", FIELDS)
def test_the_cases_of_a_field_are_plain_data_and_pass(field):
    for seed in range(8):
        case = make_case(seed, None, field)
        assert case["field"] == field
        assert json.loads(json.dumps(case)) == case == make_case(seed, None, field)
        result = run_case(case)
        assert result["counts"][f"field {field}"] == 1
        assert result["finding"] is None, result["finding"]["detail"]


def test_all_forms_of_stages_are_drawn_and_run():
    seen = set()
    for seed in range(120):
        recipe = make_case(seed, None, "statements")["recipe"]
        seen |= {word for stage in recipe["stages"] for word in stage.get("form", {})}
        seen |= {stage["kind"] for stage in recipe["stages"]}
        Checker(build(recipe), argument_sets(recipe))  # verifies and interprets
    assert seen >= {
        "inside", "nested", "matched", "local", "branches", "assertion", "assumption", "nothing",
        "let", "shift", "loops", "wide", "scatter", "until", "view", "handed",
    }  # fmt: skip


def test_a_constant_that_is_a_parameter_is_given_by_the_call():
    """The same program with the constant computes the same."""
    intrinsics.register()
    lifted = [case for case in map(make_case, range(130)) if case["recipe"].get("scalars")]
    assert {one["dtype"] for case in lifted for one in case["recipe"]["scalars"]} > {"float32"}
    for case in lifted:
        recipe, scalars = case["recipe"], case["recipe"]["scalars"]
        text = json.dumps({**recipe, "scalars": []})
        for number, one in enumerate(scalars):
            constant = ["const", one["dtype"], one["value"]]
            assert text.count(json.dumps(["scalar", number])) == 1
            text = text.replace(json.dumps(["scalar", number]), json.dumps(constant))
        plain = json.loads(text)
        sizes = len(unbound_sizes(recipe))
        got = Checker(build(recipe), argument_sets(recipe)).expected[0]
        want = Checker(build(plain), argument_sets(plain)).expected[0]
        assert [one["value"] for one in scalars] == got[sizes : sizes + len(scalars)]
        del got[sizes : sizes + len(scalars)]
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)


def recipe_of(stage, **more):
    """The recipe of a program of one stage."""
    stage = {
        "name": "B0", "axes": [{"size": 4, "type": "S"}], "indices": [["axis", 0]],
        "binding": "plain", "tensors": [{"name": "T0", "shape": [4], "dtype": "int32", "ulp": 0}],
        **stage,
    }  # fmt: skip
    recipe = {"index": "int32", "dims": {}, "symbolic": [], "inputs": [], "stages": [stage]}
    return {**recipe, **more}


def outputs_of(stage):
    """The results of a program of one stage, whose program is well formed."""
    recipe = recipe_of(stage)
    return Checker(build(recipe), argument_sets(recipe)).expected[0][0].tolist()


def test_what_no_program_may_refuse():
    """Copies and partial sums of a block with a loop for each iterator, and nothing else."""
    axes = [{"size": 4, "type": "S"}, {"size": 6, "type": "R"}]
    value = ["load", "A0", ["axis", 0], ["axis", 1]]
    stage = {"kind": "reduce", "combiner": "sum", "value": value, "axes": axes}
    source = {"name": "A0", "shape": [4, 6], "dtype": "int32", "low": 0, "high": 5, "ulp": None}
    sch = Schedule(build(recipe_of(stage, inputs=[source])))
    block = sch.get_block("B0")
    outer, inner = sch.get_loops(block)
    assert is_sure(sch, "rfactor", (inner, 0), {}) and not is_sure(sch, "rfactor", (outer, 0), {})
    assert is_sure(sch, "cache_write", (block, 0, "local"), {})
    assert is_sure(sch, "cache_read", (block, 0, "local"), {})
    assert not is_sure(sch, "cache_read", (block, 0, "local"), {"consumer_blocks": [block]})
    assert not is_sure(sch, "split", (outer, [None, 0]), {})
    sch.vectorize(outer)
    assert not is_sure(sch, "rfactor", (inner, 0), {})


def test_wrong_arguments_are_refused_and_right_ones_are_not():
    """What is drawn as wrong is wrong: the function refuses it and accepts the others."""
    kernel = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 1, 3), "float32"), x: T.float32, B: T.Buffer((4, 1, 3), "float32")):
    for i, k in T.grid(4, 3):
        B[i, 0, k] = A[i, 0, k] + x
""")
    call = tilesmith.build(kernel, target="llvm")["main"]
    rng = random.Random(0)
    arrays = [np.ones((4, 1, 3), "float32"), 1.5, np.zeros((4, 1, 3), "float32")]
    for _ in range(60):
        assert calls.wrong_call(call, kernel, arrays, rng) is None
    unusual = calls.unusual_array(kernel.buffer_map[kernel.params[0]], arrays[0], rng)
    call(from_dlpack(unusual), 1.5, arrays[2])
    np.testing.assert_array_equal(arrays[2], arrays[0] + 1.5)


@pytest.mark.parametrize("is_outside", [False, True])
def test_both_blocks_of_a_branch_have_their_constant_memory(is_outside):
    """The second block is made by a builder of its own, which has tables of its own."""
    value = ["table", "int32", [3, 5, 7], ["floormod", ["axis", 0], ["int", 3]]]
    stage = {
        "kind": "compute", "value": value, "form": {"branches": 2}, "tables_outside": is_outside,
    }  # fmt: skip
    assert outputs_of(stage) == [3, 5, 7, 3]


HANDED = [
    {"part": part, **to}
    for part in ("all", "reads", "writes")
    for to in (
        {"to": "packed"},
        *[{"to": "function", "how": how} for how in ("data", "access", "element", "row")],
    )
    if part != "all" or to["to"] == "function"
]


@pytest.mark.parametrize("handed", HANDED, ids=lambda one: "-".join(one.values()))
def test_what_is_handed_on_is_done(handed):
    """A function gets pointers, a packed function tensors; the block does as before."""
    intrinsics.register()
    axes = [{"size": size, "type": kind} for size, kind in ((2, "S"), ("a", "S"), (3, "R"))]
    own = [["axis", 0], ["axis", 1]]
    value = ["add", ["load", "A0", *own], ["cast", "int32", ["axis", 2]]]
    tensor = {"name": "T0", "shape": [2, "a"], "dtype": "int32", "ulp": None}
    stage = {
        "kind": "reduce", "combiner": "sum", "value": value, "axes": axes, "indices": own,
        "tensors": [tensor], "form": {"handed": handed},
    }  # fmt: skip
    source = {**tensor, "name": "A0", "low": 5, "high": 5}
    recipe = recipe_of(stage, dims={"a": 2}, symbolic=["a"], inputs=[source])
    program = build(recipe)
    assert isinstance(program, IRModule) == (handed["to"] == "function")
    checker = Checker(program, argument_sets(recipe))
    assert checker.expected[0][1].tolist() == [[18, 18], [18, 18]]
    assert "call_packed" in program.script() or handed["to"] == "function"


@pytest.mark.parametrize("has_while", [False, True])
def test_an_assumption_names_no_iterator_that_the_body_binds(has_while):
    """The loop of a running sum is in the block: a ``while`` binds its iterator itself."""
    stage = {
        "kind": "scan", "value": ["cast", "int32", ["axis", 0]], "while": has_while,
        "form": {"assumption": True},
    }  # fmt: skip
    assert outputs_of(stage) == [0, 1, 3, 6]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("step, gaps", [(1, [0, 0]), (2, [1, 0]), (1, [3, 2])])
def test_arrays_in_gaps(order, step, gaps):
    numbers = np.arange(12, dtype="int32").reshape(3, 4)
    layout = {"order": order, "step": step, "gaps": gaps, "dense": False}
    array = layouts.array_in_gaps(numbers, layout)
    np.testing.assert_array_equal(array, numbers)
    assert array.strides[order[1]] == 4 * step
    assert np.count_nonzero(layouts.whole(array) == 77) == layouts.whole(array).size - 12
    again = layouts.copied(array)
    assert again.strides == array.strides and not np.shares_memory(again, array)
    again[0, 0] = 5
    assert layouts.whole(again)[0] == 5 and array[0, 0] == 0


def test_an_offset_factor_without_an_offset_is_printed():
    """A cache of a parameter keeps the factor; its offset is 0, which must not become a symbol."""
    function = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4,), "int32", elem_offset=0, offset_factor=4)
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
""")
    (buffer,) = function.body.block.alloc_buffers
    assert buffer.offset_factor == 4
    assert structural_equal(from_source(function.script()), function)
