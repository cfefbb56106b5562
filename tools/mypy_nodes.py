"""Teaches mypy the constructors of node classes (a plugin).

``ir/node.py`` derives ``__init__`` from the declared fields of a node class. This plugin gives the
type checker the same signature:

* each field declared by ``child``, ``data``, ``defines`` or ``note`` is a parameter, those of base
  classes first; annotated names without such a declaration (derived values) are none;
* a field with ``convert=`` takes anything, a tuple of nodes takes any iterable of them;
* a class that declares no fields, or has an ``__init__`` of its own, is left as it is.

The visit of a ``Rewriter`` gives what its method for the class of the node declares, else a node
of the same family: a statement for a statement, a scalar
expression for a variable. A family is a class right below ``Node``, ``BaseExpr`` or
``BaseFunc``.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import ARG_OPT, ARG_POS, Argument, AssignmentStmt, CallExpr, NameExpr, TypeInfo, Var
from mypy.plugin import ClassDefContext, MethodContext, Plugin
from mypy.plugins.common import add_method_to_class
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    NoneType,
    ProperType,
    Type,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

NODE_MODULE = "tilesmith.ir.node"
VISITOR = "tilesmith.ir.visitor"
FUNCTION = "tilesmith.ir.module.BaseFunc"
# Bases of several families.
NO_FAMILIES = {f"{NODE_MODULE}.Node", "tilesmith.ir.base_expr.BaseExpr"}
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


def _rewritten(context: MethodContext) -> Type:
    """What a rewriter gives for a node: one of the same family, a statement for a loop."""
    rewriter = get_proper_type(context.type)
    if not isinstance(rewriter, Instance) or not rewriter.type.has_base(f"{VISITOR}.Rewriter"):
        return context.default_return_type
    if not isinstance(get_proper_type(context.default_return_type), AnyType):
        return context.default_return_type
    if len(context.arg_types) != 1 or len(context.arg_types[0]) != 1:
        return context.default_return_type
    node = get_proper_type(context.arg_types[0][0])
    given = _declared_result(rewriter.type, node) or _family(node)
    return context.default_return_type if given is None else given


def _declared_result(rewriter: TypeInfo, node: ProperType) -> Type | None:
    """The node that the rewriter's own method for a class says to give, if it has one."""
    if not isinstance(node, Instance):
        return None
    for base in node.type.mro:
        method = rewriter.get_method(f"visit_{base.name}")
        if method is None:
            continue
        declared = get_proper_type(method.type)
        result = get_proper_type(declared.ret_type) if isinstance(declared, CallableType) else None
        is_node = isinstance(result, Instance) and result.type.has_base(f"{NODE_MODULE}.Node")
        return result if is_node else None
    return None


def _family(node: ProperType) -> Instance | None:
    """The family of a node's class; the nodes of a union have to be of one."""
    if isinstance(node, UnionType):
        families = [_family(get_proper_type(item)) for item in node.items]
        return families[0] if all(family == families[0] for family in families) else None
    if not isinstance(node, Instance):
        return None
    bases = [base for base in node.type.mro if base.has_base(f"{NODE_MODULE}.Node")]
    families = [base for base in bases if base.fullname not in NO_FAMILIES]
    if any(base.fullname == FUNCTION for base in bases):
        families = [base for base in bases if base.has_base(FUNCTION) and base.fullname != FUNCTION]
    return Instance(families[-1], []) if families else None


class NodePlugin(Plugin):
    """Hooks into every class of the package that has bases, and into rewriters."""

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Hook into classes whose base is one of ours; `_add_init` finds out whether it is a
        node.
        """
        return _add_init if fullname.startswith("tilesmith.") else None

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Say what the visits of rewriters give."""
        ours = fullname.startswith("tilesmith.") and fullname.endswith(".visit")
        return _rewritten if ours else None


def plugin(version: str) -> type[Plugin]:
    """Return the plugin class; mypy calls this."""
    return NodePlugin
