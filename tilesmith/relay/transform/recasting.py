"""``relay.transform.recast``: lets operators compute in another dtype, to see what that gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.expr import Tuple
from tilesmith.relay.expr_functor import ExprMutator
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.op.view import make_call
from tilesmith.relay.transform.calls import attrs_of, is_call
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import post_order

__all__ = ["RecastMutator", "recast"]


class RecastMutator(ExprMutator):
    """Converts the operands of some operators to a dtype, and their results back."""

    def __init__(
        self,
        dtype: str,
        out_dtype: str,
        valid_ops: Sequence[Any],
        valid_op_count: int,
        skip_layers: Sequence[int],
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.out_dtype = out_dtype
        self.valid_ops = [one if isinstance(one, Op) else Op.get(one) for one in valid_ops]
        self.skipped = (
            {layer % valid_op_count for layer in skip_layers} if valid_op_count else set()
        )
        self.layer = 0

    def visit_call(self, call: Any) -> Any:
        """Convert a call, unless its number is among those to skip."""
        new = super().visit_call(call)
        if call.op not in self.valid_ops:
            return new
        layer, self.layer = self.layer, self.layer + 1
        if layer in self.skipped:
            return new
        attrs = attrs_of(new)
        if "out_dtype" in attrs:
            attrs["out_dtype"] = self.out_dtype
        made = make_call(new.op, [self._cast(arg) for arg in new.args], attrs)
        type_ = call.checked_type
        is_tensor = isinstance(type_, TensorType)
        return make_call("cast", [made], {"dtype": str(type_.dtype)}) if is_tensor else made

    def _cast(self, operand: Any) -> Any:
        if isinstance(operand, Tuple):
            return Tuple([self._cast(field) for field in operand.fields])
        return make_call("cast", [operand], {"dtype": self.dtype})


def recast(
    expr: Any,
    dtype: str,
    out_dtype: str,
    ops: Sequence[Any] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> Any:
    """Return an expression in which operators (by default convolutions of images) take ``dtype``
    and give ``out_dtype``, with conversions around them.

    ``skip_layers`` are numbers of such operators that stay as they are, counted from the first one,
    or if negative from the last one. The values are converted as they are: to measure how fast an
    operator is in a dtype, not to keep a model exact.
    """
    expr = infer_expr(expr)
    names = ["nn.conv2d"] if ops is None else [getattr(one, "name", one) for one in ops]
    count = sum([is_call(node, *names) for node in post_order(expr)])
    made = RecastMutator(dtype, out_dtype, names, count, skip_layers or []).visit(expr)
    if isinstance(made, Function) and made is not expr:
        made = Function(made.params, made.body, None, made.type_params, made.attrs, made.span)
    return infer_expr(made)
