"""FuseOpsByPattern, MergeCompositeFunctions: groups parts of a graph for external code generators.

What a pattern matches becomes a function with the attribute ``Composite`` (the pattern's name);
neighbours for one code generator (the first part of the name, ``"cutlass.matmul"``) are merged into
functions with the attribute ``Codegen``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis import udchain, used_vars
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.dpl.matcher import match_expr
from tilesmith.relax.dpl.pattern import (
    CallPattern,
    DFPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.transform.convex_groups import ConvexGroups
from tilesmith.relax.transform.fuse_ops import fused_function
from tilesmith.support.fallbacks import fallbacks_within, record_fallback


@dataclass
class PatternCheckContext:
    """A match, as the check of its pattern gets it."""

    matched_expr: Any
    annotated_expr: Mapping[str, Any]
    matched_bindings: Mapping[Var, Any]
    var_usages: Mapping[Var, list[Var]]
    value_to_bound_var: Mapping[Any, Var]


@dataclass
class FusionPattern:
    """A pattern with its name, names for parts of it, and a check of its matches."""

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    @staticmethod
    def of(value: Any) -> FusionPattern:
        """Make a pattern from what users write: ``(name, pattern)``, then optional annotations and
        check.
        """
        return value if isinstance(value, FusionPattern) else FusionPattern(*value)


_INNER = (CallPattern, TuplePattern, TupleGetItemPattern)


class _Group:
    """Bindings that a pattern matched."""

    def __init__(self, pattern: FusionPattern, bindings: list[Binding], attrs: Any) -> None:
        self.pattern = pattern
        self.bindings = bindings
        self.attrs = dict(attrs or {})


class _Matches:
    """The matches of one dataflow block; earlier patterns win."""

    def __init__(self, block: DataflowBlock, outside: set[Var]) -> None:
        self.block = block
        self.values = {binding.var: binding.value for binding in block.bindings}
        self.users = udchain(block)
        self.outside = outside
        self.taken: set[Var] = set()
        self.groups: list[_Group] = []

    def find(self, pattern: FusionPattern) -> None:
        """Find the matches of a pattern, the last bindings first: they give the largest matches."""
        for binding in reversed(self.block.bindings):
            if binding.var in self.taken:
                continue
            matched = match_expr(pattern.pattern, binding.value, self.values)
            if matched is None:
                continue
            inner = {
                id(value)
                for part, value in matched.items()
                if isinstance(part, _INNER) or part is pattern.pattern
            }
            inner.add(id(binding.value))
            bindings = [b for b in self.block.bindings if id(b.value) in inner]
            if any(b.var in self.taken for b in bindings):
                continue  # an earlier pattern goes first
            if not self._is_closed(bindings, binding.var):
                reason = "an inner value of the match is used outside of it"
                self._record(pattern, binding, reason)
            elif not self._passes(pattern, binding, matched):
                self._record(pattern, binding, "the check of the pattern refused")
            else:
                attrs = None
                if pattern.attrs_getter is not None:
                    attrs = pattern.attrs_getter(self._annotated(pattern, matched))
                self.taken.update([b.var for b in bindings])
                self.groups.append(_Group(pattern, bindings, attrs))

    @staticmethod
    def _record(pattern: FusionPattern, binding: Binding, reason: str) -> None:
        place = f"pattern '{pattern.name}' at '{binding.var.name_hint}'"
        record_fallback("fusion", place, reason)

    def _is_closed(self, bindings: list[Binding], last: Var) -> bool:
        own = {binding.var for binding in bindings}
        for var in own:
            if var is last:
                continue
            if var in self.outside or not isinstance(var, DataflowVar):
                return False
            if any(user not in own for user in self.users.get(var, ())):
                return False
        return True

    def _annotated(self, pattern: FusionPattern, matched: Mapping[Any, Any]) -> dict[str, Any]:
        return {
            name: matched[part]
            for name, part in pattern.annotation_patterns.items()
            if part in matched
        }

    def _passes(self, pattern: FusionPattern, binding: Binding, matched: Any) -> bool:
        if pattern.check is None:
            return True
        own = {
            b.var: b.value for b in self.block.bindings if id(b.value) in map(id, matched.values())
        }
        context = PatternCheckContext(
            binding.value,
            self._annotated(pattern, matched),
            own,
            self.users,
            {b.value: b.var for b in self.block.bindings},
        )
        return bool(pattern.check(context))


def _operator_names(bindings: list[Binding]) -> str:
    names = []
    for binding in bindings:
        op = getattr(binding.value, "op", None)
        if isinstance(op, Op):
            names.append(op.name.replace(".", "_"))
        elif isinstance(op, GlobalVar):
            names.append(op.name_hint)
    return "_".join(["fused", *names])


class _FuseByPattern(PyExprMutator):
    def __init__(
        self, mod: IRModule, patterns: list[FusionPattern], keep: bool, annotate: bool
    ) -> None:
        super().__init__(mod)
        self.patterns = patterns
        self.keep = keep
        self.annotate = annotate
        self.outside: set[Var] = set()

    def visit_function_(self, op: Function) -> Any:
        self.outside = set(used_vars(op.body.body)) if op.body is not None else set()
        return super().visit_function_(op)

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        matches = _Matches(block, self.outside)
        for pattern in self.patterns:
            matches.find(pattern)
        if not matches.groups:
            return super().visit_dataflow_block_(block)
        last = {id(group.bindings[-1]): group for group in matches.groups}
        self.builder_.begin_dataflow_block()
        for binding in block.bindings:
            group = last.get(id(binding))
            if group is not None:
                call = self._call(group)
                self.builder_.emit_normalized(VarBinding(binding.var, call, binding.span))
            elif binding.var not in matches.taken:
                self.visit_binding(binding)
        return self.builder_.end_block()

    def _call(self, group: _Group) -> Call:
        name = group.pattern.name
        attrs = {"Composite": name, **group.attrs}
        if not self.annotate:
            attrs["Primitive"] = 1
        function, args = fused_function(group.bindings, attrs, keep_constants=self.keep)
        symbol = _operator_names(group.bindings)
        if self.annotate:
            symbol = self.builder_.get_unique_name(f"{symbol}_{name.split('.')[0]}")
            function = codegen_function([function], name.split(".")[0], symbol)
            variable = GlobalVar(symbol)
            variable.describe(function.struct_info)
            self.builder_.update_func(variable, function)
            return Call(variable, args)
        return Call(self.builder_.add_func(function, symbol), args)


def codegen_function(composites: list[Function], codegen: str, symbol: str) -> Function:
    """Make a function for a code generator that calls one composite function."""
    (inner,) = composites
    params = [Var(param.name_hint, known_struct_info(param)) for param in inner.params]
    local = Var("local_func", inner.struct_info)
    output = Var("output", inner.ret_struct_info)
    block = BindingBlock([VarBinding(local, inner), VarBinding(output, Call(local, params))])
    attrs = {"Codegen": codegen, "global_symbol": symbol}
    return copy_with_new_vars(Function(params, SeqExpr([block], output), None, True, attrs))


@compiler_pass("FuseOpsByPattern")
def fuse_ops_by_pattern(
    mod: IRModule,
    patterns: Iterable[Any],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Iterable[str] | None = None,
) -> IRModule:
    """Turns what patterns match into calls of functions with the attribute ``Composite``.

    ``patterns``: ``FusionPattern`` or ``(name, pattern[, annotations[, check]])``, earlier ones
    first. ``bind_constants``: constants go into the function. ``annotate_codegen``: each one is put
    into a function with the attribute ``Codegen``, ready for its code generator.
    """
    rules = [FusionPattern.of(pattern) for pattern in patterns]
    entries = list(entry_functions or ())
    mutator = _FuseByPattern(mod, rules, bind_constants, annotate_codegen)
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        if "Composite" in function.attrs or "Codegen" in function.attrs:
            continue
        if entries and name.name_hint not in entries:
            continue
        with fallbacks_within(name.name_hint):
            updated = mutator.visit_expr(function)
        if updated is not function:
            mutator.builder_.update_func(name, updated)
    return mutator.builder_.get()


# Merging


class _Merge(PyExprMutator):
    """Merges runs of calls of composite functions for one code generator into one call."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.outside: set[Var] = set()

    def visit_function_(self, op: Function) -> Any:
        self.outside = set(used_vars(op.body.body)) if op.body is not None else set()
        return super().visit_function_(op)

    def _codegen(self, binding: Binding) -> str | None:
        value = binding.value
        if isinstance(value, Call) and isinstance(value.op, GlobalVar):
            function = self.mod.functions.get(value.op)
            if isinstance(function, Function) and "Composite" in function.attrs:
                return str(function.attrs["Composite"]).split(".")[0]
        return None

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        groups = self._groups(block)
        if not groups:
            return super().visit_dataflow_block_(block)
        users = udchain(block)
        self.builder_.begin_dataflow_block()
        for codegen, members in _ordered(block, groups):
            if codegen is None:
                self.visit_binding(members[0])
            else:
                self._emit(codegen, members, users)
        return self.builder_.end_block()

    def _groups(self, block: DataflowBlock) -> list[tuple[str, list[Binding]]]:
        """Return groups in which no path between two members leaves the group."""
        found = ConvexGroups()
        members: dict[int, list[Binding]] = {}
        for binding in block.bindings:
            found.add(binding.var, self._codegen(binding), used_vars(binding.value))
        for binding in block.bindings:
            number = found.of(binding.var)
            if number is not None:
                members.setdefault(number, []).append(binding)
        return [(str(self._codegen(group[0])), group) for group in members.values()]

    def _emit(self, codegen: str, members: list[Binding], users: Mapping[Var, list[Var]]) -> None:
        own = {binding.var for binding in members}
        outputs = [
            b.var
            for b in members
            if not isinstance(b.var, DataflowVar)
            or b.var in self.outside
            or any(user not in own for user in users.get(b.var, ()))
        ]
        params: dict[Var, Var] = {}
        args: list[Any] = []
        bindings: list[Binding] = []
        local: dict[Var, Var] = {}
        for number, binding in enumerate(members):
            call = binding.value
            inner = copy_with_new_vars(self.mod[call.op])
            function = Var(f"local_func_{number}", inner.struct_info)
            values = []
            for arg in call.args:
                if isinstance(arg, Var) and arg in local:
                    values.append(local[arg])
                    continue
                key = arg if isinstance(arg, Var) else Var("constant", known_struct_info(arg))
                if key not in params:
                    params[key] = Var(f"arg{len(params)}", known_struct_info(arg))
                    args.append(self.visit_expr(arg))
                values.append(params[key])
            result = Var(binding.var.name_hint, known_struct_info(binding.var))
            local[binding.var] = result
            bindings += [VarBinding(function, inner), VarBinding(result, Call(function, values))]
        body = local[outputs[0]] if len(outputs) == 1 else Tuple([local[v] for v in outputs])
        names = "_".join([binding.value.op.name_hint for binding in members])
        symbol = self.builder_.get_unique_name(f"{names}_{codegen}")
        attrs = {"Codegen": codegen, "global_symbol": symbol}
        merged = Function(
            list(params.values()), SeqExpr([BindingBlock(bindings)], body), None, True, attrs
        )
        variable = GlobalVar(symbol)
        variable.describe(merged.struct_info)
        self.builder_.update_func(variable, merged)
        call = Call(variable, args)
        if len(outputs) == 1:
            self.builder_.emit_normalized(VarBinding(outputs[0], call))
            return
        whole = self.builder_.emit(call)
        for number, var in enumerate(outputs):
            self.builder_.emit_normalized(VarBinding(var, whole[number]))


