"""Removes dead code, merges common subexpressions, inlines private functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Node
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.structural import structural_equal, structural_hash
from tilesmith.relax.analysis import (
    all_global_vars,
    detect_recursion,
    is_impure_call,
    remove_all_unused,
)
from tilesmith.relax.binding import inline_functions
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    Function,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator, same_struct_info
from tilesmith.relax.struct_info import ObjectStructInfo, TupleStructInfo
from tilesmith.support.errors import UnknownNameError


def _reachable(mod: IRModule, entries: Iterable[GlobalVar]) -> set[GlobalVar]:
    found: set[GlobalVar] = set()
    pending = list(entries)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        function = mod.functions[name]
        pending += [callee for callee in called_functions(function) if callee in mod.functions]
    return found


def called_functions(function: Any) -> list[GlobalVar]:
    """Return the functions that a function of the graph or a PrimFunc mentions."""
    if isinstance(function, Function):
        return all_global_vars(function)
    body = getattr(function, "body", None)
    return [] if body is None else list(nodes(body, GlobalVar))


@compiler_pass("DeadCodeElimination", opt_level=1)
def dead_code_elimination(mod: IRModule, entry_functions: Iterable[str] | None = None) -> IRModule:
    """Removes unused bindings, and functions that nothing calls.

    Functions that have a ``global_symbol`` stay (and those named in ``entry_functions``).
    """
    entries = list(entry_functions or ())
    for name in entries:
        if name not in mod:
            raise UnknownNameError(f"DeadCodeElimination: the module has no function '{name}'")
    roots = [
        name
        for name, function in mod.functions.items()
        if name.name_hint in entries or (not entries and "global_symbol" in function.attrs)
    ]
    if not roots:
        roots = [name for name in mod.functions if name.name_hint == "main"]
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            cleaned = remove_all_unused(function)
            if cleaned is not function:
                mod[name] = cleaned
    if roots:
        used = _reachable(mod, roots)
        for name in [name for name in mod.functions if name not in used]:
            del mod[name]
    return mod


# Common subexpressions


SMALL_CONSTANT = 4096  # bytes; larger constants are compared by identity


def value_key(value: Any) -> Any:
    """Return a key that is equal for two values in normal form that compute the same."""
    if isinstance(value, Constant):
        data = value.data
        if data.nbytes > SMALL_CONSTANT:
            return id(data)
        return (data.dtype, data.shape, data.numpy().tobytes())
    if isinstance(value, Call):
        attrs = tuple(
            [(k, _attribute_key(v)) for k, v in value.attrs.items()] if value.attrs else ()
        )
        args = tuple([value_key(arg) for arg in value.args])
        infos = tuple([structural_hash(info) for info in value.sinfo_args])
        return (id(value.op), args, attrs, infos)
    if isinstance(value, Tuple):
        return ("tuple", tuple([value_key(field) for field in value.fields]))
    if isinstance(value, TupleGetItem):
        return ("field", value_key(value.tuple_value), value.index)
    if isinstance(value, (Var, GlobalVar, Function)):
        return id(value)
    return (type(value).__name__, structural_hash(value))


def _attribute_key(value: Any) -> Any:
    if isinstance(value, Node):
        return structural_hash(value)
    if isinstance(value, Mapping):
        return tuple([(key, _attribute_key(item)) for key, item in value.items()])
    if isinstance(value, tuple):
        return tuple([_attribute_key(item) for item in value])
    return (type(value).__name__, value)


def _has_object(info: Any) -> bool:
    """Return whether a value is an object, or holds one."""
    if isinstance(info, TupleStructInfo):
        return any(_has_object(one) for one in info.fields)
    return isinstance(info, ObjectStructInfo)


class _CommonSubexpressions(PyExprMutator):
    def __init__(self, mod: IRModule, call_only: bool) -> None:
        super().__init__(mod)
        self.call_only = call_only
        self.scopes: list[dict[Any, list[tuple[Any, Var]]]] = [{}]

    def visit_with_new_scope(self, expr: Any, params: Any = ()) -> SeqExpr:
        self.scopes.append({})
        result = super().visit_with_new_scope(expr, params)
        self.scopes.pop()
        return result

    def _find(self, key: Any, value: Any) -> Var | None:
        for scope in self.scopes:
            for known, var in scope.get(key, ()):
                if structural_equal(known, value):
                    return var
        return None

    def _candidate(self, value: Any) -> bool:
        if isinstance(value, Call):
            # Equal calls may make different objects, which change independently of each other.
            return not is_impure_call(value) and not _has_object(known_struct_info(value))
        return not self.call_only and isinstance(value, (Tuple, TupleGetItem, ShapeExpr))

    def visit_dataflow_block_(self, block: Any) -> Any:
        # Values of a dataflow block are not visible outside: it has its own table.
        self.scopes.append({})
        result = super().visit_dataflow_block_(block)
        inner = self.scopes.pop()
        for key, entries in inner.items():
            seen = [entry for entry in entries if not isinstance(entry[1], DataflowVar)]
            if seen:
                self.scopes[-1].setdefault(key, []).extend(seen)
        return result

    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = self.builder_.normalize(self.visit_expr(binding.value))
        if not isinstance(value, (If, Function)) and self._candidate(value):
            key = value_key(value)
            known = self._find(key, value)
            if known is not None and same_struct_info(
                known_struct_info(known), known_struct_info(binding.var)
            ):
                self.set_var_remap(binding.var, known)
                if not isinstance(binding.var, DataflowVar):
                    self.builder_.emit_normalized(VarBinding(binding.var, known, binding.span))
                return
            self.scopes[-1].setdefault(key, []).append((value, binding.var))
        if value is binding.value:
            self.builder_.emit_normalized(binding)
        else:
            self.reemit_binding(binding, value)


@compiler_pass("EliminateCommonSubexpr", opt_level=1)
def eliminate_common_subexpr(func: Function, mod: IRModule, call_only: bool = False) -> Function:
    """Merges values that are computed twice. ``call_only``: merges calls, but not tuples."""
    return _CommonSubexpressions(mod, call_only).visit_expr(func)


@compiler_pass("InlinePrivateFunctions")
def inline_private_functions(mod: IRModule) -> IRModule:
    """Replaces calls of private functions by their bodies."""
    recursive = {name for group in detect_recursion(mod) for name in group}
    private = {
        name: function
        for name, function in mod.functions.items()
        if isinstance(function, Function)
        and function.body is not None
        and "global_symbol" not in function.attrs
        and not function.attrs.get("Primitive")
        and "Codegen" not in function.attrs
        and "Composite" not in function.attrs
        and name not in recursive
    }
    if not private:
        return mod
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            mod[name] = inline_functions(function, private)
    callers = [f for n, f in mod.functions.items() if n not in private]
    called = {name for function in callers for name in called_functions(function)}
    for name in private:
        if name not in called:
            del mod[name]
    return mod
