"""Models whose sizes depend on data or on values computed at run time: compiled, against
onnxruntime.
"""

import numpy as np
import pytest
from onnx import helper

import tilesmith
from tests.relax.frontend.onnx_reference import make_model, reference
from tilesmith.error import ShapeError, TilesmithError

N = helper.make_node
RANDOM = np.random.default_rng(7)


def i64(*values):
    return np.array(values, "int64")


def f32(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def holes(dtype, *shape):
    return (RANDOM.random(shape) > 0.5).astype(dtype)


def check(model, *calls):
    """Compile once, call with inputs of several sizes."""
    executable = tilesmith.compile(model)
    names = [item.name for item in model.graph.input]
    for given in calls:
        given = [np.asarray(value) for value in given]
        expected = reference(model, dict(zip(names, given)))
        found = executable(*given)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            a = a.numpy()
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_shapes_are_values():
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Cast", ["s"], ["sizes"], to=1),
        N("ReduceSum", ["sizes"], ["total"], keepdims=0),
        N("Div", ["x", "total"], ["y"]),
    ]
    model = make_model(nodes, {"x": ("float32", ["n", "m"])}, ["y", "s"])
    check(model, [f32(2, 3)], [f32(4, 5)], [f32(1, 1)])


def run_time(operator, inputs, output="float32", **attributes):
    node = N(operator, list(inputs), ["y"], **attributes)
    return make_model([node], inputs, {"y": (output, None)})


