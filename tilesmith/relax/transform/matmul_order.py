"""Orders matrix products and what stands between them by the work that they are.

    lv = R.matmul(a, b)                       lv = R.matmul(b, x)
    gv = R.matmul(lv, x)              →       gv = R.matmul(a, lv)

What depends on weights alone (parameters after the first ``num_input``, and constants) is kept
together: it is computed once, ahead of time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith import arith
from tilesmith.ir import IntImm, IRModule, Op, Range, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of, remove_all_unused, used_vars
from tilesmith.relax.expr import Call, Function, Tuple, Var, VarBinding, known_struct_info
from tilesmith.relax.expr import const as constant
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import prove_equal_shapes, sizes_of, symbolic_vars
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TensorStructInfo

_MATMUL = operators.matmul.op
_PERMUTE = operators.permute_dims.op
_UNBOUNDED = 1 << 31


class Rewriting(PyExprMutator):
    """Replaces calls by a rule that may ask what their operands are bound to."""

    def __init__(self, func: Any, mod: IRModule) -> None:
        super().__init__(mod)
        first = int(func.attrs.get("num_input", len(func.params)))
        self.early: set[Var] = set(func.params[first:])
        self.uses: dict[Var, int] = {}
        for binding in bindings_of(func):
            for var in used_vars(binding.value):
                self.uses[var] = self.uses.get(var, 0) + 1
        for var in used_vars(func.body.body):
            self.uses[var] = self.uses.get(var, 0) + 1

    def rule(self, call: Any) -> Any:
        """Return the replacement of a call, or None."""
        raise NotImplementedError

    def visit_call_(self, op: Call) -> Any:
        """Rewrite a call after its arguments."""
        call = self.visit_expr_post_order(op)
        made = self.rule(call) if isinstance(call, Call) else None
        return call if made is None else made

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Note whether the value is known ahead of time."""
        super().visit_var_binding_(binding)
        new = self.get_var_remap(binding.var)
        value = self.lookup_binding(new)
        if value is not None and self.is_early(value):
            self.early.add(new)

    def is_early(self, *values: Any) -> bool:
        """Return whether values depend on weights and constants alone."""
        return all(
            not isinstance(value, Function) and all(var in self.early for var in used_vars(value))
            for value in values
        )

    def bound(self, expr: Any, op: Op) -> Any:
        """Return the operator's call that a variable is bound to, if nothing else uses it."""
        value = self.lookup_binding(expr)
        is_call = isinstance(value, Call) and value.op is op
        return value if is_call and self.uses.get(expr, 0) <= 1 else None


def rewritten(rewriting: Rewriting, func: Any) -> Function:
    """Return a function after a rewriting, without what is not used any more."""
    changed: Function = rewriting.visit_expr(func)
    return changed if changed is func else remove_all_unused(changed)


def _info(expr: Any) -> Any:
    return known_struct_info(expr)


def is_transposition(call: Any) -> bool:
    """Return whether a call of permute_dims exchanges the last two axes and nothing else."""
    rank = _info(call).ndim
    if rank < 2:
        return False
    given = call.attrs.axes
    axes = list(range(rank))[::-1] if given is None else [int(axis) % rank for axis in given]
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def transposed(expr: Any) -> Call:
    """Return a matrix (or a stack of them) with its last two axes exchanged."""
    rank = _info(expr).ndim
    axes = None if rank == 2 else [*range(rank - 2), rank - 1, rank - 2]
    return operators.permute_dims(expr, axes)


def _rank(expr: Any) -> int:
    info = _info(expr)
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def _keeps_dtype(call: Any) -> bool:
    return bool(_info(call).dtype == _info(call.args[0]).dtype)


def _work(*products: Any) -> Any:
    """Return the multiplications of products; None if a size is not known."""
    total: Any = const(0, "int64")
    for product in products:
        sizes, inner = sizes_of(product.struct_info), sizes_of(product.args[0].struct_info)
        if sizes is None or inner is None:
            return None
        count = inner[-1].astype("int64")
        for size in sizes:
            count = count * size.astype("int64")
        total = total + count
    return total


