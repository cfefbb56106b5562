"""Products with sparse matrices, and their sums and transposes.

A sparse matrix is three tensors: ``data`` holds the values that are stored, row by row, ``indices``
the column of each, and ``indptr`` where each row begins in them, with the end as a last number
(CSR). With ``data`` of three dimensions each value is a block of so many rows and columns, and
indices and rows count blocks (BSR).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.procedure import loops, pointers, rows_along
from tilesmith.topi.transform import transpose
from tilesmith.topi.utils import checked_index, get_const_int, product, simplify, unravel_index

__all__ = [
    "sparse_add", "sparse_conv2d", "sparse_dense", "sparse_dense_sp_lhs", "sparse_dense_sp_rhs",
    "sparse_transpose", "try_get_conv2d_sparse_input", "try_get_sparse_input",
]  # fmt: skip


class SparseMatrix:
    """The three tensors of a sparse matrix: its sizes, and how its values are found."""

    def __init__(
        self, name: str, data: Tensor, indices: Tensor, indptr: Tensor, columns: Any
    ) -> None:
        if len(data.shape) not in (1, 3) or len(indices.shape) != 1 or len(indptr.shape) != 1:
            raise ShapeError(
                f"{name}: the data of a sparse matrix has 1 or 3 dimensions, indices and indptr "
                f"have 1; got {len(data.shape)}, {len(indices.shape)} and {len(indptr.shape)}"
            )
        if not indices.dtype.is_integer or not indptr.dtype.is_integer:
            raise TypeMismatchError(f"{name}: indices and indptr of a sparse matrix are integers")
        self._name = name
        self.tensors = [data, indices, indptr]
        self.is_blocked = len(data.shape) == 3
        self.block_rows, self.block_columns = (
            [get_const_int(size) for size in data.shape[1:]] if self.is_blocked else (1, 1)
        )
        self.outer_rows = simplify(indptr.shape[0] - 1)
        self.rows: PrimExpr = simplify(self.outer_rows * self.block_rows)
        self.columns: PrimExpr = simplify(convert(columns))
        if self.block_columns > 1 and get_const_int(self.columns) % self.block_columns:
            raise ShapeError(f"{name}: {columns} columns are not blocks of {self.block_columns}")
        self._outer_columns = simplify(op.floordiv(self.columns, self.block_columns))

    def entries(
        self, builder: IRBuilder, stack: ExitStack, buffers: list[BufferVar], row: PrimExpr
    ) -> tuple[PrimExpr, PrimExpr]:
        """Open a loop over what a row (of blocks) stores; return the place in the data and the
        column (of blocks).
        """
        _, indices, indptr = buffers
        first = builder.let("first", indptr[row])
        end = builder.let("end", indptr[row + 1])
        stored = op.cast(first.dtype, self.tensors[0].shape[0])
        inside = tir.all(op.greater_equal(first, 0), op.less_equal(end, stored))
        text = f"OutOfBoundsError: {self._name}: indptr leads outside of the stored values, row "
        count = builder.let("count", tir.checked(end - first, inside, text, op.cast("int64", row)))
        k = stack.enter_context(builder.for_range(const(0, count.dtype), count, "k"))
        place = builder.let("place", first + k)
        given = indices[place]
        column = checked_index(given, self._outer_columns, self._name, given)
        return place, builder.let("column", op.cast(row.dtype, column))

    def value(self, buffers: list[BufferVar], place: PrimExpr, row: Any, column: Any) -> PrimExpr:
        """Return a stored value, in a block that of a row and a column."""
        return buffers[0][place, row, column] if self.is_blocked else buffers[0][place]


def _check_rank(name: str, dense: Tensor, rank: int = 2) -> None:
    if len(dense.shape) != rank:
        raise ShapeError(f"{name}: the dense operand has {rank} dimensions, got {len(dense.shape)}")


_FEW = 8
"""Fewer rows of dense data than that are multiplied one by one; more are neighbours in memory, so
that one instruction multiplies many of them by a stored value.
"""


def sparse_dense_sp_rhs(
    data: Tensor, weight_data: Tensor, weight_indices: Tensor, weight_indptr: Tensor
) -> Tensor:
    """Return ``data @ weight.T`` for dense data (M, K) and a sparse weight (N, K)."""
    name = "sparse_dense_sp_rhs"
    _check_rank(name, data)
    matrix = SparseMatrix(name, weight_data, weight_indices, weight_indptr, data.shape[1])
    rows = data.shape[0]
    if isinstance(rows, IntImm) and rows.value < _FEW:
        return _row_by_row(data, matrix, name)
    return transpose(_sparse_product(matrix, transpose(data), name, dense_first=True))


def _row_by_row(data: Tensor, matrix: SparseMatrix, name: str) -> Tensor:
    """Return ``data @ weight.T``, each element after the other."""
    dtype = accumulator(data.dtype)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        dense, *weight, out = pointers(builder, [*inputs, *outputs])
        with rows_along(builder, [data.shape[0], matrix.outer_rows, data.shape[1]], 2) as row:
            m, n = row.outer
            first = n * matrix.block_rows
            with builder.for_range(0, matrix.block_rows, "r") as r:
                out[m, first + r] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, weight, n)
                c, r = loops(builder, stack, _block(matrix)[::-1], "b")
                term = op.cast(dtype, dense[m, column * matrix.block_columns + c]) * op.cast(
                    dtype, matrix.value(weight, place, r, c)
                )
                out[m, first + r] = out[m, first + r] + term
        return builder.get()

    shape = [data.shape[0], matrix.rows]
    return _made(shape, [data, *matrix.tensors], body, data, name, matrix)


def _block(matrix: SparseMatrix) -> list[PrimExpr]:
    return [const(matrix.block_rows, "int32"), const(matrix.block_columns, "int32")]


def _made(
    shape: list[Any], inputs: list[Tensor], body: Callable[..., Stmt], data: Tensor, name: str,
    matrix: SparseMatrix,
) -> Tensor:  # fmt: skip
    """Return a result in the dtype of the data."""
    tag = f"{name}_{'bsrmm' if matrix.is_blocked else 'csrmm'}"
    attrs = {"sparse_columns": matrix.columns}
    dtype = accumulator(data.dtype)
    made: Tensor = te.extern([shape], inputs, body, tag, [dtype], tag=tag, attrs=attrs)
    return rounded(made, data.dtype)


def sparse_dense_sp_lhs(
    data_data: Tensor, data_indices: Tensor, data_indptr: Tensor, weight: Tensor
) -> Tensor:
    """Return ``data @ weight.T`` for sparse data (M, K) and a dense weight (N, K)."""
    _check_rank("sparse_dense_sp_lhs", weight)
    matrix = SparseMatrix(
        "sparse_dense_sp_lhs", data_data, data_indices, data_indptr, weight.shape[1]
    )
    return _sparse_product(matrix, transpose(weight), "sparse_dense_sp_lhs")


def _sparse_product(
    matrix: SparseMatrix, dense: Tensor, name: str, dense_first: bool = False
) -> Tensor:
    """Return the product of a sparse matrix (M, K) and a dense one (K, N)."""
    outer = dense.shape[1]
    dtype = accumulator(dense.dtype)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        *given, out = pointers(builder, [*inputs, *outputs])
        right = given.pop(0 if dense_first else -1)
        with rows_along(builder, [matrix.outer_rows, outer], 1) as row:
            (m,) = row.outer
            first = m * matrix.block_rows
            with ExitStack() as stack:
                r, n = loops(builder, stack, [_block(matrix)[0], outer], "z")
                out[first + r, n] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, given, m)
                r, c, n = loops(builder, stack, [*_block(matrix), outer], "b")
                value = op.cast(dtype, matrix.value(given, place, r, c))
                other = op.cast(dtype, right[column * matrix.block_columns + c, n])
                out[first + r, n] = out[first + r, n] + value * other
        return builder.get()

    operands = [dense, *matrix.tensors] if dense_first else [*matrix.tensors, dense]
    return _made([matrix.rows, outer], operands, body, dense, name, matrix)


def csr_times_dense(data: Tensor, indices: Tensor, indptr: Tensor, dense: Tensor) -> Tensor:
    """Return the product of a sparse matrix (M, K) and a dense one (K, N)."""
    return _sparse_product(
        SparseMatrix("csrmm", data, indices, indptr, dense.shape[0]), dense, "csrmm"
    )


def sparse_dense(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    sparse_lhs: bool = False,
) -> Tensor:
    """Return ``dense @ sparse.T``, or with ``sparse_lhs`` ``sparse @ dense.T``."""
    if sparse_lhs:
        return sparse_dense_sp_lhs(sparse_data, sparse_indices, sparse_indptr, dense_data)
    return sparse_dense_sp_rhs(dense_data, sparse_data, sparse_indices, sparse_indptr)


def sparse_transpose(
    sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> list[Tensor]:
    """Return data, indices and indptr of the transposed of a square CSR matrix; in each row they
    stand in the order of the columns.
    """
    name = "sparse_transpose"
    if len(sparse_data.shape) != 1:
        raise ShapeError(f"{name}: blocks are not transposed, the data has 1 dimension")
    size = simplify(sparse_indptr.shape[0] - 1)
    matrix = SparseMatrix(name, sparse_data, sparse_indices, sparse_indptr, size)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        given = pointers(builder, inputs)
        data, indices, indptr = pointers(builder, outputs)
        zero, one = const(0, indptr.dtype), const(1, indptr.dtype)
        with builder.for_range(0, size + 1, "i") as i:
            indptr[i] = zero
        # Count what each column has, add up, and let indptr[j + 1] be where column j writes next.
        with ExitStack() as stack:
            row = stack.enter_context(builder.for_range(0, size, "row"))
            _, column = matrix.entries(builder, stack, given, row)
            with builder.if_scope(op.less(column + 2, size + 1)):
                indptr[column + 2] = indptr[column + 2] + one
        with builder.for_range(0, size - 1, "i") as i:
            indptr[i + 2] = indptr[i + 2] + indptr[i + 1]
        with ExitStack() as stack:
            row = stack.enter_context(builder.for_range(0, size, "row"))
            place, column = matrix.entries(builder, stack, given, row)
            target = builder.let("target", indptr[column + 1])
            data[target] = given[0][place]
            indices[target] = op.cast(indices.dtype, row)
            indptr[column + 1] = target + one
        return builder.get()

    shapes = [tensor.shape for tensor in matrix.tensors]
    dtypes = [tensor.dtype for tensor in matrix.tensors]
    made: list[Tensor] = te.extern(shapes, matrix.tensors, body, name, dtypes, tag=name)
    return made


def sparse_add(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    """Return the sum of a dense matrix and a sparse one of its shape."""
    _check_rank("sparse_add", dense_data)
    matrix = SparseMatrix(
        "sparse_add", sparse_data, sparse_indices, sparse_indptr, dense_data.shape[1]
    )
    dtype = dense_data.dtype

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        dense, *sparse, out = pointers(builder, [*inputs, *outputs])
        with ExitStack() as stack:
            place = loops(builder, stack, dense_data.shape, "i")
            out[place] = dense[place]
        with ExitStack() as stack:
            row = stack.enter_context(builder.for_range(0, matrix.outer_rows, "row"))
            k, column = matrix.entries(builder, stack, sparse, row)
            r, c = loops(builder, stack, _block(matrix), "b")
            at = [row * matrix.block_rows + r, column * matrix.block_columns + c]
            out[at] = out[at] + op.cast(dtype, matrix.value(sparse, k, r, c))
        return builder.get()

    shape = [dense_data.shape]
    operands = [dense_data, *matrix.tensors]
    made: Tensor = te.extern(shape, operands, body, "sparse_add", [dtype], tag="sparse_add")
    return made


def sparse_conv2d(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> Tensor:
    """Convolve with a sparse filter, a matrix of outputs by places of the window: strides are 1,
    and the padding keeps the size.

    In NHWC data a column is ``(y * kernel_size + x) * channels + channel``, in NCHW data it is
    ``(channel * kernel_size + y) * kernel_size + x``.
    """
    name = "sparse_conv2d"
    if layout not in ("NHWC", "NCHW"):
        raise OpAttributeInvalid(f"{name}: layout '{layout}' is neither NHWC nor NCHW")
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise OpAttributeInvalid(f"{name}: a window of {kernel_size}: an odd size is needed")
    _check_rank(name, dense_data, 4)
    image = dense_data if layout == "NCHW" else transpose(dense_data, (0, 3, 1, 2))
    batch, channels, height, width = image.shape
    matrix = SparseMatrix(
        name, sparse_data, sparse_indices, sparse_indptr, channels * kernel_size * kernel_size
    )
    dtype = accumulator(image.dtype)
    around = [0, 0, kernel_size // 2, kernel_size // 2]
    padded = pad(image, around, around, name="pad_temp")
    size = const(kernel_size, "int32")
    window = [channels if letter == "C" else size for letter in layout[1:]]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, *sparse, out = pointers(builder, [*inputs, *outputs])
        rows = [batch, matrix.outer_rows, height, width]
        with rows_along(builder, rows, 3, work=kernel_size * kernel_size) as row:
            n, block, y = row.outer
            first = block * matrix.block_rows
            with ExitStack() as stack:
                r, x = loops(builder, stack, [_block(matrix)[0], width], "z")
                out[n, first + r, y, x] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, sparse, block)
                r, c = loops(builder, stack, _block(matrix), "b")
                within = unravel_index(column * matrix.block_columns + c, window)
                at = {
                    letter: builder.let(letter.lower(), index)
                    for letter, index in zip(layout[1:], within)
                }
                (x,) = loops(builder, stack, [width], "x")
                value = op.cast(dtype, source[n, at["C"], y + at["H"], x + at["W"]])
                weight = op.cast(dtype, matrix.value(sparse, place, r, c))
                out[n, first + r, y, x] = out[n, first + r, y, x] + value * weight
        return builder.get()

    shape = [batch, matrix.rows, height, width]
    operands = [padded, *matrix.tensors]
    made = _made(shape, operands, body, image, "sparse_conv2d_sp", matrix)
    return made if layout == "NCHW" else transpose(made, (0, 2, 3, 1))


def _sparse_inputs(args: list[Tensor], start: str, kind: str) -> dict[Tensor, str]:
    """Return names for the tensors of the first sparse operand on the way to ``args``."""
    waiting, seen = list(args), set()
    while waiting:
        operation = waiting.pop(0).op
        if id(operation) in seen:
            continue
        seen.add(id(operation))
        inputs = list(operation.input_tensors)
        if not operation.tag.startswith(start):
            waiting += inputs
            continue
        first = 0 if "sp_lhs" in operation.tag else 1
        data, indices, indptr = inputs[first : first + 3]
        columns = operation.attrs["sparse_columns"]
        matrix = SparseMatrix(kind, data, indices, indptr, columns)
        stored = get_const_int(product(data.shape))
        density = stored / (get_const_int(matrix.rows) * get_const_int(columns))
        sizes = [matrix.rows, columns, matrix.block_rows, matrix.block_columns]
        prefix = f"{kind}_{'_'.join(str(get_const_int(size)) for size in sizes)}_{density:.2f}_"
        return dict(
            zip((data, indices, indptr), [prefix + x for x in ("W_data", "W_indices", "W_indptr")])
        )
    return {}


def try_get_sparse_input(args: list[Tensor]) -> dict[Tensor, str]:
    """Return the tensors of a sparse weight that results (or arguments) of a program depend on,
    each with a name that tells its sizes and density; empty where no product is sparse.
    """
    return _sparse_inputs(args, "sparse_dense_sp_", "sparse_dense_bsr")


def try_get_conv2d_sparse_input(args: list[Tensor]) -> dict[Tensor, str]:
    """Return what `try_get_sparse_input` does, for sparse convolutions."""
    return _sparse_inputs(args, "sparse_conv2d_sp_", "sparse_conv2d_bsr")
