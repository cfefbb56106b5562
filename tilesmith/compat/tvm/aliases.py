"""Spellings of several generations of programs, and what they mean here.

``MODULES`` maps a module of users' programs to the module here; what is not listed has the same
path. ``NAMES`` maps a module of users' programs to further names in it ("module:attribute", or
"module" for a module). Names that a module has here need no row.
"""

from __future__ import annotations

MODULES: dict[str, str] = {
    "tvm": "tilesmith",
    "tvm._ffi": "tilesmith.runtime",
    "tvm._ffi.base": "tilesmith.error",
    "tvm._ffi.registry": "tilesmith.runtime.registry",
    "tvm.contrib.graph_runtime": "tilesmith.contrib.graph_executor",
    "tvm.driver.build_module": "tilesmith.lowering",
    "tvm.ffi": "tilesmith.runtime",
    "tvm.ir.attrs": "tilesmith.ir",
    "tvm.ir.base": "tilesmith.ir",
    "tvm.ir.container": "tilesmith.ir",
    "tvm.ir.function": "tilesmith.ir",
    "tvm.ir.global_info": "tilesmith.ir",
    "tvm.instrument": "tilesmith.ir.instrument",
    "tvm.ir.transform": "tilesmith.ir.transform",
    "tvm.ndarray": "tilesmith.runtime.nd",
    "tvm.nd": "tilesmith.runtime.nd",
    "tvm.relax.vm": "tilesmith.driver.relax_build",
    "tvm.relax.vm_build": "tilesmith.driver.relax_build",
    "tvm.runtime.vm": "tilesmith.runtime.relax_vm",
    "tvm.s_tir": "tilesmith.tir",
    "tvm.script.parser.relax": "tilesmith.relax.script",
    "tvm.script.relax": "tilesmith.relax.script",
    "tvm.tir.analysis.analysis": "tilesmith.tir.analysis",
    "tvm.tir.block_dependence_info": "tilesmith.tir.schedule.block_dependence_info",
    "tvm.tir.block_scope": "tilesmith.tir.analysis.block_scope",
    "tvm.tirx": "tilesmith.tir",
    "tvm.transform": "tilesmith.ir.transform",
    "topi": "tilesmith.topi",
}

_TE = "tilesmith.te:"
_TIR = "tilesmith.tir:"

NAMES: dict[str, dict[str, str]] = {
    "tvm": {
        # 0.5 and 0.6: tensor expressions at the top
        **{
            name: _TE + name
            for name in (
                "placeholder",
                "compute",
                "reduce_axis",
                "thread_axis",
                "var",
                "extern",
                "tag_scope",
            )
        },
        **{
            name: _TIR + name
            for name in (
                "sum",
                "min",
                "max",
                "all",
                "any",
                "if_then_else",
                "exp",
                "log",
                "sqrt",
                "tanh",
                "floor",
                "ceil",
                "round",
                "abs",
                "power",
                "popcount",
                "decl_buffer",
                "call_extern",
                "call_packed",
                "call_pure_extern",
                "select",
                "comm_reducer",
                "likely",
                "const",
                "min_value",
                "max_value",
            )
        },
        "context": "tilesmith.runtime.devices:device",
        "cl": "tilesmith.runtime.devices:opencl",
        "mtl": "tilesmith.runtime.devices:metal",
        "convert": "tilesmith.compat.tvm.convert:convert",
        "expr": "tilesmith.tir",
        "instrument": "tilesmith.ir.instrument",
        "stmt": "tilesmith.tir",
        "select": "tilesmith.tir:Select",
        "Target": "tilesmith.target:Target",
        "ndarray": "tilesmith.runtime.nd",
        "register_global_func": "tilesmith.runtime.registry:register_func",
        "tirx": "tilesmith.tir",
        "s_tir": "tilesmith.tir",
    },
    "tvm.driver": {"build": "tilesmith.lowering:build", "lower": "tilesmith.lowering:lower"},
    "tvm.error": {"TVMError": "tilesmith.error:TilesmithError"},
    "tvm.ir": {
        "Array": "builtins:tuple",
        "Attrs": "tilesmith.relax.attrs:Attrs",
        "DictAttrs": "tilesmith.relax.attrs:DictAttrs",
        "Map": "collections.abc:Mapping",
        "RelayExpr": "tilesmith.ir:RelaxExpr",
    },
    "tvm.ir.attrs": {
        "Attrs": "tilesmith.relax.attrs:Attrs",
        "DictAttrs": "tilesmith.relax.attrs:DictAttrs",
    },
    "tvm.ir.container": {"Array": "builtins:tuple", "Map": "collections.abc:Mapping"},
    "tvm.relax": {
        "add": "tilesmith.relax.op:add",
        "multiply": "tilesmith.relax.op:multiply",
        "vm": "tilesmith.driver.relax_build",
        "vm_build": "tilesmith.driver.relax_build",
    },
    "tvm.relax.vm": {
        "Executable": "tilesmith.runtime.executable:Executable",
        "VirtualMachine": "tilesmith.runtime.relax_vm:VirtualMachine",
    },
    "tvm.runtime": {
        "Tensor": "tilesmith.runtime.ndarray:NDArray",
        "convert": "tilesmith.compat.tvm.convert:convert",
        "tensor": "tilesmith.runtime.nd:array",
    },
    "tvm.target": {"create": "tilesmith.target:Target"},
    "tvm.tir.block_scope": {"StmtSRef": "tilesmith.tir.schedule:StmtSRef"},
    "tvm.tir": {"select": "tilesmith.tir:Select", "SBlock": "tilesmith.tir:Block"},
}
