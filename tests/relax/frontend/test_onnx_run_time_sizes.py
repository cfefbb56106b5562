"""Models whose sizes depend on data or on values computed at run time: compiled, against
onnxruntime.
"""

import numpy as np
import pytest
from onnx import helper

import tilesmith
from tests.relax.frontend.onnx_reference import make_model, reference
from tilesmith.error import ShapeError, TilesmithError
from tilesmith.runtime.frame import Frame

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


SQUARE = N("Mul", ["s", "s"], ["row"])
STEP = N("Add", ["s", "number_f"], ["s_"])
NUMBER = N("Cast", ["number"], ["number_f"], to=1)
COLLECTED = {"y": ("float32", None), "rows": ("float32", None)}


def collecting(nodes, limit="limit", first="", constants=None, row="row"):
    """A model of a loop over a vector that collects a row in each iteration."""
    graph = body(nodes, STATE, ["go_on_", "s_", row], constants)
    inputs = {**COUNTED, "first": ("bool", [])} if first else COUNTED
    inputs = inputs if limit == "limit" else {"x": COUNTED["x"]}
    given = {} if limit == "limit" else {limit: np.int64(0)}
    node = N("Loop", [limit, first, "x"], ["y", "rows"], body=graph)
    return make_model([node], inputs, COLLECTED, given)


def test_loops_that_collect_many_rows_or_none():
    model = collecting([SQUARE, NUMBER, STEP, AGAIN])
    check(model, *[[count, f32(3)] for count in (1, 2, 33, 1500)], [4, f32(0)])
    # onnxruntime does not know the sizes of rows that it never sees, and says (0, 0).
    assert tilesmith.compile(model)(i64(0)[0], f32(3))[1].shape == (0, 3)


def test_loops_without_iterations_that_collect():
    x = f32(3)
    found = tilesmith.compile(collecting([SQUARE, NUMBER, STEP, AGAIN], limit="none"))(x)
    np.testing.assert_array_equal(found[0].numpy(), x)
    assert found[1].shape == (0, 3)


def test_loops_that_collect_and_end_early():
    nodes = [
        SQUARE, NUMBER, STEP, N("ReduceMax", ["s_"], ["most"], keepdims=0),
        N("Less", ["most", "end"], ["go_on_"]),
    ]  # fmt: skip
    model = collecting(nodes, first="first", constants={"end": np.float32(20)})
    x = np.zeros(3, "float32")
    check(model, [100, x, True], [3, x, True], [100, x + 30, True])


def test_loops_that_collect_what_they_carry():
    """The row is the memory of the value before, or of the next one."""
    check(collecting([NUMBER, STEP, AGAIN, N("Identity", ["s"], ["row"])]), [40, f32(3)])
    check(collecting([NUMBER, STEP, AGAIN, N("Identity", ["s_"], ["row"])]), [40, f32(300)])
    grows = [N("Concat", ["s", "number_v"], ["s_"], axis=0), NUMBER, AGAIN]
    grows += [N("Unsqueeze", ["number_f", "axis"], ["number_v"])]
    grows += [N("ReduceSum", ["s"], ["row"], keepdims=1)]
    order = [NUMBER, grows[3], grows[0], AGAIN, grows[4]]
    check(collecting(order, constants={"axis": i64(0)}), [40, f32(3)])


def test_loops_in_loops_that_collect():
    inner = body([SQUARE, NUMBER, STEP, AGAIN], STATE, ["go_on_", "s_", "row"])
    nodes = [
        N("Add", ["number", "one"], ["times"]),
        N("Loop", ["times", "", "s"], ["last", "all"], body=inner),
        N("ReduceSum", ["all", "axis"], ["total"], keepdims=0),
        N("Identity", ["go_on"], ["again"]),
    ]
    constants = {"axis": i64(0), "one": np.int64(1)}
    outer = body(nodes, STATE, ["again", "last", "total"], constants)
    node = N("Loop", ["limit", "", "x"], ["y", "rows"], body=outer)
    check(make_model([node], COUNTED, COLLECTED), [1, f32(3)], [6, f32(3)])


def test_rows_of_changing_sizes_are_refused():
    nodes = [N("Concat", ["s", "s"], ["s_"], axis=0), N("Mul", ["s", "s"], ["row"]), AGAIN]
    with pytest.raises(TilesmithError, match=r"collecting a result .* whose sizes the loop"):
        tilesmith.compile(collecting(nodes))


def test_collected_rows_are_copied_a_few_times_only(monkeypatch):
    """Memory for them is doubled when it is full: no copy of all in each iteration."""
    taken = []

    def reserve(frame, size):
        taken.append(size)
        return original(frame, size)

    original = Frame.reserve
    monkeypatch.setattr(Frame, "reserve", reserve)
    executable = tilesmith.compile(collecting([SQUARE, NUMBER, STEP, AGAIN]))
    found = executable(np.array(2000), np.ones(4, "float32"))
    assert found[1].shape == (2000, 4)
    rows = [size for size in taken if size > 16]  # the others are for the state
    assert len(rows) < 15 and sum(rows) < 4 * 2000 * 16


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
