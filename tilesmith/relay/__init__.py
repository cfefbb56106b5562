"""The functional door into the graph IR: expressions that nest, functions as values, let, match.

Where to start:

* `var`, `const`, `Function`, `Call`, `Let`, `If`, … make programs (`expr.py`, `function.py`,
  `adt.py`); types are in `ty.py`.
* `transform.InferType` finds the types (`infer_type.py`); `expr.checked_type` shows them.
* `parse` and `astext` are the text format (`parser.py`, `printer.py`).
* `ExprVisitor`, `ExprMutator` walk and rewrite (`expr_functor.py`); `analysis.*` answers questions.
"""

from tilesmith.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilesmith.relay.expr import (
    Call,
    Constant,
    Expr,
    ExprWithOp,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    TempExpr,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    const,
    var,
)
from tilesmith.relay.function import Function, FunctionWithFields
from tilesmith.relay.operator_names import OPERATORS
from tilesmith.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
    is_dynamic,
    scalar_type,
)
from tilesmith.support.lazy import lazy_attributes

# After the nodes: names that load at first use.
_LAZY = {
    "ExprFunctor": "tilesmith.relay.expr_functor:ExprFunctor",
    "ExprMutator": "tilesmith.relay.expr_functor:ExprMutator",
    "ExprVisitor": "tilesmith.relay.expr_functor:ExprVisitor",
    "MixedModeMutator": "tilesmith.relay.expr_functor:MixedModeMutator",
    "MixedModeVisitor": "tilesmith.relay.expr_functor:MixedModeVisitor",
    "Prelude": "tilesmith.relay.prelude:Prelude",
    "ScopeBuilder": "tilesmith.relay.scope_builder:ScopeBuilder",
    "SequentialSpan": "tilesmith.ir:SequentialSpan",
    "SourceName": "tilesmith.ir:SourceName",
    "Span": "tilesmith.ir:Span",
    "SpanCheck": "tilesmith.relay.span_check:SpanCheck",
    "TypeFunctor": "tilesmith.relay.type_functor:TypeFunctor",
    "TypeMutator": "tilesmith.relay.type_functor:TypeMutator",
    "TypeVisitor": "tilesmith.relay.type_functor:TypeVisitor",
    "analysis": "tilesmith.relay.analysis",
    "annotation": "tilesmith.relay.op.annotation",
    "astext": "tilesmith.relay.base:astext",
    "backend": "tilesmith.relay.backend",
    "base": "tilesmith.relay.base",
    "build_config": "tilesmith.relay.transform.pass_classes:build_config",
    "build_module": "tilesmith.relay.build_module",
    "contrib": "tilesmith.relay.op.contrib",
    "data_dep_optimization": "tilesmith.relay.data_dep_optimization",
    "dataflow_pattern": "tilesmith.relay.dataflow_pattern",
    "dyn": "tilesmith.relay.op.dyn",
    "frontend": "tilesmith.relay.frontend",
    "fromtext": "tilesmith.relay.parser:fromtext",
    "image": "tilesmith.relay.op.image",
    "load_param_dict": "tilesmith.runtime.params:load_param_dict",
    "loops": "tilesmith.relay.loops",
    "memory": "tilesmith.relay.op.memory",
    "memory_plan": "tilesmith.relay.transform.memory_plan",
    "nn": "tilesmith.relay.op.nn",
    "op": "tilesmith.relay.op",
    "parse": "tilesmith.relay.parser:parse",
    "parse_expr": "tilesmith.relay.parser:parse_expr",
    "parser": "tilesmith.relay.parser",
    "param_dict": "tilesmith.runtime.params",
    "prelude": "tilesmith.relay.prelude",
    "pretty_print": "tilesmith.relay.base:pretty_print",
    "qnn": "tilesmith.relay.qnn",
    "quantize": "tilesmith.relay.quantize",
    "random": "tilesmith.relay.op.random",
    "save_param_dict": "tilesmith.runtime.params:save_param_dict",
    "scope_builder": "tilesmith.relay.scope_builder",
    "testing": "tilesmith.relay.testing",
    "to_relax": "tilesmith.relay.translate:to_relax",
    "to_relay": "tilesmith.relay.translate_bindings:to_relay",
    "transform": "tilesmith.relay.transform",
    "vision": "tilesmith.relay.op.vision",
    "vm": "tilesmith.relay.backend.vm",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY, finder=OPERATORS)

__all__ = [
    "Any", "Call", "Clause", "Constant", "Constructor", "Expr", "ExprWithOp", "FuncType",
    "Function", "FunctionWithFields", "GlobalTypeVar", "GlobalVar", "If", "IncompleteType", "Let",
    "Match", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard",
    "RefCreate", "RefRead", "RefType", "RefWrite", "ShapeVar", "TempExpr", "TensorType", "Tuple",
    "TupleGetItem", "TupleType", "TupleWrapper", "Type", "TypeCall", "TypeConstraint", "TypeData",
    "TypeKind", "TypeRelation", "TypeVar", "Var", "bind", "const", "is_dynamic", "scalar_type",
    "var",
]  # fmt: skip
