"""Matches the operands of a kernel call with the parameters of the PrimFunc.

A call whose ranks, dtypes or sizes provably differ from what the kernel takes is refused where it
is written. The kernel's symbolic sizes are those of the operands in which they stand alone; sizes
that cannot be compared before the program runs are listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tilesmith.ir import BaseFunc, GlobalVar, IntImm, Op, PrimExpr, RelaxExpr, Var
from tilesmith.ir.operators import cast, not_equal
from tilesmith.ir.queries import variables
from tilesmith.relax.expr import Call, ShapeExpr, Tuple
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError
from tilesmith.tir import Buffer, PrimFunc
from tilesmith.tir.functor import substitute

if TYPE_CHECKING:
    from tilesmith.arith import Analyzer

__all__ = ["OperandMatch", "SizeCheck", "check_kernel_call"]


class SizeCheck(NamedTuple):
    """A size that an operand has to have along an axis, and the one that it has."""

    what: str
    wanted: PrimExpr
    given: PrimExpr


class OperandMatch:
    """Learns the symbolic sizes of a kernel from its operands. ``known`` holds them."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.known: dict[Var, PrimExpr] = {}
        self._found: list[SizeCheck] = []

    def take(
        self, buffer: Buffer, rank: int, dtype: DataType | None, shape: Sequence[PrimExpr] | None
    ) -> None:
        """Match a tensor with a parameter; a negative rank, a dtype or a shape that is None is not
        known. Raises ShapeError where it does not fit.
        """
        wanted = f"kernel '{self.kernel}' takes '{buffer.name}'"
        if 0 <= rank != len(buffer.shape):
            raise ShapeError(f"{wanted} with {len(buffer.shape)} dimensions, it is given {rank}")
        if dtype is not None and buffer.dtype is not dtype:
            raise ShapeError(f"{wanted} of {buffer.dtype}, it is given {dtype}")
        for axis, (size, given) in enumerate(zip(buffer.shape, shape or ())):
            if not isinstance(size, Var) or self.known.setdefault(size, given) is not given:
                self._found.append(SizeCheck(f"{wanted} with axis {axis}", size, given))

    def undecided(self, analyzer: Analyzer | None = None) -> list[SizeCheck]:
        """Return the comparisons that are not decided now. Raises ShapeError where one fails."""
        left = []
        for what, size, given in self._found:
            if isinstance(size, IntImm) and isinstance(given, IntImm):
                if size.value != given.value:
                    raise _different(what, size, given)
                continue
            if not self.known.keys() >= set(variables(size)):
                continue  # no operand says what it is
            if analyzer is None:
                from tilesmith.arith import Analyzer  # most graphs have constant sizes only

                analyzer = Analyzer()
            wanted = analyzer.simplify(cast("int64", substitute(size, self.known)))
            given = cast("int64", given)
            if analyzer.can_prove_equal(wanted, given):
                continue
            if analyzer.can_prove(not_equal(wanted, given)):
                raise _different(what, wanted, given)
            left.append(SizeCheck(what, wanted, given))
        return left


def _different(what: str, wanted: PrimExpr, given: PrimExpr) -> ShapeError:
    wanted_text, given_text = [
        str(size.value if isinstance(size, IntImm) else size) for size in (wanted, given)
    ]
    return ShapeError(f"{what} of size {wanted_text}, it is given size {given_text}")


def _info(expr: RelaxExpr) -> StructInfo | None:
    found: StructInfo | None = getattr(expr, "struct_info", None)
    return found


def _leaves(info: StructInfo) -> list[StructInfo]:
    if isinstance(info, TupleStructInfo):
        return [leaf for field in info.fields for leaf in _leaves(field)]
    return [info]


