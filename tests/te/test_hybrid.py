"""Hybrid script: as Python, as an operation, its loops in schedules, its text."""

# ruff: noqa: F821, F841, B007 (the words of hybrid script, mistakes in scripts)
from __future__ import annotations

import math

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.support.errors import (
    ExecutionError,
    ScheduleError,
    ScriptError,
    ShapeError,
    TilesmithError,
    TypeMismatchError,
)
from tilesmith.te.hybrid.preprocessor import determine_variable_usage
from tilesmith.te.hybrid.utils import source_of
from tilesmith.tir import interpreter

script = te.hybrid.script
SCALE = 3
PLACES = (4, 0, 2)


@script
def outer(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), "float32")
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@script
def sums(a, b):
    """Two results, a variable that is assigned again, closure constants."""
    total = output_tensor((a.shape[0],), a.dtype)
    largest = output_tensor((1,), "float32")
    largest[0] = ninf("float32")
    for i in range(a.shape[0]):
        s = 0.0
        for j in serial(1, b.shape[0]):
            s += a[i] * b[j] * SCALE
            if s > 2.0 and j != 3:
                s = s - 1.0
            elif not s < 0.5:
                s = s + math.pi
            else:
                s -= 0.25
        total[i] = s
        largest[0] = max(largest[0], s)
    return total, largest


@script
def functions(a, b):
    c = output_tensor((a.shape[0],), "float32")
    for i in unroll(len(a)):
        x = sqrt(a[i]) + exp(-b[0]) if i % 2 == 0 else tanh(a[i])
        y = float32(int32(x * 10.0)) + rsqrt(a[i] + 1.0) * sigmoid(x)
        c[i] = power(y, 2.0) + min(x, y) + (1.0 if likely(x < y) else 0.5) + log(a[i] + 1.0)
    return c


@script
def written_out(a, b):
    c = output_tensor((3, 2), "float32")
    for i in const_range(3):
        for j in const_range(2):
            if i == j:
                c[i, j] = 1.0
            else:
                c[i, j] = a[PLACES[i]] * (i + ceil_div(7, 2)) + b[(-j) % 2]
    return c


@script
def by_threads(a, b):
    c = output_tensor((4,), "float32")
    cache = allocate((4,), "float32", "shared")
    for i in bind("threadIdx.x", 4):
        cache[i] = a[i] + 1.0
        c[i] = cache[i] * b[0]
    return c


