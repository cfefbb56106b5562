"""Rewriters made of modules, and of several patterns at once."""

import numpy as np
import pytest

from tilesmith import ir, relax
from tilesmith.relax import analysis, interpreter, op
from tilesmith.relax.dpl import (
    ExprPatternRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    TypePattern,
    is_op,
    wildcard,
)
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import TypeMismatchError


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")):
        with R.dataflow():
            s = R.add(x, y)
            p = R.exp(s)
            d = R.subtract(x, y)
            q = R.nn.softmax(d, axis=1)
            r = R.multiply(p, q)
            R.output(r)
        return r


@I.ir_module
class OneResult:
    @R.function
    def pattern(a: R.Tensor(("n", 8), "float32"), b: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            o = R.nn.softmax(R.subtract(a, b), axis=1)
            R.output(o)
        return o

    @R.function
    def replacement(a: R.Tensor(("n", 8), "float32"), b: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            c = R.exp(R.subtract(a, b))
            o = R.divide(c, R.sum(c, axis=1, keepdims=True))
            R.output(o)
        return o


@I.ir_module
class TwoResults:
    @R.function
    def pattern(a: R.Tensor(("n", 8), "float32"), b: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            o = (R.exp(R.add(a, b)), R.nn.softmax(R.subtract(a, b), axis=1))
            R.output(o)
        return o

    @R.function
    def replacement(a: R.Tensor(("n", 8), "float32"), b: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            e = R.exp(a)
            f = R.exp(b)
            g = R.divide(e, f)
            o = (R.multiply(e, f), R.divide(g, R.sum(g, axis=1, keepdims=True)))
            R.output(o)
        return o


def same_results(changed, rtol=1e-5):
    analysis.assert_well_formed(changed)
    x, y = np.random.default_rng(1).random((2, 4, 8)).astype("float32")
    np.testing.assert_allclose(
        interpreter.run(changed, "main", x, y), interpreter.run(Model, "main", x, y), rtol=rtol
    )


@pytest.mark.parametrize("rule", [OneResult, TwoResults])
def test_from_module(rule):
    changed = PatternMatchingRewriter.from_module(rule)(Model)
    text = changed.script()
    assert "softmax" not in text and ("R.add" in text) == (rule is OneResult)
    same_results(changed)


def test_other_attributes_do_not_match():
    with pytest.raises(TypeMismatchError, match="parameters of the function 'pattern'"):
        wrong = OneResult.shallow_copy()
        wrong["replacement"] = relax.Function([], relax.const(1.0))
        PatternMatchingRewriter.from_module(wrong)

    @R.function
    def by_rows(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")):
        return R.nn.softmax(R.subtract(x, y), axis=0)

    rewriter = PatternMatchingRewriter.from_module(OneResult)
    assert "softmax" in rewriter(by_rows).script()


def test_values_are_not_moved_before_what_they_need():
    """The sum of p and q would have to stand before p."""

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.exp(x)
            s = R.sin(p)
            q = R.cos(s)
            r = R.add(p, q)
            R.output(r)
        return r

    a, b = wildcard(), wildcard()
    rewriter = TupleRewriter(
        [is_op("relax.exp")(a), is_op("relax.cos")(b)],
        lambda expr, found: (op.exp(found[a]), op.cos(op.add(found[b], found[b]))),
    )
    assert rewriter(main) is main


def test_rewriters_together():
    a, b, c = wildcard(), wildcard(), wildcard()
    both = TupleRewriter(
        [is_op("relax.add")(a, b), is_op("relax.subtract")(a, b)],
        lambda expr, found: (
            op.add(found[b], found[a]),
            op.negative(op.subtract(found[b], found[a])),
        ),
    )
    single = ExprPatternRewriter(
        is_op("relax.exp")(c), lambda expr, found: op.power(relax.const(float(np.e)), found[c])
    )
    changed = (single | both)(Model)
    text = changed.script()
    assert "R.power" in text and "R.negative" in text and "R.exp" not in text
    same_results(changed, 1e-4)
    wrong = TupleRewriter([is_op("relax.exp")(c)], lambda expr, found: (op.sum(found[c]),))
    with pytest.raises(TypeMismatchError, match="replacement of 'p' has another type"):
        wrong(Model)


def test_type_pattern():
    x = relax.Var("x", R.Tensor((3,), "float32"))
    for type_, fits in [
        (R.Tensor((3,), "float32"), True),
        (R.Tensor((4,), "float32"), False),
        (ir.TensorType((3,), "float32"), True),
        (ir.TensorType((3,), "int8"), False),
    ]:
        assert TypePattern(is_op("relax.exp")(wildcard()), type_).match(op.exp(x)) == fits
