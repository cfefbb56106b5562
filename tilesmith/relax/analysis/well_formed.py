"""Checks that a module of the graph is well-formed.

Variables are bound once and before their use; dataflow variables stay in their block; arguments are
leaves; dataflow blocks and pure functions have no effects; symbolic sizes are bound before use;
operands fit the kernels that are called.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.analysis.purity import contains_impure_call
from tilesmith.relax.block_builder import LEAVES
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.kernel_operands import check_kernel_call
from tilesmith.relax.relations import definable_symbolic_vars, symbolic_vars
from tilesmith.support.errors import ShapeError, VerifyError
from tilesmith.support.recursion import deep_recursion

__all__ = ["assert_well_formed", "well_formed"]


class _Checker:
    def __init__(self, module: IRModule | None, check_struct_info: bool) -> None:
        self.module = module
        self.check_struct_info = check_struct_info
        self.known: set[Any] = set()
        self.ever: set[Var] = set()
        self.sizes: set[SymbolicVar] = set()
        self.dataflow: list[set[Var]] = []
        self.name = ""

    def fail(self, message: str, node: Any = None) -> None:
        raise self.error(message, node)

    def error(self, message: str, node: Any = None) -> VerifyError:
        where = f"in function '{self.name}': " if self.name else ""
        return VerifyError(where + message, span=getattr(node, "span", None))

    def define(self, var: Var) -> None:
        if var in self.ever:
            self.fail(f"the variable '{var.name_hint}' is bound twice", var)
        if var.struct_info is None and self.check_struct_info:
            self.fail(f"there is no struct info for the variable '{var.name_hint}'", var)
        self.ever.add(var)
        self.known.add(var)

    def use_sizes(self, node: Any) -> None:
        for var in symbolic_vars(node):
            if var not in self.sizes:
                self.fail(f"the symbolic size '{var.name}' is used before it is bound")

    def linkage(self, function: Function, name: str) -> None:
        symbol = function.attrs.get("global_symbol", name)
        if symbol != name:
            self.fail(f"the function '{name}' has another global_symbol, '{symbol}'", function)

    def function(self, function: Function, name: str = "") -> None:
        outer_known, outer_sizes, outer_name = set(self.known), set(self.sizes), self.name
        self.name = name or self.name
        for param in function.params:
            if isinstance(param, DataflowVar):
                self.fail(f"the parameter '{param.name_hint}' is a dataflow variable")
            self.define(param)
            self.sizes.update(definable_symbolic_vars(known_struct_info(param)))
        for param in function.params:
            self.use_sizes(known_struct_info(param))
        if function.body is not None:
            self.sequence(function.body)
            forced = function.attrs.get("relax.force_pure", False)
            if function.is_pure and not forced and contains_impure_call(function.body):
                self.fail(
                    "the function says that it is pure, but calls something that has side effects"
                )
        self.use_sizes(function.ret_struct_info)
        self.known, self.sizes, self.name = outer_known, outer_sizes, outer_name

    def sequence(self, sequence: SeqExpr) -> None:
        for block in sequence.blocks:
            self.block(block)
        self.argument(sequence.body)

    def block(self, block: BindingBlock) -> None:
        is_dataflow = isinstance(block, DataflowBlock)
        inside: list[Var] = []
        for binding in block.bindings:
            if isinstance(binding.var, DataflowVar):
                if not is_dataflow:
                    self.fail(
                        f"the dataflow variable '{binding.var.name_hint}' is bound outside of a "
                        f"dataflow block"
                    )
                inside.append(binding.var)
            if isinstance(binding.value, Function):
                self.define(binding.var)
                self.function(binding.value)
                continue
            if isinstance(binding, MatchCast):
                self.argument(binding.value)
                self.sizes.update(definable_symbolic_vars(binding.struct_info))
            else:
                self.value(binding.value)
            if is_dataflow and contains_impure_call(binding.value):
                self.fail(
                    f"'{binding.var.name_hint}' in a dataflow block has a side effect", binding
                )
            if is_dataflow and isinstance(binding.value, If):
                self.fail(f"'{binding.var.name_hint}' in a dataflow block is an `if`", binding)
            self.use_sizes(known_struct_info(binding.var))
            self.define(binding.var)
        self.known.difference_update(inside)

    def value(self, value: Any) -> None:
        if isinstance(value, Call):
            if not isinstance(value.op, Op):
                self.argument(value.op)
            for arg in value.args:
                self.argument(arg)
            for info in value.sinfo_args:
                self.use_sizes(info)
            if self.check_struct_info and self.module is not None:
                try:
                    check_kernel_call(value, self.module.functions)
                except ShapeError as error:
                    raise self.error(error.message, value) from None
        elif isinstance(value, If):
            self.argument(value.cond)
            for branch in (value.true_branch, value.false_branch):
                known, sizes = set(self.known), set(self.sizes)
                self.sequence(branch)
                self.known, self.sizes = known, sizes
        elif isinstance(value, TupleGetItem):
            self.argument(value.tuple_value)
        elif isinstance(value, SeqExpr):
            self.fail("a sequence stands as a value; its blocks belong into the function")
        else:
            self.argument(value)

    def argument(self, arg: Any) -> None:
        if isinstance(arg, Tuple):
            for field in arg.fields:
                self.argument(field)
        elif isinstance(arg, Var):
            if arg not in self.known:
                self.fail(f"the variable '{arg.name_hint}' is used where it is not bound", arg)
        elif isinstance(arg, GlobalVar):
            if self.module is not None and arg not in self.module.functions:
                self.fail(f"the module has no function '{arg.name_hint}' (as this very GlobalVar)")
        elif isinstance(arg, LEAVES):
            if not isinstance(arg, (Op, Function)):
                self.use_sizes(arg)
        else:
            self.fail(
                f"a {type(arg).__name__} stands as an argument; it has to be bound to a "
                f"variable first",
                arg,
            )


def assert_well_formed(obj: Any, check_struct_info: bool = True) -> None:
    """Raise VerifyError with the reason unless a module or function is well-formed."""
    with deep_recursion():
        if not isinstance(obj, IRModule):
            _Checker(None, check_struct_info).function(obj)
            return
        for name, function in obj.functions.items():
            if isinstance(function, Function):
                checker = _Checker(obj, check_struct_info)
                checker.linkage(function, name.name_hint)
                checker.function(function, name.name_hint)


def well_formed(obj: Any, check_struct_info: bool = True) -> bool:
    """Return whether a module or function is well-formed; ``assert_well_formed`` gives the
    reason.
    """
    try:
        assert_well_formed(obj, check_struct_info)
    except VerifyError:
        return False
    return True
