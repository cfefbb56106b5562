"""Substitutes values for variables: parameters, symbolic sizes, functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import GlobalVar, PrimExpr, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Var,
    VarBinding,
    as_expr,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import (
    BaseCheckResult,
    bind_sizes,
    definable_symbolic_vars,
    describe,
    struct_info_base_check,
    substitute_sizes,
    symbolic_vars,
)
from tilesmith.relax.struct_info import StructInfo
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

__all__ = ["bind_params", "bind_symbolic_vars", "copy_with_new_vars", "inline_functions"]


class Substitution(PyExprMutator):
    """Rewrites a function with values substituted for variables and symbolic sizes."""

    def __init__(
        self, values: Mapping[Var, Any], sizes: Mapping[SymbolicVar, PrimExpr], fresh: bool = False
    ) -> None:
        super().__init__()
        self._remap.update(values)
        self.sizes = dict(sizes)
        self.fresh = fresh

    def visit_struct_info(self, info: StructInfo) -> StructInfo:
        """Substitute sizes, and variables that hold shapes."""
        if not self.sizes and not self._remap:
            return info
        return substitute_sizes(info, {**self._remap, **self.sizes})

    def visit_var_def_(self, var: Var) -> Var:
        """Return the same variable if its sizes stay."""
        self.renew_sizes(var)
        info = self.visit_struct_info(known_struct_info(var))
        if not self.fresh and info is var.struct_info:
            return var
        new = type(var)(var.name_hint, info, var.span)
        self._remap[var] = new
        return new

    def renew_sizes(self, var: Var) -> None:
        """In a copy, replace the sizes that a variable defines by new ones."""
        for size in definable_symbolic_vars(known_struct_info(var)) if self.fresh else ():
            if size not in self.sizes:
                self.sizes[size] = type(size)(size.name, size.dtype)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Rewrite a match_cast; in a copy, the sizes that it binds become new variables."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        info = self.visit_struct_info(binding.struct_info)
        if value is binding.value and var is binding.var and info is binding.struct_info:
            self.builder_.emit_normalized(binding)
        else:
            self.builder_.emit_normalized(MatchCast(var, value, info, binding.span))

    def visit_shape_expr_(self, op: ShapeExpr) -> Any:
        """Substitute sizes."""
        return substitute_sizes(op, self.sizes)

    def visit_prim_value_(self, op: PrimValue) -> Any:
        """Substitute sizes."""
        value = substitute_sizes(op.value, self.sizes)
        return op if value is op.value else PrimValue(value)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Bind a new variable in a copy; its struct info follows from the value."""
        value = self.visit_expr(binding.value)
        if value is binding.value and not self.fresh:
            super().visit_var_binding_(binding)
            return
        var = self.visit_var_def(binding.var)
        if var is not binding.var:
            self._remap[binding.var] = var
        self.reemit_binding(binding, self.builder_.normalize(as_expr(value)), var)


def _by_variable(
    func: Function, binding_map: Mapping[Any, Any], candidates: list[Any], word: str
) -> dict[Any, Any]:
    """Replace names by variables in the keys; raises UnknownNameError for names that the function
    does not have.
    """
    found = {}
    for key, value in binding_map.items():
        if isinstance(key, str):
            matches = [item for item in candidates if item.name == key]
        else:
            matches = [item for item in candidates if item is key]
        if not matches:
            known = ", ".join([item.name for item in candidates]) or "none"
            name = key if isinstance(key, str) else getattr(key, "name", key)
            raise UnknownNameError(
                f"the function has no {word} '{name}'", notes=(f"{word}s: {known}",)
            )
        if len(matches) > 1 and word == "parameter":
            raise UnknownNameError(f"the function has several {word}s '{key}'")
        for match in matches:
            found[match] = value
    return found


