"""``multinomial_from_uniform``: draws from distributions by random numbers that are given."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith import te
from tilesmith.relax.attrs import Schema
from tilesmith.relax.attrs import dtype as dtype_attribute
from tilesmith.relax.op.common import (
    check_dtypes,
    check_float,
    check_ndim,
    prove_equal,
    result,
    size_text,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.spec import topi
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = ["multinomial_from_uniform"]


def _infer(call: Any) -> Any:
    prob, uniform, rows = [tensor(call, number) for number in range(3)]
    for number, info in enumerate((prob, uniform, rows)):
        check_ndim(call, number, info, 2)
    check_float(call, 0, prob)
    check_dtypes(call, (prob, uniform))
    if not rows.dtype.is_integer:
        raise TypeMismatchError(
            f"multinomial_from_uniform: sample_indices are integers, got {rows.dtype}"
        )
    drawn, chosen = sizes_of(uniform), sizes_of(rows)
    if drawn is None or chosen is None:
        return result(None, call.attrs.dtype, 2)
    if not prove_equal(drawn[0], chosen[0]):
        raise ShapeError(
            f"multinomial_from_uniform: {size_text(drawn[0])} numbers but {size_text(chosen[0])} "
            "sample_indices"
        )
    return result([drawn[0], 1], call.attrs.dtype)


def _evaluate(attrs: Any, prob: Any, uniform: Any, rows: Any) -> Any:
    sums = numpy.cumsum(prob, axis=1)[rows[:, 0], :-1]
    return (sums <= uniform).sum(axis=1, keepdims=True).astype(attrs.dtype.numpy())


def _compute(attrs: Any, prob: Any, uniform: Any, rows: Any) -> Any:
    sums = topi.cumsum(prob, axis=1)
    place = te.reduce_axis((0, prob.shape[1] - 1), "place")

    def passed(i: Any, j: Any) -> Any:
        is_passed = sums[rows[i, 0], place] <= uniform[i, 0]
        return te.sum(is_passed.astype(attrs.dtype), axis=place)

    return te.compute((uniform.shape[0], 1), passed, name="multinomial_from_uniform")


multinomial_from_uniform = define(
    "multinomial_from_uniform",
    "prob uniform_sample sample_indices",
    _infer,
    description="""For each number of ``uniform_sample`` (n, 1) a class, drawn from the distribution
    in the row of ``prob`` (batch, classes) that ``sample_indices`` (n, 1) names: the first one
    whose running total is larger than the number.""",
    schema=Schema(dtype=dtype_attribute("int64")),
    compute=_compute,
    evaluate=_evaluate,
)
