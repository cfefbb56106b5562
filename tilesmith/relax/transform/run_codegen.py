"""RunCodegen: hands functions with the attribute ``Codegen`` to their code generators.

    @register_func("relax.ext.mine")
    def generate(functions, options, constant_names):        # → a list of runtime modules
        ...

A call of such a function becomes a call of what the module has under its ``global_symbol``, which
gets the inputs, then the outputs. `relax.build` links the modules with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.relax.expr import Call, Constant, Function, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op.base import call_dps_packed
from tilesmith.runtime.packed_func import as_ffi_list
from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import TypeMismatchError, UnknownNameError


class _Calls(PyExprMutator):
    """Replaces calls of functions that are compiled elsewhere."""

    def __init__(self, mod: IRModule, symbols: Mapping[GlobalVar, str]) -> None:
        super().__init__(mod)
        self.symbols = symbols

    def visit_call_(self, op: Call) -> Any:
        call = super().visit_call_(op)
        symbol = self.symbols.get(call.op) if isinstance(call.op, GlobalVar) else None
        if symbol is None:
            return call
        return call_dps_packed(symbol, list(call.args), known_struct_info(op))


@compiler_pass("RunCodegen")
def run_codegen(
    mod: IRModule,
    target_options: Mapping[str, Any] | None = None,
    entry_functions: Iterable[str] | None = None,
) -> IRModule:
    """Compiles functions with the attribute ``Codegen`` by ``relax.ext.NAME(functions, options,
    constant_names)``, and calls the results; ``target_options`` has the options by name.

    With ``entry_functions`` only what these call is compiled. The modules are in the attribute
    ``external_mods``. Raises UnknownNameError for a code generator that is not registered.
    """
    wanted = _reachable(mod, entry_functions)
    groups: dict[str, list[Function]] = {}
    symbols: dict[GlobalVar, str] = {}
    names: dict[Constant, str] = {}
    for variable, function in mod.functions.items():
        if isinstance(function, Function) and "Codegen" in function.attrs and variable in wanted:
            symbol = str(function.attrs.get("global_symbol", variable.name_hint))
            groups.setdefault(str(function.attrs["Codegen"]), []).append(
                function.with_attr("global_symbol", symbol)
            )
            symbols[variable] = symbol
            for constant in nodes(function, Constant):
                names.setdefault(constant, f"{symbol}_const_{len(names)}")
    if not groups:
        return mod
    modules = list(mod.attrs.get("external_mods", ()))
    for name, functions in groups.items():
        modules += _generated(name, functions, dict((target_options or {}).get(name, {})), names)
    result = IRModule({}, mod.type_definitions, mod.attrs, mod.global_infos)
    mutator = _Calls(mod, symbols)
    for variable, function in mod.functions.items():
        if variable not in symbols:
            changes = isinstance(function, Function) and function.body is not None
            result[variable] = mutator.visit_expr(function) if changes else function
    constants = {**mod.attrs.get("const_name_to_constant", {})}
    constants.update({name: constant.data for constant, name in names.items()})
    return result.with_attrs({"external_mods": modules, "const_name_to_constant": constants})


def _reachable(mod: IRModule, entries: Iterable[str] | None) -> set[GlobalVar]:
    if not entries:
        return set(mod.functions)
    found: set[GlobalVar] = set()
    pending = [mod.get_global_var(name) for name in entries]
    while pending:
        variable = pending.pop()
        if variable not in found:
            found.add(variable)
            pending += [one for one in nodes(mod[variable], GlobalVar) if one in mod.functions]
    return found


def _generated(
    name: str, functions: list[Function], options: dict[str, Any], names: dict[Constant, str]
) -> list[Any]:
    generator = get_global_func(f"relax.ext.{name}", allow_missing=True)
    if generator is None:
        raise UnknownNameError(
            f"there is no code generator for functions of '{name}'",
            notes=(f"register it: @register_func('relax.ext.{name}')",),
        )
    constants = dict(zip(as_ffi_list(list(names)), names.values()))
    made = generator(as_ffi_list(functions), options, constants)
    modules = list(made) if not hasattr(made, "implements_function") else [made]
    modules = [one.pyobject() if hasattr(one, "pyobject") else one for one in modules]
    for one in modules:
        if not hasattr(one, "implements_function"):
            raise TypeMismatchError(
                f"the code generator 'relax.ext.{name}' gave {type(one).__name__}, not a module"
            )
    return modules


@compiler_pass("AttachExternModules")
def attach_extern_modules(mod: IRModule, extern_modules: Iterable[Any]) -> IRModule:
    """Adds modules (or what gives one by ``load()``) whose functions the program calls by
    ``call_dps_packed``; `relax.build` links them with the rest.
    """
    given = [one.load() if hasattr(one, "load") else one for one in extern_modules]
    return mod.with_attr("external_mods", [*mod.attrs.get("external_mods", ()), *given])