@script
def stepped(a, b):
    c = output_tensor((5,), "float32")
    for i in range(5):
        c[i] = 0.0
    for i in range(4, -1, -2):
        c[i] += a[i] / b[i // 2]
    return c


@script
def twice(x):
    y = output_tensor((5,), "float32")
    for i in range(5):
        y[i] = x[i] * 2.0
    return y


@script
def nested(a, b):
    c = output_tensor((5,), "float32")
    d = allocate((5,), "float32")
    d = twice(a)
    c = twice(d)
    return c


SCRIPTS = [outer, sums, functions, written_out, by_threads, stepped]
A, B = te.placeholder((5,), name="a"), te.placeholder((4,), name="b")
X = np.random.default_rng(0).random(5, dtype="float32")
Y = np.random.default_rng(1).random(4, dtype="float32")


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def run(program, inputs, results):
    outs = [np.zeros([int(n) for n in one.shape], str(one.dtype)) for one in results]
    interpreter.run(program, *inputs, *outs)
    return outs


@pytest.mark.parametrize("function", SCRIPTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", ["prim func", "schedule", "module"])
def test_an_operation_computes_what_python_does(function, way):
    expected = listed(function(X, Y))
    results = listed(function(A, B))
    schedule = te.create_schedule(results[0].op)
    if way == "prim func":
        found = run(te.create_prim_func([A, B, *results]), [X, Y], results)
    elif way == "schedule":
        module = tilesmith.lower(schedule, [A, B, *results], simple_mode=True)
        found = run(module["main"], [X, Y], results)
    else:
        found = listed(te.hybrid.build(schedule, [A, B], results)(X, Y))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_other_scripts_inside_and_stages_around():
    c = nested(te.compute((5,), lambda i: A[i] + 1.0, name="more"), B)
    d = te.compute((5,), lambda i: c[i] - 1.0, name="less")
    for program in (
        tilesmith.lower(te.create_schedule(d.op), [A, B, d], simple_mode=True)["main"],
        te.create_prim_func([A, B, d]),
    ):
        np.testing.assert_allclose(run(program, [X, Y], [d])[0], (X + 1) * 4 - 1, rtol=1e-5)


def test_scalars_and_tuples_among_the_arguments():
    @script
    def scaled(a, places, factor):
        c = output_tensor((len(places),), "float32")
        for i in const_range(len(places)):
            c[i] = a[places[i]] * factor
        return c

    factor = te.var("factor", "float32")
    c = scaled(A, (3, 1), factor)
    (found,) = run(te.create_prim_func([A, factor, c]), [X, 2.0], [c])
    np.testing.assert_allclose(found, X[[3, 1]] * 2)
    np.testing.assert_allclose(scaled(X, (3, 1), 2.0), X[[3, 1]] * 2)


def test_assertions_and_symbolic_sizes():
    @script
    def checked(a):
        c = output_tensor((a.shape[0],), "float32")
        for i in parallel(a.shape[0]):
            assert a[i] > 0.0, "positive numbers are needed"
            c[i] = log(a[i])
        return c

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    func = te.create_prim_func([a, checked(a)])
    out = np.zeros(3, "float32")
    interpreter.run(func, np.ones(3, "float32"), out)
    with pytest.raises(ExecutionError, match="positive numbers"):
        interpreter.run(func, np.zeros(3, "float32"), out)


# Schedules


def split(s, c):
    i, j = c.op.axis
    outer_, inner = s[c].split(j, 3)
    s[c].reorder(outer_, i, inner)
    s[c].vectorize(inner)
    s[c].parallel(outer_)


def fuse(s, c):
    fused = s[c].fuse(*c.op.axis)
    outer_, inner = s[c].split(fused, nparts=4)
    s[c].unroll(inner)
    s[c].parallel(outer_)
    s[c].pragma(outer_, "unroll_explicit", 1)


def bind(s, c):
    i, j = c.op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(j, te.thread_axis("threadIdx.x"))


SHOWN = {
    split: ["for j_outer in T.parallel(2):", "for j_inner in T.vectorized(3):", "T.likely("],
    fuse: ["T.parallel(4):", "T.unroll(5):", "pragma_unroll_explicit"],
    bind: ['T.launch_thread("blockIdx.x", 5)', 'T.launch_thread("threadIdx.x", 4)'],
}


@pytest.mark.parametrize("primitives", SHOWN, ids=lambda f: f.__name__)
def test_primitives_rewrite_the_loops(primitives):
    c = outer(A, B)
    s = te.create_schedule(c.op)
    primitives(s, c)
    module = tilesmith.lower(s, [A, B, c], simple_mode=True)
    for text in SHOWN[primitives]:
        assert text in str(module)
    if primitives is not bind:
        np.testing.assert_allclose(run(module["main"], [X, Y], [c])[0], np.outer(X, Y))


def test_a_built_function():
    c, d = sums(A, B)
    s = te.create_schedule(c.op)
    s[c].unroll(s[c].split(c.op.axis[1], 2)[1])
    built = tilesmith.build(s, [A, B, c, d], target="llvm")
    found = [tilesmith.nd.array(np.zeros(n, "float32")) for n in (5, 1)]
    built(tilesmith.nd.array(X), tilesmith.nd.array(Y), *found)
    for one, other in zip(found, sums(X, Y)):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)


@script
def running(a):
    c = output_tensor((5, 4), "float32")
    for i in range(5):
        for j in range(4):
            c[i, j] = a[i] + (c[i - 1, j] if i > 0 else 0.0) + (c[i, j - 1] if j > 0 else 0.0)
    return c


@script
def scattered(a):
    c = output_tensor((5,), "float32")
    for i in range(5):
        c[int32(a[i])] = 1.0
    return c


def primitive(name, number, function=running):
    def make():
        c = function(A)
        s = te.create_schedule(c.op)
        getattr(s[c], name)(c.op.axis[number])
        return tilesmith.lower(s, [A, c])

    return make


def reorder():
    c = running(A)
    s = te.create_schedule(c.op)
    s[c].reorder(*reversed(c.op.axis))
    return tilesmith.lower(s, [A, c])


def not_nested(name):
    def make():
        c, d = sums(A, B)
        s = te.create_schedule(c.op)
        getattr(s[c], name)(*reversed(c.op.axis) if name == "reorder" else c.op.axis)
        return tilesmith.lower(s, [A, B, c, d])

    return make


def inside():
    more = te.compute((5,), lambda i: A[i] + 1.0, name="more")
    c = outer(more, B)
    s = te.create_schedule(c.op)
    s[more].compute_at(s[c], c.op.axis[0])


def of_script():
    c = outer(A, B)
    d = te.compute((5, 4), lambda i, j: c[i, j] + 1.0, name="d")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("'i' cannot run at once", primitive("parallel", 0)),
        ("'j' cannot run at once", primitive("vectorize", 1)),
        ("may use the same elements of 'c'", primitive("parallel", 0, scattered)),
        ("cannot change places", reorder),
        ("cannot change places", not_nested("reorder")),
        ("not the only statement", not_nested("fuse")),
        ("'outer' is a hybrid script, which reads all", inside),
        ("'outer' is a hybrid script, which is computed as a whole", of_script),
    ],
)
def test_what_schedules_refuse(message, make):
    with pytest.raises(ScheduleError, match=message) as caught:
        make()
    assert caught.value.place.file == __file__


