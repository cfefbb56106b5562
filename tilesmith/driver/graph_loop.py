"""Loops: a graph function that calls itself last becomes a while loop.

    def loop(i, x):                                running = 1; i, x = …
        if i < n:                                  while running:
            r = loop(i + 1, f(x))          →           if i < n: i, x = i + 1, f(x)
        else:                                          else: running = 0
            r = x                                  r = x
        return r

A parameter that each call passes on is the same in all iterations. One whose sizes stay the same
has memory of its own: small values are copied to it, large ones have two places that alternate. One
whose sizes change is in memory that is reserved in each iteration (`graph_cells`), unless it only
gets a row in each (`relax.append`): its memory is doubled when it is full.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_cells import Alternation, Cell
from tilesmith.driver.graph_errors import unsupported
from tilesmith.driver.graph_steps import Step, copy_bytes, number_of_bytes, sequence
from tilesmith.driver.graph_values import TensorValue, leaves, static_shape
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import GlobalVar, IntImm, Op, PointerType, PrimExpr, Var, const
from tilesmith.ir.operators import not_equal
from tilesmith.ir.types import prim_type
from tilesmith.relax import TensorStructInfo
from tilesmith.relax.analysis import bindings_of, used_vars
from tilesmith.relax.spec import Execution
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import BufferLoad, BufferStore, DeclBuffer, LetStmt, Stmt, While, decl_buffer
from tilesmith.tir.stmt import stmt_seq

__all__ = ["Loop", "find_loop", "lower_append", "lower_loop"]

_LEAST_ALTERNATING = 1024
"""Values of fewer bytes are copied: their place is known, so that LLVM can keep it in registers."""


@dataclass(frozen=True)
class Loop:
    """A function that calls itself last, taken apart."""

    params: tuple[Any, ...]
    prefix: relax.SeqExpr
    """What each iteration computes first; its value is the condition."""
    step: relax.SeqExpr
    """What it computes if it goes on."""
    following: tuple[Any, ...]
    """The arguments of the next iteration."""
    exit: relax.SeqExpr
    """What the last one computes; its value is the result."""
    goes_on_if: bool

    @property
    def changing(self) -> list[int]:
        """The positions of parameters that change."""
        return [k for k, (a, b) in enumerate(zip(self.params, self.following)) if a is not b]


def find_loop(name: GlobalVar, function: relax.Function) -> Loop | None:
    """Return the loop that a function is; None if it does not call itself last, after an ``if``."""
    body = function.body
    parts = None if body is None else _without_last(body)
    if parts is None or not isinstance(parts[1], relax.If):
        return None
    before, choice = parts
    for goes_on, (step, end) in (
        (True, (choice.true_branch, choice.false_branch)),
        (False, (choice.false_branch, choice.true_branch)),
    ):
        found = _without_last(step)
        if found is not None and isinstance(found[1], relax.Call):
            call = found[1]
            if isinstance(call.op, GlobalVar) and call.op.name_hint == name.name_hint:
                prefix = relax.SeqExpr(before, choice.cond)
                following = tuple(call.args)
                body = relax.SeqExpr(found[0], relax.Tuple(following))
                return Loop(tuple(function.params), prefix, body, following, end, goes_on)
    return None


def _without_last(sequence: relax.SeqExpr) -> tuple[list[Any], Any] | None:
    """Return the blocks without the binding of the result, and its value."""
    blocks = list(sequence.blocks)
    if not blocks or not blocks[-1].bindings:
        return None
    last = blocks[-1].bindings[-1]
    if last.var is not sequence.body or not isinstance(last, relax.VarBinding):
        return None
    blocks[-1] = blocks[-1].with_fields(bindings=tuple(blocks[-1].bindings[:-1]))
    return blocks, last.value


@dataclass
class _Carried:
    """A value that changes: a cell, or memory of the same size in all iterations.

    ``address`` is where the value of a cell is in the current iteration, ``inside`` the memory that
    an iteration reads, ``alternation`` the second place of a value that is not copied.
    """

    param: Any
    place: Cell | TensorValue
    address: Var | None = None
    inside: Storage | None = None
    alternation: Alternation | None = None


def lower_loop(low: Any, name: str, loop: Loop, arguments: list[Any]) -> Any:
    """Lower a loop for the values of its arguments; ``low`` is the lowering of the function that
    calls it. Returns the value of the result.
    """
    changing = loop.changing
    fixed = [pair for k, pair in enumerate(zip(loop.params, arguments)) if k not in changing]
    low.values.update(fixed)
    low.match([(p.struct_info, value, f"{name}: argument '{p.name_hint}'") for p, value in fixed])
    carried = [_carry(low, name, loop.params[k], arguments[k]) for k in changing]
    running = Storage.workspace(const(4, "int64"))
    data = Var("running", PointerType(prim_type(DataType("int32")), "global"))
    flag = decl_buffer((1,), "int32", "running", data=data)

    def set_flag(value: int) -> Stmt:
        return BufferStore(flag, const(value, "int32"), [const(0, "int64")])

    step_body, rows = _take_appended(loop, changing, carried)
    with low.branch() as body:
        _bind(low, carried)
        before = {id(storage) for storage in _visible(low)}
        low.bindings(loop.prefix)
        condition = low.value(loop.prefix.body)
        with low.branch() as step:
            low.bindings(step_body)
            values = [
                _Row(low.value(rows[k])) if k in rows else low.value(loop.following[k])
                for k in changing
            ]
            _update(low, name, carried, values, before)
        branches = [step, [Step(lambda: set_flag(0))]]
        low.choose(condition, branches if loop.goes_on_if else branches[::-1])

    def emit() -> Stmt:
        goes_on = not_equal(BufferLoad(flag, [const(0, "int64")]), const(0, "int32"))
        whole = stmt_seq(set_flag(1), While(goes_on, sequence(body, low.frame)))
        return LetStmt(data, running.pointer(), DeclBuffer(flag, whole))

    turning = [one.alternation for one in carried if one.alternation is not None]
    body[:0] = [one.load() for one in turning]
    touched = [storage for one in body for storage in one.storages]
    low.steps += [one.begin() for one in turning]
    low.steps.append(Step(emit, [*touched, running, *[_storage(one) for one in carried]]))
    low.steps += [one.end() for one in turning]
    _bind(low, carried, is_last=True)
    low.bindings(loop.prefix)
    low.bindings(loop.exit)
    return low.value(loop.exit.body)


def lower_append(low: Any, call: relax.Call, result: TensorValue) -> TensorValue:
    """Lower a call of `relax.append` where it cannot be done in place: copy both to new memory."""
    data, row = [low.value(argument) for argument in call.args]
    low.sizes.define_shape(result.shape, (data.shape[0] + 1, *row.shape), "append")
    used, size = [number_of_bytes(one.shape, one.dtype) for one in (data, row)]
    low.steps.append(copy_bytes(data.storage, result.storage, used))
    low.steps.append(copy_bytes(row.storage, result.storage, size, used))
    return result


@dataclass
class _Row:
    """What an iteration appends to a value."""

    value: TensorValue


def _take_appended(
    loop: Loop, changing: list[int], carried: list[_Carried]
) -> tuple[relax.SeqExpr, dict[int, Any]]:
    """Return the step without the calls that append a row to a parameter for the next iteration
    alone, and these rows by the positions of the parameters.
    """
    bindings = list(bindings_of(loop.step))
    uses = Counter([var for binding in bindings for var in used_vars(binding.value)])
    uses.update([var for value in loop.following for var in used_vars(value)])
    bound = {binding.var: binding.value for binding in bindings}
    rows: dict[int, Any] = {}
    for k, one in zip(changing, carried):
        var = loop.following[k]
        call = bound.get(var)
        if not isinstance(call, relax.Call) or not isinstance(call.op, Op):
            continue
        grows = isinstance(one.place, Cell) and one.place.shape[:1] == (None,)
        is_append = call.op.spec is not None and call.op.spec.execution is Execution.APPEND
        if grows and is_append and call.args[0] is loop.params[k] and uses[var] == 1:
            rows[k] = call.args[1]
    taken = {loop.following[k] for k in rows}
    blocks = [
        block.with_fields(bindings=tuple([one for one in block.bindings if one.var not in taken]))
        for block in loop.step.blocks
    ]
    return relax.SeqExpr(blocks, loop.step.body), rows


def _storage(one: _Carried) -> Storage:
    return one.place.storage


def _carry(low: Any, name: str, param: Any, value: Any) -> _Carried:
    """Make the place of a value that changes and store the first one."""
    info = param.struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(value, TensorValue):
        what = f"'{param.name_hint}' of the loop '{name}' is {info}"
        cure = "only tensors can change from one iteration to the next"
        raise unsupported(low.name, what, low.current, cure)
    sizes: tuple[PrimExpr | None, ...] = static_shape(info) or (None,) * len(value.shape)
    shape = tuple([size if size is not None and low.sizes.has(size) else None for size in sizes])
    if None in shape or not low.sizes.is_early(low.sizes.resolve(shape)):
        kept = [None if size is None else low.sizes.resolve([size])[0] for size in shape]
        low.uses_frame = True
        cell = Cell(low.frame, tuple(kept), value.dtype)
        low.steps.append(cell.store(value))
        return _Carried(param, cell)
    low.sizes.define_shape(shape, value.shape, f"{name}: '{param.name_hint}'")
    shape = low.sizes.resolve(shape)
    place = TensorValue(Storage.workspace(number_of_bytes(shape, value.dtype)), shape, value.dtype)
    low.copy(value, place)
    return _Carried(param, place)


def _bind(low: Any, carried: list[_Carried], is_last: bool = False) -> None:
    """Give the parameters the current values."""
    for one in carried:
        place = one.place
        if isinstance(place, Cell):
            step, value, one.address = place.load(is_last)
            low.steps.append(step)
        elif is_last:
            value = place
        else:
            one.inside = Storage.outside(place.storage.pointer)
            value = TensorValue(one.inside, place.shape, place.dtype)
        low.values[one.param] = value
        low.match([(one.param.struct_info, value, f"'{one.param.name_hint}'")])


def _visible(low: Any) -> list[Storage]:
    """Return the memory of all values that were computed before."""
    found = [leaf for value in low.values.values() for leaf in leaves(value)]
    return [leaf.storage for leaf in found if isinstance(leaf, TensorValue)]


def _update(
    low: Any, name: str, carried: list[_Carried], values: list[Any], before: set[int]
) -> None:
    """Store the values of the next iteration, after all of them are computed.

    ``before`` is the memory that an iteration finds.
    """
    old = {id(one.inside) for one in carried}
    late: list[Step] = []  # what overwrites or releases a value that may still be read
    for one, value in zip(carried, values):
        place = one.place
        if isinstance(value, _Row):
            late.insert(0, _append(low, name, one, value.value))  # the row may be an old value
            continue
        if isinstance(place, Cell):
            late.append(_update_cell(low, name, one, value))
            continue
        low.sizes.define_shape(place.shape, value.shape, f"{name}: '{one.param.name_hint}'")
        size = number_of_bytes(place.shape, place.dtype)
        if value.storage is one.inside:
            continue  # written in place, or the same value
        if id(value.storage) not in before and _fills(low, value, size):
            one.alternation = turning = Alternation(place.storage, size)
            assert one.inside is not None
            one.inside.become(lambda t=turning: t.current)  # type: ignore[misc]
            value.storage.become(lambda t=turning: t.following)
            late.append(turning.turn())
            continue
        if id(value.storage) in old:  # it may be overwritten before it is read
            kept = TensorValue(Storage.workspace(size), place.shape, place.dtype)
            low.copy(value, kept)
            value = kept
        late.append(copy_bytes(value.storage, place.storage, size))
    low.steps += late


def _append(low: Any, name: str, one: _Carried, row: TensorValue) -> Step:
    """Return the step that appends a row to a value; its other sizes have to fit."""
    place, address, data = one.place, one.address, low.values[one.param]
    assert isinstance(place, Cell) and address is not None
    low.sizes.define_shape(data.shape[1:], row.shape, f"{name}: '{one.param.name_hint}'")
    return place.append(address, data, row)


def _update_cell(low: Any, name: str, one: _Carried, value: TensorValue) -> Step:
    """Store a value whose sizes change; return the step that releases the old one."""
    place, address = one.place, one.address
    assert isinstance(place, Cell) and address is not None
    expected = [size for size in place.shape if size is not None]
    given = [own for own, size in zip(value.shape, place.shape) if size is not None]
    low.sizes.define_shape(expected, given, f"{name}: '{one.param.name_hint}'")
    made = value.storage.reservation
    is_free = made is not None and not made.is_kept
    if is_free and any(step.reserves is value.storage for step in low.steps):
        low.steps.append(place.keep(value))  # it was reserved in this iteration
    else:
        low.steps.append(place.store(value))
    return place.release(address)


def _fills(low: Any, value: TensorValue, size: PrimExpr) -> bool:
    """Return whether a value has memory of its own that is worth a second place."""
    storage = value.storage
    if not storage.is_workspace or storage.size is None:
        return False
    if isinstance(size, IntImm) and size.value < _LEAST_ALTERNATING:
        return False
    return bool(low.sizes.analyzer.can_prove_equal(storage.size, size))