class _Order(Rewriting):
    """Regroups products of three matrices."""

    def __init__(self, func: Any, mod: IRModule) -> None:
        super().__init__(func, mod)
        self.analyzer = arith.Analyzer()
        lower = dict(func.attrs.get("tir_var_lower_bound", {}))
        upper = dict(func.attrs.get("tir_var_upper_bound", {}))
        sizes = {var: None for param in func.params for var in symbolic_vars(param.struct_info)}
        for var in sizes:
            low, high = int(lower.get(var.name, 1)), int(upper.get(var.name, _UNBOUNDED))
            self.analyzer.bind(
                var, Range(const(low, var.dtype), const(max(high, low) + 1, var.dtype))
            )

    def rule(self, call: Any) -> Any:
        """Return the product of three matrices in the other order, if that is less work."""
        if call.op is not _MATMUL:
            return None
        for is_left in (True, False):
            inner = self._product(call.args[0 if is_left else 1])
            if inner is None:
                continue
            outer = call.args[1 if is_left else 0]
            a, b, c = (*inner, outer) if is_left else (outer, *inner)
            # A vector in the middle would be multiplied from both sides.
            if _rank(b) < 2 or min(_rank(a), _rank(c)) < 1:
                continue
            if is_left != self._left_first(a, b, c, is_left):
                return self._made(a, b, c, not is_left, call.attrs.out_dtype)
        return None

    def _product(self, expr: Any) -> Any:
        """Return the factors of a product, also of one that is transposed."""
        product = self.bound(expr, _MATMUL)
        if product is not None:
            return tuple(product.args) if _keeps_dtype(product) else None
        turned = self.bound(expr, _PERMUTE)
        if turned is None or not is_transposition(turned):
            return None
        product = self.bound(turned.args[0], _MATMUL)
        if product is None or not _keeps_dtype(product):
            return None
        if min(_rank(product.args[0]), _rank(product.args[1])) < 2:
            return None
        return transposed(product.args[1]), transposed(product.args[0])

    def _left_first(self, a: Any, b: Any, c: Any, is_now: bool) -> bool:
        if self.is_early(a, b, c):
            return is_now
        if self.is_early(a, b) or self.is_early(b, c):
            return self.is_early(a, b)
        left, right = operators.matmul(a, b), operators.matmul(b, c)
        left_work = _work(left, operators.matmul(left, c))
        right_work = _work(right, operators.matmul(a, right))
        if left_work is None or right_work is None:
            return is_now
        if isinstance(left_work, IntImm) and isinstance(right_work, IntImm):
            difference = right_work.value - left_work.value
            return is_now if difference == 0 else difference > 0
        now, then = (left_work, right_work) if is_now else (right_work, left_work)
        return is_now != bool(self.analyzer.can_prove(then < now))

    def _made(self, a: Any, b: Any, c: Any, left_first: bool, out_dtype: Any) -> Call:
        emit = self.builder_.emit
        a, b, c = [emit(one) if isinstance(one, Call) else one for one in (a, b, c)]
        if left_first:
            return operators.matmul(emit(operators.matmul(a, b)), c, out_dtype)
        return operators.matmul(a, emit(operators.matmul(b, c)), out_dtype)


@compiler_pass("AdjustMatmulOrder")
def adjust_matmul_order(func: Function, mod: IRModule) -> Function:
    """Computes products of three matrices in the order that is less work: ``(a @ b) @ x`` as
    ``a @ (b @ x)``.

    Two weights stay together. Sizes that are not known are at least 1, or within the attributes
    ``tir_var_lower_bound`` and ``tir_var_upper_bound`` of the function (name → number). A product
    that something else uses as well stays.
    """
    return rewritten(_Order(func, mod), func)


class _Expand(Rewriting):
    """x @ (a + b) → x @ a + x @ b"""

    def rule(self, call: Any) -> Any:
        """Return the sum of two products."""
        if call.op is not _MATMUL:
            return None
        left, right = call.args
        turned = self.bound(right, _PERMUTE)
        total = self.bound(right if turned is None else turned.args[0], operators.add.op)
        if total is None or self.is_early(*total.args):
            return None
        if turned is not None and not is_transposition(turned):
            return None
        if any(_rank(one) != _rank(right) for one in total.args):
            return None  # one of them is broadcast: the products would have other shapes
        emit = self.builder_.emit
        parts: list[Any] = (
            list(total.args) if turned is None else [emit(transposed(x)) for x in total.args]
        )
        if sizes_of(parts[0].struct_info) is None or sizes_of(parts[1].struct_info) is None:
            return None
        products = [operators.matmul(left, part, call.attrs.out_dtype) for part in parts]
        if not all(_same_shape(one, call) for one in products):
            return None
        return operators.add(*[emit(one) for one in products])


def _same_shape(a: Any, b: Any) -> bool:
    left, right = sizes_of(a.struct_info), sizes_of(b.struct_info)
    return left is not None and right is not None and prove_equal_shapes(left, right)


@compiler_pass("ExpandMatmulOfSum")
def expand_matmul_of_sum(func: Function, mod: IRModule) -> Function:
    """Multiplies both summands of a matrix: ``x @ (a + b)`` as ``x @ a + x @ b``, unless the sum is
    known ahead of time.
    """
    return rewritten(_Expand(func, mod), func)


class _PermuteAfterConcat(Rewriting):
    """concat((permute_dims(a), permute_dims(b))) → permute_dims(concat((a, b)))"""

    def rule(self, call: Any) -> Any:
        """Return the permutation of the concatenated sources."""
        if call.op is not operators.concat.op or not isinstance(call.args[0], Tuple):
            return None
        parts = [self.lookup_binding(one) for one in call.args[0].fields]
        if len(parts) < 2 or not all(isinstance(p, Call) and p.op is _PERMUTE for p in parts):
            return None
        orders = [_axes(part) for part in parts]
        if not orders[0] or any(order != orders[0] for order in orders):
            return None
        if call.attrs.axis is None:
            return None
        axis = orders[0][int(call.attrs.axis) % len(orders[0])]
        whole = operators.concat([part.args[0] for part in parts], axis)
        return operators.permute_dims(self.builder_.emit(whole), parts[0].attrs.axes)