# Text


def test_modules_are_saved_and_loaded(tmp_path):
    results = sums(A, B)
    module = te.hybrid.build(te.create_schedule(results[0].op), [A, B], results, name="sums")
    assert module.get_source().startswith("def sums(a, b):\n")
    module.save(str(tmp_path / "sums"))
    loaded = te.hybrid.HybridModule()
    loaded.load(str(tmp_path / "sums.py"))
    assert loaded.name == "sums" and loaded.get_source() == module.get_source()
    for found, expected in zip(loaded(X, Y), sums(X, Y)):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    tensors = loaded(A, B)
    assert [one.dtype for one in tensors] == ["float32"] * 2


def test_a_schedule_of_computations_as_text():
    k = te.reduce_axis((0, 5), "k")
    a = te.placeholder((6, 5), name="a")
    b = te.compute((6, 5), lambda i, j: te.if_then_else(i > 2, a[i, j], te.exp(a[i, j])), name="b")
    c = te.compute((6,), lambda i: te.sum(b[i, k] * 2, axis=k), name="c")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], io)
    module = te.hybrid.build(s, [a], [c])
    x = np.random.default_rng(0).random((6, 5), dtype="float32")
    expected = np.where(np.arange(6)[:, None] > 2, x, np.exp(x)).sum(1) * 2
    np.testing.assert_allclose(module(x), expected, rtol=1e-5)
    assert "b = allocate(" in module.get_source()


def test_the_use_of_variables():
    import ast

    def function(a):
        x = a[0]
        for i in range(3):
            y = x
            y += a[i]
        return y

    usage = determine_variable_usage(ast.parse(source_of(function).text), [], {}, {})
    assert usage["x"][2] == {"Store", "Load"} and usage["y"][2] == {"Store", "AugStore", "Load"}


# Mistakes


@script
def undefined(a):
    c = output_tensor((5,), "float32")
    for i in range(5):
        c[i] = b[i]
    return c


@script
def out_of_block(a):
    c = output_tensor((5,), "float32")
    for i in range(5):
        x = a[i]
    c[0] = x
    return c


@script
def a_while(a):
    c = output_tensor((5,), "float32")
    while True:
        c[0] = 1.0
    return c


@script
def no_return(a):
    c = output_tensor((5,), "float32")
    c[0] = 1.0


@script
def returns_an_input(a):
    return a


@script
def forgets_an_output(a):
    c = output_tensor((5,), "float32")
    d = output_tensor((5,), "float32")
    return c


@script
def writes_an_input(a):
    c = output_tensor((5,), "float32")
    a[0] = 1.0
    return c


@script
def one_index_too_many(a):
    c = output_tensor((5,), "float32")
    c[0, 1] = 1.0
    return c


@script
def float_index(a):
    c = output_tensor((5,), "float32")
    c[a[0]] = 1.0
    return c


@script
def loops_over_a_list(a):
    c = output_tensor((5,), "float32")
    for i in [1, 2]:
        c[i] = 1.0
    return c


