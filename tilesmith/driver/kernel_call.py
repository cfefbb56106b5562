"""Arguments of calls: operands and the parameters of a PrimFunc, or of a registered function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.driver.graph_values import ScalarValue, ShapeValue, TensorValue
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import BaseFunc, Call, GlobalVar, PrimExpr, StringImm, Var, const
from tilesmith.ir.operators import cast, equal
from tilesmith.ir.queries import calls, nodes
from tilesmith.lowering import symbolic_sizes
from tilesmith.relax.kernel_operands import OperandMatch, SizeCheck
from tilesmith.support.errors import InternalError
from tilesmith.tir import AssertStmt, Block, Evaluate, PrimFunc, Stmt
from tilesmith.tir.queries import stores

__all__ = ["kernel_arguments", "packed_arguments", "size_assertion", "written_operands"]


def size_assertion(check: SizeCheck) -> Stmt:
    """Return the assertion that both sizes are equal when the program runs."""
    wanted, given = cast("int64", check.wanted), cast("int64", check.given)
    parts = (StringImm(f"ShapeError: {check.what} of size "), wanted,
             StringImm(", it is given size "), given)  # fmt: skip
    message = Call("handle", "tir.tvm_tuple", parts)
    return AssertStmt(equal(wanted, given), message, Evaluate(const(0, "int32")))


def kernel_arguments(
    kernel: GlobalVar,
    function: PrimFunc,
    operands: list[Any],
    sizes: list[PrimExpr],
    analyzer: Analyzer,
) -> tuple[list[Any], list[SizeCheck]]:
    """Return the arguments of a kernel call: pointers and numbers, then its symbolic sizes; and
    the sizes that have to be compared when the program runs.

    Each argument is a function that returns the expression once the memory is planned. ``sizes``
    are the numbers that the caller gave beside the operands. Raises ShapeError for operands that do
    not fit.
    """
    match = OperandMatch(kernel.name_hint)
    known = match.known
    words: list[Any] = []
    queue = list(operands)
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            value = queue.pop(0) if queue and isinstance(queue[0], ScalarValue) else None
            number = value.value if value is not None else sizes.pop(0)
            known[param] = number
            words.append(lambda n=number, d=param.dtype: cast(d, n))
            continue
        if not queue:
            raise InternalError(f"kernel '{kernel.name_hint}' takes more tensors than it is given")
        operand: TensorValue = queue.pop(0)
        match.take(buffer, len(operand.shape), operand.dtype, operand.shape)
        words.append(operand.storage.pointer)
    for variable in symbolic_sizes(function):
        if variable not in known:
            raise InternalError(
                f"size '{variable.name}' of kernel '{kernel.name_hint}' is not determined"
            )
        words.append(lambda v=variable: cast(v.dtype, known[v]))
    return words, match.undecided(analyzer)


def written_operands(function: BaseFunc, operands: list[Any]) -> list[TensorValue]:
    """Return the tensors that a kernel may write to."""
    assert isinstance(function, PrimFunc)
    written = {store.buffer.data for store in stores(function.body)}
    for block in nodes(function.body, Block):
        written.update([match.source.buffer.data for match in block.match_buffers])
    for call in calls(function.body):  # what is done at an address is not known
        written.update([arg for arg in call.args if isinstance(arg, Var)])
    tensors = [operand for operand in operands if isinstance(operand, TensorValue)]
    return [one for one, buffer in zip(tensors, function.buffers) if buffer.data in written]


def packed_arguments(
    operands: Iterable[tuple[str, Any]],
) -> tuple[str, list[Callable[[], PrimExpr]], list[Storage]]:
    """Return how the runtime gets operands, each with its role, "in" or "out" (see
    `runtime.builtins.call_dps`): their specification, the words that it reads, and the memory that
    is touched.
    """
    parts: list[str] = []
    words: list[Callable[[], PrimExpr]] = []
    touched: list[Storage] = []
    for role, value in operands:
        if isinstance(value, TensorValue):
            parts.append(f"{role}:{value.dtype}:{len(value.shape)}")
            words.append(partial(_address, value.storage))
            words += [partial(cast, "int64", extent) for extent in value.shape]
            touched.append(value.storage)
        else:
            numbers = value.values if isinstance(value, ShapeValue) else [value.value]
            parts += ["value"] * len(numbers)
            words += [partial(_same, number) for number in numbers]
    return ",".join(parts), words, touched


def _address(storage: Storage) -> PrimExpr:
    return Call("int64", "tir.reinterpret", (storage.pointer(),))


def _same(number: PrimExpr) -> PrimExpr:
    return number
