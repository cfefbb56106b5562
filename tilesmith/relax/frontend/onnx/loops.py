"""Loops whose number of iterations is known only when the model runs, or large: functions that
call themselves.

    def loop(i, go, limit, x, scanned, captured):
        if go and i < limit:
            go, x, y = body(i, go, x)
            return loop(i + 1, go, limit, x, append(scanned, y), captured)
        return x, scanned
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import GlobalVar, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op
from tilesmith.relax.analysis import bindings_of, free_vars
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Function,
    If,
    RelaxExpr,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of, tensor_info
from tilesmith.relax.relations import (
    definable_symbolic_vars,
    prove_equal,
    sizes_of,
    symbolic_vars,
)
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import FrontendError

__all__ = ["counted_loop", "run_time_loop"]

_FOREVER = (1 << 63) - 1


@dataclass
class _Body:
    """What one iteration computes: its bindings, and the values that they give."""

    block: BindingBlock
    goes_on: RelaxExpr
    states: list[RelaxExpr]
    scanned: list[RelaxExpr]

    @property
    def results(self) -> list[RelaxExpr]:
        return [self.goes_on, *self.states, *self.scanned]

    @property
    def whole(self) -> SeqExpr:
        return SeqExpr([self.block], Tuple(self.results))

    def own_sizes(self) -> set[Any]:
        """Return the sizes that are defined inside; casts also check those from outside."""
        casts = [binding for binding in self.block.bindings if hasattr(binding, "struct_info")]
        given = [known_struct_info(var) for var in free_vars(self.whole)]
        outer = {size for info in given for size in symbolic_vars(info)}
        return {size for cast in casts for size in symbolic_vars(cast.struct_info)} - outer


Iteration = Callable[[Var, Var, list[Var]], Sequence[Any]]
"""Emits one iteration for its number, whether it goes on, and the states; returns whether the next
one runs, the new states, and what is collected."""


def run_time_loop(node: OnnxNode, graph: Any) -> tuple[Any, ...]:
    """Convert a Loop node whose limit or condition is not known at import."""
    given = node.inputs[2:]
    if any(value is None or isinstance(value, list) for value in given):
        raise node.unsupported(
            "a loop that carries a sequence and whose number of iterations is known only when"
            " the model runs",
            "give it a number of iterations that is a constant, or carry a tensor instead",
        )
    limit, goes_on = _number(node, 0, "int64", _FOREVER), _number(node, 1, "bool", True)

    def iteration(i: Var, goes_on: Var, states: list[Var]) -> Sequence[Any]:
        outputs = node.importer.import_subgraph(graph, node.scope, [i, goes_on, *states])
        if len(outputs) <= len(states):
            raise FrontendError(
                f"its body has {len(outputs)} outputs; a condition and {len(states)} values are"
                " needed"
            )
        return outputs

    first = [node.importer.tensor(value) for value in given]
    return _Builder(node, limit, goes_on, first, iteration).build()


def counted_loop(
    node: OnnxNode,
    count: Any,
    first: Sequence[Any],
    step: Callable[[Var, list[Var]], tuple[Sequence[Any], Sequence[Any]]],
) -> tuple[list[Any], list[Any]]:
    """Emit a loop of as many iterations as a size says (symbolic, or a number).

    ``step(i, states)`` emits one iteration and returns the new states and what is collected.
    Returns the last states, and what was collected, each along a new first axis of size ``count``.
    """
    number = node.emit(op.shape_to_tensor(ShapeExpr([count])))
    limit = node.emit(op.reshape(number, []))

    def iteration(i: Var, goes_on: Var, states: list[Var]) -> Sequence[Any]:
        following, collected = step(i, states)
        return [scalar(True, "bool"), *following, *collected]

    builder = _Builder(node, limit, scalar(True, "bool"), list(first), iteration)
    found = builder.build()
    states, collected = list(found[: len(first)]), found[len(first) :]
    cast = node.importer.builder.match_cast
    return states, [
        cast(value, _info([count, *shape_of(value)[1:]], dtype_of(value))) for value in collected
    ]


def _number(node: OnnxNode, index: int, dtype: str, default: Any) -> Any:
    if not node.has(index):
        return scalar(default, dtype)
    value = node[index]
    if rank_of(value):
        value = op.reshape(value, [])
    return node.emit(value if dtype_of(value) == dtype else op.astype(value, dtype))


class _Builder:
    def __init__(
        self, node: OnnxNode, limit: Any, goes_on: Any, first: list[Any], iteration: Iteration
    ) -> None:
        self.node, self.iteration = node, iteration
        self.importer, self.builder = node.importer, node.importer.builder
        self.first, self.limit, self.goes_on = first, limit, goes_on
        self.own: set[Any] = set()  # the sizes that change
        self.infos = [_info(shape_of(value), dtype_of(value)) for value in first]

    # The body

    def body(self, i: Var, goes_on: Var, states: list[Var]) -> _Body:
        """Convert one iteration, into a block of its own."""
        with self.importer.separate_block() as block:
            outputs = self.iteration(i, goes_on, states)
            if any(value is None or isinstance(value, list) for value in outputs):
                raise self.node.unsupported("a loop with a sequence as result")
            count = 1 + len(states)
            tensors = [self.importer.tensor(value) for value in outputs]
            if rank_of(tensors[0]):
                tensors[0] = self.node.emit(op.reshape(tensors[0], []))
        return _Body(block(), tensors[0], tensors[1:count], tensors[count:])

    def settle(self) -> tuple[list[Var], _Body]:
        """Return variables for what an iteration gets, and its body: sizes that change from one
        iteration to the next become new variables.
        """
        while True:
            i = Var("i", _info([], "int64"))
            goes_on = Var("goes_on", _info([], "bool"))
            states = [Var(f"state_{k}", info) for k, info in enumerate(self.infos)]
            body = self.body(i, goes_on, states)
            infos = [self._common(k, value, body) for k, value in enumerate(body.states)]
            if all(new is old for new, old in zip(infos, self.infos)):
                return [i, goes_on, *states], body
            self.infos = infos

    def _common(self, k: int, value: RelaxExpr, body: _Body) -> TensorStructInfo:
        old = self.infos[k]
        before, after = _sizes(old), shape_of(value)
        if len(before) != len(after) or old.dtype != dtype_of(value):
            raise self.node.unsupported(
                f"a loop that changes the rank or dtype of its value {k} ({old} to"
                f" {known_struct_info(value)})"
            )
        sizes = []
        for axis, (one, other) in enumerate(zip(before, after)):
            if one not in self.own and not _is_same(one, other):
                one = SymbolicVar(f"carried_{k}_{axis}", "int64")
                self.own.add(one)
            sizes.append(one)
        if all(new is one for new, one in zip(sizes, before)):
            return old
        return _info(sizes, old.dtype)

    # The function

    def build(self) -> tuple[Any, ...]:
        """Emit the function and its call; return the outputs of the node."""
        variables, body = self.settle()
        i, goes_on, states = variables[0], variables[1], variables[2:]
        limit = Var("limit", _info([], "int64"))
        collected, firsts = self._collections(body)
        inner = free_vars(body.whole)
        captured = [var for var in inner if var not in variables]
        params = [i, goes_on, limit, *states, *collected, *captured]
        given = [scalar(0, "int64"), self.goes_on, self.limit, *self.first, *firsts, *captured]
        sizes = self._free_sizes(body, params)
        if sizes:
            params.append(Var("sizes", ShapeStructInfo(sizes)))
            given.append(ShapeExpr(sizes))
        results = [*states, *collected]
        info = TupleStructInfo(tuple([_outer(tensor_info(var)) for var in results]))
        name = GlobalVar(self.builder.get_unique_name("loop"))
        name.describe(FuncStructInfo([known_struct_info(param) for param in params], info))
        with self.importer.separate_block() as block:
            more = self.builder.emit(op.less(i, limit))
            test = self.builder.emit(op.logical_and(goes_on, more))
            step = self._step(name, params, body, collected, info)
            found = self.builder.emit(If(test, step, SeqExpr([], Tuple(results))))
        whole = SeqExpr([block()], found)
        function = copy_with_new_vars(Function(params, whole, info, True, {}))
        self.builder.update_func(name, function)
        name.describe(function.struct_info)
        return self._outputs(self.builder.emit(Call(name, given)), results)

    def _collections(self, body: _Body) -> tuple[list[Var], list[RelaxExpr]]:
        """Return variables for the results that are collected, and the empty first ones."""
        collected, firsts = [], []
        inside = self.own | body.own_sizes()
        for k, value in enumerate(body.scanned):
            sizes = shape_of(value)
            if any(size in inside for one in sizes for size in symbolic_vars(_size(one))):
                raise self.node.unsupported(
                    f"collecting a result (number {k}) whose sizes the loop itself computes"
                )
            count = SymbolicVar(f"collected_{k}", "int64")
            self.own.add(count)
            collected.append(Var(f"collected_{k}", _info([count, *sizes], dtype_of(value))))
            firsts.append(self.node.emit(op.zeros(ShapeExpr([0, *sizes]), dtype_of(value))))
        return collected, firsts

    def _step(
        self, name: GlobalVar, params: list[Var], body: _Body, collected: list[Var], info: Any
    ) -> SeqExpr:
        """Return the branch that goes on: the body and the call of the next iteration."""
        following: dict[Var, RelaxExpr] = dict(zip(params, params))
        following[params[1]] = body.goes_on
        following.update(zip(params[3:], body.states))
        with self.importer.separate_block() as block:
            following[params[0]] = self.builder.emit(op.add(params[0], scalar(1, "int64")))
            for var, value in zip(collected, body.scanned):
                following[var] = self.builder.emit(op.append(var, value))
            last = known_struct_info(params[-1])
            if isinstance(last, ShapeStructInfo):
                following[params[-1]] = ShapeExpr(last.values)
            arguments = [following[param] for param in params]
            result = self.builder.emit(Call(name, arguments, None, (), None))
        return SeqExpr([body.block, block()], result)

    def _free_sizes(self, body: _Body, params: list[Var]) -> list[Any]:
        """Return the sizes of the outer function that no parameter tells."""
        known = {
            size for param in params for size in definable_symbolic_vars(known_struct_info(param))
        }
        known |= body.own_sizes()
        nodes: list[Any] = [known_struct_info(param) for param in params]
        for binding in bindings_of(body.whole):
            nodes += [known_struct_info(binding.var), binding.value]
        used = dict.fromkeys([size for node in nodes for size in symbolic_vars(node)])
        return [size for size in used if size not in known]

    def _outputs(self, found: Any, results: list[Var]) -> tuple[Any, ...]:
        """Return the node's outputs; sizes that the loop has changed get new names."""
        outputs = []
        for k, var in enumerate(results):
            sizes = [
                SymbolicVar(f"size_{k}_{axis}", "int64") if size in self.own else size
                for axis, size in enumerate(_sizes(tensor_info(var)))
            ]
            part = self.builder.emit(TupleGetItem(found, k))
            outputs.append(self.builder.match_cast(part, _info(sizes, dtype_of(var))))
        return tuple(outputs)


def _info(sizes: Any, dtype: Any) -> TensorStructInfo:
    return TensorStructInfo(list(sizes), dtype)


def _outer(info: TensorStructInfo) -> TensorStructInfo:
    """Return what the caller knows of a result: its sizes if they are constant."""
    return info if info.concrete_shape is not None else _unknown(info)


def _unknown(info: TensorStructInfo) -> TensorStructInfo:
    return TensorStructInfo(None, info.dtype, None, info.ndim)


def _sizes(info: TensorStructInfo) -> list[Any]:
    """Return the sizes of a tensor for which they are known."""
    return list(sizes_of(info) or ())


def _size(size: Any) -> Any:
    return const(size, "int64") if isinstance(size, int) else size


def _is_same(one: Any, other: Any) -> bool:
    return one is other or prove_equal(_size(one), _size(other))
