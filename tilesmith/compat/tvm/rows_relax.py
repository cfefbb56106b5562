"""Lists spellings of Relax, the graph level.

The tables have the form of those in ``aliases.py``, which takes them in.
"""

from __future__ import annotations

_HERE = "tilesmith.compat.tvm."
_SIZE = {"PrimExprLike": _HERE + "relax_types:PrimExprLike"}
_OP = "tilesmith.relax.op:"

MODULES: dict[str, str] = {
    "tvm.relax.distributed.transform.transform": "tilesmith.relax.distributed.transform",
    "tvm.relax.op.ccl.ccl": "tilesmith.relax.op.ccl",
    "tvm.relax.op.distributed": "tilesmith.relax.op.dist",
    "tvm.relax.op.distributed.distributed": "tilesmith.relax.op.dist",
    "tvm.relax.op.nn.nn": "tilesmith.relax.op.nn",
    "tvm.relax.op.op_attrs": _HERE + "relax_attrs",
    "tvm.relax.op.vm.vm": "tilesmith.relax.op.vm",
    "tvm.relax.testing.attention": _HERE + "relax_testing_models",
    "tvm.relax.testing.lib_comparator": _HERE + "relax_lib_comparator",
    "tvm.relax.testing.matmul": _HERE + "relax_testing_models",
    "tvm.relax.testing.runtime_builtin": _HERE + "relax_runtime_builtin",
    "tvm.relax.testing.transform": _HERE + "relax_testing_transform",
    "tvm.relax.testing.vm": _HERE + "relax_testing_vm",
    "tvm.relax.type_converter": _HERE + "args_converter",
}

NAMES: dict[str, dict[str, str]] = {
    "tvm.relax": {
        "FuncType": "tilesmith.ir:FuncType",
        "Id": "tilesmith.relax.expr:Var",  # a variable is its own identifier
        "Span": "tilesmith.ir:Span",
        "Type": "tilesmith.ir:Type",
        "args_converter": _HERE + "args_converter:args_converter",
    },
    "tvm.relax.expr": {
        "GlobalVar": "tilesmith.ir:GlobalVar",
        "Id": "tilesmith.relax.expr:Var",
        "te_tensor": "tilesmith.relax.te_arguments:te_tensor",
    },
    "tvm.relax.op.base": {
        "py_print": "builtins:print",
        **{
            name: f"{_HERE}relax_numpy:{name}"
            for name in (
                "relax_assert_op",
                "relax_print",
                "relax_shape_to_tensor",
                "render_object",
            )
        },
    },
    "tvm.relax.op.create": _SIZE,
    "tvm.relax.op.image.image": _SIZE,
    "tvm.relax.op.index": _SIZE,
    "tvm.relax.op.manipulate": {
        **_SIZE,
        **{
            name: _OP + name
            for name in (
                "collapse_sum_like",
                "expand_dims",
                "flatten",
                "reshape",
                "scatter_elements",
                "scatter_nd",
                "squeeze",
            )
        },
    },
    "tvm.relax.op.memory.view": _SIZE,
    "tvm.relax.op.search": {name: _OP + name for name in ("argmax", "argmin", "where")},
    "tvm.relax.op.set": {
        name: f"{_HERE}relax_numpy:{name}" for name in ("numpy_nonzero", "numpy_unique")
    },
}
