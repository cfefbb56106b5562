"""Visits and rewrites graphs by methods named after the kinds of expressions.

    @relax.expr_functor.mutator
    class Doubler(relax.PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return call if call.op != ADD else relax.op.multiply(call, relax.const(2.0))

A mutator emits through ``self.builder_``; what it returns may nest, since the builder normalises
it. Blocks and functions without changes are returned as the same objects.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.rules import NodeRules
from tilesmith.ir.structural import structural_equal
from tilesmith.relax.block_builder import BlockBuilder, emitting_at
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
    known_struct_info,
)
from tilesmith.relax.relations import BaseCheckResult, is_base_of, struct_info_base_check
from tilesmith.relax.sequences import with_blocks
from tilesmith.relax.struct_info import StructInfo
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "ExprFunctor", "ExprMutator", "ExprVisitor", "PyExprMutator", "PyExprVisitor", "mutator",
    "visitor",
]  # fmt: skip

_METHODS: NodeRules[str] = NodeRules(
    "methods of graph visitors",
    {
        Constant: "visit_constant_",
        Tuple: "visit_tuple_",
        DataflowVar: "visit_dataflow_var_",
        Var: "visit_var_",
        ShapeExpr: "visit_shape_expr_",
        ExternFunc: "visit_extern_func_",
        GlobalVar: "visit_global_var_",
        Function: "visit_function_",
        Call: "visit_call_",
        SeqExpr: "visit_seq_expr_",
        If: "visit_if_",
        Op: "visit_op_",
        TupleGetItem: "visit_tuple_getitem_",
        PrimValue: "visit_prim_value_",
        StringImm: "visit_string_imm_",
        DataTypeImm: "visit_data_type_imm_",
    },
)


def visitor(cls: type) -> type:
    """Mark a class derived from PyExprVisitor; ``_cls`` is the class to inherit from, as programs
    write it.
    """
    return _marked(cls)


def mutator(cls: type) -> type:
    """Mark a class derived from PyExprMutator; ``_cls`` is the class to inherit from, as programs
    write it.
    """
    return _marked(cls)


def _marked(cls: type) -> type:
    cls._cls = cls  # type: ignore[attr-defined]
    return cls


class ExprFunctor:
    """Dispatches by kind of expression, binding and block; what to do with each kind, classes say
    by methods of their own.
    """

    def _undefined(self, op: Any) -> Any:
        """Refuse a kind for which the class has no method."""
        kind = type(op).__name__
        method = "visit_match_cast_" if isinstance(op, MatchCast) else "visit_var_binding_"
        if isinstance(op, BindingBlock):
            method = "visit_binding_block_"
        elif not isinstance(op, Binding):
            method = _METHODS[op.__class__]
        raise UnsupportedError(
            f"{type(self).__name__} does not say what to do with {kind}",
            notes=(f"define {method}, or derive from PyExprVisitor or PyExprMutator",),
        )

    visit_constant_ = visit_tuple_ = visit_var_ = visit_shape_expr_ = _undefined
    visit_extern_func_ = visit_global_var_ = visit_function_ = visit_call_ = _undefined
    visit_seq_expr_ = visit_if_ = visit_op_ = visit_tuple_getitem_ = _undefined
    visit_prim_value_ = visit_string_imm_ = visit_data_type_imm_ = _undefined
    visit_var_binding_ = visit_match_cast_ = visit_binding_block_ = visit_var_def_ = _undefined

    def visit_expr(self, expr: Any) -> Any:
        """Call the method of the expression's kind."""
        return getattr(self, _METHODS[expr.__class__])(expr)

    def visit_binding(self, binding: Binding) -> Any:
        """Call the method of the binding's kind."""
        if isinstance(binding, MatchCast):
            return self.visit_match_cast_(binding)
        return self.visit_var_binding_(binding)

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Call the method of the block's kind."""
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        return self.visit_binding_block_(block)

    def visit_var_def(self, var: Var) -> Any:
        """Call the method for the place where a variable is bound."""
        if isinstance(var, DataflowVar):
            return self.visit_dataflow_var_def_(var)
        return self.visit_var_def_(var)

    def visit_dataflow_var_(self, op: DataflowVar) -> Any:
        """Visit a use of a dataflow variable; like any variable unless overridden."""
        return self.visit_var_(op)

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """Visit a dataflow block; like any block unless overridden."""
        return self.visit_binding_block_(block)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Any:
        """Visit the binding of a dataflow variable; like any variable unless overridden."""
        return self.visit_var_def_(var)


