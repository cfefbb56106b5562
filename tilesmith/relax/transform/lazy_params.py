"""LazyGetInput, LazySetOutput: parameters and results one by one, through functions that are given.

def main(x, w):                def main(x, fget_param):
    …                    →         w_untyped = fget_param(R.prim_value(0), R.str("w"))
                                   w = R.match_cast(w_untyped, R.Tensor(…))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.relations import definable_symbolic_vars, erase_to_params, symbolic_vars
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.transform.normal_form import to_non_dataflow

_OBJECT = ObjectStructInfo()


def before_uses(
    func: Any, params: Iterable[Var], load: Callable[[Var], list[Binding]]
) -> list[BindingBlock]:
    """Return the blocks of a function with what loads a parameter before its first use.

    Parameters that bind sizes are loaded first: the sizes may be used anywhere.
    """
    waiting = list(params)
    first: list[Binding] = []
    known = {s for p in func.params if p not in waiting for s in _sizes(p)}
    for param in list(waiting):
        if any(size not in known for size in _sizes(param)):
            first += load(param)
            waiting.remove(param)
    blocks = [BindingBlock(tuple(first))] if first else []
    for block in func.body.blocks:
        bindings: list[Binding] = []
        for binding in block.bindings:
            for var in used_vars(binding.value):
                if var in waiting:
                    bindings += load(var)
                    waiting.remove(var)
            bindings.append(binding)
        blocks.append(BindingBlock(tuple(bindings), block.span))
    rest = [one for var in used_vars(func.body.body) if var in waiting for one in load(var)]
    return [*blocks, BindingBlock(tuple(rest))] if rest else blocks


def _sizes(param: Var) -> list[Any]:
    info = known_struct_info(param)
    return [*definable_symbolic_vars(info), *symbolic_vars(info)]


@compiler_pass("LazyGetInput")
def lazy_get_input(func: Function, mod: IRModule) -> Function:
    """Gets the parameters after the first ``num_input`` ones from a function when they are needed:
    ``fget_param(index, name)``, which becomes the last parameter.

    Only functions with the attribute ``num_input`` change.
    """
    if "num_input" not in func.attrs:
        return func
    count = int(func.attrs["num_input"])
    weights = func.params[count:]
    if not weights:
        return func
    func = to_non_dataflow(func, mod)
    body: Any = func.body
    getter = Var(
        "fget_param", FuncStructInfo([PrimStructInfo("int64"), _OBJECT], _OBJECT, purity=True)
    )
    numbers = {param: number for number, param in enumerate(weights)}

    def load(param: Var) -> list[Binding]:
        call = Call(getter, [PrimValue(numbers[param]), StringImm(param.name_hint)])
        untyped = Var(f"{param.name_hint}_untyped", _OBJECT)
        return [VarBinding(untyped, call), MatchCast(param, untyped, known_struct_info(param))]

    blocks = before_uses(func, weights, load)
    attrs = {key: value for key, value in func.attrs.items() if key != "num_input"}
    body = SeqExpr(blocks, body.body, body.span)
    params = [*func.params[:count], getter]
    ret = erase_to_params(func.ret_struct_info, params)
    made = Function(params, body, ret, func.is_pure, attrs, func.span)
    return copy_with_new_vars(made)


def after_results(func: Any, store: Callable[[int, Any], list[Binding]]) -> list[BindingBlock]:
    """Return the blocks of a function with what stores each field of its result as soon as it is
    known.
    """
    result = func.body.body
    bound = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    if isinstance(result, Var) and isinstance(bound.get(result), Tuple):
        result = bound[result]
    fields = list(result.fields) if isinstance(result, Tuple) else [result]
    early = [(k, field) for k, field in enumerate(fields) if field not in bound]
    blocks = []
    if early:
        first = [one for k, field in early for one in store(k, field)]
        blocks.append(BindingBlock(tuple(first)))
    for block in func.body.blocks:
        bindings: list[Binding] = []
        for binding in block.bindings:
            bindings.append(binding)
            for number, field in enumerate(fields):
                if field is binding.var:
                    bindings += store(number, field)
        blocks.append(BindingBlock(tuple(bindings), block.span))
    return blocks


@compiler_pass("LazySetOutput")
def lazy_set_output(func: Function, mod: IRModule) -> Function:
    """Hands results to a function as soon as they are known: ``fset_output(index, value)``, which
    becomes a parameter (after the first ``num_input`` ones); the function itself returns nothing.

    Only public functions change.
    """
    if "global_symbol" not in func.attrs:
        return func
    func = to_non_dataflow(func, mod)
    body: Any = func.body
    nothing = TupleStructInfo(())
    setter = Var(
        "fset_output", FuncStructInfo([PrimStructInfo("int64"), _OBJECT], nothing, purity=False)
    )

    def store(number: int, value: Any) -> list[Binding]:
        call = Call(setter, [PrimValue(number), value])
        return [VarBinding(Var("_", nothing), call)]

    place = int(func.attrs.get("num_input", len(func.params)))
    params = [*func.params[:place], setter, *func.params[place:]]
    attrs = dict(func.attrs)
    if "num_input" in attrs:
        attrs["num_input"] = place + 1
    body = SeqExpr(after_results(func, store), Tuple([]), body.span)
    return copy_with_new_vars(Function(params, body, nothing, False, attrs, func.span))


__all__ = ["after_results", "before_uses", "lazy_get_input", "lazy_set_output"]
