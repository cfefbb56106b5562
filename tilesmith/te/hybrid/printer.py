"""Writes the statement of a schedule as hybrid script.

for i, realize B[i:i+1]: …      →      for i in range(8):
                                           B = allocate((1,), "float32", "global")
                                           …
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Select,
    StringImm,
    Sub,
    Var,
)
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import called_name
from tilesmith.ir.rules import NodeRules
from tilesmith.support.errors import UnsupportedError
from tilesmith.te.hybrid import calls
from tilesmith.te.tensor import Tensor
from tilesmith.tir.expr import ProducerLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    is_no_op,
)

__all__ = ["hybrid_source"]

_WORDS = {
    ForKind.SERIAL: "range", ForKind.PARALLEL: "parallel", ForKind.VECTORIZED: "vectorize",
    ForKind.UNROLLED: "unroll",
}  # fmt: skip

EXPRESSIONS: NodeRules[Callable[[_Writer, Any], str]] = NodeRules("hybrid script of expressions")
STATEMENTS: NodeRules[Callable[[_Writer, Any], None]] = NodeRules("hybrid script of statements")


def hybrid_source(body: Stmt, inputs: Sequence[Any], outputs: Sequence[Tensor], name: str) -> str:
    """Return the text of a function that does what a statement does."""
    writer = _Writer()
    parameters = []
    for one in inputs:
        label = writer.unique(one.name)
        parameters.append(label)
        if isinstance(one, Tensor):
            writer.tensors[one] = (label, [])
        else:
            writer.variables[one] = label
    writer.line(f"def {name}({', '.join(parameters)}):")
    writer.depth += 1
    results = []
    for tensor in outputs:
        label = writer.unique(tensor.name)
        writer.tensors[tensor] = (label, [])
        results.append(label)
        writer.line(f"{label} = output_tensor({writer.tuple(tensor.shape)}, '{tensor.dtype}')")
    writer.statement(body)
    writer.line(f"return {', '.join(results)}")
    return "\n".join(writer.lines) + "\n"


class _Writer:
    """The lines written so far, and the names of tensors and variables."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.tensors: dict[Any, tuple[str, list[PrimExpr]]] = {}  # name, first indices in memory
        self.variables: dict[Var, str] = {}
        self.taken: set[str] = {*calls.MATH, *calls.CASTS, *calls.LOOP_INTRIN, *calls.__all__}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def unique(self, wanted: str) -> str:
        """Return a name that is not taken."""
        label = "".join([one if one.isalnum() else "_" for one in wanted]) or "v"
        label = f"v_{label}" if label[0].isdigit() or keyword.iskeyword(label) else label
        number, found = 0, label
        while found in self.taken:
            number += 1
            found = f"{label}_{number}"
        self.taken.add(found)
        return found

    def variable(self, var: Var) -> str:
        """Name a variable that is defined here."""
        self.variables[var] = self.unique(var.name)
        return self.variables[var]

    def tuple(self, values: Sequence[PrimExpr]) -> str:
        texts = [self.text(value) for value in values]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def text(self, expr: PrimExpr) -> str:
        return EXPRESSIONS[expr.__class__](self, expr)

    def statement(self, stmt: Stmt) -> None:
        STATEMENTS[stmt.__class__](self, stmt)

    def element(self, tensor: Any, indices: Sequence[PrimExpr]) -> str:
        label, firsts = self.tensors[tensor]
        if firsts:
            indices = [
                index if is_const(first, 0) else index - first
                for index, first in zip(indices, firsts)
            ]
        return f"{label}[{', '.join([self.text(index) for index in indices]) or '0'}]"

    def block(self, stmt: Stmt) -> None:
        self.depth += 1
        before = len(self.lines)
        self.statement(stmt)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1


def _refused(node: Any) -> UnsupportedError:
    return UnsupportedError(
        f"hybrid script has nothing for {type(node).__name__} `{str(node)[:80]}`",
        notes=("build the schedule by tilesmith.build instead",),
    )


@EXPRESSIONS.handles(PrimExpr)
def _other(writer: _Writer, expr: PrimExpr) -> str:
    raise _refused(expr)


@EXPRESSIONS.handles(Var)
def _variable(writer: _Writer, var: Var) -> str:
    if var not in writer.variables:
        raise UnsupportedError(
            f"the variable '{var.name}' is neither an input nor a loop",
            notes=("give it among the inputs",),
        )
    return writer.variables[var]


@EXPRESSIONS.handles(IntImm)
def _integer(writer: _Writer, expr: IntImm) -> str:
    if expr.dtype == "int32":
        return str(expr.value)
    return str(bool(expr.value)) if expr.dtype.is_bool else f"{expr.dtype}({expr.value})"


@EXPRESSIONS.handles(FloatImm)
def _float(writer: _Writer, expr: FloatImm) -> str:
    if math.isinf(expr.value):
        return f"{'inf' if expr.value > 0 else 'ninf'}('{expr.dtype}')"
    if math.isnan(expr.value):
        raise _refused(expr)
    return f"{expr.dtype}({expr.value!r})"


@EXPRESSIONS.handles(StringImm)
def _string(writer: _Writer, expr: StringImm) -> str:
    return repr(expr.value)


@EXPRESSIONS.handles(ProducerLoad)
def _load(writer: _Writer, load: ProducerLoad) -> str:
    return writer.element(load.producer, load.indices)


