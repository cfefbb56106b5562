"""What surrounds the operators of networks: rewritten weights, simulated dtypes, choices of targets,
sizes that are read back from stages.
"""

import inspect

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, whole
from tilesmith import te, tir, topi
from tilesmith.support.errors import (
    OpAttributeInvalid,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from tilesmith.target import Target
from tilesmith.topi.nn import target_choices, workloads

DATA, WEIGHT = real(3, 12), real(8, 12, seed=1)
BATCH, MATRICES = real(2, 3, 12), real(2, 12, 8, seed=1)
IMAGE, FILTER = real(1, 5, 6, 4), real(3, 3, 4, 8, seed=1)
VOLUME, DEEP = real(1, 3, 4, 5, 2), real(2, 2, 2, 2, 4, seed=1)
BIAS = real(8, seed=2)


def tiled(matrix, rows, columns):
    """A matrix in blocks of so many rows and columns."""
    m, n = matrix.shape
    parts = matrix.reshape(m // rows, rows, n // columns, columns)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))


def by_outputs(filters, block):
    """A filter whose outputs, the last axis, come first, in blocks."""
    parts = filters.reshape(*filters.shape[:-1], -1, block)
    return np.ascontiguousarray(np.moveaxis(parts, -2, 0))


def rewritten(name, build, plain, data, weight, arranged, layout):
    """The product of data and a weight in another order is that with the weight as it was."""
    wanted = {}

    def meaning(*_):
        if not wanted:
            check_plain = Case(name, plain, lambda x, w: wanted.setdefault("is", None), (data, weight))
            del check_plain
        return evaluated(plain, data, weight)

    return Case(name, lambda x, w: build(x, w, layout), meaning, (data, arranged), 1e-4)


def evaluated(build, *inputs):
    from tests.topi.harness import interpreted

    given = [te.placeholder(x.shape, str(x.dtype)) for x in inputs]
    made = build(*given)
    (result,) = interpreted(te.create_prim_func([*given, made]), inputs, [made])
    return result
