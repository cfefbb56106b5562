"""Translates programs of the functional door to bindings: relay → relax.

    relax_mod = to_relax(relay_mod)

Each expression becomes one binding, however many users it has, in the innermost branch or function
that has all of them; an operator becomes what its view says (`op.view`). From here on a program is
compiled as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, ClassVar

from tilesmith.ir import GlobalVar, IncompleteType, IRModule, Op, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import expr as graph
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Call,
    Constant,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op.base import call_dps_packed
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.type_views import TypeStructInfo, struct_info_of
from tilesmith.relay.adt import Constructor, Match
from tilesmith.relay.expr import Let, RefCreate, RefRead, RefWrite, branch
from tilesmith.relay.function import Function
from tilesmith.relay.given_kernels import GivenKernels
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import translated
from tilesmith.relay.transform.inline import DefuseOps
from tilesmith.relay.transform.memory_alloc import without_allocations
from tilesmith.relay.transform.normal_form import ToBasicBlockNormalForm
from tilesmith.relay.walks import PLAIN, parts, post_order
from tilesmith.support.errors import (
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.unknown import Any as AnySize

__all__ = [
    "LOWERED_AS",
    "ModuleTranslation",
    "Scope",
    "is_external",
    "named_sizes",
    "prepared",
    "to_relax",
]


LOWERED_AS = "lowered_as"
"""The attribute of a function for an external compiler that names the PrimFunc which computes
it."""


def to_relax(program: IRModule | Function, entries: Iterable[str] = ("main",)) -> IRModule:
    """Translate a module (or one function, which becomes ``main``) of the functional door;
    ``entries`` are the functions that users will call.

    Functions that are relax's own, and PrimFuncs, are kept. A call of a function for an external
    compiler (with the attribute ``Compiler`` or ``Extern``) becomes one of the registered function
    that its ``global_symbol`` names, which writes its results into its last arguments. Raises
    UnsupportedError for data types, matches and references, which `translate_objects` knows.
    """
    module = program if isinstance(program, IRModule) else IRModule.from_expr(program)
    with deep_recursion():
        return ModuleTranslation(prepared(module), entries).run()


def prepared(module: IRModule) -> IRModule:
    """Return a module in which what several scopes share is bound in the scope around them.

    What FuseOps has put into functions comes out again, and calls that write to memory give
    results: what fuses and where values lie is decided later, on loops.
    """
    functions = [one for one in module.functions.values() if isinstance(one, Function)]
    module = without_allocations(module)
    inside = [post_order(function.body) for function in functions]
    scopes = [one for one in chain.from_iterable(inside) if isinstance(one, (If, Function, Match))]
    if any(isinstance(one, Function) and one.attrs.get("Primitive") for one in scopes):
        module = DefuseOps()(module)
    return ToBasicBlockNormalForm()(module) if scopes else module


class ModuleTranslation:
    """Translates the functions of a module, callees first."""

    scope: ClassVar[Callable[..., Scope]]

    def __init__(self, source: IRModule, entries: Iterable[str] = ("main",)) -> None:
        self.source = source
        self.entries = frozenset(entries)
        kept = {
            name: function
            for name, function in source.items()
            if not isinstance(function, Function)
        }
        self.builder = BlockBuilder(IRModule(kept, attrs=source.attrs))
        self.kernels = GivenKernels(self.builder)
        self.translated: dict[str, GlobalVar] = {name.name_hint: name for name in kept}
        self.is_inferred = False

    def run(self) -> IRModule:
        """Return the translated module."""
        for name, function in self.source.functions.items():
            if not is_external(function):
                self.function(name.name_hint)
        return self.builder.get()

    def function(self, name: str) -> GlobalVar:
        """Return the variable of a translated function; translates it if this has not happened."""
        known = self.translated.get(name)
        function: Any = self.source[name]
        if known is not None:
            is_relay = isinstance(function, Function)
            if is_relay and known.struct_info is None:  # it is being translated: it calls itself
                known.describe(self.declared(function))
            return known
        variable = GlobalVar(name)
        self.translated[name] = variable
        attrs = dict(function.attrs)
        if name in self.entries:
            attrs.setdefault("global_symbol", name)
        made = self.scope(self, None).lambda_of(function, attrs)
        self.builder.update_func(variable, made)
        return variable

    def external_callee(self, callee: Any) -> Function | None:
        """Return the function that a call names if it is for an external compiler."""
        if isinstance(callee, GlobalVar):
            callee = self.source.functions.get(callee)
        return callee if is_external(callee) else None

    def infer(self) -> None:
        """Find the types that are not written; they are noted at the expressions."""
        if not self.is_inferred:
            infer_module(self.source.shallow_copy())
            self.is_inferred = True

    def declared(self, function: Function) -> FuncStructInfo:
        """Return the type of a function, found by inference if it is not written."""
        if function.ret_type is None or any(one.struct_info is None for one in function.params):
            self.infer()
        info = function.struct_info
        if not isinstance(info, FuncStructInfo):
            raise UnsupportedError(
                "a function with type parameters cannot be compiled yet",
                notes=("relay.vm.compile compiles it, or write one for each type that is used",),
                span=function.span,
            )
        return info

    def known_sizes(self, param: Var) -> StructInfo:
        """Return the struct info of a parameter; a size that is not known becomes a variable."""
        info = param.struct_info
        if info is None:
            self.infer()
            found = param.checked_type
            if isinstance(found, IncompleteType):
                raise TypeMismatchError(
                    f"the type of the parameter '{param.name_hint}' is not known",
                    notes=('give it: relay.var("x", shape=(1, 8))',),
                    span=param.span,
                )
            info = struct_info_of(found)
        return named_sizes(info, param.name_hint)


class Scope:
    """Translates the expressions of one function body or branch; what enclosing scopes know is
    known here, too.
    """

    def __init__(self, module: ModuleTranslation, outer: Scope | None) -> None:
        self.module = module
        self.builder = module.builder
        self.outer = outer
        self.known: dict[int, Any] = {}

    def inner(self) -> Scope:
        """Return a scope inside this one."""
        return self.module.scope(self.module, self)

    def find(self, expr: Any) -> Any:
        """Return the translation of an expression, None if there is none yet."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.known.get(id(expr))
            if found is not None:
                return found
            scope = scope.outer
        return None

    # Functions and branches

    def lambda_of(self, function: Function, attrs: Any = None) -> graph.Function:
        """Translate a function; its free variables are those of this scope."""
        inner = self.inner()
        params = []
        for param in function.params:
            made = Var(param.name_hint, self.module.known_sizes(param), dialect="relax")
            inner.known[id(param)] = made
            params.append(made)
        body = inner.sequence(function.body)
        return graph.Function(params, body, attrs=attrs)

    def sequence(self, body: Any) -> SeqExpr:
        """Translate the body of a function or branch to bindings of its own."""
        self.builder.begin_binding_block()
        try:
            value = self.builder.normalize_argument(self.value(body))
        finally:
            block = self.builder.end_block()
        return SeqExpr([block] if block.bindings else [], value)

    # Expressions

    def value(self, root: Any) -> Any:
        """Translate an expression: what it consists of comes first, each part once."""
        stack = [root]
        while stack:
            expr = stack[-1]
            if self.find(expr) is not None:
                stack.pop()
                continue
            if isinstance(expr, Let) and self.find(expr.var) is None:
                if isinstance(expr.value, Function):
                    self.bind_function(expr)
                elif self.find(expr.value) is None:
                    stack.append(expr.value)
                else:
                    self.known[id(expr.var)] = self.find(expr.value)
                continue
            missing = [part for part in self.parts(expr) if self.find(part) is None]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.known[id(expr)] = self.translated(expr)
            stack.pop()
        return self.find(root)

    def parts(self, expr: Any) -> Iterable[Any]:
        """Return the parts of an expression that are computed before it, in the same scope."""
        if isinstance(expr, Call):
            is_named = isinstance(expr.op, (Op, Constructor))
            if is_named or self.module.external_callee(expr.op) is not None:
                return expr.args
            return (expr.op, *expr.args)
        if isinstance(expr, Tuple):
            return expr.fields
        if isinstance(expr, TupleGetItem):
            return (expr.tuple_value,)
        if isinstance(expr, If):
            return (expr.cond,)
        if isinstance(expr, Let):
            return (expr.body,)
        if isinstance(expr, Match):
            return (expr.data,)
        return parts(expr) if isinstance(expr, (RefCreate, RefRead, RefWrite)) else ()

    def bind_function(self, let: Let) -> None:
        """Bind a local function, which may call itself."""
        function: Any = let.value
        info = self.module.declared(function)
        made = Var(self.builder.names.fresh(let.var.name_hint), info, dialect="relax")
        self.known[id(let.var)] = made
        self.builder.emit_normalized(VarBinding(made, self.lambda_of(function)))
        self.known[id(function)] = self.known[id(let.var)]

    def translated(self, expr: Any) -> Any:
        """Translate an expression whose parts are translated."""
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Constant):
            return Constant(expr.data) if expr.dialect == "relay" else expr
        if isinstance(expr, Let):
            return self.find(expr.body)
        if isinstance(expr, Tuple):
            return Tuple([self.find(field) for field in expr.fields])
        if isinstance(expr, TupleGetItem):
            return self.field(expr)
        if isinstance(expr, If):
            choice = If(
                self.find(expr.cond),
                self.inner().sequence(branch(expr.true_branch)),
                self.inner().sequence(branch(expr.false_branch)),
                expr.span,
            )
            return self.builder.emit(choice)
        if isinstance(expr, Function):
            return self.builder.emit(self.lambda_of(expr))
        if isinstance(expr, GlobalVar):
            return self.module.function(expr.name_hint)
        if isinstance(expr, Var):
            raise UnknownNameError(
                f"the variable '{expr.name_hint}' is not bound",
                notes=("make it a parameter of the function, or bind it with relay.Let",),
                span=expr.span,
            )
        if isinstance(expr, PLAIN):
            return expr
        raise _needs_machine(expr, expr)

    def field(self, expr: TupleGetItem) -> Any:
        """Translate a projection; that of a written tuple is the field itself."""
        value = self.find(expr.tuple_value)
        if isinstance(value, Tuple):
            return value.fields[expr.index]
        return self.with_sizes(self.builder.emit(TupleGetItem(value, expr.index)), "field")

    def with_sizes(self, value: Any, name: str) -> Any:
        """Return a tensor whose sizes depend on data with names for them: what is computed from it
        has to know them.
        """
        info = known_struct_info(value)
        if not isinstance(info, TensorStructInfo) or info.shape is not None or info.ndim < 1:
            return value
        prefix = name.replace(".", "_")
        sizes = [SymbolicVar(f"{prefix}_{axis}", "int64") for axis in range(info.ndim)]
        return self.builder.match_cast(value, TensorStructInfo(sizes, info.dtype, info.vdevice))

    def call(self, call: Call) -> Any:
        """Translate a call of an operator or of a function."""
        args = [self.find(arg) for arg in call.args]
        external = self.module.external_callee(call.op)
        if external is not None:
            info = self.module.declared(external).ret
            symbol = str(external.attrs.get("global_symbol", getattr(call.op, "name_hint", "")))
            if _has_unknown_size(info):
                raise UnsupportedError(
                    f"the external function '{symbol}' gives {info}",
                    notes=("the sizes of its results have to be known: no Any in their types",),
                    span=call.span,
                )
            if LOWERED_AS in external.attrs:
                return self.lowered_call(external, args, info)
            return self.builder.emit(call_dps_packed(symbol, Tuple(args), info))
        if isinstance(call.op, Constructor):
            raise _needs_machine(call.op, call)
        if not isinstance(call.op, Op):
            return self.builder.emit(Call(self.find(call.op), args, span=call.span))
        if self.module.kernels.has(call.op):
            given = self.module.kernels.call(call, args)
            if given is not None:
                return given if isinstance(given, Tuple) else self.builder.emit(given)
        place, self.builder.place = self.builder.place, call.span
        try:
            made = translated(self.builder, call, args)
            if isinstance(made, (Var, Constant)):
                return made
            return self.with_sizes(self.builder.emit(made), call.op.name)
        finally:
            self.builder.place = place

    def lowered_call(self, external: Function, args: Iterable[Any], info: StructInfo) -> Any:
        """Call the PrimFunc that computes a function for an external compiler."""
        variable = self.module.translated[str(external.attrs[LOWERED_AS])]
        tensors = [one for arg in args for one in self.module.kernels.fields(arg)]
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        result = fields[0] if len(fields) == 1 else info
        made = self.builder.emit(
            Call(Op.get("relax.call_tir"), [variable, Tuple(tensors)], None, (result,))
        )
        return made if result is info else Tuple([made])


