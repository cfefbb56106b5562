"""Defines modules and the base class of functions."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from tilesmith.ir.expr import FloatImm, GlobalVar, IntImm, RelaxExpr, StringImm
from tilesmith.ir.node import DIALECT_TEXT, SCRIPT_DIALECTS, Node, data, note
from tilesmith.ir.types import GlobalTypeVar
from tilesmith.support.errors import (
    ConfigError,
    DiagnosticError,
    TypeMismatchError,
    UnknownMemberError,
)
from tilesmith.support.lazy import resolve

if TYPE_CHECKING:
    from typing import Self

    from tilesmith.ir.adt import Constructor, TypeData

__all__ = ["BaseFunc", "IRModule", "attributes", "check_distinct", "plain_value"]


def plain_value(value: Any) -> Any:
    """Convert an attribute's value to its stored form: immediates become Python values, lists
    tuples.
    """
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        if isinstance(value, IntImm) and value.dtype.is_bool:
            return bool(value.value)
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple([plain_value(item) for item in value])
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    return value


_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


def attributes(values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a read-only mapping of attributes with plain values; empty for None."""
    if not values:
        return _NO_ATTRIBUTES
    if values.__class__ is MappingProxyType:
        return values
    return MappingProxyType({str(key): plain_value(value) for key, value in values.items()})


class BaseFunc(RelaxExpr, key="ir.BaseFunc"):
    """Base of the functions of a module. Subclasses declare a field ``attrs``."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes by name."""
        raise NotImplementedError(f"{type(self).__name__} declares no attributes")

    # Whether calls through the variable of a module have what ``struct_info`` says; kernels are
    # called with their results among the arguments.
    describes_calls: ClassVar[bool] = True

    def with_attr(self, attr_key_or_dict: Any, attr_value: Any = None) -> Self:
        """Return a copy with one attribute set (``key, value``) or several (a mapping)."""
        if not isinstance(attr_key_or_dict, Mapping):
            attr_key_or_dict = {attr_key_or_dict: attr_value}
        return self.with_fields(attrs={**self.attrs, **attr_key_or_dict})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> Self:
        """Return a copy with several attributes set."""
        return self.with_attr(attr_map)

    def without_attr(self, attr_key: str) -> Self:
        """Return a copy without an attribute."""
        return self.with_fields(attrs={k: v for k, v in self.attrs.items() if k != attr_key})


def check_distinct(params: Sequence[Any], function: str = "") -> None:
    """Refuse a parameter that is listed twice; ``function`` is the function's name, if known."""
    if len(set(params)) == len(params):
        return
    twice = next(one for number, one in enumerate(params) if one in params[:number])
    place = f" of '{function}'" if function else " of a function"
    raise DiagnosticError(
        f"'{twice.name_hint}' is twice among the parameters{place}",
        notes=("make a variable of its own for each parameter",),
    )


def _with_global_vars(function: BaseFunc, table: Mapping[GlobalVar, GlobalVar]) -> BaseFunc:
    done: dict[int, Any] = {}

    def change(node: Any) -> Any:
        if isinstance(node, GlobalVar):
            return table.get(node, node)
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = node.map_children(change)
        return found

    changed: BaseFunc = change(function)
    return changed