def _check_fit(param: Var, value: Any) -> None:
    given = known_struct_info(value)
    wanted = known_struct_info(param)
    if struct_info_base_check(wanted, given) == BaseCheckResult.FAIL_L0:
        raise TypeMismatchError(
            f"the value of the parameter '{param.name_hint}' does not fit: it is "
            f"{describe(given)}, "
            f"the parameter {describe(wanted)}"
        )


def bind_params(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """Return a copy with constants in place of some parameters. Keys: variables or names; values:
    constants, tensors, arrays. Symbolic sizes follow from the shapes of the constants.
    """
    found = _by_variable(func, binding_map, list(func.params), "parameter")
    values: dict[Any, Any] = {}
    sizes: dict[Any, Any] = {}
    for param, value in found.items():
        value = as_expr(value) if not isinstance(value, Constant) else value
        _check_fit(param, value)
        bind_sizes(known_struct_info(param), known_struct_info(value), sizes)
        values[param] = value
    if not values:
        return func
    params = [param for param in func.params if param not in values]
    return _rebuild(func, params, Substitution(values, sizes))


def _rebuild(func: Function, params: list[Var], substitution: Substitution) -> Function:
    for param in params:  # one may use a size that a later one defines
        substitution.renew_sizes(param)
    new_params = [substitution.visit_var_def(param) for param in params]
    for old, new in zip(params, new_params):
        substitution.set_var_remap(old, new)
    body = substitution.visit_with_new_scope(func.body, new_params)
    ret = substitution.visit_struct_info(func.ret_struct_info)
    return Function(new_params, body, ret, func.is_pure, func.attrs, func.span)


def bind_symbolic_vars(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """Return a copy with symbolic sizes replaced. Keys: variables or names; values: integers or
    sizes.
    """
    candidates: dict[Any, None] = {}
    for param in func.params:
        candidates.update(dict.fromkeys(symbolic_vars(known_struct_info(param))))
    found = _by_variable(func, binding_map, list(candidates), "symbolic size")
    sizes = {
        var: value if isinstance(value, PrimExpr) else const(int(value), var.dtype)
        for var, value in found.items()
    }
    return _rebuild(func, list(func.params), Substitution({}, sizes)) if sizes else func


def substitute_symbols(body: Any, sizes: Mapping[SymbolicVar, PrimExpr]) -> Any:
    """Replace symbolic sizes in a sequence; variables that depend on them become new ones."""
    return Substitution({}, sizes).visit_with_new_scope(body)


def copy_with_new_vars(func: Function) -> Function:
    """Return a copy in which every variable is a new object."""
    return _rebuild(func, list(func.params), Substitution({}, {}, fresh=True))


class _Inliner(PyExprMutator):
    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = functions
        self.open: list[str] = []

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not (isinstance(call, Call) and isinstance(call.op, GlobalVar)):
            return call
        name = call.op.name_hint
        function = self.functions.get(name)
        if function is None:
            return call
        if name in self.open:
            raise TypeMismatchError(f"the function '{name}' calls itself and cannot be inlined")
        self.open.append(name)
        sequence = inlined_body(function, list(call.args))
        # Calls inside the inlined body are inlined too.
        result = self.builder_.normalize(self.visit_expr(sequence))
        self.open.pop()
        return result


def inlined_body(function: Function, args: list[Any]) -> SeqExpr:
    """Return the body of a function with new variables, and arguments in place of the
    parameters.
    """
    copy = copy_with_new_vars(function)
    sizes: dict[Any, Any] = {}
    for param, arg in zip(copy.params, args):
        bind_sizes(known_struct_info(param), known_struct_info(arg), sizes)
    substitution = Substitution(dict(zip(copy.params, args)), sizes)
    return substitution.visit_with_new_scope(copy.body)


def inline_functions(func: Function, function_map: Mapping[Any, Function]) -> Function:
    """Return a copy with calls of some functions (keys: GlobalVars or names) replaced by their
    bodies.
    """
    by_name = {
        key if isinstance(key, str) else key.name_hint: value for key, value in function_map.items()
    }
    return _Inliner(by_name).visit_expr(func)
