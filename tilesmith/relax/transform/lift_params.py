"""LiftTransformParams: moves work on weights into a function that runs ahead of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, structural_equal, structural_hash
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import is_impure_call, used_vars
from tilesmith.relax.binding import Substitution, copy_with_new_vars
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

_STOP = operators.builtin.stop_lift_params.op
_SHARED = "transform_params"


class _Lift:
    """Splits a function into the part that depends on weights alone and the rest."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.body: Any = function.body
        self.count = int(function.attrs["num_input"])
        self.weights = list(function.params[self.count :])
        self.lifted: list[Binding] = []
        self._find()

    def _find(self) -> None:
        known = set(self.weights)
        for block in self.body.blocks:
            if not isinstance(block, DataflowBlock):
                continue
            for binding in block.bindings:
                reads = used_vars(binding.value)
                if not reads or not all(var in known for var in reads):
                    continue
                value = binding.value
                if isinstance(value, Call) and (value.op is _STOP or is_impure_call(value)):
                    continue
                if not isinstance(value, (Call, Tuple, TupleGetItem)):
                    continue
                if not isinstance(binding.var, DataflowVar):
                    continue
                self.lifted.append(binding)
                known.add(binding.var)

    def keep(self, variables: set[Var]) -> None:
        """Lift only the bindings of these variables."""
        self.lifted = [binding for binding in self.lifted if binding.var in variables]

    def handed_over(self) -> list[Var]:
        """Return the weights and lifted values that the remaining function takes."""
        lifted = {binding.var for binding in self.lifted}
        needed: dict[Var, None] = {}
        for block in self.body.blocks:
            for binding in block.bindings:
                if binding.var not in lifted:
                    needed.update(dict.fromkeys(used_vars(binding.value)))
        needed.update(dict.fromkeys(used_vars(self.body.body)))
        return [var for var in needed if var in lifted or var in self.weights]

    def transform_function(self, outputs: list[Var], symbol: str | None) -> Function:
        """Return the function from the tuple of weights to the tuple that the remaining function
        takes.
        """
        info = TupleStructInfo(tuple([known_struct_info(param) for param in self.weights]))
        whole = Var("params", info)
        used = {var for binding in self.lifted for var in used_vars(binding.value)} | set(outputs)
        first = [
            VarBinding(
                DataflowVar(param.name_hint, known_struct_info(param)), TupleGetItem(whole, i)
            )
            for i, param in enumerate(self.weights)
        ]
        values = {p: b.var for p, b in zip(self.weights, first)}
        rename = Substitution(values, {})
        rename.builder_.begin_dataflow_block()
        for param, binding in zip(self.weights, first):
            if param in used:
                rename.builder_.emit_normalized(binding)
        for binding in self.lifted:
            rename.visit_binding(binding)
        result = Tuple([rename.visit_expr(var) for var in outputs])
        final = rename.builder_.emit_output(result)
        block = rename.builder_.end_block()
        attrs = {} if symbol is None else {"global_symbol": symbol}
        function = Function([whole], SeqExpr([block], final), None, True, attrs)
        return copy_with_new_vars(function)

    def rest(self, outputs: list[Var], own: Mapping[Var, Var] | None = None) -> Function:
        """Return the remaining function, which takes these values instead of the weights; ``own``
        maps this function's variables to those that are handed over, unless they are the same.
        """
        lifted = {id(binding) for binding in self.lifted}
        blocks = []
        for block in self.body.blocks:
            kept = [binding for binding in block.bindings if id(binding) not in lifted]
            if kept:
                kind = DataflowBlock if isinstance(block, DataflowBlock) else BindingBlock
                blocks.append(kind(tuple(kept), block.span))
        params = [Var(var.name_hint, known_struct_info(var)) for var in outputs]
        given = dict(zip(outputs, params))
        values = given if own is None else {var: given[one] for var, one in own.items()}
        body = SeqExpr(blocks, self.body.body, self.body.span)
        body = Substitution(values, {}).visit_with_new_scope(body)
        return self.function.with_fields(
            params=[*self.function.params[: self.count], *params], body=body
        )


