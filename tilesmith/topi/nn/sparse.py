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

from tilesmith import te
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.procedure import loops, pointers, rows_along
from tilesmith.topi.utils import get_const_int, product, simplify, unravel_index

__all__ = [
    "sparse_add", "sparse_conv2d", "sparse_dense", "sparse_dense_sp_lhs", "sparse_dense_sp_rhs",
    "sparse_transpose", "try_get_conv2d_sparse_input", "try_get_sparse_input",
]  # fmt: skip


class SparseMatrix:
    """The three tensors of a sparse matrix: its sizes, and how its values are found."""

    def __init__(self, name: str, data: Tensor, indices: Tensor, indptr: Tensor) -> None:
        if len(data.shape) not in (1, 3) or len(indices.shape) != 1 or len(indptr.shape) != 1:
            raise ShapeError(
                f"{name}: the data of a sparse matrix has 1 or 3 dimensions, indices and indptr "
                f"have 1; got {len(data.shape)}, {len(indices.shape)} and {len(indptr.shape)}"
            )
        if not indices.dtype.is_integer or not indptr.dtype.is_integer:
            raise TypeMismatchError(f"{name}: indices and indptr of a sparse matrix are integers")
        self.tensors = [data, indices, indptr]
        self.is_blocked = len(data.shape) == 3
        self.block_rows, self.block_columns = (
            [get_const_int(size) for size in data.shape[1:]] if self.is_blocked else (1, 1)
        )
        self.outer_rows = simplify(indptr.shape[0] - 1)
        self.rows: PrimExpr = simplify(self.outer_rows * self.block_rows)

    def entries(
        self, builder: IRBuilder, stack: ExitStack, buffers: list[BufferVar], row: PrimExpr
    ) -> tuple[PrimExpr, PrimExpr]:
        """Open a loop over what a row (of blocks) stores; return the place in the data and the
        column (of blocks).
        """
        _, indices, indptr = buffers
        first = builder.let("first", indptr[row])
        count = builder.let("count", indptr[row + 1] - first)
        k = stack.enter_context(builder.for_range(const(0, count.dtype), count, "k"))
        place = builder.let("place", first + k)
        return place, builder.let("column", op.cast(row.dtype, indices[place]))

    def value(self, buffers: list[BufferVar], place: PrimExpr, row: Any, column: Any) -> PrimExpr:
        """Return a stored value, in a block that of a row and a column."""
        return buffers[0][place, row, column] if self.is_blocked else buffers[0][place]


def _inner(matrix: SparseMatrix, size: Any, name: str) -> None:
    """Refuse sizes that are not whole blocks; that indices are below them is only known later."""
    number = simplify(size)
    if matrix.block_columns > 1 and get_const_int(number) % matrix.block_columns:
        raise ShapeError(f"{name}: {number} columns are not blocks of {matrix.block_columns}")


def sparse_dense_sp_rhs(
    data: Tensor, weight_data: Tensor, weight_indices: Tensor, weight_indptr: Tensor
) -> Tensor:
    """Return ``data @ weight.T`` for dense data (M, K) and a sparse weight (N, K)."""
    matrix = SparseMatrix("sparse_dense", weight_data, weight_indices, weight_indptr)
    _inner(matrix, data.shape[1], "sparse_dense")
    dtype = accumulator(data.dtype)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        dense, *weight, out = pointers(builder, [*inputs, *outputs])
        shape = [data.shape[0], matrix.outer_rows]
        with rows_along(builder, [*shape, data.shape[1]], 2, work=1) as row:
            m, n = row.outer
            first = n * matrix.block_rows
            with builder.for_range(0, matrix.block_rows, "r") as r:
                out[m, first + r] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, weight, n)
                r, c = loops(builder, stack, _block(matrix), "b")
                term = op.cast(dtype, dense[m, column * matrix.block_columns + c]) * op.cast(
                    dtype, matrix.value(weight, place, r, c)
                )
                out[m, first + r] = out[m, first + r] + term
        return builder.get()

    tag = "sparse_dense_sp_rhs_bsrmm" if matrix.is_blocked else "sparse_dense_sp_rhs_csrmm"
    return _made(
        [data.shape[0], matrix.rows], [data, *matrix.tensors], body, dtype, data, tag, data.shape[1]
    )


def _block(matrix: SparseMatrix) -> list[PrimExpr]:
    return [const(matrix.block_rows, "int32"), const(matrix.block_columns, "int32")]


def _made(
    shape: list[Any], inputs: list[Tensor], body: Callable[..., Stmt], dtype: Any, data: Tensor,
    tag: str, columns: Any,
) -> Tensor:  # fmt: skip
    """Return a result in the dtype of the data; ``columns`` are those of the sparse operand."""
    attrs = {"sparse_columns": columns}
    made: Tensor = te.extern([shape], inputs, body, tag, [dtype], tag=tag, attrs=attrs)
    return rounded(made, data.dtype)


