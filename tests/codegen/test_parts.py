"""The parts of the emitters, each alone."""

import pytest

from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.module import emit_source
from tilesmith.codegen.c.rules import INTRINSICS as C_RULES
from tilesmith.codegen.c.rules import handles as handles_in_c
from tilesmith.codegen.c_family.lines import CommonLines
from tilesmith.codegen.c_family.pieces import ATOM, SUM
from tilesmith.codegen.llvm import emit_text
from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.machine import Machine
from tilesmith.codegen.llvm.memo import Memo
from tilesmith.codegen.llvm.metadata import Metadata
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.llvm.operations import compare, float_operation
from tilesmith.codegen.llvm.rules import INTRINSICS, handles
from tilesmith.codegen.outcomes import ModuleOutcomes
from tilesmith.ir import Call, GlobalVar, IRModule, Op, StringImm, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.tir import AssertStmt, BufferStore, Evaluate, PrimFunc, decl_buffer

PLAIN = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")


@pytest.fixture
def builder():
    return Builder("f", Machine(PLAIN))


def test_builder_numbers_its_names(builder):
    first = builder.define("add i32 1, 2")
    second = builder.define("add i32 3, 4", "sum")
    assert builder.lines == [f"  {first} = add i32 1, 2", f"  {second} = add i32 3, 4"]
    assert first != second and second.startswith("%sum.")


def test_rare_blocks_stand_at_the_end(builder):
    builder.write("first")
    with builder.rare_block("failed") as lines:
        builder.write("rare")
        assert lines == ["failed:", "  rare"]
    builder.write("second")
    assert builder.lines == ["  first", "  second"]
    assert builder.tail == ["failed:", "  rare"]


def test_lanes_of_scalable_vectors_are_refused(builder):
    vector = DataType("float32xvscalex4")
    with pytest.raises(CodegenError, match="function 'f': .*lane by lane"):
        builder.lane("%v", vector, 0)
    with pytest.raises(CodegenError, match="vscale"):
        builder.require_scalable_vectors()


def test_conversions_need_a_builder_only(builder):
    assert convert(builder, "%x", DataType("int32"), DataType("int32")) == "%x"
    assert builder.lines == []
    convert(builder, "%x", DataType("int32"), DataType("float32"))
    assert builder.lines[-1].endswith("sitofp i32 %x to float")


@pytest.mark.parametrize("dtype, operations", [("float32", 1), ("bfloat16", 5)])
def test_narrow_floats_are_computed_in_float32(builder, dtype, operations):
    float_operation(builder, "fadd", ["%a", "%b"], DataType(dtype))
    assert sum(" fadd float " in line for line in builder.lines) == 1
    assert len(builder.lines) >= operations


def test_comparisons_by_sign(builder):
    compare(builder, "LT", "%a", "%b", DataType("int32"))
    compare(builder, "LT", "%a", "%b", DataType("uint32"))
    assert ["slt" in builder.lines[0], "ult" in builder.lines[1]] == [True, True]


def test_memo_forgets_what_branches_find():
    memo = Memo()
    outside, inside = Var("x", "int32") + 1, Var("y", "int32") + 1
    memo.keep(outside, "%1")
    with memo.branch():
        memo.keep(inside, "%2")
        assert set(memo.operands.values()) == {"%1", "%2"}
    assert set(memo.operands.values()) == {"%1"}
    with memo.branch():
        memo.forget()
    assert memo.operands == {}


def test_metadata_is_written_once_unless_distinct():
    metadata = Metadata()
    assert metadata.node("!{i32 1}") == metadata.node("!{i32 1}") == "!0"
    assert metadata.distinct("!{i32 1}") == "!1"
    assert metadata.loop(['!"llvm.loop.unroll.full"']) != metadata.loop(
        ['!"llvm.loop.unroll.full"']
    )


def test_parts_of_a_module_are_written_once():
    text = ModuleText("i64")
    assert text.constant_text("hello") == text.constant_text("hello")
    assert text.declare("f", "i32", ["ptr"]) == text.declare("f", "i32", ["ptr"]) == "@f"
    text.helper("__tilesmith_raise")
    assert {"__tilesmith_decimal", "__tilesmith_type_name"} <= set(text.helpers)
    assert len(text.globals) == 1 and "f" in text.declared


@pytest.mark.parametrize("kind, size", [("x86_64-linux-gnu", "i64"), ("i686-linux-gnu", "i32")])
def test_machines_know_the_size_of_pointers(kind, size):
    assert Machine(Target(f"llvm -mtriple={kind}")).size_type == size


def test_lines_give_fresh_names():
    out = CommonLines("f", FileText((), ()))
    assert [out.fresh("x"), out.fresh("x"), out.fresh("for")] == ["x", "x_1", "for_"]
    with out.deeper():
        out.write("y;")
    assert out.lines == ["    y;"]


def test_outcomes_follow_calls():
    def calling(name):
        return PrimFunc([], Evaluate(Call("void", GlobalVar(name), ())))

    failing = PrimFunc(
        [], AssertStmt(const(False, "bool"), StringImm("no"), Evaluate(const(0, "int32")))
    )
    harmless = PrimFunc([], Evaluate(const(0, "int32")))
    functions = {
        "a": calling("b"), "b": calling("c"), "c": failing, "d": harmless, "e": calling("d"),
    }  # fmt: skip
    outcomes = ModuleOutcomes(functions, lambda allocation: True)
    assert [outcomes.may_fail(name) for name in functions] == [True, True, True, False, False]
    assert outcomes.may_fail("elsewhere")
    assert outcomes.can_fail(functions["a"].body) and not outcomes.can_fail(functions["e"].body)
    assert outcomes.returned["d"] is None


def operator_in_a_module(name):
    buffer = decl_buffer((1,), "int32")
    store = BufferStore(buffer, Call("int32", Op.get(name), (const(7, "int32"),)), [0])
    function = PrimFunc([buffer.data], store).with_attr("global_symbol", "f")
    return IRModule({"f": function})


@pytest.mark.parametrize(
    "table, enter, emit, rule",
    [
        (INTRINSICS, handles, lambda module: emit_text(module, PLAIN),
         lambda emit, call: emit.define(f"add {emit.typed(call.args[0])}, 35")),
        (C_RULES, handles_in_c, emit_source,
         lambda emit, call: (f"{emit.text(call.args[0], ATOM)} + 35", SUM)),
    ],
    ids=["llvm", "c"],
)  # fmt: skip
def test_a_new_operator_is_one_function(table, enter, emit, rule):
    module = operator_in_a_module("tir.texture2d_load")
    with pytest.raises(CodegenError, match=r"tir\.texture2d_load"):
        emit(module)
    enter("texture2d_load")(rule)
    try:
        assert "35" in emit(module)
    finally:
        del table["tir.texture2d_load"]
