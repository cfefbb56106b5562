"""The function that the parser of the `R` dialect is reading; words such as ``R.func_attr`` ask for
it."""

from __future__ import annotations

import ast
import threading
from typing import Any

from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Expr,
    SeqExpr,
    Var,
    VarBinding,
    as_expr,
    known_struct_info,
)
from tilesmith.relax.relations import BaseCheckResult, describe, struct_info_base_check
from tilesmith.relax.sequences import flatten_blocks
from tilesmith.relax.struct_info import ObjectStructInfo, StructInfo
from tilesmith.script.parsing import Parser
from tilesmith.support.errors import ScriptError

__all__ = ["GraphFunction", "current_function", "set_current_function"]

_active = threading.local()


class GraphFunction:
    """A function that is being parsed."""

    def __init__(self, parser: Parser, name: str, outer: GraphFunction | None) -> None:
        self.parser = parser
        self.name = name
        self.outer = outer
        self.builder = BlockBuilder() if outer is None else outer.builder
        self.sizes: dict[str, Any] = {} if outer is None else dict(outer.sizes)
        self.attrs: dict[str, Any] = {}
        self.blocks: list[list[BindingBlock]] = [[]]
        self.outputs: dict[int, set[str]] | None = None  # of the dataflow block, by statement
        self.statement = 0
        self.has_outputs = False  # whether the dataflow block has had its R.output
        self.result: Any = None
        self.constants: dict[int, tuple[Any, Constant]] = {}

    # Blocks

    def begin_block(self, dataflow: bool = False) -> None:
        """Begin a block of bindings."""
        if dataflow:
            self.builder.begin_dataflow_block()
        else:
            self.builder.begin_binding_block()

    def end_block(self) -> None:
        """End the block; drop it if it is empty."""
        block = self.builder.end_block()
        if block.bindings:
            self.blocks[-1].append(block)

    def sequence(self, body: Any) -> SeqExpr:
        """Return the blocks so far with a value."""
        return SeqExpr(flatten_blocks(self.blocks.pop()), body)

    def finish(self, result: Any) -> None:
        """Set the result of the function, which ends its last block."""
        self.result = self.builder.normalize_argument(self.value(result))
        self.end_block()
        self.begin_block()

    # Values

    def value(self, value: Any) -> Any:
        """Convert a statement's right side to an expression of the graph."""
        if hasattr(value, "__array__") and not isinstance(value, Expr):
            known = self.constants.get(id(value))
            if known is None:
                known = self.constants[id(value)] = (value, Constant(value))
            return known[1]
        if isinstance(value, (list, tuple)):
            return as_expr([self.value(item) for item in value])
        return as_expr(value)

    def new_var(self, name: str, info: StructInfo) -> Var:
        """Make the variable of a binding: a DataflowVar in a dataflow block unless it is an
        output.
        """
        if self.outputs is None or name in self.outputs.get(self.statement, ()):
            return Var(name, info)
        return DataflowVar(name, info)

    def bind(self, name: str, value: Any, annotation: StructInfo | None, node: ast.AST) -> Var:
        """Bind a value to a new variable and give the name to it.

        What a call is declared as is what is known about the variable, even if it is less than the
        call implies. Of other values the declaration is checked only.
        """
        value = self.builder.normalize(self.value(value))
        info = known_struct_info(value)
        if annotation is not None:
            check = struct_info_base_check(annotation, info)
            if check == BaseCheckResult.FAIL_L0:
                raise ScriptError(
                    f"'{name}' is declared as {describe(annotation)}, its value is {describe(info)}"
                )
            if isinstance(value, Call) or (
                isinstance(info, ObjectStructInfo) and not isinstance(value, Var)
            ):
                info = annotation
        var = self.new_var(name, info)
        self.builder.emit_normalized(VarBinding(var, value, self.parser.span(node)))
        self.parser.define(name, var)
        return var


def current_function() -> GraphFunction | None:
    """Return the function that is being parsed in this thread."""
    return getattr(_active, "function", None)


def set_current_function(function: GraphFunction | None) -> None:
    """Set the function that is being parsed in this thread; None after the outermost one."""
    _active.function = function
