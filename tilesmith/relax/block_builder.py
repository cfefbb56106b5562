"""Builds functions of the graph in A-normal form.

bb = relax.BlockBuilder()
x = relax.Var("x", R.Tensor((1, 784), "float32"))
with bb.function("main", [x]):
    with bb.dataflow():
        lv = bb.emit(relax.op.nn.relu(x))
        gv = bb.emit_output(relax.op.add(lv, x))
    bb.emit_func_output(gv)
mod = bb.get()
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tilesmith.ir import BaseFunc, GlobalVar, IRModule, Op, check_distinct
from tilesmith.ir.structural import structural_equal, structural_hash
from tilesmith.ir.transform import get_pass
from tilesmith.relax.equal_functions import alike_functions, kind_of_function
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_expr,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.kernel_operands import check_kernel_call
from tilesmith.relax.scopes import NameSupply, check_bound, check_outputs, check_visible
from tilesmith.relax.sequences import flatten_blocks, with_blocks
from tilesmith.relax.struct_info import FuncStructInfo
from tilesmith.support.errors import DiagnosticError, TilesmithError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "LEAVES", "BlockBuilder", "DataflowScope", "FunctionScope", "TestingScope",
]  # fmt: skip

LEAVES = (
    Var, GlobalVar, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc, Op,
    Function,
)  # fmt: skip
"""Expressions that an operation takes as arguments as they are; others are bound to a variable."""

_current = threading.local()


class _Frame:
    """A block under construction."""

    def __init__(self, is_dataflow: bool) -> None:
        self.is_dataflow = is_dataflow
        self.bindings: list[Binding] = []


class FunctionScope:
    """``with bb.function(...)``: the function under construction."""

    def __init__(
        self, block_builder: BlockBuilder, name: str, params: Any, attrs: Any, is_pure: bool
    ) -> None:
        self.builder = block_builder
        self.name = name
        self.params = params
        self.attrs = dict(attrs or {})
        self.is_pure = is_pure
        self.blocks: list[BindingBlock] = []
        self.has_output = False

    def __enter__(self) -> FunctionScope:
        self.builder._enter_function_scope(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.builder._exit_function_scope(exc_type, exc_value, traceback)


class DataflowScope:
    """``with bb.dataflow()``: bindings without effects."""

    def __init__(self, block_builder: BlockBuilder) -> None:
        self.builder = block_builder

    def __enter__(self) -> DataflowScope:
        self.builder._frame("a dataflow block")
        self.builder._finish_block()
        self.builder.begin_dataflow_block()
        return self

    def __exit__(self, *error: Any) -> None:
        self.builder._finish_block()
        self.builder.begin_binding_block()


class TestingScope:
    """``with bb.testing_scope(def_vars)``: symbolic sizes that are known without a function."""

    __test__ = False

    def __init__(self, block_builder: BlockBuilder, def_vars: Any) -> None:
        self.builder = block_builder
        self.def_vars = def_vars

    def __enter__(self) -> TestingScope:
        self.builder.begin_scope([])
        self.builder.begin_binding_block()
        return self

    def __exit__(self, *error: Any) -> None:
        self.builder.end_block()
        self.builder.end_scope()


@contextmanager
def emitting_at(builder: BlockBuilder, place: Any) -> Iterator[None]:
    """Give what a builder emits without a span the span ``place``; None leaves the one that
    holds.
    """
    outer = builder.place
    builder.place = outer if place is None else place
    try:
        yield
    finally:
        builder.place = outer


class BlockBuilder:
    """Builds functions of a module; see the module's text.

    Whatever is emitted is normalised: an argument that is an operation itself is bound to a
    variable first.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._module = IRModule() if mod is None else mod.shallow_copy()
        self._global_names = NameSupply(gv.name_hint for gv in self._module.functions)
        self.names = NameSupply()
        self.open_blocks: list[_Frame] = []
        self._scopes: list[Any] = []
        self._function_scopes: list[FunctionScope] = []
        self._values: dict[Var, Any] = {}
        self._by_hash: dict[Any, dict[int, list[GlobalVar]]] = {}
        self.place: Any = None
        """The span that calls without one get; importers set it to the operator they convert."""

    @staticmethod
    def current() -> BlockBuilder | None:
        """Return the builder whose function is being built in this thread."""
        stack = getattr(_current, "stack", None)
        return stack[-1] if stack else None

    # Scopes

    def function(
        self,
        name: str,
        params: Any = None,
        attrs: Any = None,
        pure: bool = True,
        private: bool = False,
    ) -> FunctionScope:
        """Return the scope in which a function is built; ``private`` ones get no
        ``global_symbol``.
        """
        if isinstance(params, Var):
            params = [params]
        for param in params or ():
            if not isinstance(param, Var):
                raise TypeMismatchError(
                    f"a parameter of '{name}' is a relax.Var, got {param!r}",
                    notes=('for example relax.Var("x", R.Tensor((8, 4), "float32"))',),
                )
        if not isinstance(name, str):
            raise TypeMismatchError(f"the name of a function is a text, got {name!r}")
        attrs = dict(attrs or {})
        if private and "global_symbol" in attrs:
            raise DiagnosticError(f"the private function '{name}' must not have a global_symbol")
        if not private and "global_symbol" not in attrs:
            attrs["global_symbol"] = name
        return FunctionScope(self, name, params, attrs, pure)

    def testing_scope(self, def_vars: Any) -> TestingScope:
        """Return a scope for normalising expressions outside any function, as tests do."""
        return TestingScope(self, def_vars)

    def dataflow(self) -> DataflowScope:
        """Return the scope of a dataflow block."""
        return DataflowScope(self)

    def begin_scope(self, params: Any = None) -> None:
        """Enter a scope and reserve the names of its parameters."""
        self._scopes.append(params)
        for param in params or ():
            self.names.reserve(param.name_hint)

    def end_scope(self) -> None:
        """Leave the scope."""
        if not self._scopes:
            raise DiagnosticError(
                "end_scope leaves no scope", notes=("each call belongs to one of begin_scope",)
            )
        self._scopes.pop()

    def begin_dataflow_block(self) -> None:
        """Begin a block of bindings without effects; mutators call it."""
        self.open_blocks.append(_Frame(True))

    def begin_binding_block(self) -> None:
        """Begin a block of bindings."""
        self.open_blocks.append(_Frame(False))

    def end_block(self) -> BindingBlock:
        """End the block that was begun last, and return it."""
        if not self.open_blocks:
            raise DiagnosticError(
                "end_block ends no block",
                notes=("each call belongs to one of begin_binding_block or begin_dataflow_block",),
            )
        frame = self.open_blocks.pop()
        kind = DataflowBlock if frame.is_dataflow else BindingBlock
        return kind(tuple(frame.bindings))

    # Under these names the mutators of users know them.
    _begin_dataflow_block = begin_dataflow_block
    _begin_binding_block = begin_binding_block
    _end_block = end_block

    def _finish_block(self) -> None:
        block = self.end_block()
        if block.bindings and self._function_scopes:
            self._function_scopes[-1].blocks.append(block)

    def _enter_function_scope(self, scope: FunctionScope) -> None:
        self._function_scopes.append(scope)
        if not hasattr(_current, "stack"):
            _current.stack = []
        _current.stack.append(self)
        self.begin_scope(scope.params)
        self.begin_binding_block()

    def _exit_function_scope(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        scope = self._function_scopes.pop()
        _current.stack.pop()
        self.end_scope()
        if exc_type is not None:
            self.open_blocks.clear()
            return
        self.open_blocks.pop()
        if not scope.has_output:
            raise DiagnosticError(
                f"the function '{scope.name}' has no result",
                notes=("call emit_func_output(value) at its end",),
            )

    def _frame(self, what: str = "emit") -> _Frame:
        if not self.open_blocks:
            raise DiagnosticError(
                f"{what} needs a function",
                notes=("write `with bb.function(name, params):` around it",),
            )
        return self.open_blocks[-1]

    def current_block_is_dataflow(self) -> bool:
        """Return whether a dataflow block is being built."""
        return bool(self.open_blocks) and self.open_blocks[-1].is_dataflow

    # Emitting

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an expression (or a tuple of them) to a new variable."""
        frame = self._frame()
        _check_name(name_hint)
        value = self.normalize(as_expr(expr))
        kind = DataflowVar if frame.is_dataflow else Var
        name = self.names.fresh(name_hint or ("lv" if frame.is_dataflow else "gv"))
        var = kind(name, known_struct_info(value))
        self.emit_normalized(VarBinding(var, value))
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Append a binding as it is."""
        self._frame().bindings.append(binding)
        self._values[binding.var] = binding.value
        self.names.reserve(binding.var.name_hint)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Bind an expression to a variable that is visible outside the dataflow block."""
        _check_name(name_hint)
        if not self._frame("emit_output").is_dataflow:
            raise DiagnosticError(
                "emit_output belongs inside `with bb.dataflow():`", notes=("use emit elsewhere",)
            )
        value = self.normalize(as_expr(output))
        var = Var(self.names.fresh(name_hint or "gv"), known_struct_info(value))
        self.emit_normalized(VarBinding(var, value))
        return var

    def match_cast(self, value: Any, struct_info: Any, name_hint: str = "") -> Var:
        """Bind a value that is checked against ``struct_info`` at run time."""
        frame = self._frame("match_cast")
        _check_name(name_hint)
        value = self.normalize_argument(as_expr(value))
        kind = DataflowVar if frame.is_dataflow else Var
        name = self.names.fresh(name_hint or ("lv" if frame.is_dataflow else "gv"))
        info = as_struct_info(struct_info)
        var = kind(name, info)
        self.emit_normalized(MatchCast(var, value, info))
        return var

    def emit_func_output(self, output: Any, params: Any = None) -> GlobalVar:
        """Finish the function with its result (an expression or a tuple of them)."""
        if not self._function_scopes:
            raise DiagnosticError(
                "emit_func_output belongs inside `with bb.function(...):`",
                notes=("indent it to the level of the calls of emit",),
            )
        scope = self._function_scopes[-1]
        if scope.has_output:
            raise DiagnosticError(
                f"the function '{scope.name}' has a result already",
                notes=("give several results as one tuple: emit_func_output([a, b])",),
            )
        if self.current_block_is_dataflow():
            raise DiagnosticError(
                "emit_func_output belongs after the dataflow block, not inside",
                notes=("indent it one level less than the calls of emit",),
            )
        if params is not None:
            if scope.params is not None:
                raise DiagnosticError(
                    f"the parameters of '{scope.name}' are given twice",
                    notes=("give them to bb.function or to emit_func_output, not to both",),
                )
            scope.params = [params] if isinstance(params, Var) else list(params)
        if scope.params is None:
            raise DiagnosticError(
                f"the parameters of '{scope.name}' are not known",
                notes=("give them to bb.function or to emit_func_output",),
            )
        check_distinct(scope.params, scope.name)
        body = self.normalize_argument(as_expr(output))
        last = BindingBlock(tuple(self._frame().bindings))
        check_visible(scope.name, [*scope.blocks, last], body)
        check_outputs(scope.name, scope.blocks)
        self._finish_block()
        self.begin_binding_block()
        scope.has_output = True
        sequence = SeqExpr(flatten_blocks(scope.blocks), body)
        check_bound(scope.name, scope.params, sequence)
        function = Function(scope.params, sequence, None, scope.is_pure, scope.attrs)
        variable = GlobalVar(self._global_names.fresh(scope.name))
        self._set_function(variable, function)
        return variable

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Make a PrimFunc of a tensor expression and bind its call; see ``call_te``."""
        return self.emit(self.call_te(func, *args, **kwargs), kwargs.pop("name_hint", ""))

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """Return a call of the PrimFunc made from ``func``, a function of te tensors, for graph
        arguments.

        Tensors become placeholders, shapes and scalars expressions over the symbolic sizes. Equal
        PrimFuncs are added once. ``primfunc_name_hint`` names the PrimFunc (default: the function's
        name), ``primfunc_attrs`` are attributes of it.
        """
        from tilesmith.relax.te_arguments import gen_call_tir_inputs

        kwargs.pop("name_hint", None)
        name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_function")
        prim_func, call_args, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
        variable = self.add_func(prim_func, name.replace("<lambda>", "te_function"))
        operands = [variable, Tuple(call_args)]
        if tir_vars is not None:
            operands.append(tir_vars)
        return Call(Op.get("relax.call_tir"), operands, None, out_sinfo)

    def call_te_with_grad(
        self, func: Callable[..., Any], *args: Any, te_grad_name: str, te_grad_kwargs: Any = None,
        **kwargs: Any,
    ) -> Call:  # fmt: skip
        """Return a call as ``call_te`` does, which names its gradient; see
        ``training.utils.register_te_gradient``.
        """
        call = self.call_te(func, *args, **kwargs)
        attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": te_grad_kwargs or {}}
        return Call(Op.get("relax.call_tir_with_grad"), call.args, attrs, call.sinfo_args)

    # Normal form

    def normalize(self, expr: Any) -> Any:
        """Return an expression whose arguments are variables, constants, shapes, or tuples of
        them.
        """
        with deep_recursion():
            return _Normalization(self).of(as_expr(expr))

    def normalize_argument(self, expr: Any) -> Any:
        """Return an expression that may be an argument; an operation is bound to a variable
        first.
        """
        with deep_recursion():
            return _Normalization(self).argument(as_expr(expr))

    def emit_plain(self, value: Any) -> Var:
        """Bind a value that is already in normal form."""
        frame = self._frame()
        kind = DataflowVar if frame.is_dataflow else Var
        name = self.names.fresh("lv" if frame.is_dataflow else "gv")
        var = kind(name, known_struct_info(value))
        self.emit_normalized(VarBinding(var, value))
        return var

    # The module

    def lookup_binding(self, var: Any) -> Any:
        """Return the value that a variable is bound to; None for parameters and anything else."""
        return self._values.get(var) if isinstance(var, Var) else None

    def get_unique_name(self, name_prefix: str) -> str:
        """Return a name that no function of the module and no variable has."""
        name = self._global_names.fresh(name_prefix)
        self.names.reserve(name)
        return name

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function under a fresh name; return the GlobalVar of an equal one if there is
        one.
        """
        if not isinstance(func, BaseFunc):
            raise TypeMismatchError(
                f"a function of a module is a PrimFunc or a relax.Function, got {func!r}",
                notes=("make one with @T.prim_func, te.create_prim_func, or bb.function",),
            )
        alike, digest = alike_functions(self._by_hash, self._module, func), structural_hash(func)
        for known in alike.setdefault(digest, []):
            if known in self._module.functions and structural_equal(self._module[known], func):
                return known
        variable = GlobalVar(self._global_names.fresh(func_name))
        self._set_function(variable, func)
        alike[digest].append(variable)
        return variable

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Replace a function of the module."""
        self._set_function(gv, updated_func)
        self._by_hash.pop(kind_of_function(updated_func), None)

    def _set_function(self, variable: GlobalVar, function: BaseFunc) -> None:
        self._module[variable] = function
        info = getattr(function, "struct_info", None)
        if isinstance(info, FuncStructInfo):
            variable.describe(info)

    def get(self) -> IRModule:
        """Return the module built so far."""
        return self._module.shallow_copy()

    def finalize(self) -> IRModule:
        """Return the finished module; all functions must have their result.

        Functions are renamed to their ``global_symbol``, private ones where that clashes.
        """
        if self._function_scopes:
            raise TilesmithError(
                f"the function '{self._function_scopes[-1].name}' is not finished",
                notes=("leave its `with` block first",),
            )
        finished: IRModule = get_pass("NormalizeGlobalVar")(self.get())
        return finished


class _Normalization:
    """Normalises one expression; an operation that occurs in it twice is bound once."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.bound: dict[int, Any] = {}

    def of(self, expr: Any) -> Any:
        """Return an expression in normal form."""
        if isinstance(expr, Call):
            args = [self.argument(arg) for arg in expr.args]
            op = expr.op if isinstance(expr.op, LEAVES) else self.argument(expr.op)
            span = self.builder.place if expr.span is None else expr.span
            is_same = op is expr.op and all(a is b for a, b in zip(args, expr.args))
            if is_same and span is expr.span:
                result = expr
            else:
                result = Call(op, args, expr.attrs, expr.sinfo_args, span)
            known_struct_info(result)  # errors appear where the user emits
            check_kernel_call(result, self.builder._module.functions)
            return result
        if isinstance(expr, Tuple):
            return expr.map_children(self.argument)
        if isinstance(expr, TupleGetItem):
            return expr.map_children(self.argument)
        if isinstance(expr, If):
            cond = self.argument(expr.cond)
            true, false = self._branch(expr.true_branch), self._branch(expr.false_branch)
            if cond is expr.cond and true is expr.true_branch and false is expr.false_branch:
                return expr
            return If(cond, true, false, expr.span)
        if isinstance(expr, SeqExpr):
            return self._splice(expr) if self.builder.open_blocks else self._branch(expr)
        return expr

    def argument(self, expr: Any) -> Any:
        """Return an expression that may be an argument; an operation is bound first."""
        if isinstance(expr, LEAVES):
            return expr
        found = self.bound.get(id(expr))
        if found is not None:
            return found[0]
        normal = self.of(expr)
        if isinstance(normal, (Tuple, *LEAVES)):
            return normal
        var = self.builder.emit_plain(normal)
        self.bound[id(expr)] = (var, expr)  # kept alive, so that no other object gets the same id
        return var

    def _splice(self, expr: SeqExpr) -> Any:
        """Move the bindings of a sequence into the current block; return the sequence's value."""
        frame = self.builder._frame()
        if not frame.is_dataflow and any(isinstance(b, DataflowBlock) for b in expr.blocks):
            return self._branch(expr)
        for block in expr.blocks:
            for binding in block.bindings:
                value = self.of(binding.value)
                if value is not binding.value:
                    binding = binding.with_fields(value=value)
                self.builder.emit_normalized(binding)
        return self.of(expr.body)

    def _branch(self, expr: SeqExpr) -> SeqExpr:
        """Normalise a branch to a sequence with its own blocks."""
        builder, blocks = self.builder, []
        for block in expr.blocks:
            builder.open_blocks.append(_Frame(isinstance(block, DataflowBlock)))
            for binding in block.bindings:
                value = _Normalization(builder).of(binding.value)
                if isinstance(binding, MatchCast):
                    value = _Normalization(builder).argument(value)
                if value is not binding.value:
                    binding = binding.with_fields(value=value)
                builder.emit_normalized(binding)
            new = builder.end_block()
            unchanged = len(new.bindings) == len(block.bindings) and all(
                a is b for a, b in zip(new.bindings, block.bindings)
            )
            blocks.append(block if unchanged else new)
        builder.begin_binding_block()
        body = _Normalization(builder).argument(expr.body)
        rest = builder.end_block()
        if rest.bindings:
            blocks.append(rest)
        return with_blocks(expr, blocks, body)


def _check_name(name_hint: Any) -> None:
    if not isinstance(name_hint, str):
        raise TypeMismatchError(
            f"the name of a variable is a text, got {name_hint!r}",
            notes=("emit takes one expression and, if wanted, its name_hint",),
        )
