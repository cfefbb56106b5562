"""Passes over parameters and results: bundling, removal of unused ones, new struct info."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import all_global_vars, bindings_of, used_vars
from tilesmith.relax.analysis.unused import remove_all_unused
from tilesmith.relax.binding import Substitution
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import symbolic_vars
from tilesmith.relax.struct_info import StructInfo, TupleStructInfo


def _private(mod: IRModule) -> dict[GlobalVar, Function]:
    """Return the functions that only this module calls, and only directly."""
    found = {
        name: function
        for name, function in mod.functions.items()
        if isinstance(function, Function)
        and function.body is not None
        and "global_symbol" not in function.attrs
    }
    for function in mod.functions.values():
        if not isinstance(function, Function) or function.body is None:
            continue
        called = [
            b.value.op
            for b in bindings_of(function)
            if isinstance(b.value, Call) and isinstance(b.value.op, GlobalVar)
        ]
        for name in all_global_vars(function):
            if name in found and name not in called:
                del found[name]  # used as a value, so its signature has to stay
    return found


class _Callers(PyExprMutator):
    """Adapts the arguments (and results) of calls of changed functions."""

    def __init__(self, mod: IRModule, change: dict[GlobalVar, Callable[[Any, Call], Any]]) -> None:
        super().__init__(mod)
        self.change = change

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if isinstance(call, Call) and call.op in self.change:
            return self.change[call.op](self, call)
        return call


def _apply(
    mod: IRModule,
    new: dict[GlobalVar, Function],
    change: dict[GlobalVar, Callable[[Any, Call], Any]],
) -> IRModule:
    for name, function in new.items():
        mod[name] = function
        name.describe(function.struct_info)
    mutator = _Callers(mod, change)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            updated = mutator.visit_expr(function)
            if updated is not function:
                mod[name] = updated
    return mod


@compiler_pass("RemoveUnusedParameters")
def remove_unused_parameters(mod: IRModule) -> IRModule:
    """Removes unused parameters of private functions, and the arguments of their calls."""
    new: dict[GlobalVar, Function] = {}
    change: dict[GlobalVar, Any] = {}
    for name, function in _private(mod).items():
        used = set(used_vars(function.body))
        sizes = set(symbolic_vars(function.body))  # in shapes and numbers that calls are given
        for binding in bindings_of(function):
            sizes.update(symbolic_vars(known_struct_info(binding.var)))
        kept = [
            i
            for i, param in enumerate(function.params)
            if param in used or sizes & set(symbolic_vars(param.struct_info))
        ]
        if len(kept) == len(function.params):
            continue
        params = [function.params[i] for i in kept]
        new[name] = function.with_fields(params=params)
        change[name] = lambda mutator, call, kept=kept: Call(
            call.op, [call.args[i] for i in kept], call.attrs, call.sinfo_args, call.span
        )
    return _apply(mod, new, change) if new else mod


def _used_fields(mod: IRModule, name: GlobalVar) -> set[int] | None:
    """Return the fields of a function's result that its callers read; None if one takes the
    whole.
    """
    fields: set[int] = set()
    for function in mod.functions.values():
        if not isinstance(function, Function) or function.body is None:
            continue
        bindings = bindings_of(function)
        results = {b.var for b in bindings if isinstance(b.value, Call) and b.value.op is name}
        for binding in bindings:
            value = binding.value
            if isinstance(value, TupleGetItem) and value.tuple_value in results:
                fields.add(value.index)
            elif any(var in results for var in used_vars(value)):
                return None
        if any(var in results for var in used_vars(function.body.body)):
            return None
    return fields


@compiler_pass("RemoveUnusedOutputs")
def remove_unused_outputs(mod: IRModule) -> IRModule:
    """Removes fields of private functions' results that no caller reads."""
    new: dict[GlobalVar, Function] = {}
    change: dict[GlobalVar, Any] = {}
    for name, function in _private(mod).items():
        result = function.body.body
        if not isinstance(result, Tuple):
            continue
        fields = _used_fields(mod, name)
        if fields is None or not fields or len(fields) == len(result.fields):
            continue
        kept = sorted(fields)
        body = Tuple([result.fields[i] for i in kept]) if len(kept) > 1 else result.fields[kept[0]]
        sequence = SeqExpr(function.body.blocks, body, function.body.span)
        changed = function.with_fields(body=sequence, ret_struct_info=None)
        new[name] = remove_all_unused(changed)
        change[name] = _spread_results(kept, len(result.fields))
    return _apply(mod, new, change) if new else mod


