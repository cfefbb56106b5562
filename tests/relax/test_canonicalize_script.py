"""CanonicalizeBindings and FoldConstant: what vanishes, what becomes what, what is refused."""

import numpy as np
import pytest

from tilesmith import ir
from tilesmith.ir import IRModule
from tilesmith.relax import analysis, interpreter, transform
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T

F4 = np.arange(4, dtype="float32")


@R.function(private=True)
def known_size(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(ndim=2, dtype="float32"):
    m = T.int64()
    with R.dataflow():
        y = R.match_cast(x, R.Tensor((m, 4), "float32"))
        z = R.zeros((m, 4), "float32")
        w = R.add(y, z)
        R.output(w)
    return w


@R.function(private=True)
def known_size_after(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    n = T.int64()
    with R.dataflow():
        z = R.zeros((n, 4), "float32")
        w = R.add(x, z)
        R.output(w)
    return w


@R.function(private=True)
def checked_twice(x: R.Tensor(dtype="float32")):
    m, k = T.int64(), T.int64()
    a = R.match_cast(x, R.Tensor((m, 4), "float32"))
    b = R.match_cast(x, R.Tensor((m, k), "float32"))
    c = R.add(a, b)
    d = R.add(c, R.zeros((m, k), "float32"))
    return d


@R.function(private=True)
def checked_twice_after(x: R.Tensor(dtype="float32")):
    m = T.int64()
    a = R.match_cast(x, R.Tensor((m, 4), "float32"))
    c = R.add(a, a)
    d = R.add(c, R.zeros((m, 4), "float32"))
    return d


@R.function(private=True)
def unknown_when_compiled(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")):
    m = T.int64()
    a = R.match_cast(x, R.Tensor((m,), "float32"))
    b = R.match_cast(y, R.Tensor((m,), "float32"))
    c = R.add(a, b)
    return c


@R.function(private=True)
def unknown_when_compiled_after(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")):
    n = T.int64()
    b = R.match_cast(y, R.Tensor((n,), "float32"))
    c = R.add(x, b)
    return c


@R.function(private=True)
def branches(x: R.Tensor(dtype="float32"), p: R.Tensor((), "bool")):
    m = T.int64()
    if p:
        a = R.match_cast(x, R.Tensor((m,), "float32"))
        r = R.add(a, a)
    else:
        b = R.match_cast(x, R.Tensor((2,), "float32"))
        r = R.exp(b)
    return r


branches_after = branches  # what one branch checks is not known in the other


@R.function(private=True)
def own_block_only(x: R.Tensor((4,), "float32"), p: R.Tensor((), "bool")):
    with R.dataflow():
        a = R.exp(x)
        b = R.exp(a)
        R.output(a, b)
    if p:
        with R.dataflow():
            c = R.exp(b)
            d = R.exp(c)
            R.output(c, d)
        r = d
    else:
        r = b
    return r


@R.function(private=True)
def own_block_only_after(x: R.Tensor((4,), "float32"), p: R.Tensor((), "bool")):
    with R.dataflow():
        a = R.exp(x)
        b = R.exp(a)
        R.output(b)
    if p:
        with R.dataflow():
            c = R.exp(b)
            d = R.exp(c)
            R.output(d)
        r = d
    else:
        r = b
    return r


@R.function(private=True)
def fields_across_blocks(x: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.exp(a)
        t = (a, b)
        R.output(t)
    with R.dataflow():
        c = t[0]
        d = R.add(c, x)
        R.output(d)
    return d


@R.function(private=True)
def fields_across_blocks_after(x: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        R.output(a)
    with R.dataflow():
        d = R.add(a, x)
        R.output(d)
    return d


@R.function(private=True)
def put_together_again(x: R.Tensor((4,), "float32")):
    t = R.split(x, 2)
    with R.dataflow():
        a = t[0]
        b = t[1]
        u = (a, b)
        R.output(u)
    return u


@R.function(private=True)
def put_together_again_after(x: R.Tensor((4,), "float32")):
    t = R.split(x, 2)
    return t


@R.function(private=True)
def local_function(x: R.Tensor((4,), "float32")):
    @R.function
    def inner(y: R.Tensor(("n",), "float32")):
        m = T.int64()
        with R.dataflow():
            z = R.match_cast(y, R.Tensor((m,), "float32"))
            a = R.exp(z)
            b = R.exp(a)
            R.output(a, b)
        return b

    r = inner(x)
    return r


@R.function(private=True)
def local_function_after(x: R.Tensor((4,), "float32")):
    @R.function
    def inner(y: R.Tensor(("n",), "float32")):
        with R.dataflow():
            a = R.exp(y)
            b = R.exp(a)
            R.output(b)
        return b

    r = inner(x)
    return r


CASES = [
    "known_size", "checked_twice", "unknown_when_compiled", "branches", "own_block_only",
    "fields_across_blocks", "put_together_again", "local_function",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_canonicalize(name):
    module = IRModule({"main": globals()[name]})
    made = transform.CanonicalizeBindings()(module)
    analysis.assert_well_formed(made)
    ir.assert_structural_equal(made["main"], globals()[f"{name}_after"])
    again = transform.CanonicalizeBindings()(made)
    assert again["main"] is made["main"]


@pytest.mark.parametrize("p", [False, True])
@pytest.mark.parametrize("name", ["own_block_only", "branches"])
def test_meaning(name, p):
    x = F4[:2] if name == "branches" else F4
    module = IRModule({"main": globals()[name]})
    made = transform.CanonicalizeBindings()(module)
    want = interpreter.run(module, "main", x, np.array(p))
    np.testing.assert_array_equal(interpreter.run(made, "main", x, np.array(p)), want)


@R.function(private=True)
def two_sizes(x: R.Tensor((3,)), y: R.Tensor((4,))):
    m = T.int64()
    a = R.match_cast(x, R.Tensor((m,)))
    b = R.match_cast(y, R.Tensor((m,)))
    return (a, b)


@R.function(private=True)
def two_checks(x: R.Tensor(dtype="float32")):
    a = R.match_cast(x, R.Tensor((3, 4), "float32"))
    b = R.match_cast(x, R.Tensor((3, 5), "float32"))
    return (a, b)


@R.function(private=True)
def other_dtype(x: R.Tensor((3,), "float32")):
    a = R.match_cast(x, R.Tensor((3,), "int32"))
    return a


@pytest.mark.parametrize("function", [two_sizes, two_checks, other_dtype])
def test_contradictions(function):
    with pytest.raises(ValueError, match=r"never holds: the value is .* it is cast to"):
        transform.CanonicalizeBindings()(IRModule({"main": function}))


@I.ir_module
class Constants:
    @T.prim_func(private=True)
    def double(A: T.Buffer((T.int64(2),), "float32"), B: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("b"):
                v = T.axis.spatial(T.int64(2), i)
                B[v] = A[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        cls = Constants
        a = R.exp(R.const([0.0, 0.0], "float32"))
        b = R.call_tir(
            cls.double, (R.const([1.0, 2.0], "float32"),), out_sinfo=R.Tensor((2,), "float32")
        )
        with R.dataflow():
            c = R.add(b, b)
            d = R.add(c, x)
            R.output(c, d)
        e = R.add(d, c)
        return (a, e)


@I.ir_module
class Folded:
    @T.prim_func(private=True)
    def double(A: T.Buffer((T.int64(2),), "float32"), B: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("b"):
                v = T.axis.spatial(T.int64(2), i)
                B[v] = A[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = R.exp(R.const([0.0, 0.0], "float32"))
        with R.dataflow():
            d = R.add(R.const([4.0, 8.0], "float32"), x)
            R.output(d)
        e = R.add(d, R.const([4.0, 8.0], "float32"))
        return (a, e)


def test_constants_go_where_they_are_used():
    """Operators outside of dataflow blocks stay; kernels are folded everywhere."""
    ir.assert_structural_equal(transform.FoldConstant()(Constants), Folded)
