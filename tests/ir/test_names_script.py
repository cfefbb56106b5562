"""Supplies of names, renaming of functions, spans that come from several places."""

import pytest

import tilesmith as ts
from tilesmith import ir
from tilesmith.script import ir as I
from tilesmith.script import tir as T


@I.ir_module
class Caller:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        Caller.twice(A.data)

    @T.prim_func(private=True)
    def twice(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] * 2


def test_name_supply():
    supply = ir.NameSupply("mod")
    assert supply.fresh_name("conv.1") == "mod_conv_1"
    assert supply.fresh_name("conv.1") == "mod_conv_1_1"
    assert supply.fresh_name("x", add_prefix=False) == "x"
    assert supply.reserve_name("x_1", add_prefix=False) == "x_1"
    assert supply.fresh_name("x", add_prefix=False) == "x_2"
    assert supply.contains_name("conv.1") and not supply.contains_name("y")


def test_global_var_supply():
    supply = ir.GlobalVarSupply(Caller)
    assert supply.fresh_global("main").name_hint == "main_1"
    assert supply.unique_global_for("twice") is Caller.get_global_var("twice")
    with pytest.raises(ts.TilesmithError, match="two functions are called 'twice'"):
        supply.reserve_global(ir.GlobalVar("twice"))
    supply.reserve_global(ir.GlobalVar("twice"), allow_conflict=True)


def test_functions_get_other_names():
    renamed = Caller.replace_global_vars({"twice": "double", "main": "entry"})
    assert [v.name_hint for v in renamed.get_global_vars()] == ["entry", "double"]
    assert renamed["entry"].attrs["global_symbol"] == "entry"
    calls = []
    ir.post_order_visit(
        renamed["entry"].body,
        lambda node: calls.append(node.op) if isinstance(node, ir.Call) else None,
    )
    assert calls == [renamed.get_global_var("double")]
    assert [v.name_hint for v in Caller.get_global_vars()] == ["main", "twice"]
    with pytest.raises(ts.TilesmithError, match="'main'"):
        Caller.replace_global_vars({"twice": "main"})
    with pytest.raises(ts.TilesmithError, match="no function 'twise'"):
        Caller.replace_global_vars({"twise": "main"})


def test_spans_of_texts():
    name = ir.SourceMap().add("<a prompt>", "first\nsecond line\n")
    span = ir.Span(name.name, 2, 2, 8, 12)
    both = ir.SequentialSpan([span, ir.SequentialSpan([ir.Span(name.name, 1, 1, 1, 6)])])
    assert "second line" in span.format() and span.format().endswith("       ^^^^")
    assert len(both.spans) == 2 and "first" in both.format()


def test_levels_of_operator_attributes():
    op = ir.Op.register("test.level")
    op.set_attr("kind", "strong", plevel=20)
    op.set_attr("kind", "weak")
    assert op.get_attr("kind") == "strong"
    op.reset_attr("kind")
    assert not op.has_attr("kind")
    assert ir.CallingConv(1) is ir.CallingConv.C_PACKED_FUNC


def test_who_calls_whom():
    main, twice = Caller.get_global_vars()
    assert ir.analysis.collect_call_map(Caller) == {main: [twice], twice: []}


def test_registered_functions_as_nodes():
    @ts.register_func("test.add_three", override=True)
    def add_three(x):
        return x + 3

    node = ir.load_json(ir.save_json(ir.EnvFunc.get("test.add_three")))
    assert node(4) == 7 and node.name == "test.add_three"
    with pytest.raises(ts.TilesmithError, match="test.add_thre"):
        ir.EnvFunc.get("test.add_thre")


def test_arguments_by_name():
    x = ts.tir.Var("x", dtype="int64")
    assert x.dtype == "int64" and isinstance(ts.tir.const(3), ir.ConstExpr)
    assert ir.structural_equal(ts.tir.bitwise_and(x=x, y=x), x & x)
    assert ir.structural_equal(ts.tir.shift_left(x=x, y=2), x << 2)


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_functions_that_are_not_there(kind):
    with pytest.raises(kind, match="no function 'zz'"):
        Caller["zz"]
    with pytest.raises(kind, match="no function 'zz'"):
        Caller.get_global_var("zz")