def _spread_results(kept: list[int], count: int) -> Callable[[Any, Call], Any]:
    """Return the kept fields at their old positions; the first one fills the removed positions."""

    def change(mutator: Any, call: Call) -> Any:
        again = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span)
        whole = mutator.builder_.emit(again)
        if len(kept) == 1:
            return Tuple([whole] * count)
        parts = [mutator.builder_.emit(whole[i]) for i in range(len(kept))]
        return Tuple([parts[kept.index(i)] if i in kept else parts[0] for i in range(count)])

    return change


@compiler_pass("ExpandTupleArguments")
def expand_tuple_arguments(mod: IRModule) -> IRModule:
    """Replaces tuple parameters of private functions by one parameter per field."""
    new: dict[GlobalVar, Function] = {}
    change: dict[GlobalVar, Any] = {}
    for name, function in _private(mod).items():
        infos = [known_struct_info(param) for param in function.params]
        if not any(isinstance(info, TupleStructInfo) for info in infos):
            continue
        params: list[Var] = []
        values: dict[Var, Any] = {}
        for param, info in zip(function.params, infos):
            if not isinstance(info, TupleStructInfo):
                params.append(param)
                continue
            made = [Var(f"{param.name_hint}_{i}", f) for i, f in enumerate(info.fields)]
            params += made
            values[param] = Tuple(made)
        body = Substitution(values, {}).visit_with_new_scope(function.body)
        new[name] = function.with_fields(params=params, body=body)
        change[name] = _spread_arguments
    return _apply(mod, new, change) if new else mod


def _spread_arguments(mutator: Any, call: Call) -> Any:
    args: list[Any] = []
    for arg in call.args:
        info = known_struct_info(arg)
        if isinstance(arg, Tuple):
            args += arg.fields
        elif isinstance(info, TupleStructInfo):
            args += [mutator.builder_.emit(TupleGetItem(arg, i)) for i in range(len(info.fields))]
        else:
            args.append(arg)
    return Call(call.op, args, call.attrs, call.sinfo_args, call.span)


@compiler_pass("BundleModelParams")
def bundle_model_params(mod: IRModule, param_tuple_name: str | None = None) -> IRModule:
    """Bundles the parameters after the first ``num_input`` ones (an attribute) into one tuple."""
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or "num_input" not in function.attrs:
            continue
        count = int(function.attrs["num_input"])
        weights = function.params[count:]
        if not weights or function.body is None:
            continue
        info = TupleStructInfo(tuple([known_struct_info(param) for param in weights]))
        whole = Var(param_tuple_name or "model_params", info)
        first = [
            VarBinding(Var(param.name_hint, known_struct_info(param)), TupleGetItem(whole, i))
            for i, param in enumerate(weights)
        ]
        values = dict(zip(weights, [binding.var for binding in first]))
        body = Substitution(values, {}).visit_with_new_scope(function.body)
        sequence = SeqExpr([BindingBlock(first), *body.blocks], body.body, body.span)
        mod[name] = function.with_fields(params=[*function.params[:count], whole], body=sequence)
    return mod


@compiler_pass("UpdateParamStructInfo")
def update_param_struct_info(
    mod: IRModule, sinfo_func: Callable[[Var], StructInfo | None]
) -> IRModule:
    """Gives parameters the struct info that ``sinfo_func`` returns (None: unchanged)."""
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        values: dict[Var, Any] = {}
        params = []
        for param in function.params:
            info = sinfo_func(param)
            if info is None or info is param.struct_info:
                params.append(param)
                continue
            values[param] = Var(param.name_hint, as_struct_info(info), param.span)
            params.append(values[param])
        if values:
            body = Substitution(values, {}).visit_with_new_scope(function.body)
            mod[name] = Function(
                params, body, None, function.is_pure, function.attrs, function.span
            )
    return mod
