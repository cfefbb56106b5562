"""Random sparse matrices, for measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy

from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError

__all__ = [
    "BlockSparseMatrix", "convert_model_dense_to_sparse", "random_bsr_matrix",
    "random_sparse_conv2d_params", "random_sparse_dense_params", "sparse_conv2d_apply_func",
    "sparse_conv2d_meet_condition_func", "sparse_dense_apply_func",
    "sparse_dense_meet_condition_func", "sparse_sketch_rules",
]  # fmt: skip


@dataclass(frozen=True)
class BlockSparseMatrix:
    """A matrix of blocks, of which only some are stored: the arrays of `topi.nn.sparse_dense`."""

    data: numpy.ndarray[Any, Any]
    """The blocks: (number of blocks, rows, columns)."""
    indices: numpy.ndarray[Any, Any]
    """The column of each block, counted in blocks; ascending in each row."""
    indptr: numpy.ndarray[Any, Any]
    """Where each row of blocks begins, and the end."""
    shape: tuple[int, int]

    def todense(self) -> numpy.ndarray[Any, Any]:
        """Return all elements."""
        made = numpy.zeros(self.shape, self.data.dtype)
        _, height, width = self.data.shape
        for row in range(len(self.indptr) - 1):
            for place in range(self.indptr[row], self.indptr[row + 1]):
                column = self.indices[place]
                made[row * height : (row + 1) * height, column * width : (column + 1) * width] = (
                    self.data[place]
                )
        return made

    toarray = todense


def random_bsr_matrix(
    m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str
) -> BlockSparseMatrix:
    """Return a random matrix of m rows and n columns with blocks of ``bs_r`` by ``bs_c``, of which
    about the share ``density`` is stored (at least one).
    """
    if min(m, n, bs_r, bs_c) < 1 or m % bs_r or n % bs_c:
        raise ShapeError(f"random_bsr_matrix: {m} by {n} elements in blocks of {bs_r} by {bs_c}")
    if not 0 < density <= 1:
        raise OpAttributeInvalid(f"random_bsr_matrix: a density of {density} is not in (0, 1]")
    rows, columns = m // bs_r, n // bs_c
    count = min(int(density * m * n / (bs_r * bs_c)) + 1, rows * columns)
    generator = numpy.random.default_rng()
    places = numpy.sort(generator.choice(rows * columns, count, replace=False))
    starts = numpy.searchsorted(places, numpy.arange(rows + 1) * columns)
    return BlockSparseMatrix(
        generator.standard_normal((count, bs_r, bs_c)).astype(dtype),
        (places % columns).astype("int32"),
        starts.astype("int32"),
        (m, n),
    )


def _refused(name: str, parameters: str, reason: str, cure: str) -> Callable[..., NoReturn]:
    """Return a function that says why there is no such thing here."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(f"{name}({parameters}): {reason}", notes=(cure,))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise UnsupportedError: {reason}."
    return refuse


_MODELS = "weights are exchanged in models of another graph language"
_USE = "random_bsr_matrix makes a weight, relax's emit_te puts topi.nn.sparse_dense into a model"
_RULES = "sketches are not made by rules that programs register"
_WITHOUT = "topi.nn.sparse_dense and sparse_conv2d are loop nests that need no rule"

random_sparse_dense_params = _refused(
    "random_sparse_dense_params", "func, params, bs_r, bs_c, density", _MODELS, _USE
)
random_sparse_conv2d_params = _refused(
    "random_sparse_conv2d_params", "func, params, bs_r, bs_c, density, layout", _MODELS, _USE
)
convert_model_dense_to_sparse = _refused(
    "convert_model_dense_to_sparse",
    "mod, params, random_params, bs_r, bs_c, sparsity, layout",
    _MODELS,
    _USE,
)
sparse_sketch_rules = _refused("sparse_sketch_rules", "", _RULES, _WITHOUT)
_STATE = "search_policy, state, stage_id"
sparse_conv2d_meet_condition_func = _refused(
    "sparse_conv2d_meet_condition_func", _STATE, _RULES, _WITHOUT
)
sparse_conv2d_apply_func = _refused("sparse_conv2d_apply_func", _STATE, _RULES, _WITHOUT)
sparse_dense_meet_condition_func = _refused(
    "sparse_dense_meet_condition_func", _STATE, _RULES, _WITHOUT
)
sparse_dense_apply_func = _refused("sparse_dense_apply_func", _STATE, _RULES, _WITHOUT)
