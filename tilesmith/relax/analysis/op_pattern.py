"""Classifies how a PrimFunc fuses with its neighbours, from its blocks.

Only unscheduled functions are analysed (``tir.analysis.unscheduled``). A function that its author
has scheduled is not fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from tilesmith.ir import Call, GlobalVar, Mul, Op, PrimExpr, post_order_visit
from tilesmith.ir import Cast as CastExpr
from tilesmith.ir import Var as ScalarVar
from tilesmith.ir.op import CallEffectKind
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import variables
from tilesmith.tir import Block, BufferLoad, BufferStore, For, IterVar, PrimFunc
from tilesmith.tir.analysis import unscheduled_blocks
from tilesmith.tir.queries import loads

__all__ = ["FusionKind", "tir_op_pattern"]


class FusionKind(IntEnum):
    """How a program fuses with its neighbours; the numbers are the public ones of TOpPattern."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


class _Access:
    """The reads and writes of a block."""

    def __init__(self, block: Block) -> None:
        self.spatial = [it.var for it in block.iter_vars if it.iter_type == IterVar.DataPar]
        self.reduced = {it.var for it in block.iter_vars if it.iter_type == IterVar.CommReduce}
        self.is_plain = len(self.spatial) + len(self.reduced) == len(block.iter_vars)
        self.stores: list[BufferStore] = []
        self.loads: list[BufferLoad] = []
        self.has_effects = False
        self.has_product = False
        post_order_visit(block.body, self._look)
        self.written = [store.buffer for store in self.stores]

    def _look(self, node: Any) -> None:
        if isinstance(node, BufferStore):
            self.stores.append(node)
        elif isinstance(node, BufferLoad):
            self.loads.append(node)
        elif isinstance(node, (Block, For)):
            self.has_effects = True  # a scope of its own: not a plain block
        elif isinstance(node, Call):
            if isinstance(node.op, GlobalVar):
                self.has_effects = True
            elif isinstance(node.op, Op):
                effect = node.op.get_attr("TCallEffectKind", CallEffectKind.Pure)
                self.has_effects |= int(effect) > int(CallEffectKind.ReadState)
        elif isinstance(node, Mul):
            a, b = _loaded_buffers(node.a), _loaded_buffers(node.b)
            self.has_product |= bool(a and b and a != b)

    def inputs(self) -> list[BufferLoad]:
        """Return the loads from buffers that the block does not write."""
        return [load for load in self.loads if load.buffer not in self.written]

    def load_kind(self, load: BufferLoad) -> FusionKind:
        """Classify a load by how its indices relate to the block's spatial iterators."""
        indices = [index for index in load.indices if not is_const(index, 0)]
        if len(indices) == len(load.indices) == len(self.spatial):
            if all(a is b for a, b in zip(indices, self.spatial)):
                return FusionKind.ELEMWISE
        places = [_place(index, self.spatial) for index in indices]
        if -1 not in places and all(a < b for a, b in zip(places, places[1:])):
            return FusionKind.BROADCAST
        return FusionKind.INJECTIVE

    def stores_plainly(self) -> bool:
        """Return whether each element is written once, at the block's own spatial iterators, and of
        what is written only that element is read.
        """
        for store in self.stores:
            own = [index for index in store.indices if not is_const(index, 0)]
            spatial = iter(self.spatial)
            if not all(any(index is var for var in spatial) for index in own):
                return False
        places = {store.buffer: store.indices for store in self.stores}
        for load in self.loads:
            if load.buffer in places and not _same_place(load.indices, places[load.buffer]):
                return False
        return bool(self.stores)


def _same_place(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return all(x is y or is_const(x, 0) and is_const(y, 0) for x, y in zip(a, b))


def _place(index: Any, variables: list[Any]) -> int:
    """Return the position of a variable among others, or -1."""
    return next((place for place, variable in enumerate(variables) if variable is index), -1)


def _loaded_buffers(expr: PrimExpr) -> set[int]:
    while isinstance(expr, CastExpr):
        expr = expr.value
    return {id(load.buffer) for load in loads(expr)}


def _block_kind(access: _Access) -> FusionKind:
    kinds = [access.load_kind(load) for load in access.inputs()]
    if not access.reduced:
        return max(kinds, default=FusionKind.ELEMWISE)
    everything = {*access.spatial, *access.reduced}
    pure = all(
        isinstance(index, ScalarVar) and index in everything or is_const(index)
        for load in access.inputs()
        for index in load.indices
    )
    return (
        FusionKind.COMM_REDUCE
        if pure and not access.has_product
        else FusionKind.OUT_ELEMWISE_FUSABLE
    )


def tir_op_pattern(func: PrimFunc) -> FusionKind:
    """Return how calls of a PrimFunc fuse with their neighbours.

    Reductions whose results are used again within the function (softmax, normalisation) are
    ``OUT_ELEMWISE_FUSABLE`` if its own last stages are elementwise.
    """
    blocks = unscheduled_blocks(func)
    if not blocks or not _has_known_operands(func):
        return FusionKind.OPAQUE
    accesses = [_Access(block) for block in blocks]
    for access in accesses:
        if not access.is_plain or access.has_effects or not access.stores_plainly():
            return FusionKind.OPAQUE
    kinds = [_block_kind(access) for access in accesses]
    reductions = [i for i, access in enumerate(accesses) if access.reduced]
    if not reductions:
        return max(kinds)
    first = reductions[0]
    is_spread = len(reductions) > 1
    reduced = set(accesses[first].written)
    for access, kind in list(zip(accesses, kinds))[first + 1 :]:
        for load in access.inputs():
            if load.buffer in reduced and access.load_kind(load) != FusionKind.ELEMWISE:
                is_spread = True
        if kind > FusionKind.BROADCAST and not access.reduced and not _joins_columns(access):
            return FusionKind.OPAQUE
        reduced.update(access.written)
    if not is_spread:
        return kinds[first]
    results = list(func.buffer_map.values())
    ends = [access for access in accesses if any(one in results for one in access.written)]
    if any(access.reduced for access in ends):
        return FusionKind.OPAQUE
    return FusionKind.OUT_ELEMWISE_FUSABLE


def _joins_columns(access: _Access) -> bool:
    """Return whether a block makes each element of neighbours along the last axis, as where a
    result has several sums: ``S[i, 2 * j] + S[i, 2 * j + 1]``.
    """
    *outer, last = access.spatial
    for load in access.inputs():
        if access.load_kind(load) > FusionKind.BROADCAST:
            *others, index = load.indices
            if len(others) != len(outer) or any(a is not b for a, b in zip(others, outer)):
                return False
            if any(one is not last for one in variables(index)):
                return False
    return True


def _has_known_operands(func: PrimFunc) -> bool:
    """Return whether all parameters are tensors, or sizes after them."""
    return all(param in func.buffer_map or param.dtype.is_int for param in func.params)
