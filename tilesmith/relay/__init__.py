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

_LAZY = {
    "annotation": "tilesmith.relay.op.annotation",
    "backend": "tilesmith.relay.backend",
    "build_module": "tilesmith.relay.build_module",
    "image": "tilesmith.relay.op.image",
    "nn": "tilesmith.relay.op.nn",
    "op": "tilesmith.relay.op",
    "random": "tilesmith.relay.op.random",
    "to_relax": "tilesmith.relay.translate:to_relax",
    "vision": "tilesmith.relay.op.vision",
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