def _operands(call: Call) -> list[StructInfo] | None:
    """Return what is known of the operands and of the results that are handed over after them;
    None where their number is not known.
    """
    given = call.args[1]
    if isinstance(given, Tuple):
        infos = [_info(field) for field in given.fields]
    else:
        whole = _info(given)
        infos = [whole] if isinstance(whole, TupleStructInfo) else [None]
    if any(info is None for info in infos) or not call.sinfo_args:
        return None
    results = [leaf for info in call.sinfo_args for leaf in _leaves(info)]
    attributes = call.attrs
    inplace = attributes.get("inplace_indices") if attributes is not None else None
    written = [] if inplace is None else list(inplace)
    kept = [
        info for place, info in enumerate(results) if place >= len(written) or written[place] < 0
    ]
    return [leaf for info in infos if info is not None for leaf in _leaves(info)] + kept


def check_kernel_call(call: Call, functions: Mapping[GlobalVar, BaseFunc]) -> None:
    """Raise ShapeError unless the operands of a ``call_tir``, or of a direct call, fit the kernel,
    if it is one of these functions, as far as their struct info says.
    """
    op, variable = call.op, call.args[0] if call.args else None
    is_direct = isinstance(op, GlobalVar)
    if is_direct:
        variable = op
    elif not isinstance(op, Op) or op.spec is None or op.spec.execution is not Execution.CALL_TIR:
        return
    kernel = functions.get(variable) if isinstance(variable, GlobalVar) else None
    if not isinstance(variable, GlobalVar) or not isinstance(kernel, PrimFunc):
        return
    operands = _direct_operands(call) if is_direct else _operands(call)
    sizes = _sizes(call, is_direct)
    if operands is None or sizes is None:
        return
    try:
        _check_operands(variable.name_hint, kernel, operands, sizes)
    except ShapeError as error:
        error.span = error.span if error.span is not None else call.span
        raise


def _direct_operands(call: Call) -> list[StructInfo] | None:
    """Return what is known of the tensors and numbers of a direct call; its shapes are sizes."""
    infos = [_info(argument) for argument in call.args]
    known = [info for info in infos if info is not None]
    leaves = [leaf for info in known for leaf in _leaves(info)]
    is_known = len(known) == len(infos)
    return [one for one in leaves if not isinstance(one, ShapeStructInfo)] if is_known else None


def _sizes(call: Call, is_direct: bool) -> list[PrimExpr] | None:
    """Return the sizes that a call hands to the kernel; None where they are not known."""
    given = call.args if is_direct else call.args[2:3]
    shapes = [one for one in given if not is_direct or isinstance(_info(one), ShapeStructInfo)]
    if not all(isinstance(one, ShapeExpr) for one in shapes):
        return None
    return [size for one in shapes if isinstance(one, ShapeExpr) for size in one.values]


def _check_operands(
    name: str, kernel: PrimFunc, operands: list[StructInfo], sizes: list[PrimExpr]
) -> None:
    match = OperandMatch(name)
    count = len(operands) + len(sizes)
    if count != len(kernel.params):
        raise ShapeError(
            f"kernel '{name}' has {len(kernel.params)} parameters, it is given {count}"
            " arguments, results and sizes",
            notes=("the kernel takes the arguments, then the results, then tir_vars",),
        )
    queue = list(operands)
    for param in kernel.params:
        buffer = kernel.buffer_map.get(param)
        if buffer is None:
            if queue and (param.dtype.is_handle or isinstance(queue[0], PrimStructInfo)):
                info = queue.pop(0)
                if isinstance(info, PrimStructInfo) and info.value is not None:
                    match.known[param] = info.value
            elif sizes:
                match.known[param] = sizes.pop(0)
            else:
                return  # a number whose struct info is not known
            continue
        if not queue:
            return
        info = queue.pop(0)
        if isinstance(info, (PrimStructInfo, ShapeStructInfo)):
            raise ShapeError(
                f"kernel '{name}' takes the tensor '{buffer.name}', it is given {info}"
            )
        if isinstance(info, TensorStructInfo):
            shape = info.shape.values if isinstance(info.shape, ShapeExpr) else None
            dtype = None if info.dtype.is_void else info.dtype
            match.take(buffer, info.ndim, dtype, shape)
    match.undecided()
