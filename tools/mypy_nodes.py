"""Teaches mypy the constructors of node classes (a plugin).

``ir/node.py`` derives ``__init__`` from the declared fields of a node class. This plugin gives the
type checker the same signature:

* each field declared by ``child``, ``data``, ``defines`` or ``note`` is a parameter, those of base
  classes first; annotated names without such a declaration (derived values) are none;
* a field with ``convert=`` takes anything, a tuple of nodes takes any iterable of them;
* a class that declares no fields, or has an ``__init__`` of its own, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import ARG_OPT, ARG_POS, Argument, AssignmentStmt, CallExpr, NameExpr, TypeInfo, Var
from mypy.plugin import ClassDefContext, Plugin
from mypy.plugins.common import add_method_to_class
from mypy.types import AnyType, Instance, NoneType, Type, TypeOfAny, get_proper_type

NODE_MODULE = "tilesmith.ir.node"
DECLARATIONS = {f"{NODE_MODULE}.{role}" for role in ("child", "data", "defines", "note")}


def _declared_fields(info: TypeInfo) -> dict[str, CallExpr]:
    """Return the fields that a class declares itself: name → the call that declares it."""
    fields: dict[str, CallExpr] = {}
    for statement in info.defn.defs.body:
        if not isinstance(statement, AssignmentStmt) or statement.type is None:
            continue
        target, value = statement.lvalues[0], statement.rvalue
        if not isinstance(target, NameExpr) or not isinstance(value, CallExpr):
            continue
        callee = value.callee
        if isinstance(callee, NameExpr) and callee.fullname in DECLARATIONS:
            fields[target.name] = value
    return fields


def _remember_fields(info: TypeInfo) -> dict[str, list[bool]]:
    """Store the fields of a class in its metadata, so that mypy's cache has them: name → [has a
    default, is converted, is visited].
    """
    if info.defn.defs.body or "tilesmith_fields" not in info.metadata:
        info.metadata["tilesmith_fields"] = {
            name: [
                "default" in call.arg_names,
                "convert" in call.arg_names,
                not (isinstance(call.callee, NameExpr) and call.callee.name == "data"),
            ]
            for name, call in _declared_fields(info).items()
        }
    found: dict[str, list[bool]] = info.metadata["tilesmith_fields"]
    return found


def _parameter_type(context: ClassDefContext, declared: Type, is_visited: bool) -> Type:
    proper = get_proper_type(declared)
    if is_visited and isinstance(proper, Instance) and proper.type.fullname == "builtins.tuple":
        return context.api.named_type("typing.Iterable", [proper.args[0]])
    if is_visited:
        fallback = getattr(proper, "partial_fallback", None)
        if isinstance(fallback, Instance) and fallback.type.fullname == "builtins.tuple":
            return context.api.named_type("typing.Iterable", [fallback.args[0]])
    return declared


def _add_init(context: ClassDefContext) -> None:
    info = context.cls.info
    if not any(base.fullname == f"{NODE_MODULE}.Node" for base in info.mro):
        return
    own = _remember_fields(info)
    written = info.names.get("__init__")
    if not own or (written is not None and not written.plugin_generated):
        return
    arguments: dict[str, Argument] = {}
    for base in reversed(info.mro):
        for name, (has_default, is_converted, is_visited) in base.metadata.get(
            "tilesmith_fields", {}
        ).items():
            symbol = base.names.get(name)
            if symbol is None or not isinstance(symbol.node, Var):
                continue
            declared = symbol.node.type
            if declared is None:
                context.api.defer()
                return
            accepted: Type = AnyType(TypeOfAny.explicit)
            if not is_converted:
                accepted = _parameter_type(context, declared, is_visited)
            kind = ARG_OPT if has_default else ARG_POS
            arguments[name] = Argument(Var(name, accepted), accepted, None, kind)
    add_method_to_class(context.api, context.cls, "__init__", list(arguments.values()), NoneType())


class NodePlugin(Plugin):
    """Hooks into every class of the package that has bases."""

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Hook into classes whose base is one of ours; `_add_init` finds out whether it is a
        node.
        """
        return _add_init if fullname.startswith("tilesmith.") else None


def plugin(version: str) -> type[Plugin]:
    """Return the plugin class; mypy calls this."""
    return NodePlugin