@EXPRESSIONS.handles(Cast)
def _cast(writer: _Writer, expr: Cast) -> str:
    if str(expr.dtype) not in calls.CASTS:
        raise _refused(expr)
    return f"{expr.dtype}({writer.text(expr.value)})"


_SIGNS: dict[type, str] = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", LT: "<", LE: "<=", GT: ">",
    GE: ">=", EQ: "==", NE: "!=", And: "and", Or: "or",
}  # fmt: skip


@EXPRESSIONS.handles(*_SIGNS)
def _binary(writer: _Writer, expr: Any) -> str:
    return f"({writer.text(expr.a)} {_SIGNS[type(expr)]} {writer.text(expr.b)})"


@EXPRESSIONS.handles(Div)
def _divide(writer: _Writer, expr: Div) -> str:
    if not expr.dtype.is_float:
        raise _refused(expr)
    return f"({writer.text(expr.a)} / {writer.text(expr.b)})"


@EXPRESSIONS.handles(Min, Max)
def _extreme(writer: _Writer, expr: Any) -> str:
    name = "min" if isinstance(expr, Min) else "max"
    return f"{name}({writer.text(expr.a)}, {writer.text(expr.b)})"


@EXPRESSIONS.handles(Not)
def _negation(writer: _Writer, expr: Not) -> str:
    return f"(not {writer.text(expr.a)})"


@EXPRESSIONS.handles(Select)
def _select(writer: _Writer, expr: Select) -> str:
    return _choice(writer, expr.condition, expr.true_value, expr.false_value)


def _choice(writer: _Writer, condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> str:
    return f"({writer.text(a)} if {writer.text(condition)} else {writer.text(b)})"


@EXPRESSIONS.handles(Let)
def _let(writer: _Writer, expr: Let) -> str:
    return writer.text(substitute(expr.body, {expr.var: expr.value}))


@EXPRESSIONS.handles(Call)
def _call(writer: _Writer, call: Call) -> str:
    name = called_name(call).removeprefix("tir.")
    if name == "if_then_else":
        return _choice(writer, *call.args)
    if name not in calls.MATH and name != "likely":
        raise _refused(call)
    return f"{name}({', '.join([writer.text(one) for one in call.args])})"


# Statements


@STATEMENTS.handles(Stmt)
def _other_statement(writer: _Writer, stmt: Stmt) -> None:
    raise _refused(stmt)


@STATEMENTS.handles(SeqStmt)
def _sequence(writer: _Writer, stmt: SeqStmt) -> None:
    for one in stmt.seq:
        writer.statement(one)


@STATEMENTS.handles(Evaluate)
def _evaluate(writer: _Writer, stmt: Evaluate) -> None:
    if not is_no_op(stmt):
        raise _refused(stmt)


@STATEMENTS.handles(For)
def _loop(writer: _Writer, loop: For) -> None:
    label = writer.variable(loop.loop_var)
    ends = [writer.text(loop.extent)]
    if not is_const(loop.min, 0):
        ends = [writer.text(loop.min), writer.text(loop.min + loop.extent)]
    writer.line(f"for {label} in {_WORDS[loop.kind]}({', '.join(ends)}):")
    writer.block(loop.body)


@STATEMENTS.handles(IfThenElse)
def _branch(writer: _Writer, stmt: IfThenElse) -> None:
    writer.line(f"if {writer.text(stmt.condition)}:")
    writer.block(stmt.then_case)
    if stmt.else_case is not None:
        writer.line("else:")
        writer.block(stmt.else_case)


@STATEMENTS.handles(LetStmt)
def _binding(writer: _Writer, stmt: LetStmt) -> None:
    value = writer.text(stmt.value)
    writer.line(f"{writer.variable(stmt.var)} = {value}")
    writer.statement(stmt.body)


@STATEMENTS.handles(AssertStmt)
def _assertion(writer: _Writer, stmt: AssertStmt) -> None:
    writer.line(f"assert {writer.text(stmt.condition)}, {writer.text(stmt.message)}")
    writer.statement(stmt.body)


@STATEMENTS.handles(ProducerStore)
def _store(writer: _Writer, store: ProducerStore) -> None:
    value = writer.text(store.value)
    writer.line(f"{writer.element(store.producer, store.indices)} = {value}")


@STATEMENTS.handles(ProducerRealize)
def _memory(writer: _Writer, realize: ProducerRealize) -> None:
    tensor: Any = realize.producer
    if tensor not in writer.tensors:
        label = writer.unique(tensor.name)
        bounds: Sequence[Range] = realize.bounds
        shape = writer.tuple([one.extent for one in bounds]) if bounds else "(1,)"
        scope = realize.storage_scope or "global"
        writer.line(f"{label} = allocate({shape}, '{tensor.dtype}', '{scope}')")
        writer.tensors[tensor] = (label, [one.min for one in bounds])
    writer.statement(realize.body)


@STATEMENTS.handles(AttrStmt)
def _attribute(writer: _Writer, attribute: AttrStmt) -> None:
    if attribute.attr_key == "thread_extent":
        label = writer.variable(attribute.node.var)
        extent = writer.text(attribute.value)
        writer.line(f"for {label} in bind('{attribute.node.thread_tag}', {extent}):")
        writer.block(attribute.body)
        return
    if not attribute.attr_key.startswith("pragma_"):
        raise _refused(attribute)
    writer.line(f"# {attribute.attr_key}")
    writer.statement(attribute.body)
