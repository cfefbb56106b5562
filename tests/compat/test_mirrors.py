"""Module paths that only programs for `import tvm` know."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tilesmith as ts
from tilesmith.compat.tvm import install, uninstall
from tilesmith.compat.tvm.aliases import MODULES
from tilesmith.support.errors import UnsupportedError


@pytest.fixture
def module():
    """Imports a module of users' programs."""
    install()
    yield importlib.import_module
    uninstall()


@pytest.mark.parametrize(
    ("path", "name", "here"),
    [
        ("tvm.runtime.script_printer", "PrinterConfig", "ir.printing:PrinterConfig"),
        ("tvm.runtime.script_printer", "Scriptable", "ir:Node"),
        ("tvm.ir.type", "PointerType", "ir:PointerType"),
        ("tvm.arith.iter_affine_map", "subspace_divide", "arith:subspace_divide"),
        ("tvm.relax.op.nn.nn", "relu", "relax.op.nn:relu"),
        ("tvm.script.ir_builder", "IRBuilder", "script:IRBuilder"),
        ("tvm.script.ir_builder.base", "IRBuilderFrame", "script.builder:Frame"),
        ("tvm.script.ir_builder.ir.frame", "IRModuleFrame", "script.ir:ModuleFrame"),
        ("tvm.script.ir_builder.tir", "grid", "script.tir:grid"),
        ("tvm.script.ir_builder.tir.frame", "ForFrame", "script.tir_frames:ForFrame"),
        ("tvm.script.parser", "parse", "script:parse"),
        ("tvm.script.parser.core.entry", "parse", "script:parse"),
        ("tvm.script.parser.ir", "ir_module", "script:ir_module"),
        ("tvm.script.parser.ir.entry", "ir_module", "script:ir_module"),
        ("tvm.script.parser.tir", "serial", "script.tir:serial"),
        ("tvm.script.parser.tir.entry", "PtrProxy", "script.tir_types:PtrWord"),
        ("tvm.script.parser.tir.entry", "TIRMacro", "script.macros:ScriptMacro"),
        ("tvm.script.parser.relax.entry", "Tensor", "relax.annotations:Tensor"),
        ("tvm.target.codegen", "build_module", "compat.tvm.target_codegen:build_module"),
        ("tvm.target.target", "arm_cpu", "target:arm_cpu"),
        ("tvm.tir.tensor_intrin.cuda", "WMMA_SYNC_16x16x16_f16f16f32_INTRIN",
         "schedule_rules.intrinsics.cuda:WMMA_SYNC_16x16x16_f16f16f32_INTRIN"),
        ("tvm.tir.transform.transform", "Simplify", "tir.transform:Simplify"),
        ("tvm.tir.transform", "UnifiedStaticMemoryPlanner",
         "tir.usmp.transform:UnifiedStaticMemoryPlanner"),
        ("tvm.tir.usmp.utils", "PoolAllocation", "tir.usmp:PoolAllocation"),
        ("tvm.tir.usmp.analysis.analysis", "extract_buffer_info",
         "tir.usmp.analysis:extract_buffer_info"),
        ("tvm.tirx", "SBlock", "tir:Block"),
    ],
)  # fmt: skip
def test_a_name_is_one_of_ours(module, path, name, here):
    ours, _, attribute = here.partition(":")
    expected = getattr(importlib.import_module(f"tilesmith.{ours}"), attribute)
    assert getattr(module(path), name) is expected


OTHERWISE = {"tvm.codegen"}  # that of 2018 is `tvm.target.codegen`; ours is no part of the API


@pytest.mark.parametrize("path", [path for path in MODULES if path.startswith("tvm.")])
def test_a_row_hides_no_module_of_ours(module, path):
    """Where a module here has the same path, the row leads to one with all of its names."""
    ours = Path(ts.__file__).parent.joinpath(*path.split(".")[1:])
    if path in OTHERWISE or not (ours.with_suffix(".py").exists() or ours.is_dir()):
        return
    here = importlib.import_module("tilesmith" + path.removeprefix("tvm"))
    for name in here.__all__:
        assert getattr(module(path), name) is getattr(here, name)


@pytest.mark.parametrize(
    "name",
    ["LowerTIRx", "LowerTIRxOpaque", "TilePrimitiveDispatch"],
)
def test_passes_without_meaning_here_say_so(module, name):
    with pytest.raises(UnsupportedError, match=name):
        getattr(module("tvm.tirx.transform"), name)()


def test_modules_are_built_by_the_name_that_users_know(module):
    build = module("tvm.target.codegen").build_module
    assert build(ts.IRModule({}), "llvm").type_key == "llvm"