class IRModule(Node, key="ir.IRModule", slots=("_by_name",)):
    """Functions by name, with attributes. The only node that may be changed in place, by its owner.

    ``functions`` maps GlobalVar to function; a module is indexed by GlobalVar or by name.
    ``type_definitions`` maps GlobalTypeVar to TypeData; a module is indexed by these, too.
    """

    is_frozen = False

    functions: dict[GlobalVar, BaseFunc] = data()
    attrs: Mapping[str, Any] = data(default=None)
    global_infos: dict[str, Any] = data(default=None)
    span: Any = note(default=None)
    type_definitions: dict[GlobalTypeVar, TypeData] = data(default=None)

    def __init__(
        self,
        functions: Mapping[Any, BaseFunc] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        self.functions = {}
        self._by_name: dict[str, GlobalVar] = {}
        self.attrs = attributes(attrs)
        self.global_infos = dict(global_infos or {})
        self.span = span
        if functions is not None and not isinstance(functions, Mapping):
            raise TypeMismatchError(
                f"a module maps names to functions, got {functions!r}",
                notes=('for example IRModule({"main": func}); of one: IRModule.from_expr(func)',),
            )
        for name, function in (functions or {}).items():
            if not isinstance(name, (str, GlobalVar)) or not isinstance(function, BaseFunc):
                raise TypeMismatchError(
                    f"a module maps names to functions, got {name!r}: {function!r}"
                )
            self[name] = function
        self.type_definitions = {}
        for header, definition in (type_definitions or {}).items():
            self[header] = definition

    @staticmethod
    def from_expr(
        expr: Any,
        functions: Mapping[Any, BaseFunc] | None = None,
        type_defs: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> IRModule:
        """Return a module with one function, under its ``global_symbol`` or "main". Another
        expression becomes the body of a function of its free variables.
        """
        module = IRModule(functions, type_defs)
        if isinstance(expr, RelaxExpr) and not isinstance(expr, BaseFunc):
            expr = resolve("tilesmith.relay.analysis:program_of")(expr)
        module[expr.attrs.get("global_symbol", "main")] = expr
        return module

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the GlobalVar of a function's name."""
        found = self._by_name.get(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(name, self._by_name, n=1)
            known = ", ".join(self._by_name) or "none"
            raise UnknownMemberError(
                f"the module has no function '{name}'",
                notes=(f"did you mean '{near[0]}'?" if near else f"functions: {known}",),
            )
        return found

    def get_global_vars(self) -> list[GlobalVar]:
        """Return all GlobalVars in order of insertion."""
        return list(self.functions)

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Return the names of all types of data in order of insertion."""
        return list(self.type_definitions)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the GlobalTypeVar of a type's name."""
        for header in self.type_definitions:
            if header.name_hint == name:
                return header
        known = ", ".join([header.name_hint for header in self.type_definitions]) or "none"
        raise UnknownMemberError(f"the module has no type '{name}'", notes=(f"types: {known}",))

    def import_from_std(self, file_name: str) -> None:
        """Add the definitions of a file of relay's standard library ("prelude.rly", "nat.rly")."""
        resolve("tilesmith.relay.prelude:import_from_std")(self, file_name)

    def get_type(self, name: str) -> tuple[Any, ...]:
        """Return the GlobalTypeVar of a type and its constructors."""
        header = self.get_global_type_var(name)
        return header, *self.type_definitions[header].constructors

    def get_constructor(self, tag: int) -> Constructor:
        """Return the constructor with a tag."""
        for definition in self.type_definitions.values():
            for constructor in definition.constructors:
                if constructor.tag == tag:
                    return constructor
        raise UnknownMemberError(f"no type of the module has a constructor with the tag {tag}")

    def _define_type(self, header: GlobalTypeVar, definition: Any) -> None:
        if getattr(definition, "header", None) != header:
            raise TypeMismatchError(
                f"a module maps names to functions and types, got {header!r}: {definition!r}"
            )
        for other in self.type_definitions.values():
            if other.header != header and {c.tag for c in other.constructors} & {
                c.tag for c in definition.constructors
            }:
                raise ConfigError(
                    f"constructors of '{header.name_hint}' and '{other.header.name_hint}' have the "
                    "same tags",
                    notes=("tags follow from the name of the type: choose another one",),
                )
        self.type_definitions[header] = definition

    def _variable(self, name: Any) -> GlobalVar:
        if isinstance(name, str):
            return self.get_global_var(name)
        if isinstance(name, GlobalVar) and name in self.functions:
            return name
        return self.get_global_var(name.name_hint)

    def __getitem__(self, name: Any) -> BaseFunc:
        if isinstance(name, GlobalTypeVar):  # only relay asks for types: callers get functions
            found: Any = self.type_definitions[self.get_global_type_var(name.name_hint)]
            return found  # type: ignore[no-any-return]
        return self.functions[self._variable(name)]

    def __setitem__(self, name: Any, function: BaseFunc | TypeData) -> None:
        if isinstance(name, GlobalTypeVar) or not isinstance(function, BaseFunc):
            self._define_type(name, function)
            return
        known = self._by_name.get(name if isinstance(name, str) else name.name_hint)
        if known is None:
            known = GlobalVar(name) if isinstance(name, str) else name
            self._by_name[known.name_hint] = known
        elif isinstance(name, GlobalVar) and name is not known:
            # The caller's own variable becomes the key, so that its calls refer to this function.
            self.functions = {
                (name if variable is known else variable): value
                for variable, value in self.functions.items()
            }
            self._by_name[name.name_hint] = known = name
        self.functions[known] = function
        struct_info = getattr(function, "struct_info", None) if function.describes_calls else None
        if struct_info is not None and known.struct_info is None:
            known.describe(struct_info)

    def __delitem__(self, name: Any) -> None:
        variable = self._variable(name)
        del self.functions[variable]
        del self._by_name[variable.name_hint]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, GlobalTypeVar):
            return name in self.type_definitions
        if isinstance(name, GlobalVar):
            return name in self.functions or name.name_hint in self._by_name
        return name in self._by_name

    def functions_items(self) -> ItemsView[GlobalVar, BaseFunc]:
        """Return pairs of GlobalVar and function in order of insertion."""
        return self.functions.items()

    items = functions_items

    def update(self, other: Any) -> None:
        """Add all functions and types of another module, or all functions of a mapping."""
        source = other.functions if isinstance(other, IRModule) else other
        for name, function in source.items():
            self[name] = function
        for header, definition in getattr(other, "type_definitions", {}).items():
            self[header] = definition

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Replace the function of a GlobalVar."""
        self[var] = func

    def update_global_info(self, name: str, global_info: Any) -> None:
        """Set a global info (a list of them under one name)."""
        self.global_infos[name] = tuple(global_info)

    def shallow_copy(self) -> IRModule:
        """Return a new module with the same function objects."""
        return IRModule(
            dict(self.functions),
            self.type_definitions,
            self.attrs,
            dict(self.global_infos),
            self.span,
        )

    clone = shallow_copy

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """Return a copy with an attribute set."""
        copy = self.shallow_copy()
        copy.attrs = attributes({**self.attrs, attr_key: attr_value})
        return copy

    def without_attr(self, attr_key: str) -> IRModule:
        """Return a copy without an attribute."""
        copy = self.shallow_copy()
        copy.attrs = attributes({k: v for k, v in self.attrs.items() if k != attr_key})
        return copy

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """Return a copy with several attributes set."""
        copy = self.shallow_copy()
        copy.attrs = attributes({**self.attrs, **attr_map})
        return copy

    def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule:
        """Return a copy in which functions have other GlobalVars, and calls refer to those.

        Keys and values are GlobalVars or names. Raises UnknownNameError for a function that is not
        there, ConfigError where two functions would get one name.
        """
        table: dict[GlobalVar, GlobalVar] = {}
        for old, new in replacements.items():
            table[self._variable(old)] = GlobalVar(new) if isinstance(new, str) else new
        names = [table.get(variable, variable).name_hint for variable in self.functions]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"two functions of the module would be called '{twice}'")
        renamed = {}
        for variable, function in self.functions.items():
            new_variable = table.get(variable, variable)
            changed = _with_global_vars(function, table)
            if new_variable is not variable and "global_symbol" in function.attrs:
                changed = changed.with_attr("global_symbol", new_variable.name_hint)
            renamed[new_variable] = changed
        return IRModule(
            renamed, self.type_definitions, self.attrs, dict(self.global_infos), self.span
        )

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the module as text: TVMScript, or the format of its dialect."""
        if self.dialect not in SCRIPT_DIALECTS:
            text = DIALECT_TEXT[self.dialect]
            return str(text(self, show_meta_data=show_meta_data, annotate=annotate))
        return self.script()

    @property
    def dialect(self) -> str:
        """The text format that shows the module: that of one of its functions, if it has one of
        its own.
        """
        for function in self.functions.values():
            dialect = getattr(function, "dialect", "")
            if dialect not in SCRIPT_DIALECTS:
                return str(dialect)
        return ""

    def get_attr(self, attr_key: str) -> Any:
        """Return an attribute, or None."""
        return self.attrs.get(attr_key)
