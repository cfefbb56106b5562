"""CanonicalizeBindings: removes what only renames, packs and unpacks, or checks what is known.

    def main(x: R.Tensor((n, 4))):                   def main(x: R.Tensor((n, 4))):
        y = R.match_cast(x, R.Tensor((m, 4)))
        t = (y, x)                            ->
        a = t[0]
        b = R.add(a, R.zeros((m, 4)))                    b = R.add(x, R.zeros((n, 4)))

A size that ``match_cast`` would define is replaced by the known one, everywhere.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.analysis.unused import with_body
from tilesmith.relax.binding import Substitution
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    BindingBlock,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import same_struct_info
from tilesmith.relax.relations import (
    BaseCheckResult,
    bind_sizes,
    describe,
    erase_to_params,
    is_base_of,
    struct_info_base_check,
    symbolic_vars,
)
from tilesmith.relax.struct_info import StructInfo
from tilesmith.relax.transform.dataflow_vars import fit_variables
from tilesmith.support.errors import ShapeError


class _Canonicalizer(Substitution):
    """Replaces uses of aliases by the value that they name, and sizes by those that are known."""

    def __init__(self, mod: Any) -> None:
        super().__init__({}, {})
        self.builder_ = BlockBuilder(mod)
        self.outputs: dict[Var, Var] = {}
        """Variables whose value is bound to an output of the block directly."""
        self.defined: set[Any] = set()
        """Sizes that parameters and checks define."""
        self.checked: dict[Var, Var] = {}
        """Variables whose value was checked → the variable that knows what it was checked for."""

    # Scopes

    def visit_function_(self, op: Function) -> Any:
        """Learn the sizes that the parameters define; the declared result gives way to a finer
        one.
        """
        outer = set(self.defined)
        self.defined.update([size for p in op.params for size in symbolic_vars(p.struct_info)])
        made = super().visit_function_(op)
        self.defined = outer
        if made is op or made.body is None:
            return made
        result = erase_to_params(known_struct_info(made.body), made.params)
        declared = made.ret_struct_info
        is_finer = is_base_of(declared, result) and not is_base_of(result, declared)
        return with_body(made, made.body, result) if is_finer else made

    def visit_with_new_scope(self, expr: Any, params: Any = ()) -> SeqExpr:
        """Forget at the end of a branch what is known inside of it only."""
        outer = self.sizes, self.defined, self.checked
        self.sizes, self.defined, self.checked = dict(outer[0]), set(outer[1]), dict(outer[2])
        made = super().visit_with_new_scope(expr, params)
        self.sizes, self.defined, self.checked = outer
        return made

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Find ``gv = lv`` in a block: the value of ``lv`` may be bound to ``gv`` directly."""
        bound = {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}
        for binding in block.bindings:
            value = binding.value
            is_name = isinstance(binding, VarBinding) and isinstance(value, DataflowVar)
            if is_name and not isinstance(binding.var, DataflowVar):
                if value in bound and value not in self.outputs:
                    if same_struct_info(value.struct_info, binding.var.struct_info):
                        self.outputs[value] = binding.var
        return super().visit_dataflow_block_(block)

    # Bindings

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Drop a binding that only renames."""
        value = self.visit_expr(binding.value)
        var = binding.var
        if value is var:  # the output was bound directly to the value
            return
        if self._is_name(value, var):
            self.set_var_remap(var, value)
            return
        target = self.outputs.get(var)
        if target is not None:
            value = self.builder_.normalize(value)
            made = self.with_struct_info(target, known_struct_info(value))
            self.set_var_remap(var, made)
            self.set_var_remap(target, made)
            self.builder_.emit_normalized(VarBinding(made, value, binding.span))
        elif value is binding.value:
            self.builder_.emit_normalized(binding)
        else:
            self.reemit_binding(binding, self.builder_.normalize(value))

    def _is_name(self, value: Any, var: Var) -> bool:
        if not isinstance(value, (Var, Constant, ShapeExpr)):
            return False
        info = self.visit_struct_info(known_struct_info(var))
        return same_struct_info(known_struct_info(value), info)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Drop a check of what is known; refuse one that cannot hold."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        source = self.checked.get(value, value) if isinstance(value, Var) else value
        known = known_struct_info(source)
        info = self._learn_sizes(binding.struct_info, known)
        found = struct_info_base_check(info, known)
        if found == BaseCheckResult.FAIL_L0:
            raise ShapeError(
                f"the match_cast of '{binding.var.name_hint}' never holds: the value is "
                f"{describe(known)}, it is cast to {describe(info)}",
                span=binding.span,
            )
        if found == BaseCheckResult.PASS:
            self.set_var_remap(binding.var, source)
            return
        self.defined.update(symbolic_vars(info))
        target = self.outputs.get(binding.var, binding.var)
        var = self.with_struct_info(target, info)
        for old in {binding.var, target}:
            if old is not var:
                self.set_var_remap(old, var)
        if isinstance(value, Var):
            self.checked[value] = var
        same = value is binding.value and var is binding.var and info is binding.struct_info
        made = binding if same else MatchCast(var, value, info, binding.span)
        self.builder_.emit_normalized(made)

    def _learn_sizes(self, info: StructInfo, known: StructInfo) -> StructInfo:
        """Replace the sizes that a check would define by those of the value."""
        info = self.visit_struct_info(info)
        found: dict[Any, Any] = {}
        bind_sizes(info, known, found)
        new = {size: value for size, value in found.items() if size not in self.defined}
        if not new:
            return info
        self.sizes.update(new)
        return self.visit_struct_info(info)

    # Tuples

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        """Replace ``(a, b)[0]`` by ``a``."""
        item = self.visit_expr_post_order(op)
        if isinstance(item, TupleGetItem):
            source = item.tuple_value
            if isinstance(source, Var):
                source = self.lookup_binding(source)
            if isinstance(source, Tuple):
                return source.fields[item.index]
        return item

    def visit_tuple_(self, op: Tuple) -> Any:
        """Replace ``(t[0], t[1], …)``, all fields of t, by t."""
        made = self.visit_expr_post_order(op)
        fields = made.fields if isinstance(made, Tuple) else ()
        items = [self._bound(field) for field in fields]
        if not items or not all(isinstance(item, TupleGetItem) for item in items):
            return made
        source = items[0].tuple_value
        whole = all(item.tuple_value is source and item.index == i for i, item in enumerate(items))
        count = len(getattr(known_struct_info(source), "fields", ()))
        return source if whole and isinstance(source, Var) and count == len(items) else made

    def _bound(self, expr: Any) -> Any:
        return self.lookup_binding(expr) if isinstance(expr, Var) else expr


@compiler_pass("CanonicalizeBindings")
def canonicalize(func: Function, mod: Any = None) -> Function:
    """Removes bindings that only rename a value, accesses to fields of known tuples, and checks of
    what is known; variables that do not leave their dataflow block become DataflowVars.

    Raises ShapeError for a check that can never hold.
    """
    return fit_variables(remove_all_unused(_Canonicalizer(mod).visit_expr(func)))