class PyExprVisitor(ExprFunctor):
    """Visits a graph without changing it; each method visits the children."""

    def visit_expr(self, expr: Any) -> Any:
        """Visit an expression."""
        with deep_recursion():
            return ExprFunctor.visit_expr(self, expr)

    def _leaf(self, op: Any) -> None:
        pass

    visit_constant_ = visit_var_ = visit_shape_expr_ = visit_extern_func_ = _leaf
    visit_global_var_ = visit_op_ = visit_prim_value_ = visit_string_imm_ = _leaf
    visit_data_type_imm_ = visit_var_def_ = visit_span = _leaf

    def visit_tuple_(self, op: Tuple) -> None:
        """Visit the fields."""
        for field in op.fields:
            self.visit_expr(field)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """Visit the tuple."""
        self.visit_expr(op.tuple_value)

    def visit_call_(self, op: Call) -> None:
        """Visit the callee, then the arguments."""
        self.visit_expr(op.op)
        for arg in op.args:
            self.visit_expr(arg)

    def visit_if_(self, op: If) -> None:
        """Visit the condition and both branches."""
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """Visit the blocks, then the value."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_function_(self, op: Function) -> None:
        """Visit the parameters, then the body."""
        for param in op.params:
            self.visit_var_def(param)
        if op.body is not None:
            self.visit_expr(op.body)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visit the value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visit the value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visit the bindings."""
        for binding in block.bindings:
            self.visit_binding(binding)