class _Common:
    """Finds what several functions compute alike of their weights, which correspond by position.

    ``variables`` maps, for each function, its weights and lifted variables to those of the first
    function.
    """

    def __init__(self, splits: list[_Lift]) -> None:
        self.splits = splits
        self.known: dict[int, list[Binding]] = {}
        first, *others = splits
        self.variables = [self._matched(first, is_first=True)]
        self.variables += [self._matched(one, is_first=False) for one in others]
        shared = set.intersection(*[set(one.values()) for one in self.variables])
        for split, own in zip(splits, self.variables):
            split.keep({var for var, one in own.items() if one in shared})
        weights = set(first.weights)
        self.variables = [
            {var: one for var, one in own.items() if one in shared or one in weights}
            for own in self.variables
        ]

    def _matched(self, split: _Lift, is_first: bool) -> dict[Var, Var]:
        found = dict(zip(split.weights, self.splits[0].weights))
        for binding in split.lifted:
            reads = used_vars(binding.value)
            if not all(var in found for var in reads):
                continue
            value = binding.value
            if any(found[var] is not var for var in reads):
                value = Substitution({var: found[var] for var in reads}, {}).visit_expr(value)
            alike = self.known.setdefault(structural_hash(value), [])
            same = [one.var for one in alike if structural_equal(one.value, value)]
            if not same and is_first:
                alike.append(binding)
            if same or is_first:
                found[binding.var] = same[0] if same else binding.var
        return found

    def outputs(self) -> list[Var]:
        """Return what the remaining functions take, as variables of the first one."""
        needed: dict[Var, None] = {}
        for split, own in zip(self.splits, self.variables):
            needed.update(dict.fromkeys([own[var] for var in split.handed_over()]))
        return list(needed)

    def rests(self, outputs: list[Var]) -> list[Function]:
        """Return the remaining functions, each of which takes all the values."""
        chosen = set(outputs)
        return [
            split.rest(outputs, {var: one for var, one in own.items() if one in chosen})
            for split, own in zip(self.splits, self.variables)
        ]


def _has_weights(function: Any) -> bool:
    if not isinstance(function, Function) or "num_input" not in function.attrs:
        return False
    return function.body is not None and len(function.params) > int(function.attrs["num_input"])


def _shared_functions(mod: IRModule, wanted: bool | Iterable[str]) -> list[GlobalVar]:
    """Return the functions that get one transform."""
    if isinstance(wanted, bool):
        found = [name for name, function in mod.functions.items() if _has_weights(function)]
    else:
        found = [mod.get_global_var(str(name)) for name in wanted]
        lacking = [name.name_hint for name in found if not _has_weights(mod[name])]
        if lacking:
            raise UnknownNameError(
                f"LiftTransformParams: {', '.join(lacking)} has no weights",
                notes=("the attribute num_input tells how many parameters are inputs",),
            )
    infos = []
    for name in found:
        function: Any = mod[name]
        weights = function.params[int(function.attrs["num_input"]) :]
        infos.append([known_struct_info(param) for param in weights])
    for name, own in zip(found, infos):
        if not structural_equal(own, infos[0]):
            raise TypeMismatchError(
                f"LiftTransformParams: the weights of '{name.name_hint}' are not those of "
                f"'{found[0].name_hint}'",
                notes=(
                    "functions with one transform take the same weights in the same order; name "
                    "those that do: shared_transform=['prefill', 'decode']",
                ),
            )
    return found


def _lift_shared(mod: IRModule, names: list[GlobalVar]) -> None:
    splits = []
    for name in names:
        function = mod[name]
        assert isinstance(function, Function)
        splits.append(_Lift(function))
    common = _Common(splits)
    outputs = common.outputs()
    is_public = any("global_symbol" in split.function.attrs for split in splits)
    mod[_SHARED] = splits[0].transform_function(outputs, _SHARED if is_public else None)
    for name, function in zip(names, common.rests(outputs)):
        mod[name] = function


@compiler_pass("LiftTransformParams")
def lift_transform_params(
    mod: IRModule, shared_transform: bool | Iterable[str] = False
) -> IRModule:
    """Moves computations that depend on weights alone (parameters after the first ``num_input``)
    into a function ``NAME_transform_params``: it maps the tuple of weights to the tuple that the
    remaining function takes.

    ``shared_transform`` makes one function ``transform_params`` for all functions with
    ``num_input`` (True), or for those of a list of names: of what all of them compute alike. Each
    of them then takes all that it returns. ``relax.op.stop_lift_params`` keeps a value where it is.
    """
    if shared_transform:
        names = _shared_functions(mod, shared_transform)
        if names:
            _lift_shared(mod, names)
        return mod
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or not _has_weights(function):
            continue
        split = _Lift(function)
        outputs = split.handed_over()
        symbol = f"{name.name_hint}_transform_params"
        public = symbol if "global_symbol" in function.attrs else None
        mod[symbol] = split.transform_function(outputs, public)
        mod[name] = split.rest(outputs)
    return mod