def _needs_machine(what: Any, place: Any) -> UnsupportedError:
    """Return the error for an expression of a value that native code cannot hold."""
    name = f" '{what.name_hint}'" if isinstance(what, Constructor) else ""
    return UnsupportedError(
        f"{type(what).__name__}{name} cannot be compiled to native code",
        notes=("data types, matches and references need the virtual machine: relay.vm.compile",),
        span=getattr(place, "span", None),
    )


def is_external(function: Any) -> bool:
    """Return whether a function is compiled by an external compiler, or has been."""
    if not isinstance(function, Function):
        return False
    compiler = function.attrs.get("Compiler", "default")
    return compiler != "default" or bool(function.attrs.get("Extern"))


def _has_unknown_size(info: StructInfo) -> bool:
    if isinstance(info, TupleStructInfo):
        return any(_has_unknown_size(field) for field in info.fields)
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        return True
    return any(isinstance(size, AnySize) for size in info.shape.values)


ModuleTranslation.scope = Scope


def named_sizes(info: StructInfo, name: str) -> StructInfo:
    """Return struct info with a variable for each size that is not known."""
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        sizes: list[PrimExpr] = [
            SymbolicVar(f"{name}_{axis}", "int64") if isinstance(size, AnySize) else size
            for axis, size in enumerate(info.shape.values)
        ]
        return TensorStructInfo(sizes, info.dtype)
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(
            tuple(
                [named_sizes(field, f"{name}_{place}") for place, field in enumerate(info.fields)]
            )
        )
    if isinstance(info, TypeStructInfo):
        raise UnsupportedError(
            f"a parameter of type {info.type} cannot be compiled yet",
            notes=(
                "tensors, tuples of them and functions can; the virtual machine knows all types: "
                "relay.vm.compile",
            ),
        )
    return info
