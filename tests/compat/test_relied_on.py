"""What programs written for `import tvm` rely on besides names."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilesmith import te, tir
from tilesmith.ir import PointerType, PrimType, TupleType, Var
from tilesmith.relax import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

MODULES = (
    "tvm.container",
    "tvm.relax.ir",
    "tvm.relax.ir.instrument",
    "tvm.relax.testing.vm",
    "tvm.relax.transform.legalize_ops.common",
    "tvm.relax.transform.transform",
    "tvm.runtime.object",
    "tvm.script.parser.relax.entry",
    "tvm.tir.schedule.testing",
)
PROGRAMS = {
    "names": """
        import tvm
        from tvm import relax, te, tir
        assert isinstance(tir.Var("x", "int32"), tvm.Object) and tvm.runtime.Object is tvm.Object
        assert te.AXIS_SEPARATOR is tir.IndexMap.AXIS_SEPARATOR
        assert relax.expr.GlobalVar is tvm.ir.GlobalVar and relax.TupleType is tvm.ir.TupleType
        assert tvm.testing.skip_if_wheel_test(len) is len and tvm.testing.requires_mrvl
        assert str(tir.Any()) == "T.Any()" and tir.Any().dtype == "int32"
    """,
    "comparisons are objects": """
        from tvm import tir
        x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
        assert isinstance(x == y, tir.expr.EqualOp) and isinstance(x != y, tir.expr.NotEqualOp)
        assert type((x == y).asobject()) is tir.EQ and type((x != y).asobject()) is tir.NE
    """,
    "traces run with the names of tir": """
        from tvm import te, tir
        from tvm.script import tir as T
        a = te.placeholder((8, 8), name="A")
        func = te.create_prim_func([a, te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")])
        sch = tir.Schedule(func)
        block = sch.get_block("B")
        index_map = tir.IndexMap.from_func(
            lambda i, j: (j, i), inverse_index_map=lambda j, i: (i, j), index_dtype="int32")
        sch.transform_layout(block, ("write", 0), index_map)
        again = tir.Schedule(func)
        text = "\\n".join(sch.trace.as_python())
        exec(text, {**vars(tir), "T": T, "sch": again})
        tir.schedule.testing.assert_structural_equal_ignore_global_symbol(
            sch.mod["main"], again.mod["main"].with_attr("global_symbol", "other"))
        tir.schedule.testing.verify_trace_roundtrip(sch, func)
        first = sch.trace.insts[0]
        assert first.same_as(first) and not first.same_as(sch.trace.insts[1])
    """,
    "intrinsics": """
        from tvm import te, tir
        from tvm.tir.tensor_intrin import arm_cpu
        from tvm.tir.tensor_intrin.hexagon import VDMPY_i16i16i32_INTRIN, VRMPY_u8u8i32_INTRIN
        assert arm_cpu.DP4A_S8S8S32_INTRIN == "dp4a_s8s8s32" and arm_cpu.DP4A_U8U8U32_INTRIN

        def product(lanes, group, dtype, intrinsic):
            a = te.placeholder((group,), dtype, name="A")
            b = te.placeholder((lanes, group), dtype, name="B")
            k = te.reduce_axis((0, group), name="k")
            c = te.compute((lanes,), lambda i: te.sum(
                a[k].astype("int32") * b[i, k].astype("int32"), axis=k), name="C")
            sch = tir.Schedule(te.create_prim_func([a, b, c]))
            sch.decompose_reduction("C", sch.get_loops("C")[0])
            sch.tensorize(sch.get_loops("C_update")[0], intrinsic)
            return sch.mod.script()

        assert "vrmpyubv" in product(32, 4, "uint8", VRMPY_u8u8i32_INTRIN)
        assert "vdmpyhvsat" in product(32, 2, "int16", VDMPY_i16i16i32_INTRIN)
    """,
    "intrinsics of GPUs": """
        from tvm import tir
        from tvm.tir.tensor_intrin import cuda, rocm
        from tvm.tir.tensor_intrin.x86 import dot_product_16x4_u8i8i32_vnni
        for module in (cuda, rocm):
            for name in dir(module):
                if "_INTRIN" in name:
                    assert tir.TensorIntrin.get(getattr(module, name)).impl is not None
        intrin = tir.TensorIntrin.get("dot_16x4_vnni")
        assert intrin.impl.same_as(dot_product_16x4_u8i8i32_vnni)
    """,
    "names of tir": """
        import tvm
        from tvm import te, tir
        from tvm.tir.expr import IntImmEnum, convert
        from tvm.tir.schedule.state import CachedFlags
        assert convert(expr=3).value == 3 and IntImmEnum(2).asobject().dtype == "int32"
        assert (tir.IntImm("int32", 1) + IntImmEnum(2)).value == 3
        assert CachedFlags._fields == ("affine_binding", "region_cover", "stage_pipeline")
        a = te.placeholder((8,), name="A")
        func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
        info = tir.BlockDependenceInfo(tvm.IRModule({"main": func}))
        block = func.body.block.body.body.block
        assert info.get_sref(block).stmt.same_as(block)
        assert all(hasattr(tir.Schedule, name) for name in ("state", "trace", "func_working_on"))
        sch = tir.Schedule(func)
        sch.parallel(sch.get_loops("B")[0])
        assert sch.func_working_on.name_hint == "main" and len(sch.trace.insts) == 3
        assert sch.state.mod.same_as(sch.mod)
    """,
    "legalization and checks of graphs": """
        import tvm
        from tvm import relax
        from tvm.relax.ir.instrument import WellFormedInstrument
        from tvm.relax.transform.legalize_ops.common import register_legalize
        from tvm.script import relax as R

        @register_legalize("relax.erf")
        def replaced(bb, call):
            return relax.op.negative(call.args[0])

        @tvm.script.ir_module
        class Model:
            @R.function
            def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                y = R.erf(x)
                return y

        with tvm.transform.PassContext(instruments=[WellFormedInstrument()]):
            made = relax.transform.LegalizeOps()(Model)
        assert "erf" not in made.script() and "R.negative" in made.script()
        x = relax.Var("x", R.Tensor((4,), "float32"))
        y = relax.Var("y", R.Tensor((4,), "float32"))
        broken = tvm.IRModule({"main": relax.Function([x], y, R.Tensor((4,), "float32"))})
        try:
            with tvm.transform.PassContext(instruments=[WellFormedInstrument()]):
                relax.transform.LegalizeOps()(broken)
        except tvm.TVMError as error:
            assert "not well-formed before the pass" in str(error)
        else:
            raise SystemExit("no error")
    """,
}


def run(folder: Path, code: str) -> None:
    begin = "import tilesmith.compat.tvm as alias\nalias.install()\n"
    program = folder / "program.py"
    program.write_text(begin + textwrap.dedent(code))
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_of_users_programs(tmp_path):
    lines = [f"importlib.import_module({module!r})" for module in MODULES]
    run(tmp_path, "\n".join(["import importlib", *lines]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    run(tmp_path, PROGRAMS[name])


@pytest.mark.parametrize(
    "make",
    [
        lambda n: PrimType("int32"),
        lambda n: PointerType(PrimType("int32"), "shared"),
        lambda n: TupleType([PrimType("int32")]),
        lambda n: TensorStructInfo((2, n), "float32"),
        lambda n: ShapeStructInfo((n, 4)),
        lambda n: TupleStructInfo([PrimStructInfo("int64"), TensorStructInfo((n,), "int8")]),
    ],
)
def test_types_compare_by_structure(make):
    size = Var("n", "int64")
    assert make(size) == make(size) and hash(make(size)) == hash(make(size))
    assert make(size) != PrimType("int8") and make(size) != "int32"


def test_types_differ():
    assert PrimType("int32") != PrimType("int64")
    assert TensorStructInfo((2, 3), "float32") != TensorStructInfo((3, 2), "float32")
    assert len({PrimType("int32"), PrimType("int32"), PrimType("int8")}) == 2


def test_an_unknown_integer_equals_only_itself():
    assert not tir.Any().same_as(tir.Any())
    value = tir.Any()
    assert te.Tensor is not None and str(value + 1) == "T.Any() + 1"