@script
def unknown_range(a):
    c = output_tensor((5,), "float32")
    for i in const_range(int32(a[0])):
        c[i] = 1.0
    return c


@script
def calls_python(a):
    c = output_tensor((5,), "float32")
    c[0] = float(a[0])
    return c


@script
def divides_integers(a):
    c = output_tensor((5,), "float32")
    for i in range(5):
        c[i] = float32(i / (i + 1))
    return c


@script
def whole_tensors(a):
    c = output_tensor((5,), "float32")
    c[0] = a + 1.0
    return c


@script
def assigns_a_loop(a):
    c = output_tensor((5,), "float32")
    for i in range(5):
        i = 3
        c[i] = 1.0
    return c


@script
def output_in_a_loop(a):
    for i in range(5):
        c = output_tensor((5,), "float32")
    return c


@script
def early_return(a):
    c = output_tensor((5,), "float32")
    if a[0] > 0.0:
        return c
    return c


@script
def different_threads(a):
    c = output_tensor((5,), "float32")
    for i in bind("threadIdx.x", 5):
        c[i] = 1.0
    for j in bind("threadIdx.x", 4):
        c[j] = 2.0
    return c


@script
def with_statement(a):
    c = output_tensor((5,), "float32")
    with a:
        c[0] = 1.0
    return c


MISTAKES = {
    undefined: (ScriptError, "the name 'b' is not defined here", "c[i] = b[i]"),
    out_of_block: (ScriptError, "the name 'x' is not defined here", "c[0] = x"),
    a_while: (ScriptError, "`While` is no part of hybrid script", "while True"),
    no_return: (ScriptError, "returns nothing", "def no_return"),
    returns_an_input: (ScriptError, "an output is returned", "return a"),
    forgets_an_output: (ScriptError, "the output 'd' is not returned", "return c"),
    writes_an_input: (ScriptError, "'a' is an input", "a[0] = 1.0"),
    one_index_too_many: (ShapeError, "has 1 dimensions, got 2 indices", "c[0, 1]"),
    float_index: (TypeMismatchError, "is float32, an integer is needed", "c[a[0]]"),
    loops_over_a_list: (ScriptError, "a loop goes over a range", "[1, 2]"),
    unknown_range: (ScriptError, "a number that is known is needed", "const_range("),
    calls_python: (ScriptError, "the name 'float' is not defined", "float(a[0])"),
    divides_integers: (TypeMismatchError, "of integers .*is ambiguous", "i / (i + 1)"),
    whole_tensors: (ScriptError, "one value is needed, got tensor 'a'", "a + 1.0"),
    assigns_a_loop: (ScriptError, "'i' is the variable of a loop", "i = 3"),
    output_in_a_loop: (ScriptError, "stands outside of loops", "output_tensor"),
    early_return: (ScriptError, "return stands once", "return c"),
    different_threads: (ScriptError, "has 5 threads in another loop", 'bind("threadIdx.x", 4)'),
    with_statement: (ScriptError, "no with statements", "with a:"),
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes_are_shown_at_their_line(function):
    kind, message, line = MISTAKES[function]
    with pytest.raises(kind, match=message) as caught:
        function(te.placeholder((5,), name="a"))
    assert line in str(caught.value) and __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("is called with tensors and with ndarray", lambda: outer(A, Y)),
        ("missing a required argument", lambda: outer(A)),
        ("decorates a function", lambda: script(3)),
        ("the source of '<lambda>' is not known", lambda: script(eval("lambda a: a"))(A)),
        ("no source yet", lambda: te.hybrid.HybridModule().get_source()),
        ("cannot be read", lambda: te.hybrid.HybridModule().load("/nowhere/x.py")),
        ("is not Python", lambda: te.hybrid.HybridModule("def f(:")),
        ("hybrid script has nothing for Call",
         lambda: te.hybrid.build(te.create_schedule(bits().op), [WORDS], [bits()])),
    ],
)  # fmt: skip
def test_other_mistakes(message, make):
    with pytest.raises(TilesmithError, match=message):
        make()


WORDS = te.placeholder((4,), "uint32", name="words")


def bits():
    return te.compute((4,), lambda i: tir.clz(WORDS[i]), name="bits")