def _ordered(
    block: DataflowBlock, groups: list[tuple[str, list[Binding]]]
) -> Iterator[tuple[str | None, list[Binding]]]:
    """Yield groups and single bindings such that each comes after what it reads."""
    whole: dict[Var, int] = {}
    for number, (_, members) in enumerate(groups):
        whole.update({binding.var: number for binding in members})
    units: list[tuple[str | None, list[Binding]]] = [*groups]
    for binding in block.bindings:
        if binding.var not in whole:
            whole[binding.var] = len(units)
            units.append((None, [binding]))
    reads = [
        {whole[var] for one in members for var in used_vars(one.value) if var in whole} - {number}
        for number, (_, members) in enumerate(units)
    ]
    done: set[int] = set()
    for binding in block.bindings:
        stack = [whole[binding.var]]
        while stack:
            number = stack[-1]
            missing = [one for one in sorted(reads[number]) if one not in done]
            if number not in done and not missing:
                done.add(number)
                yield units[number]
            if missing:
                stack += missing
            else:
                stack.pop()


@compiler_pass("MergeCompositeFunctions")
def merge_composite_functions(mod: IRModule) -> IRModule:
    """Merges neighbouring calls of composite functions for one code generator into one function
    with the attribute ``Codegen``.
    """
    mutator = _Merge(mod)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            if "Composite" not in function.attrs and "Codegen" not in function.attrs:
                updated = mutator.visit_expr(function)
                if updated is not function:
                    mutator.builder_.update_func(name, updated)
    result = mutator.builder_.get()
    for name, function in list(result.functions.items()):
        if isinstance(function, Function) and "Composite" in function.attrs:
            del result[name]
    return result