X, TWO = ("float32", ["n", "m"]), ("int64", [2])
CASES = {
    "Reshape": (
        run_time("Reshape", {"x": X, "s": ("int64", [3])}),
        [f32(2, 6), i64(2, 2, 3)], [f32(4, 6), i64(0, -1, 2)], [f32(1, 8), i64(-1, 2, 2)],
    ),
    "Expand": (
        run_time("Expand", {"x": ("float32", ["n", 1]), "s": TWO}),
        [f32(2, 1), i64(2, 5)], [f32(1, 1), i64(3, 4)], [f32(4, 1), i64(1, 4)],
        [f32(3, 1), i64(1, 1)],
    ),
    "Slice": (
        run_time("Slice", {"x": X, "begin": TWO, "end": TWO}),
        [f32(6, 6), i64(1, 0), i64(3, 9)], [f32(5, 4), i64(-3, -2), i64(99, -1)],
        [f32(6, 6), i64(4, 1), i64(1, 2)],
    ),
    "Range": (
        run_time("Range", {k: ("int64", []) for k in "abc"}, "int64"),
        [1, 9, 2], [9, 1, -3], [3, 1, 1],
    ),
    "ConstantOfShape": (
        run_time("ConstantOfShape", {"s": TWO}), [i64(2, 3)], [i64(0, 3)], [i64(1, 7)],
    ),
    "Tile": (
        run_time("Tile", {"x": X, "r": TWO}), [f32(2, 3), i64(2, 1)], [f32(1, 2), i64(3, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_are_inputs(name):
    check(*CASES[name])


@pytest.mark.parametrize(
    ("shape", "words"),
    [((2, 2, 2), "Reshape node.*expects size 8, it is 12"), ((2, -3, -2), "size -3")],
)
def test_a_shape_that_does_not_fit_is_refused_when_the_model_runs(shape, words):
    executable = tilesmith.compile(CASES["Reshape"][0])
    with pytest.raises(ShapeError, match=words):
        executable(f32(2, 6), i64(*shape))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8"])
def test_nonzero(dtype):
    model = run_time("NonZero", {"x": (dtype, ["n", "m"])}, "int64")
    check(model, [holes(dtype, 3, 4)], [np.zeros((2, 3), dtype)], [holes(dtype, 33, 44)])


def test_nonzero_of_a_number():
    check(run_time("NonZero", {"x": ("float32", [])}, "int64"), [np.float32(2)], [np.float32(0)])


def test_what_follows_a_size_that_depends_on_data():
    nodes = [
        N("NonZero", ["x"], ["places"]),
        N("Transpose", ["places"], ["pairs"]),
        N("GatherND", ["x", "pairs"], ["values"]),
        N("Mul", ["values", "values"], ["squares"]),
        N("ReduceSum", ["squares"], ["total"], keepdims=0),
        N("Shape", ["values"], ["count"]),
    ]
    model = make_model(nodes, {"x": ("float32", [3, 4])}, ["total", "squares", "count"])
    check(model, [f32(3, 4) * holes("float32", 3, 4)], [np.zeros((3, 4), "float32")], [f32(3, 4)])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(axis, is_sorted):
    attributes = {"sorted": is_sorted, **({} if axis is None else {"axis": axis})}
    node = N("Unique", ["x"], ["y", "first", "inverse", "counts"], **attributes)
    model = make_model([node], {"x": X}, ["y", "first", "inverse", "counts"])
    whole = RANDOM.integers(-1, 2, (5, 3)).astype("float32")
    check(model, [whole], [np.zeros((4, 4), "float32")], [f32(3, 2)], [whole[:, :1]])


@pytest.mark.parametrize("dtype", ["int64", "int8", "float64"])
def test_unique_values(dtype):
    whole = RANDOM.integers(-3, 3, 50).astype(dtype)
    check(run_time("Unique", {"x": (dtype, ["n"])}, dtype), [whole], [whole[:1]])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis):
    attributes = {} if axis is None else {"axis": axis}
    inputs = {"x": ("float32", ["n", 3]), "chosen": ("bool", ["k"])}
    model = run_time("Compress", inputs, **attributes)
    check(model, [f32(4, 3), np.array([1, 0, 1], bool)], [f32(4, 3), np.array([0, 0], bool)])


def test_errors_name_the_node():
    model = make_model(
        [N("Reshape", ["x", "s"], ["y"], name="flat")],
        {"x": X, "s": ("int64", ["k"])}, {"y": ("float32", None)},
    )  # fmt: skip
    with pytest.raises(
        TilesmithError, match=r"(?s)Reshape node 'flat'.*number of elements.*input_shapes"
    ):
        tilesmith.compile(model)


# Loops and branches


def body(nodes, states, outputs, constants=None):
    """The body of a Loop: the number of the iteration, a condition, then what it carries."""
    heads = {"number": ("int64", []), "go_on": ("bool", [])}
    graph = make_model(nodes, {**heads, **states}, outputs, constants).graph
    return graph


STATE = {"s": ("float32", ["n"])}
AGAIN = N("Identity", ["go_on"], ["go_on_"])
COUNTED = {"limit": ("int64", []), "x": ("float32", ["n"])}
BODIES = {
    "sum": body([N("Add", ["s", "x"], ["s_"]), AGAIN], STATE, ["go_on_", "s_"]),
    "number": body(
        [N("Cast", ["number"], ["k"], to=1), N("Add", ["s", "k"], ["s_"]), AGAIN],
        STATE, ["go_on_", "s_"],
    ),
    "grows": body(
        [N("Concat", ["s", "x"], ["s_"], axis=0), AGAIN], STATE, ["go_on_", "s_"]
    ),
    "sizes": body(
        [
            N("Shape", ["s"], ["size"]),
            N("Cast", ["size"], ["size_f"], to=1),
            N("Concat", ["s", "size_f"], ["s_"], axis=0),
            AGAIN,
        ],
        STATE, ["go_on_", "s_"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_loops_with_a_limit_that_is_an_input(name):
    node = N("Loop", ["limit", "", "x"], ["y"], body=BODIES[name])
    model = make_model([node], COUNTED, {"y": ("float32", None)})
    check(model, *[[limit, f32(size)] for limit, size in ((3, 4), (0, 2), (1, 1), (20, 3))])


def test_loops_with_a_condition_that_is_computed():
    graph = body(
        [
            N("Mul", ["s", "two"], ["s_"]),
            N("ReduceSum", ["s_"], ["total"], keepdims=0),
            N("Less", ["total", "most"], ["go_on_"]),
        ],
        STATE, ["go_on_", "s_"], {"two": np.float32(2)},
    )  # fmt: skip
    node = N("Loop", ["", "first", "x"], ["y"], body=graph)
    inputs = {"x": ("float32", ["n"]), "most": ("float32", []), "first": ("bool", [])}
    ones = np.ones(3, "float32")
    model = make_model([node], inputs, {"y": ("float32", None)})
    check(model, [ones, np.float32(100), True], [ones, np.float32(100), False])


def test_loops_that_swap_and_collect():
    graph = body(
        [
            N("Identity", ["a"], ["b_"]),
            N("Add", ["a", "b"], ["a_"]),
            N("Mul", ["b", "b"], ["row"]),
            AGAIN,
        ],
        {"a": ("float32", ["n"]), "b": ("float32", ["n"])}, ["go_on_", "a_", "b_", "row"],
    )  # fmt: skip
    node = N("Loop", ["limit", "", "x", "x"], ["y", "z", "rows"], body=graph)
    outputs = dict.fromkeys(("y", "z", "rows"), ("float32", None))
    check(make_model([node], COUNTED, outputs), [3, f32(4)], [1, f32(2)], [17, f32(1)])


def test_a_long_loop_is_not_unrolled():
    node = N("Loop", ["limit", "", "x"], ["y"], body=BODIES["number"])
    inputs = {"x": ("float32", ["n"])}
    model = make_model([node], inputs, {"y": ("float32", None)}, {"limit": np.int64(5000)})
    check(model, [np.zeros(2, "float32")])


def test_branches_of_different_sizes():
    branches = [
        make_model([N(*one, **more)], {}, {"o": ("float32", [None])}).graph
        for one, more in (
            (("Add", ["x", "x"], ["o"]), {}),
            (("Concat", ["x", "x"], ["o"]), {"axis": 0}),
        )
    ]
    nodes = [
        N("If", ["first"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        N("Neg", ["z"], ["y"]),
    ]
    inputs = {"first": ("bool", []), "x": ("float32", ["n"])}
    model = make_model(nodes, inputs, {"y": ("float32", None)})
    check(model, [True, f32(4)], [False, f32(4)])


def test_a_loop_that_carries_a_sequence_is_refused_with_a_cure():
    graph = make_model(
        [N("SequenceInsert", ["s", "x"], ["s_"]), AGAIN],
        {"number": ("int64", []), "go_on": ("bool", []), "s": ("float32", [])},
        ["go_on_", "s_"],
    ).graph
    nodes = [
        N("SequenceEmpty", [], ["empty"]),
        N("Loop", ["limit", "", "empty"], ["all"], body=graph, name="collect"),
        N("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    model = make_model(nodes, COUNTED, {"y": ("float32", None)})
    with pytest.raises(TilesmithError, match=r"(?s)Loop node 'collect'.*carries a sequence.*cons"):
        tilesmith.compile(model)


# Detection of objects


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center):
    node = N("NonMaxSuppression", list("bsmot"), ["y"], center_point_box=center)
    inputs = {"b": ("float32", [2, "n", 4]), "s": ("float32", [2, 3, "n"]), "m": ("int64", [1])}
    constants = {"o": np.array([0.3], "float32"), "t": np.array([0.2], "float32")}
    model = make_model([node], inputs, {"y": ("int64", None)}, constants)
    boxes = np.sort(RANDOM.random((2, 50, 4)).astype("float32"), -1)
    scores = RANDOM.random((2, 3, 50)).astype("float32")
    check(
        model,
        [boxes, scores, i64(5)],
        [boxes, np.where(scores > 0.9, np.float32(np.nan), scores), i64(50)],
        [boxes[:, :7], scores[..., :7], i64(50)],
        [boxes, np.zeros_like(scores), i64(3)],
    )