def _axes(call: Any) -> list[int]:
    rank = _rank(call)
    if call.attrs.axes is None:
        return list(range(rank))[::-1] if rank >= 0 else []
    return [int(axis) % rank for axis in call.attrs.axes]


@compiler_pass("ReorderPermuteDimsAfterConcat")
def reorder_permute_dims_after_concat(func: Function, mod: IRModule) -> Function:
    """Concatenates tensors before they are permuted, if all are permuted alike: what
    CombineParallelMatmul joins is then transposed once.
    """
    return rewritten(_PermuteAfterConcat(func, mod), func)


class _TakeAfterMatmul(Rewriting):
    """x @ take(w, i) → take(x @ w, i)"""

    def rule(self, call: Any) -> Any:
        """Return what is taken of the product with the whole table."""
        if call.op is not _MATMUL:
            return None
        left, right = call.args
        taken = self.bound(right, operators.take.op)
        if taken is None or taken.attrs.axis is None or _rank(left) < 1:
            return None
        table, indices = taken.args
        if _rank(table) == 2 and _rank(indices) == 1 and int(taken.attrs.axis) % 2 == 1:
            product = operators.matmul(left, table, call.attrs.out_dtype)
            axis = _rank(product) - 1
            return operators.take(self.builder_.emit(product), indices, axis, taken.attrs.mode)
        if _rank(table) == 3 and _rank(indices) == 1 and int(taken.attrs.axis) % 3 == 0:
            return self._batched(call, taken)
        return None

    def _batched(self, call: Call, taken: Any) -> Any:
        """Each item of the batch takes its own matrix: multiply it by all of them side by side."""
        left, (table, indices) = call.args[0], taken.args
        if _rank(left) != 3:
            return None
        batch, rows, _ = sizes_of(left.struct_info) or (None, None, None)
        count, depth, columns = sizes_of(table.struct_info) or (None, None, None)
        if batch is None or count is None or not isinstance(count, IntImm):
            return None
        if not _same_sizes(sizes_of(indices.struct_info), [batch]):
            return None  # one of them is broadcast
        emit, dtype = self.builder_.emit, _info(indices).dtype
        side = emit(operators.permute_dims(table, [1, 0, 2]))
        side = emit(operators.reshape(side, [depth, count * columns]))
        product = emit(operators.matmul(left, side, call.attrs.out_dtype))
        parts = emit(operators.reshape(product, [batch, rows, count, columns]))
        parts = emit(operators.permute_dims(parts, [0, 2, 1, 3]))
        parts = emit(operators.reshape(parts, [batch * count, rows, columns]))
        # A negative index counts from the end of the table, not of all tables.
        size = constant(count.value, dtype)
        places = emit(operators.floor_mod(indices, size))
        steps = emit(operators.arange(0, batch, 1, dtype))
        starts = emit(operators.multiply(steps, size))
        return operators.take(parts, emit(operators.add(starts, places)), 0, taken.attrs.mode)


def _same_sizes(a: Iterable[Any] | None, b: Iterable[Any]) -> bool:
    return a is not None and prove_equal_shapes(a, b)


@compiler_pass("ReorderTakeAfterMatmul")
def reorder_take_after_matmul(func: Function, mod: IRModule) -> Function:
    """Multiplies by a whole table and takes columns of the product, rather than of the table; for a
    table of matrices, of which each item of a batch takes its own, likewise.

    With the table among the weights, a product with it can be joined with others.
    """
    return rewritten(_TakeAfterMatmul(func, mod), func)


class _FuseTransposed(Rewriting):
    """x @ permute_dims(w) → one kernel that reads the rows of w"""

    def rule(self, call: Any) -> Any:
        """Return the call of a kernel for a product with a transposed matrix."""
        if call.op is not _MATMUL:
            return None
        turned = self.bound(call.args[1], _PERMUTE)
        if turned is None or not is_transposition(turned):
            return None
        known = [sizes_of(one.struct_info) for one in (*call.args, call)]
        if None in known or _rank(call.args[0]) < 2 or _info(call).dtype.is_void:
            return None
        dtype = _info(call).dtype

        def product(left: Any, right: Any) -> Any:
            return topi.matmul(left, right, False, True, dtype)

        return self.builder_.call_te(
            product, call.args[0], turned.args[0], primfunc_name_hint="NT_matmul"
        )


@compiler_pass("FuseTransposeMatmul")
def fuse_transpose_matmul(mod: IRModule) -> IRModule:
    """Turns products with a transposed matrix into calls of kernels (``NT_matmul``) that read the
    matrix as it is.
    """
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            if "Codegen" in function.attrs:
                continue
            rewriting = _FuseTransposed(function, mod)
            changed = rewriting.visit_expr(function)
            if changed is not function:
                rewriting.builder_.update_func(name, remove_all_unused(changed))
                mod = rewriting.builder_.get()
    return mod
