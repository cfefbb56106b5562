"""The graph level: functions of bindings in A-normal form, their operators and passes.

Where to start:

* `BlockBuilder` builds functions; `Var`, `const`, `Call`, `Tuple`, … are the nodes (`expr.py`),
  `TensorStructInfo` and its siblings what is known about values (`struct_info.py`).
* `op.*` makes calls of operators; `ir.Op.get("relax.add").spec` is the record behind one
  (`op/spec.py`: inference, compute, fusion kind, numpy evaluation).
* `PyExprVisitor`, `PyExprMutator` walk and rewrite (`expr_functor.py`); `analysis.*` answers
  questions; `transform.*` are the passes; `dpl` matches patterns.
* `interpreter.run(mod, "main", *arrays)` runs a module with numpy: the oracle.
* `script.py` parses the `R` dialect, `printer.py` prints it.
* `training` makes losses, optimizers and the loop; `distributed` spreads tensors over workers;
  `exec_builder` builds programs of the virtual machine by hand.
* `build`, `get_pipeline` are doors to `driver`; `VirtualMachine` runs what they make.
"""

from tilesmith.relax.attrs import Attrs, DictAttrs, Schema
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExprWithOp,
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
    const,
    extern,
    get_shape_of,
    make_shape,
)
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.lazy import lazy_attributes

# After the nodes: names that load at first use.
_LAZY = {
    "BlockBuilder": "tilesmith.relax.block_builder:BlockBuilder",
    "DataflowBlockRewrite": "tilesmith.relax.binding_rewrite:DataflowBlockRewrite",
    "ExecBuilder": "tilesmith.relax.exec_builder:ExecBuilder",
    "Executable": "tilesmith.runtime.executable:Executable",
    "ExprFunctor": "tilesmith.relax.expr_functor:ExprFunctor",
    "ExprMutator": "tilesmith.relax.expr_functor:ExprMutator",
    "ExprVisitor": "tilesmith.relax.expr_functor:ExprVisitor",
    "GlobalVar": "tilesmith.ir:GlobalVar",
    "PyExprMutator": "tilesmith.relax.expr_functor:PyExprMutator",
    "PyExprVisitor": "tilesmith.relax.expr_functor:PyExprVisitor",
    "VMInstrumentReturnKind": "tilesmith.runtime.relax_vm:VMInstrumentReturnKind",
    "VirtualMachine": "tilesmith.runtime.relax_vm:VirtualMachine",
    "analysis": "tilesmith.relax.analysis",
    "backend": "tilesmith.relax.backend",
    "backend_tir": "tilesmith.relax.backend_tir",
    "binding_rewrite": "tilesmith.relax.binding_rewrite",
    "block_builder": "tilesmith.relax.block_builder",
    "call_dps_packed": "tilesmith.relax.op:call_dps_packed",
    "call_pure_packed": "tilesmith.relax.op:call_pure_packed",
    "call_tir": "tilesmith.relax.op:call_tir",
    "call_tir_inplace": "tilesmith.relax.op:call_tir_inplace",
    "call_tir_with_grad": "tilesmith.relax.op:call_tir_with_grad",
    "convert_to_expr": "tilesmith.relax.utils:convert_to_expr",
    "distributed": "tilesmith.relax.distributed",
    "dpl": "tilesmith.relax.dpl",
    "exec_builder": "tilesmith.relax.exec_builder",
    "expr_functor": "tilesmith.relax.expr_functor",
    "frontend": "tilesmith.relax.frontend",
    "interpreter": "tilesmith.relax.interpreter",
    "op": "tilesmith.relax.op",
    "te_tensor": "tilesmith.relax.te_arguments:te_tensor",
    "training": "tilesmith.relax.training",
    "transform": "tilesmith.relax.transform",
    "utils": "tilesmith.relax.utils",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = [
    "Attrs", "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataTypeImm",
    "DataflowBlock", "DataflowVar", "DictAttrs", "Expr", "ExprWithOp", "ExternFunc",
    "FuncStructInfo", "Function", "If", "MatchCast", "ObjectStructInfo", "PrimStructInfo",
    "PrimValue", "Schema", "SeqExpr", "ShapeExpr", "ShapeStructInfo", "StringImm", "StructInfo",
    "TensorStructInfo", "Tuple", "TupleGetItem", "TupleStructInfo", "Var", "VarBinding", "const",
    "extern", "get_shape_of", "make_shape",
]  # fmt: skip
