"""Lists the spellings of 2018 and 2019 (0.5, 0.6), when all of the package stood at its top.

The tables have the form of those in ``aliases.py``, which takes them in.
"""

from __future__ import annotations

_HERE = "tilesmith.compat.tvm."
_OLD = _HERE + "old_names:"
_BUILD = {
    "BuildConfig": _HERE + "build_config:BuildConfig",
    "build_config": _HERE + "build_config:build_config",
}
_EXPRESSIONS = {
    "Expr": "tilesmith.ir:PrimExpr",
    "UIntImm": "tilesmith.ir:IntImm",
    "ConstExpr": "tilesmith.ir:PrimExpr",
    "Load": "tilesmith.tir:BufferLoad",
    "BinaryOpExpr": "tilesmith.ir.expr:BinaryOp",
    "CmpExpr": "tilesmith.ir.expr:CompareOp",
    "LogicalExpr": "tilesmith.ir.expr:LogicalOp",
}
_STATEMENTS = {
    "Block": "tilesmith.tir:SeqStmt",
    "Store": "tilesmith.tir:BufferStore",
    "Provide": "tilesmith.tir:BufferStore",
    "Realize": "tilesmith.tir:BufferRealize",
}
_OF_TENSORS = (
    "compute", "create_schedule", "extern", "placeholder", "reduce_axis", "size_var", "tag_scope",
    "thread_axis", "var", "scan", "decl_tensor_intrin",
)  # fmt: skip
_OF_SCALARS = (
    "abs", "all", "any", "atan", "call_extern", "call_llvm_intrin", "call_packed",
    "call_pure_extern", "ceil", "comm_reducer", "const", "cos", "decl_buffer", "div", "erf", "exp",
    "floor", "floordiv", "floormod", "fmod", "if_then_else", "indexdiv", "indexmod", "isnan",
    "likely", "log", "max", "max_value", "min", "min_value", "nearbyint", "popcount", "power",
    "round", "rsqrt", "sigmoid", "sin", "sqrt", "sum", "tanh", "trunc", "truncdiv", "truncmod",
)  # fmt: skip
_INTRINSICS = {
    "call_intrin": _OLD + "call_intrin",
    "call_pure_intrin": _OLD + "call_intrin",
    "register_intrin_rule": _OLD + "register_intrin_rule",
    "select": "tilesmith.tir:Select",
}

MODULES: dict[str, str] = {
    "tvm.api": "tvm",
    "tvm.attrs": "tvm.ir.attrs",
    "tvm.build_module": "tvm.driver.build_module",
    "tvm.codegen": "tvm.target.codegen",
    "tvm.collections": "tvm.ir.container",
    "tvm.contrib.rpc": "tvm.rpc",
    "tvm.contrib.util": "tvm.contrib.utils",
    "tvm.expr": "tvm.tir.expr",
    "tvm.generic": "tvm.tir.generic",
    "tvm.hybrid": "tvm.te.hybrid",
    "tvm.intrin": "tilesmith.tir",
    "tvm.ir_builder": "tvm.tir.ir_builder",
    "tvm.ir_pass": _HERE + "ir_pass",
    "tvm.make": _HERE + "make",
    "tvm.module": "tvm.runtime.module",
    "tvm.node": "tvm.runtime",
    "tvm.schedule": "tvm.te.schedule",
    "tvm.stmt": "tvm.tir.stmt",
    "tvm.tensor": "tvm.te",
}

NAMES: dict[str, dict[str, str]] = {
    "tvm": {
        **{name: "tilesmith.te:" + name for name in _OF_TENSORS},
        **{name: "tilesmith.tir:" + name for name in _OF_SCALARS},
        **_INTRINSICS,
        **_BUILD,
        **{name: _OLD + name for name in ("float32", "handle", "int32")},
        "TVMContext": "tilesmith.runtime:Device",
        "get_env_func": "tilesmith.ir:EnvFunc.get",
        "load_json": "tilesmith.ir:load_json",
        "save_json": "tilesmith.ir:save_json",
        "register_node": "tilesmith.ir.node:register_object",
    },
    "tvm.arith": {
        "DeduceBound": "tilesmith.arith:deduce_bound",
        "DetectClipBound": "tilesmith.arith:detect_clip_bound",
        "DetectLinearEquation": "tilesmith.arith:detect_linear_equation",
    },
    "tvm.driver.build_module": {
        **_BUILD,
        "OperatorModule": _HERE + "operator_module:OperatorModule",
        "get_binds": "tilesmith.te.arguments:get_binds",
    },
    "tvm.build_module": {"current_build_config": _HERE + "build_config:BuildConfig.current"},
    "tvm.expr": _EXPRESSIONS,
    "tvm.intrin": _INTRINSICS,
    "tvm.make": {"UIntImm": "tilesmith.ir:IntImm", "node": "tilesmith.ir:make_node"},
    "tvm.module": {
        "load": "tilesmith.runtime:load_module",
        "system_lib": "tilesmith.runtime:system_lib",
    },
    "tvm.nd": {"TVMContext": "tilesmith.runtime:Device", "context": "tilesmith.runtime:device"},
    "tvm.node": {"Node": "tilesmith.ir:Node", "NodeBase": "tilesmith.ir:Node"},
    "tvm.schedule": {
        "Buffer": "tilesmith.tir:Buffer",
        "IterVar": "tilesmith.tir:IterVar",
        "create_schedule": "tilesmith.te:create_schedule",
    },
    "tvm.stmt": _STATEMENTS,
    "tvm.target": {"current_target": _OLD + "current_target"},
}
