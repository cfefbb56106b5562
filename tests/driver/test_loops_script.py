"""What loops carry from one iteration to the next: large values have two places that alternate."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.driver.graph_function import lower_graph_function
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.kernels import KernelTable
from tilesmith.ir.queries import calls, nodes
from tilesmith.relax import interpreter
from tilesmith.script import from_source
from tilesmith.target import Target
from tilesmith.tir import While

LOOP = """
@I.ir_module
class Module:
    @R.function(private=True)
    def loop(
        i: R.Tensor((), "int64"),
        x: R.Tensor((N,), "float32"),
        y: R.Tensor((N,), "float32"),
        fixed: R.Tensor((N,), "float32"),
    ) -> R.Tuple(R.Tensor((N,), "float32"), R.Tensor((N,), "float32")):
        n = T.int64()
        go = R.greater(i, R.const(0, "int64"))
        if go:
            left = R.subtract(i, R.const(1, "int64"))
            {body}
            r = Module.loop(left, {following}, fixed)
        else:
            end = R.multiply(x, y)
            r = (x, end)
        return r

    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor((N,), "float32"), y: R.Tensor((N,), "float32")):
        n = T.int64()
        r = Module.loop(i, x, y, y)
        return r
"""
BODIES = {
    "both new": ("a = R.add(x, y); b = R.subtract(x, fixed)", "a, b"),
    "swapped": ("a = R.add(x, fixed)", "y, a"),
    "exchanged": ("a = R.add(x, fixed)", "y, x"),
    "one value twice": ("a = R.add(x, y)", "a, a"),
    "the old value": ("a = R.add(x, y)", "a, x"),
    "the same value": ("a = R.add(x, y)", "a, y"),
    "what does not change": ("a = R.add(x, y)", "a, fixed"),
    "in two steps": ("c = R.add(x, y); a = R.exp(R.negative(R.abs(c))); b = R.sin(c)", "b, a"),
    "of an inner loop": ("p = Module.inner(R.const(3, 'int64'), x); a = R.add(p, y)", "p, a"),
}
INNER = """
    @R.function(private=True)
    def inner(i: R.Tensor((), "int64"), x: R.Tensor((N,), "float32")) -> R.Tensor((N,), "float32"):
        n = T.int64()
        go = R.greater(i, R.const(0, "int64"))
        if go:
            a = R.multiply(x, R.const(0.5, "float32"))
            r = Module.inner(R.subtract(i, R.const(1, "int64")), a)
        else:
            r = x
        return r
"""


def program(body, following, size):
    """Return the module of a loop; each statement on a line of its own."""
    lines = body.replace("; ", "\n            ")
    text = LOOP.replace("{body}", lines).replace("{following}", following) + INNER
    return from_source(text.replace("N,", f"{size},"))


@pytest.mark.parametrize("size", ["4", "1000", '"n"'])
@pytest.mark.parametrize("name", BODIES)
def test_values_that_change(name, size):
    """Small ones are copied; after an even and an odd number of iterations, and after none."""
    module = program(*BODIES[name], size)
    executable = relax.build(module, target="llvm")
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 4 if size == "4" else 1000)).astype("float32")
    for count in (0, 1, 2, 5, 6):
        found = executable(np.int64(count), x, y)
        wanted = interpreter.run(module, "main", np.int64(count), x, y)
        for one, other in zip(found, wanted):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)


APPENDING = """
@I.ir_module
class Module:
    @R.function(private=True)
    def loop(i: R.Tensor((), "int64"), x: R.Tensor(("c", 3), "float32")) -> R.Tensor(
        ndim=2, dtype="float32"
    ):
        c = T.int64()
        go = R.greater(i, R.const(0, "int64"))
        if go:
            row = R.sum(x, axis=[0])
            y = R.append(x, row)
            {more}
            r = Module.loop(R.subtract(i, R.const(1, "int64")), {following})
        else:
            r = x
        return r

    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor(("c", 3), "float32")):
        r = Module.loop(i, x)
        return r
"""


@pytest.mark.parametrize(
    "more, following",
    [
        ("pass", "y"),  # in place
        ("z = R.multiply(y, R.const(0.5, 'float32'))", "z"),  # another value is carried
        ("z = R.append(y, R.sum(y, axis=[0]))", "z"),  # two rows
    ],
)
def test_rows_are_appended(more, following):
    """In place where nothing else reads the result, to new memory elsewhere."""
    text = APPENDING.replace(
        "            {more}\n", "" if more == "pass" else f"            {more}\n"
    )
    module = from_source(text.replace("{following}", following))
    executable = relax.build(module, target="llvm")
    x = np.random.default_rng(0).random((2, 3)).astype("float32")
    for count in (0, 1, 2, 9):
        found = executable(np.int64(count), x)
        wanted = interpreter.run(module, "main", np.int64(count), x)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def increment(A: T.Buffer((1000,), "float32")):
        for i in range(1000):
            A[i] = A[i] + T.float32(1)

    @R.function(private=True)
    def loop(i: R.Tensor((), "int64"), x: R.Tensor((1000,), "float32")) -> R.Tensor(
        (1000,), "float32"
    ):
        go = R.greater(i, R.const(0, "int64"))
        if go:
            a = R.call_tir_inplace(
                Module.increment, (x,), out_sinfo=R.Tensor((1000,), "float32"), inplace_indices=[0]
            )
            r = Module.loop(R.subtract(i, R.const(1, "int64")), a)
        else:
            r = x
        return r

    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor((1000,), "float32")):
        r = Module.loop(i, x)
        return r
"""


def test_values_that_are_overwritten_in_place():
    """They are not copied at all; the argument stays."""
    executable = relax.build(from_source(IN_PLACE), target="llvm")
    x = ts.nd.array(np.zeros(1000, "float32"))
    np.testing.assert_array_equal(executable(np.int64(7), x).numpy(), np.full(1000, 7, "float32"))
    assert not x.numpy().any()
    assert copies_of_an_iteration(from_source(IN_PLACE)) == [8]


def copies_of_an_iteration(module):
    """Return the sizes of the values that each iteration of the module's loop copies, in bytes."""
    module = relax.transform.LegalizeOps()(module)
    kernels = KernelTable(module, Target("llvm"))
    name = module.get_global_var("main")
    lowered = lower_graph_function(module, name, ConstantTable(), kernels)
    (loop,) = nodes(lowered.function.body, While)
    copies = [call for call in calls(loop, "tir.call_extern") if call.args[0].value == "memcpy"]
    return [int(call.args[3]) for call in copies]


@pytest.mark.parametrize(("size", "copied"), [("4", [16, 16, 8]), ("1000", [8])])
def test_large_values_are_not_copied_by_iterations(size, copied):
    """The number that decides is small."""
    found = copies_of_an_iteration(program(*BODIES["both new"], size))
    assert sorted(found, reverse=True) == copied
