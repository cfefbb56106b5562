"""Arguments of kernel calls: matches operands with the parameters of a PrimFunc."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.driver.graph_values import ScalarValue, TensorValue
from tilesmith.ir import Call, GlobalVar, IntImm, PrimExpr, StringImm, Var, const
from tilesmith.ir.operators import cast, equal, not_equal
from tilesmith.lowering import symbolic_sizes
from tilesmith.support.errors import InternalError, ShapeError
from tilesmith.tir import AssertStmt, Buffer, Evaluate, PrimFunc, Stmt
from tilesmith.tir.functor import substitute

__all__ = ["SizeCheck", "kernel_arguments"]


class SizeCheck(NamedTuple):
    """A size that an operand has to have along an axis, and the one that it has."""

    what: str
    wanted: PrimExpr
    given: PrimExpr

    def statement(self) -> Stmt:
        """Return the assertion that both are equal when the program runs."""
        wanted, given = cast("int64", self.wanted), cast("int64", self.given)
        parts = (StringImm(f"ShapeError: {self.what} of size "), wanted,
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
    known: dict[Var, PrimExpr] = {}
    found: list[SizeCheck] = []
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
        found += _unify(kernel, buffer, operand, known)
        words.append(operand.storage.pointer)
    for variable in symbolic_sizes(function):
        if variable not in known:
            raise InternalError(
                f"size '{variable.name}' of kernel '{kernel.name_hint}' is not determined"
            )
        words.append(lambda v=variable: cast(v.dtype, known[v]))
    return words, _undecided(found, known, analyzer)


def _shown(size: PrimExpr) -> str:
    return str(size.value if isinstance(size, IntImm) else size)


def _undecided(
    found: list[SizeCheck], known: dict[Var, PrimExpr], analyzer: Analyzer
) -> list[SizeCheck]:
    """Return the comparisons that are not decided now; raise ShapeError where one fails."""
    left = []
    for what, size, given in found:
        wanted = analyzer.simplify(cast("int64", substitute(size, known)))
        given = cast("int64", given)
        if analyzer.can_prove_equal(wanted, given):
            continue
        if analyzer.can_prove(not_equal(wanted, given)):
            raise ShapeError(f"{what} of size {_shown(wanted)}, it is given size {_shown(given)}")
        left.append(SizeCheck(what, wanted, given))
    return left


def _unify(
    kernel: GlobalVar, buffer: Buffer, operand: TensorValue, known: dict[Var, PrimExpr]
) -> list[SizeCheck]:
    """Learn the symbolic sizes of a kernel from an operand; return the sizes to compare."""
    if len(buffer.shape) != len(operand.shape):
        raise ShapeError(
            f"kernel '{kernel.name_hint}' takes '{buffer.name}' with {len(buffer.shape)}"
            f" dimensions, it is given {len(operand.shape)}"
        )
    if buffer.dtype is not operand.dtype:
        raise ShapeError(
            f"kernel '{kernel.name_hint}' takes '{buffer.name}' of {buffer.dtype}, it is given"
            f" {operand.dtype}"
        )
    found = []
    for axis, (size, given) in enumerate(zip(buffer.shape, operand.shape)):
        if isinstance(size, Var) and known.setdefault(size, given) is given:
            continue
        what = f"kernel '{kernel.name_hint}' takes '{buffer.name}' with axis {axis}"
        found.append(SizeCheck(what, size, given))
    return found
