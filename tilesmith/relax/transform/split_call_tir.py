"""SplitCallTIRByPattern: the first part of a kernel by the code of a library, the rest as it is.

gv = R.call_tir(cls.fused_matmul_relu, (x, w), …)

lv = R.call_dps_packed("fused_matmul_relu_library", (x, w), …)
gv = R.call_tir(cls.fused_matmul_relu, (lv,), …)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import GlobalVar, IntImm, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Function, Tuple, TupleGetItem
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import TypeMismatchError
from tilesmith.tir import Block, BlockRealize, Buffer, PrimFunc
from tilesmith.tir.analysis.kernel_patterns import match_kernel, root_statements
from tilesmith.tir.queries import accesses, buffers, stores
from tilesmith.tir.stmt import stmt_seq

__all__ = ["MatchResult", "split_call_tir_by_pattern"]

_CALL_TIR = operators.call_tir.op


@dataclass(frozen=True)
class MatchResult:
    """One matched part of a kernel: the pattern, the values of its symbols in the order of its
    scalar parameters, and the buffers in the order of the others.
    """

    pattern: PrimFunc
    symbol_values: list[Any]
    matched_buffers: list[Buffer]
    statements: int = 1


def _matches(func: PrimFunc, patterns: Sequence[PrimFunc]) -> list[MatchResult]:
    """Return the parts that patterns match, one after the other from the beginning."""
    statements, _ = root_statements(func)
    found: list[MatchResult] = []
    place = 0
    while place < len(statements):
        for pattern in patterns:
            matched = match_kernel(pattern, statements[place:])
            if matched is None:
                continue
            scalars = [one for one in pattern.params if one not in pattern.buffer_map]
            values = [matched.symbols[one] for one in scalars if one in matched.symbols]
            values = [one.value if isinstance(one, IntImm) else one for one in values]
            own = [matched.buffers[buffer] for buffer in pattern.buffers]
            found.append(MatchResult(pattern, values, own, matched.count))
            place += matched.count
            break
        else:
            break
    return found


@dataclass
class _Division:
    """A kernel in two parts: what a library computes, and the rest (None if there is none)."""

    code: Any
    inputs: list[Buffer]
    outputs: list[Buffer]
    order: list[Buffer]
    rest: PrimFunc | None
    rest_inputs: list[Buffer]


def _divide(func: PrimFunc, count: int, code: Any, args: Sequence[Buffer]) -> _Division | None:
    """Divide a kernel behind its first statements, of which a library has the code; None if the
    rest goes on writing what the first part has written.
    """
    statements, allocated = root_statements(func)
    first, rest = statements[:count], statements[count:]
    written = list(dict.fromkeys([one.buffer for one in stores(first)]))
    later = set(buffers(rest)) if rest else set()
    outputs = [one for one in written if one in later or one in func.buffers]
    inputs = [one for one in buffers(first) if one not in written]
    order = list(args) or [*inputs, *outputs]
    if set(order) != {*inputs, *outputs}:
        raise TypeMismatchError(
            "SplitCallTIRByPattern: the code generator names other arguments than the part reads "
            "and writes",
            notes=(
                f"read: {', '.join([one.name for one in inputs])}; "
                f"written: {', '.join([one.name for one in outputs])}",
            ),
        )
    if not rest:
        return _Division(code, inputs, outputs, order, None, [])
    own = {one.buffer for one in stores(rest)}
    if own & set(written):
        return None
    used = dict.fromkeys([one.buffer for one in accesses(rest)])
    rest_inputs = [one for one in used if one not in own]
    results = [one for one in func.buffers if one in own]
    kept = [one for one in allocated if one in own]
    block = Block([], [], [], "root", stmt_seq(*rest), alloc_buffers=kept)
    scalars = [one for one in func.params if one not in func.buffer_map]
    params = [*rest_inputs, *results, *scalars]
    attrs = {key: value for key, value in func.attrs.items() if key != "op_pattern"}
    made = PrimFunc(params, BlockRealize([], True, block), attrs=attrs)
    return _Division(code, inputs, outputs, order, made, rest_inputs)


class _Split(PyExprMutator):
    def __init__(
        self, mod: IRModule, patterns: Sequence[PrimFunc], fcodegen: Callable[..., Any]
    ) -> None:
        super().__init__(mod)
        self.mod = mod
        self.patterns = patterns
        self.fcodegen = fcodegen
        self.divided: dict[GlobalVar, _Division | None] = {}
        self.modules: list[Any] = []

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _CALL_TIR:
            return call
        kernel: Any = call.args[0]
        if len(call.args) > 2 or not isinstance(call.args[1], Tuple):
            return call  # the library would need the extra sizes
        if kernel not in self.divided:
            self.divided[kernel] = self._division(kernel)
        division = self.divided[kernel]
        return call if division is None else self._made(call, kernel, division)

    def _division(self, kernel: GlobalVar) -> _Division | None:
        func = self.mod.functions.get(kernel)
        if not isinstance(func, PrimFunc):
            return None
        found = _matches(func, self.patterns)
        if not found:
            return None
        code, count, args = self.fcodegen(found)
        count = int(count)
        if not count:
            return None
        if count > len(found):
            raise TypeMismatchError(
                f"SplitCallTIRByPattern: the code generator took {count} of {len(found)} matches"
            )
        taken = sum([one.statements for one in found[:count]])
        division = _divide(func, taken, code, list(args or ()))
        if division is None:
            return None
        name = f"{kernel.name_hint}_library"
        if isinstance(code, str):
            create = get_global_func("runtime.CSourceModuleCreate")
            self.modules.append(create(code.replace("{global_symbol}", name), "c", [name], []))
        else:
            self.modules.append(code)
        if division.rest is not None:
            self.builder_.update_func(kernel, division.rest)
        return division

    def _made(self, call: Any, kernel: GlobalVar, division: _Division) -> Any:
        func: Any = self.mod[kernel]
        info = call.sinfo_args[0]
        results = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        given = [*call.args[1].fields, *results]
        known = dict(zip(func.buffers, given))
        inputs = [known[one] for one in division.order if one not in division.outputs]
        outs = [one for one in division.order if one in division.outputs]
        infos = [
            known[one] if one in known else TensorStructInfo(list(one.shape), one.dtype)
            for one in outs
        ]
        name = f"{kernel.name_hint}_library"
        whole = infos[0] if len(infos) == 1 else TupleStructInfo(tuple(infos))
        library = operators.call_dps_packed(name, inputs, whole)
        if division.rest is None and len(outs) == 1:
            return Tuple([library]) if isinstance(info, TupleStructInfo) else library
        value = self.builder_.emit(library)
        parts = (
            [value]
            if len(outs) == 1
            else [self.builder_.emit(TupleGetItem(value, k)) for k in range(len(outs))]
        )
        made = dict(zip(outs, parts))
        first = len(call.args[1].fields)
        names = func.buffers[first:]
        if division.rest is None:
            return Tuple([made[one] for one in names])
        arguments = [made.get(one, known.get(one)) for one in division.rest_inputs]
        left = [one for one in names if one not in made]
        rest_infos = [known[one] for one in left]
        rest_info = rest_infos[0] if len(left) == 1 else TupleStructInfo(tuple(rest_infos))
        call = operators.call_tir(kernel, arguments, rest_info)
        if not isinstance(info, TupleStructInfo):
            return call
        rest = self.builder_.emit(call)
        for k, one in enumerate(left):
            made[one] = rest if len(left) == 1 else self.builder_.emit(TupleGetItem(rest, k))
        return Tuple([made[one] for one in names])


@compiler_pass("SplitCallTIRByPattern")
def split_call_tir_by_pattern(
    mod: IRModule,
    patterns: Iterable[PrimFunc],
    fcodegen: Callable[[list[MatchResult]], Sequence[Any]],
) -> IRModule:
    """Divides kernels that begin with what ``patterns`` (PrimFuncs with symbolic sizes) say: a
    library computes the beginning, a kernel the rest.

    ``fcodegen(matches)`` returns the code, how many of the matches it computes (0 for none), and
    the buffers in the order of its arguments (none: inputs, then results). The code is C source
    with the packed function ``{global_symbol}`` (`codegen.c.source_module`), or a runtime module
    that implements ``KERNEL_library``. The modules are in the attribute ``external_mods``.
    """
    mutator = _Split(mod, list(patterns), fcodegen)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(name, updated)
    result = mutator.builder_.get()
    if not mutator.modules:
        return result
    modules = [*mod.attrs.get("external_mods", ()), *mutator.modules]
    return result.with_attrs({"external_mods": modules})
