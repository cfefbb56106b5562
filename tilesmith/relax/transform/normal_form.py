"""Passes that change only the form: normalisation, dataflow blocks, names, purity."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import contains_impure_call, used_vars
from tilesmith.relax.analysis.unused import with_body
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    SeqExpr,
    Var,
    VarBinding,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.scopes import NameSupply
from tilesmith.relax.transform.dataflow_vars import fit_variables


class _Normalizer(PyExprMutator):
    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = self.builder_.normalize(self.visit_expr(binding.value))
        if value is binding.value:
            self.builder_.emit_normalized(binding)
        else:
            self.reemit_binding(binding, value)


@compiler_pass("Normalize")
def normalize(func: Function, mod: IRModule) -> Function:
    """Brings functions built by hand into A-normal form."""
    return _Normalizer(mod).visit_expr(func)


# Dataflow blocks


class _ToNonDataflow(PyExprMutator):
    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        new = Var(var.name_hint, var.struct_info, var.span)
        self.set_var_remap(var, new)
        return new

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        return self._visit_block(block, dataflow=False)


@compiler_pass("ToNonDataflow")
def to_non_dataflow(func: Function, mod: IRModule) -> Function:
    """Turns dataflow blocks into plain blocks."""
    return _ToNonDataflow(mod).visit_expr(func)


def _can_flow(binding: Binding) -> bool:
    value = binding.value
    return not isinstance(value, (If, Function)) and not contains_impure_call(value)


class _ToDataflow(PyExprMutator):
    """Turns runs of pure bindings in plain blocks into dataflow blocks."""

    def __init__(self, mod: Any, func: Function, min_size: int) -> None:
        super().__init__(mod)
        self.min_size = min_size
        self.func = func

    def visit_seq_expr_(self, op: SeqExpr) -> SeqExpr:
        op = super().visit_seq_expr_(op)
        blocks: list[BindingBlock] = []
        for block in op.blocks:
            blocks += [block] if isinstance(block, DataflowBlock) else self.divide(block)
        if len(blocks) == len(op.blocks) and all(a is b for a, b in zip(blocks, op.blocks)):
            return op
        return SeqExpr(blocks, op.body, op.span)

    def divide(self, block: BindingBlock) -> list[BindingBlock]:
        runs: list[tuple[bool, list[Binding]]] = []
        for binding in block.bindings:
            flows = _can_flow(binding)
            if not runs or runs[-1][0] != flows:
                runs.append((flows, []))
            runs[-1][1].append(binding)
        pieces: list[BindingBlock] = []
        changed = False
        for flows, bindings in runs:
            if flows and len(bindings) >= self.min_size:
                pieces.append(DataflowBlock(tuple(bindings)))
                changed = True
            elif pieces and type(pieces[-1]) is BindingBlock:
                pieces[-1] = BindingBlock((*pieces[-1].bindings, *bindings))
            else:
                pieces.append(BindingBlock(tuple(bindings)))
        return pieces if changed else [block]


@compiler_pass("ConvertToDataflow")
def convert_to_dataflow(func: Function, mod: IRModule, min_size: int = 2) -> Function:
    """Turns runs of at least ``min_size`` pure bindings into dataflow blocks."""
    return fit_variables(_ToDataflow(mod, func, min_size).visit_expr(func))


# Purity, names


@compiler_pass("RemovePurityChecking")
def remove_purity_checking(func: Function) -> Function:
    """Marks functions as exempt from the purity check."""
    if not func.is_pure or func.attrs.get("relax.force_pure"):
        return func
    return func.with_attr("relax.force_pure", True)


@compiler_pass("AttachGlobalSymbol")
def attach_global_symbol(mod: IRModule) -> IRModule:
    """Sets the ``global_symbol`` of each function to its name."""
    for name, function in list(mod.functions.items()):
        if hasattr(function, "attrs") and function.attrs.get("global_symbol") != name.name_hint:
            mod[name] = function.with_attr("global_symbol", name.name_hint)
    return mod


class _RenameCalls(PyExprMutator):
    def __init__(self, names: dict[GlobalVar, GlobalVar]) -> None:
        super().__init__()
        self.names = names

    def visit_global_var_(self, op: GlobalVar) -> GlobalVar:
        return self.names.get(op, op)


@compiler_pass("NormalizeGlobalVar")
def normalize_global_var(mod: IRModule) -> IRModule:
    """Renames functions of the module to their ``global_symbol``, and private functions whose name
    is the symbol of another one.
    """
    names: dict[GlobalVar, GlobalVar] = {}
    symbols = {
        name: function.attrs.get("global_symbol") for name, function in mod.functions.items()
    }
    taken = [symbol for symbol in symbols.values() if symbol is not None]
    supply = NameSupply([*taken, *[name.name_hint for name in symbols]])
    for name, symbol in symbols.items():
        if symbol is None:
            is_taken = name.name_hint in taken
            symbol = supply.fresh(name.name_hint) if is_taken else name.name_hint
        if symbol != name.name_hint:
            names[name] = GlobalVar(symbol)
            names[name].describe(name.struct_info)
    if not names:
        return mod
    result = IRModule({}, None, mod.attrs, mod.global_infos)
    for name, function in mod.functions.items():
        if isinstance(function, Function):
            function = _RenameCalls(names).visit_expr(function)
        result[names.get(name, name)] = function
    return result


@compiler_pass("TopologicalSort")
def topological_sort(
    func: Function, order: str = "depth-first", direction: str = "from-inputs"
) -> Function:
    """Reorders the bindings of dataflow blocks so that each value is close to its uses
    (``depth-first``) or as early as possible (``breadth-first``).
    """
    blocks = [
        _sorted_block(block, order, direction) if isinstance(block, DataflowBlock) else block
        for block in func.body.blocks
    ]
    if all(a is b for a, b in zip(blocks, func.body.blocks)):
        return func
    return with_body(func, SeqExpr(blocks, func.body.body, func.body.span))


def _sorted_block(block: DataflowBlock, order: str, direction: str) -> DataflowBlock:
    bindings = {binding.var: binding for binding in block.bindings}
    inputs = {
        var: [use for use in used_vars(b.value) if use in bindings] for var, b in bindings.items()
    }
    done: dict[Var, None] = {}
    if direction == "from-outputs" or order == "depth-first":

        def place(var: Var) -> None:
            if var not in done:
                for source in inputs[var]:
                    place(source)
                done[var] = None

        outputs = [var for var in bindings if not isinstance(var, DataflowVar)]
        for var in [*outputs, *bindings]:
            place(var)
    else:
        rest = list(bindings)
        while rest:
            ready = [var for var in rest if all(source in done for source in inputs[var])]
            done.update(dict.fromkeys(ready))
            rest = [var for var in rest if var not in done]
    if list(done) == list(bindings):
        return block
    return DataflowBlock(tuple([bindings[var] for var in done]), block.span)