def sparse_dense_sp_lhs(
    data_data: Tensor, data_indices: Tensor, data_indptr: Tensor, weight: Tensor
) -> Tensor:
    """Return ``data @ weight.T`` for sparse data (M, K) and a dense weight (N, K)."""
    matrix = SparseMatrix("sparse_dense", data_data, data_indices, data_indptr)
    return _sparse_product(matrix, weight, True, "sparse_dense_sp_lhs")


def _sparse_product(matrix: SparseMatrix, dense: Tensor, is_transposed: bool, name: str) -> Tensor:
    """Return the product of a sparse matrix (M, K) and a dense one, (N, K) or (K, N)."""
    inner, outer = dense.shape[is_transposed], dense.shape[not is_transposed]
    _inner(matrix, inner, name)
    dtype = accumulator(dense.dtype)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        *left, right, out = pointers(builder, [*inputs, *outputs])
        with rows_along(builder, [matrix.outer_rows, outer], 1) as row:
            (m,) = row.outer
            first = m * matrix.block_rows
            with ExitStack() as stack:
                r, n = loops(builder, stack, [_block(matrix)[0], outer], "z")
                out[first + r, n] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, left, m)
                r, c, n = loops(builder, stack, [*_block(matrix), outer], "b")
                k = column * matrix.block_columns + c
                other = right[n, k] if is_transposed else right[k, n]
                term = op.cast(dtype, matrix.value(left, place, r, c)) * op.cast(dtype, other)
                out[first + r, n] = out[first + r, n] + term
        return builder.get()

    tag = f"{name}_bsrmm" if matrix.is_blocked else f"{name}_csrmm"
    return _made([matrix.rows, outer], [*matrix.tensors, dense], body, dtype, dense, tag, inner)


def csr_times_dense(data: Tensor, indices: Tensor, indptr: Tensor, dense: Tensor) -> Tensor:
    """Return the product of a sparse matrix (M, K) and a dense one (K, N)."""
    return _sparse_product(SparseMatrix("csrmm", data, indices, indptr), dense, False, "csrmm")


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
    matrix = SparseMatrix(name, sparse_data, sparse_indices, sparse_indptr)
    if matrix.is_blocked:
        raise ShapeError(f"{name}: blocks are not transposed, the data has 1 dimension")
    size = matrix.outer_rows

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
    matrix = SparseMatrix("sparse_add", sparse_data, sparse_indices, sparse_indptr)
    _inner(matrix, dense_data.shape[1], "sparse_add")
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

    columns = dense_data.shape[1]
    return _made(
        list(dense_data.shape), [dense_data, *matrix.tensors], body, dtype, dense_data,
        "sparse_add", columns,
    )  # fmt: skip


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
    matrix = SparseMatrix(name, sparse_data, sparse_indices, sparse_indptr)
    size = dict(zip(layout, dense_data.shape))
    columns = simplify(size["C"] * kernel_size * kernel_size)
    _inner(matrix, columns, name)
    dtype = accumulator(dense_data.dtype)
    reach = kernel_size // 2
    width = [reach if letter in "HW" else 0 for letter in layout]
    padded = pad(dense_data, width, width, name="pad_temp")
    window = [size["C"] if letter == "C" else const(kernel_size, "int32") for letter in layout[1:]]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, *sparse, out = pointers(builder, [*inputs, *outputs])
        shape = [size["N"], size["H"], size["W"], matrix.outer_rows]
        with rows_along(builder, [*shape, product(window)], 4) as row:
            n, y, x, block = row.outer

            def result(r: Any) -> list[Any]:
                at = {"N": n, "H": y, "W": x, "C": block * matrix.block_rows + r}
                return [at[letter] for letter in layout]

            with builder.for_range(0, matrix.block_rows, "r") as r:
                out[result(r)] = const(0, dtype)
            with ExitStack() as stack:
                place, column = matrix.entries(builder, stack, sparse, block)
                r, c = loops(builder, stack, _block(matrix), "b")
                within = unravel_index(column * matrix.block_columns + c, window)
                own = dict(zip(layout[1:], within))
                at = {"N": n, "H": y + own["H"], "W": x + own["W"], "C": own["C"]}
                value = source[[at[letter] for letter in layout]]
                weight = matrix.value(sparse, place, r, c)
                term = op.cast(dtype, value) * op.cast(dtype, weight)
                out[result(r)] = out[result(r)] + term
        return builder.get()

    shape = [matrix.rows if letter == "C" else size[letter] for letter in layout]
    kind = "bsr" if matrix.is_blocked else "csr"
    tag = f"sparse_conv2d_sp_{kind}mm"
    return _made(shape, [padded, *matrix.tensors], body, dtype, dense_data, tag, columns)


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
        matrix = SparseMatrix(kind, data, indices, indptr)
        columns = operation.attrs["sparse_columns"]
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
