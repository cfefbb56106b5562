"""Long short-term memory: a recurrent layer over a sequence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.accumulation import accumulator
from tilesmith.topi.broadcast import add
from tilesmith.topi.math import cast
from tilesmith.topi.nn.dense import dense
from tilesmith.topi.procedure import loops, pointers
from tilesmith.topi.transform import transpose
from tilesmith.topi.utils import get_const_int

__all__ = ["lstm"]

Activation = Callable[[PrimExpr], PrimExpr]


class _Layer:
    """A layer, once what its gates get from the inputs of all steps is known."""

    def __init__(
        self, gates: Tensor, recurrent: Tensor, optional: dict[str, Tensor | None],
        activations: tuple[Activation, Activation, Activation], reverse: bool, order: str,
    ) -> None:  # fmt: skip
        self._steps, self._batch, _ = gates.shape
        self._size, self._hidden = recurrent.shape[1] // 4, recurrent.shape[0]
        self._dtype = gates.dtype
        present = {name: tensor for name, tensor in optional.items() if tensor is not None}
        self._names = ["gates", "recurrent", *present]
        self._given = [gates, recurrent, *present.values()]
        self._gate, self._cell, self._output = activations
        self._reverse, self._order = reverse, order

    def states(self, dtype: Any) -> tuple[Tensor, Tensor]:
        """Return the hidden states and the cell states of all steps."""
        batch = self._batch
        shapes = [[self._steps, batch, self._hidden], [self._steps, batch, self._size]]
        # What one step works on: the sums of the gates, the states before the projection and after.
        shapes += [[batch, self._size * 4], [batch, self._size], [batch, self._hidden]]
        dtypes = [dtype, dtype, *[self._dtype] * 3]
        made = te.extern(shapes, self._given, self._body, "lstm", dtypes, tag="lstm")
        return made[0], made[1]

    def _body(self, inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        given = dict(zip(self._names, pointers(builder, inputs)))
        hidden, cells, sums, inner, projected = pointers(builder, outputs)
        with builder.for_range(0, self._steps, "t") as t:
            source = self._steps - 1 - t if self._reverse else t
            self._multiply(
                builder,
                sums,
                lambda b, row: given["gates"][source, b, row],
                lambda b, k: self._before(t, hidden, given.get("h_init"), b, k),
                given["recurrent"],
            )
            with ExitStack() as stack:
                b, j = loops(builder, stack, [self._batch, self._size], "s")
                self._update(builder, given, sums, cells, inner, [t, b, j])
            if "proj" in given:
                nothing = const(0, self._dtype)
                self._multiply(
                    builder, projected, lambda *_: nothing, lambda b, k: inner[b, k], given["proj"]
                )
            with ExitStack() as stack:
                b, j = loops(builder, stack, [self._batch, self._hidden], "h")
                value = (projected if "proj" in given else inner)[b, j]
                hidden[t, b, j] = op.cast(hidden.dtype, value)
        return builder.get()

    def _before(
        self, t: PrimExpr, states: BufferVar, first: BufferVar | None, b: PrimExpr, k: PrimExpr
    ) -> PrimExpr:
        """Return a state of the step before, at the first step the one that was given."""
        start = const(0, self._dtype) if first is None else op.cast(self._dtype, first[b, k])
        is_later = op.greater(t, const(0, t.dtype))
        last = op.cast(self._dtype, states[t - 1, b, k])
        made: PrimExpr = tir.if_then_else(is_later, last, start)
        return made

    def _multiply(
        self, builder: IRBuilder, sums: BufferVar, start: Callable[..., PrimExpr],
        state: Callable[..., PrimExpr], weight: BufferVar,
    ) -> None:  # fmt: skip
        """Write ``start + state @ weight``; neighbouring sums are neighbours in memory."""
        count, rows = weight.asobject().shape
        with builder.for_range(0, self._batch, "b") as b:
            with builder.for_range(0, rows, "r") as row:
                sums[b, row] = start(b, row)
            with builder.for_range(0, count, "k") as k:
                factor = builder.let("state", state(b, k))
                with builder.for_range(0, rows, "r") as row:
                    term = factor * op.cast(self._dtype, weight[k, row])
                    sums[b, row] = sums[b, row] + term

    def _update(
        self, builder: IRBuilder, given: dict[str, BufferVar], sums: BufferVar, cells: BufferVar,
        inner: BufferVar, place: list[PrimExpr],
    ) -> None:  # fmt: skip
        """Write the cell state and the hidden state (before a projection) at one place."""
        t, b, j = place

        def entry(gate: str, peephole: str, cell: PrimExpr) -> PrimExpr:
            value = sums[b, j + self._order.index(gate) * self._size]
            if peephole not in given:
                return value
            weight = given[peephole]
            one = weight[j] if len(weight.asobject().shape) == 1 else weight[b, j]
            return value + op.cast(self._dtype, one) * cell

        old = builder.let("old", self._before(t, cells, given.get("c_init"), b, j))
        kept = self._gate(entry("F", "p_f", old)) * old
        new = self._gate(entry("I", "p_i", old)) * self._cell(entry("G", "", old))
        cell = builder.let("cell", kept + new)
        cells[t, b, j] = op.cast(cells.dtype, cell)
        inner[b, j] = self._gate(entry("O", "p_o", cell)) * self._output(cell)


def _check_sizes(
    Xs: Tensor, Wi: Tensor, Wh: Tensor, proj: Tensor | None, weight_layout: str
) -> None:
    if sorted(weight_layout) != sorted("IFGO"):
        raise OpAttributeInvalid(
            f"lstm: the weight_layout '{weight_layout}' is not an order of I, F, G and O"
        )
    if len(Xs.shape) != 3:
        raise ShapeError(f"lstm: Xs is (steps, batch, inputs), it has {len(Xs.shape)} dimensions")
    rows, inputs = [get_const_int(size) for size in Wi.shape]
    others, hidden = [get_const_int(size) for size in Wh.shape]
    wanted = rows // 4 if proj is None else get_const_int(proj.shape[0])
    if rows % 4 or others != rows or hidden != wanted or inputs != get_const_int(Xs.shape[2]):
        raise ShapeError(
            f"lstm: {Xs.shape[2]} inputs and {wanted} hidden states, Wi of shape "
            f"{[rows, inputs]} and Wh of shape {[others, hidden]}",
            notes=("the weights have 4 rows for each cell state, one for each gate",),
        )


def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: Tensor | None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Activation = tir.sigmoid,
    g_act: Activation = tir.tanh,
    h_act: Activation = tir.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Return the hidden states and the cell states of all steps of a recurrent layer.

    ``Xs`` is (steps, batch, inputs), ``Wi`` (4 * size, inputs), ``Wh`` (4 * size, hidden), ``Bi``
    and ``Bh`` (4 * size); their rows belong to the input, forget, cell and output gates in the
    order of ``weight_layout``. ``h_init`` and ``c_init`` (batch, hidden or size) are the first
    states. ``proj`` (hidden, size) maps hidden states to smaller ones. ``p_*`` (size, or batch by
    size) are weights of the cell state for the gates. ``f_act``, ``g_act`` and ``h_act`` are the
    functions of the gates, of the cell's input and of its output. ``reverse`` goes from the last
    step to the first; results stand in the order in which they were made.
    """
    _check_sizes(Xs, Wi, Wh, proj, weight_layout)
    dtype = accumulator(Xs.dtype)
    biases = [cast(bias, dtype) for bias in (Bi, Bh) if bias is not None]
    bias = add(*biases) if len(biases) == 2 else biases[0] if biases else None
    gates = dense(Xs, Wi, bias, dtype)
    optional = {
        "proj": None if proj is None else transpose(proj),
        "h_init": h_init, "c_init": c_init, "p_i": p_i, "p_f": p_f, "p_o": p_o,
    }  # fmt: skip
    activations = (f_act, g_act, h_act)
    layer = _Layer(gates, transpose(Wh), optional, activations, reverse, weight_layout)
    return layer.states(Xs.dtype)