class PyExprMutator(ExprFunctor):
    """Rewrites a graph; see the module's docstring. ``mod`` holds the functions that may be
    called.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Any] = {}

    def visit_expr(self, expr: Any) -> Any:
        """Rewrite an expression."""
        with deep_recursion():
            return ExprFunctor.visit_expr(self, expr)

    def _leaf(self, op: Any) -> Any:
        return op

    visit_constant_ = visit_shape_expr_ = visit_extern_func_ = visit_global_var_ = _leaf
    visit_op_ = visit_prim_value_ = visit_string_imm_ = visit_data_type_imm_ = visit_span = _leaf

    def visit_var_(self, op: Var) -> Any:
        """Return the replacement of a used variable, or the variable itself."""
        return self._remap.get(op, op)

    def visit_var_def_(self, var: Var) -> Var:
        """Return the variable to bind: the same one unless overridden."""
        return var

    def visit_struct_info(self, info: StructInfo) -> StructInfo:
        """Rewrite a struct info that an expression holds; the same one unless overridden."""
        return info

    def visit_expr_post_order(self, expr: Any) -> Any:
        """Rewrite the operands of an expression by the default rule and normalise the result; the
        caller's own rule for the expression itself is not called again.
        """
        rebuilt = self._rebuild(expr)
        return rebuilt if rebuilt is expr else self.builder_.normalize(rebuilt)

    def _rebuild(self, expr: Any) -> Any:
        if isinstance(expr, Call):
            op = self.visit_expr(expr.op)
            args = [self.visit_expr(arg) for arg in expr.args]
            infos = [self.visit_struct_info(info) for info in expr.sinfo_args]
            if (
                op is expr.op
                and all(a is b for a, b in zip(args, expr.args))
                and all(a is b for a, b in zip(infos, expr.sinfo_args))
            ):
                return expr
            return Call(op, args, expr.attrs, infos, expr.span)
        if isinstance(expr, (Tuple, TupleGetItem)):
            return expr.map_children(self.visit_expr)
        if isinstance(expr, If):
            cond = self.visit_expr(expr.cond)
            true = self.visit_with_new_scope(expr.true_branch)
            false = self.visit_with_new_scope(expr.false_branch)
            if cond is expr.cond and true is expr.true_branch and false is expr.false_branch:
                return expr
            return If(cond, true, false, expr.span)
        if isinstance(expr, Function):
            return PyExprMutator.visit_function_(self, expr)
        if isinstance(expr, SeqExpr):
            return PyExprMutator.visit_seq_expr_(self, expr)
        return PyExprMutator.visit_var_(self, expr) if isinstance(expr, Var) else expr

    def visit_call_(self, op: Call) -> Any:
        """Rewrite callee and arguments."""
        return self.visit_expr_post_order(op)

    def visit_tuple_(self, op: Tuple) -> Any:
        """Rewrite the fields."""
        return self.visit_expr_post_order(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        """Rewrite the tuple of a field access."""
        return self.visit_expr_post_order(op)

    def visit_if_(self, op: If) -> Any:
        """Rewrite condition and branches, each branch in a scope of its own."""
        return self.visit_expr_post_order(op)

    def visit_function_(self, op: Function) -> Any:
        """Rewrite parameters and body."""
        params = [self.visit_var_def(param) for param in op.params]
        for old, new in zip(op.params, params):
            if old is not new:
                self._remap[old] = new
        if op.body is None:
            return op
        body = self.visit_with_new_scope(op.body, params)
        same_params = all(a is b for a, b in zip(params, op.params))
        if body is op.body and same_params:
            return op
        ret: Any = self.visit_struct_info(op.ret_struct_info)
        if struct_info_base_check(ret, known_struct_info(body)) == BaseCheckResult.FAIL_L0:
            ret = None  # the body has changed its type; a narrower one is checked when it runs
        return Function(params, body, ret, op.is_pure, op.attrs, op.span)

    def visit_with_new_scope(self, expr: Any, params: Any = ()) -> SeqExpr:
        """Rewrite a branch or body in a scope of its own."""
        self.builder_.begin_scope(params)
        self.builder_.begin_binding_block()
        result = self.visit_expr(expr)
        prologue = self.builder_.end_block()
        self.builder_.end_scope()
        if isinstance(result, SeqExpr):
            if prologue.bindings:
                result = SeqExpr((prologue, *result.blocks), result.body, result.span)
            return result
        return SeqExpr((prologue,) if prologue.bindings else (), result)

    def visit_seq_expr_(self, op: SeqExpr) -> SeqExpr:
        """Rewrite the blocks and drop empty ones."""
        blocks = []
        for block in op.blocks:
            new = self.visit_binding_block(block)
            if new.bindings or new is block:
                blocks.append(new)
        self.builder_.begin_binding_block()
        body = self.builder_.normalize_argument(self.visit_expr(op.body))
        epilogue = self.builder_.end_block()
        if epilogue.bindings:
            blocks.append(epilogue)
        return with_blocks(op, blocks, body)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Rewrite and emit each binding."""
        return self._visit_block(block, dataflow=False)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Rewrite and emit each binding of a dataflow block."""
        return self._visit_block(block, dataflow=True)

    def _visit_block(self, block: BindingBlock, dataflow: bool) -> BindingBlock:
        if dataflow:
            self.builder_.begin_dataflow_block()
        else:
            self.builder_.begin_binding_block()
        for binding in block.bindings:
            self.visit_binding(binding)
        new = self.builder_.end_block()
        if len(new.bindings) == len(block.bindings) and all(
            a is b for a, b in zip(new.bindings, block.bindings)
        ):
            return block
        return new

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrite value and variable, then emit the binding; what is made on the way belongs to the
        place of the value.
        """
        with emitting_at(self.builder_, getattr(binding.value, "span", None)):
            value = self.visit_expr(binding.value)
            var = self.visit_var_def(binding.var)
            if value is binding.value and var is binding.var:
                self.builder_.emit_normalized(binding)
                return
            self.reemit_binding(binding, self.builder_.normalize(as_expr(value)), var)

    def reemit_binding(self, binding: VarBinding, value: Any, var: Var | None = None) -> None:
        """Emit ``binding`` with another value; remap its variable if the struct info changes."""
        old = binding.var
        info = known_struct_info(value)
        var = self.with_struct_info(var or old, info)
        if not isinstance(value, Call) and not structural_equal(var.struct_info, info):
            var = type(var)(var.name_hint, info, var.span)  # sizes that are written otherwise
        if var is not old:
            self._remap[old] = var
        self.builder_.emit_normalized(VarBinding(var, value, binding.span))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Rewrite value, variable and struct info, then emit the match_cast."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        info = self.visit_struct_info(binding.struct_info)
        var = self.visit_var_def(binding.var)
        if info is not binding.struct_info:
            var = self.with_struct_info(var, info)
        if value is binding.value and var is binding.var and info is binding.struct_info:
            self.builder_.emit_normalized(binding)
            return
        if var is not binding.var:
            self._remap[binding.var] = var
        self.builder_.emit_normalized(MatchCast(var, value, info, binding.span))

    def set_var_remap(self, vid: Any, var: Any) -> None:
        """Replace later uses of a variable by ``var``."""
        self._remap[vid] = var

    def get_var_remap(self, vid: Any) -> Any:
        """Return the current replacement of a variable."""
        return self._remap.get(vid, vid)

    def lookup_binding(self, var: Any) -> Any:
        """Return the value that a variable of the new graph is bound to; None for parameters."""
        return self.builder_.lookup_binding(var)

    def with_struct_info(self, var: Var, struct_info: StructInfo) -> Var:
        """Return the variable itself if its struct info is the same, else a new variable."""
        return with_struct_info(var, struct_info)


def same_struct_info(a: StructInfo | None, b: StructInfo | None) -> bool:
    """Return whether two struct infos are equal."""
    return a is b or (a is not None and b is not None and is_base_of(a, b) and is_base_of(b, a))


def with_struct_info(var: Var, struct_info: StructInfo) -> Var:
    """Return the variable itself if its struct info is the same, else a new variable."""
    if same_struct_info(var.struct_info, struct_info):
        return var
    return type(var)(var.name_hint, struct_info, var.span)


ExprVisitor = PyExprVisitor
ExprMutator = PyExprMutator
