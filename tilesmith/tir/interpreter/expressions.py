"""Expressions as closures over an environment: a list with one slot per variable and buffer.

Slot 0 holds the ``Context`` of the call, slot 1 the ``Thread``. A closure is made once per
expression and called once per evaluation, which is several times faster than visiting the tree
again.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Cast,
    Dispatcher,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType, ScalableLanes
from tilesmith.support.errors import ExecutionError, OutOfBoundsError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
    convert_value,
    element_type,
    scalar,
    wrap_int,
)  # fmt: skip


def out_of_bounds(buffer: Buffer, array: Any, indices: tuple, span: Any, what: str) -> Any:
    """Raise the error of an access outside of a buffer."""
    shown = ", ".join([str(index) for index in indices])
    shape = ", ".join([str(size) for size in array.shape[: len(buffer.shape)]])
    raise OutOfBoundsError(
        f"{what} of {buffer.name}[{shown}] is outside of the buffer of shape ({shape})", span=span
    )


def _divide_truncating(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _vector_truncating_quotient(a: Any, b: Any) -> Any:
    quotient = numpy.floor_divide(a, b)
    inexact = (numpy.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return (quotient + inexact).astype(a.dtype)


class ExpressionCompiler(Dispatcher[Evaluate]):
    """Makes closures of expressions. Statements and calls are added by the classes below."""

    def __init__(self) -> None:
        self.slots: dict[Node, int] = {}
        self.count = 2  # slot 0: the context, slot 1: the thread
        self.binders: dict[Buffer, Evaluate] = {}

    def slot(self, key: Node) -> int:
        """The place of a variable or buffer in the environment."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = self.count
            self.count += 1
        return found

    def visit_default(self, node: Any) -> Evaluate:
        raise UnsupportedError(
            f"the interpreter does not know {type(node).__name__}",
            span=getattr(node, "span", None),
            notes=("make a PrimFunc of tensor expressions with te.create_prim_func first",),
        )

    def lane_count(self, lanes: int) -> int:
        """How many lanes a vector has in this run."""
        if isinstance(lanes, ScalableLanes):
            return int(lanes) * int(self.options.vscale)  # type: ignore[attr-defined]
        return lanes

    # Leaves.

    def visit_Var(self, node: Var) -> Evaluate:
        return itemgetter(self.slot(node))

    def visit_IterVar(self, node: IterVar) -> Evaluate:
        return itemgetter(self.slot(node.var))

    def visit_IntImm(self, node: IntImm) -> Evaluate:
        value = bool(node.value) if node.dtype.is_bool else node.value
        return lambda env: value

    def visit_FloatImm(self, node: FloatImm) -> Evaluate:
        value = scalar(node.value, node.dtype)
        return lambda env: value

    def visit_StringImm(self, node: StringImm) -> Evaluate:
        value = node.value
        return lambda env: value

    # Buffers.

    def binder(self, buffer: Buffer) -> Evaluate:
        """The function that views the memory behind ``buffer.data`` and keeps the view in the
        buffer's slot."""
        found = self.binders.get(buffer)
        if found is not None:
            return found
        slot, data_slot = self.slot(buffer), self.slot(buffer.data)
        # A shape that mentions variables is evaluated when the buffer is first touched.
        sizes = [self.visit(size) for size in buffer.shape]
        strides = [self.visit(stride) for stride in buffer.strides]
        offset = self.visit(buffer.elem_offset)

        def bind(env: Environment) -> Any:
            pointer = env[data_slot]
            if not isinstance(pointer, Pointer):
                raise ExecutionError(f"buffer '{buffer.name}' is used before its memory exists")
            shape = tuple([size(env) for size in sizes])
            steps = tuple([stride(env) for stride in strides]) if strides else None
            try:
                array = pointer.view(buffer.dtype, shape, steps, offset(env))
            except ExecutionError as error:
                raise ExecutionError(f"buffer '{buffer.name}': {error.message}") from None
            env[slot] = array
            return array

        self.binders[buffer] = bind
        return bind

    def visit_BufferLoad(self, node: BufferLoad) -> Evaluate:
        dtype = node.buffer.dtype
        if node.predicate is not None or node.dtype.lanes != dtype.lanes:
            return self.vector_load(node)
        if dtype.lanes > 1 or dtype.is_handle or len(node.indices) > 4:
            return self.general_load(node)
        as_item = (dtype.is_integer and dtype.bits >= 8) or dtype.is_bool
        return self.scalar_load(node, numpy.ndarray.item if as_item else numpy.ndarray.__getitem__)

    def scalar_load(self, node: BufferLoad, get: Any) -> Evaluate:
        """A load of one element, with one closure per number of dimensions."""
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        indices = [self.visit(index) for index in node.indices]
        is_int4 = buffer.dtype.is_integer and buffer.dtype.bits < 8

        def array_of(env: Environment) -> Any:
            array = env[slot]
            return bind(env) if array is None else array

        if not indices:
            return lambda env: _item(array_of(env)[()], buffer.dtype)
        if is_int4:
            general = self.general_load(node)
            return lambda env: int(general(env))
        if len(indices) == 1:
            (first,) = indices

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                i = first(env)
                if i >= 0:
                    try:
                        return get(array, i)
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, (i,), span, "the load")

        elif len(indices) == 2:
            first, second = indices

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                i, j = first(env), second(env)
                if i >= 0 and j >= 0:
                    try:
                        return get(array, (i, j))
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, (i, j), span, "the load")

        else:

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                place = tuple([index(env) for index in indices])
                if min(place) >= 0:
                    try:
                        return get(array, place)
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, place, span, "the load")

        return load

    def general_load(self, node: BufferLoad) -> Evaluate:
        """A load of an element that is itself a vector, or a pointer, or of many dimensions."""
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        indices = [self.visit(index) for index in node.indices]
        dtype = buffer.dtype

        def load(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in indices])
            if not place or min(place) >= 0:
                try:
                    found = array[place]
                    return found.copy() if dtype.lanes > 1 else _item(found, dtype)
                except IndexError:
                    pass
            return out_of_bounds(buffer, array, place, span, "the load")

        return load

    def vector_load(self, node: BufferLoad) -> Evaluate:
        """A load along a vector of last indices, with lanes switched off by the predicate."""
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        outer = [self.visit(index) for index in node.indices[:-1]]
        last = self.visit(node.indices[-1])
        predicate = None if node.predicate is None else self.visit(node.predicate)
        kind = element_type(node.dtype)

        def load(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in outer])
            picked = numpy.atleast_1d(last(env))
            mask = None if predicate is None else numpy.atleast_1d(predicate(env))
            wanted = picked if mask is None else picked[mask]
            _check_vector(buffer, array, place, wanted, span, "the load")
            if mask is None:
                return array[(*place, picked)].reshape(-1)
            found = numpy.zeros(len(picked), kind)
            found[mask] = array[(*place, wanted)]
            return found

        return load

    # Arithmetic.

    def operands(self, node: BinaryOp) -> tuple[Evaluate, Evaluate]:
        return self.visit(node.a), self.visit(node.b)

    def arithmetic(
        self, node: BinaryOp, function: Callable[[Any, Any], Any], checked: bool = True
    ) -> Evaluate:
        """An operation whose integer results are wrapped to the dtype."""
        a, b = self.operands(node)
        dtype = node.dtype
        if not dtype.is_integer or dtype.lanes > 1 or not checked:
            return lambda env: function(a(env), b(env))
        low, high = dtype.min_value, dtype.max_value

        def compute(env: Environment) -> int:
            value = function(a(env), b(env))
            return value if low <= value <= high else wrap_int(value, dtype)

        return compute

    def visit_Add(self, node: Add) -> Evaluate:
        dtype = node.dtype
        if not dtype.is_integer or dtype.lanes > 1:
            a, b = self.operands(node)
            return lambda env: a(env) + b(env)
        low, high = dtype.min_value, dtype.max_value
        a, b = self.operands(node)

        def compute(env: Environment) -> int:
            value = a(env) + b(env)
            return value if low <= value <= high else wrap_int(value, dtype)

        return compute

    def visit_Sub(self, node: Sub) -> Evaluate:
        if node.dtype.is_bool:
            return self.arithmetic(node, lambda x, y: x ^ y)
        return self.arithmetic(node, lambda x, y: x - y)

    def visit_Mul(self, node: Mul) -> Evaluate:
        dtype = node.dtype
        a, b = self.operands(node)
        if not dtype.is_integer or dtype.lanes > 1:
            return lambda env: a(env) * b(env)
        low, high = dtype.min_value, dtype.max_value

        def compute(env: Environment) -> int:
            value = a(env) * b(env)
            return value if low <= value <= high else wrap_int(value, dtype)

        return compute

    def visit_Div(self, node: Div) -> Evaluate:
        if node.dtype.is_float:
            return self.arithmetic(node, lambda x, y: x / y)
        if node.dtype.lanes > 1:
            return self.arithmetic(node, _vector_truncating_quotient)
        return self.arithmetic(node, _divide_truncating)

    def visit_Mod(self, node: Mod) -> Evaluate:
        if node.dtype.is_float or node.dtype.lanes > 1:
            return self.arithmetic(node, numpy.fmod)
        return self.arithmetic(node, lambda x, y: x - y * _divide_truncating(x, y))

    def visit_FloorDiv(self, node: FloorDiv) -> Evaluate:
        if node.dtype.is_float:
            return self.arithmetic(node, lambda x, y: numpy.floor(x / y))
        return self.arithmetic(node, lambda x, y: x // y)

    def visit_FloorMod(self, node: FloorMod) -> Evaluate:
        if node.dtype.is_float:
            return self.arithmetic(node, lambda x, y: x - numpy.floor(x / y) * y)
        return self.arithmetic(node, lambda x, y: x % y, checked=False)

    def visit_Min(self, node: Min) -> Evaluate:
        if node.dtype.lanes > 1:
            return self.arithmetic(node, lambda x, y: numpy.where(y < x, y, x))
        return self.arithmetic(node, lambda x, y: y if y < x else x, checked=False)

    def visit_Max(self, node: Max) -> Evaluate:
        if node.dtype.lanes > 1:
            return self.arithmetic(node, lambda x, y: numpy.where(y > x, y, x))
        return self.arithmetic(node, lambda x, y: y if y > x else x, checked=False)

    # Comparisons and conditions.

    def visit_EQ(self, node: EQ) -> Evaluate:
        a, b = self.operands(node)
        if node.a.dtype.is_handle:
            return lambda env: a(env) is b(env)
        return lambda env: a(env) == b(env)

    def visit_NE(self, node: NE) -> Evaluate:
        a, b = self.operands(node)
        if node.a.dtype.is_handle:
            return lambda env: a(env) is not b(env)
        return lambda env: a(env) != b(env)

    def visit_LT(self, node: LT) -> Evaluate:
        a, b = self.operands(node)
        return lambda env: a(env) < b(env)

    def visit_LE(self, node: LE) -> Evaluate:
        a, b = self.operands(node)
        return lambda env: a(env) <= b(env)

    def visit_GT(self, node: GT) -> Evaluate:
        a, b = self.operands(node)
        return lambda env: a(env) > b(env)

    def visit_GE(self, node: GE) -> Evaluate:
        a, b = self.operands(node)
        return lambda env: a(env) >= b(env)

    def visit_And(self, node: And) -> Evaluate:
        a, b = self.operands(node)
        if node.dtype.lanes > 1:
            return lambda env: a(env) & b(env)
        return lambda env: bool(a(env) and b(env))

    def visit_Or(self, node: Or) -> Evaluate:
        a, b = self.operands(node)
        if node.dtype.lanes > 1:
            return lambda env: a(env) | b(env)
        return lambda env: bool(a(env) or b(env))

    def visit_Not(self, node: Not) -> Evaluate:
        a = self.visit(node.a)
        if node.dtype.lanes > 1:
            return lambda env: ~a(env)
        return lambda env: not a(env)

    def visit_Select(self, node: Select) -> Evaluate:
        condition = self.visit(node.condition)
        yes, no = self.visit(node.true_value), self.visit(node.false_value)
        if node.condition.dtype.lanes > 1:
            return lambda env: numpy.where(condition(env), yes(env), no(env))
        # A pass makes the loads of a Select safe; before that only one side may be looked at.
        return lambda env: yes(env) if condition(env) else no(env)

    # Casts, bindings, vectors.

    def visit_Cast(self, node: Cast) -> Evaluate:
        value = self.visit(node.value)
        convert = convert_value(node.value.dtype, node.dtype)
        return lambda env: convert(value(env))

    def visit_Let(self, node: Let) -> Evaluate:
        slot, value = self.slot(node.var), self.visit(node.value)
        body = self.visit(node.body)

        def compute(env: Environment) -> Any:
            env[slot] = value(env)
            return body(env)

        return compute

    def visit_Ramp(self, node: Ramp) -> Evaluate:
        base, stride = self.visit(node.base), self.visit(node.stride)
        steps = numpy.arange(self.lane_count(node.lanes))
        kind = element_type(node.dtype)
        return lambda env: (base(env) + stride(env) * steps).astype(kind)

    def visit_Broadcast(self, node: Broadcast) -> Evaluate:
        value, kind = self.visit(node.value), element_type(node.dtype)
        lanes = self.lane_count(node.lanes)
        return lambda env: numpy.full(lanes, value(env), kind)

    def visit_Shuffle(self, node: Shuffle) -> Evaluate:
        vectors = [self.visit(vector) for vector in node.vectors]
        indices = [self.visit(index) for index in node.indices]
        dtype: DataType = node.dtype

        def compute(env: Environment) -> Any:
            lanes = numpy.concatenate([numpy.atleast_1d(vector(env)) for vector in vectors])
            if dtype.lanes == 1:
                return _item(lanes[indices[0](env)], dtype)
            return lanes[[index(env) for index in indices]]

        return compute

    def visit_PrimExpr(self, node: PrimExpr) -> Evaluate:
        return self.visit_default(node)


def _item(value: Any, dtype: DataType) -> Any:
    if dtype.is_integer:
        return int(value)
    return bool(value) if dtype.is_bool else value


def _check_vector(
    buffer: Buffer, array: Any, place: tuple, picked: Any, span: Any, what: str
) -> None:
    """Numpy takes negative indices from the end: look before."""
    if len(picked) == 0:
        return
    inside = all(0 <= index < size for index, size in zip(place, array.shape))
    if not inside or int(picked.min()) < 0 or int(picked.max()) >= array.shape[len(place)]:
        lanes = "[" + ", ".join([str(index) for index in picked]) + "]"
        out_of_bounds(buffer, array, (*place, lanes), span, what)
