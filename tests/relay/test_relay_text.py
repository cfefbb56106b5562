"""Relay's text format: what is printed is parsed to an equal program."""

import numpy
import pytest

from tests.relay.programs import Maker
from tilesmith import ir, relay
from tilesmith.relax.expr import Call, ExternFunc
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import DiagnosticError

PROGRAM = """#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => {
      %0 = %f(%x);
      %1 = @map(%f, %rest);
      Cons(%0, %1)
    },
    Nil => {
      Nil
    },
  }
}

def @main(%x: Tensor[(1, 8), float32], %y: (Tensor[(?, n), int8], bool), Primitive=1) -> float32 {
  let %r = ref(1f);
  %0 = ref_read(%r);
  %1 = add(%0, -2.5f);
  let %_ = ref_write(%r, %1);
  let %f = fn (%a: int32) -> int32 {
    %2 = less(%a, 3i64);
    if (%2) {
      %3 = add(%a, 1);
      %f(%3)
    } else {
      %a
    }
  };
  match? (%y) {
    (%b, _) => {
      %4 = nn.softmax(%x, axis=0);
      %5 = (%4,);
      %6 = %5.0;
      %7 = strided_slice(%6, begin=[0, -1], end=[1, 5]);
      sum(%7)
    },
  }
}"""


def test_a_program():
    mod = relay.parse(PROGRAM)
    assert mod.astext() == PROGRAM
    assert str(mod) == PROGRAM.partition("\n")[2]
    ir.assert_structural_equal(relay.parse(str(mod)), mod)


def test_what_people_write():
    text = """
    // x is doubled /* here */
    def @main(%x: Tensor[(4), float32]) /* a /* nested */ comment */ {
      let %y = %x + %x * 2.0f;
      if (sum(%y) < 1f) { nn.relu(%y) } else { if (True) { (%x) } else { %y - (-%x) } }
    }
    """
    main = relay.parse(text)["main"]
    assert str(main.body.value) == str(main.params[0] + main.params[0] * 2)
    assert main.body.body.false_branch.true_branch is main.params[0]
    assert main.span.line == 3 and main.body.value.span.column == 16


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed):
    function = Maker(seed).function()
    text = function.astext()
    parsed = relay.parse_expr(text)
    ir.assert_structural_equal(parsed, function)
    assert parsed.astext() == text
    typed = relay.transform.InferType()(ir.IRModule.from_expr(function))
    ir.assert_structural_equal(relay.parse(typed.astext()), typed)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [(1, "int32", "1"), (-1, "int8", "-1i8"), (0.1, "float32", "0.1f"),
     (1e-30, "float64", "1e-30f64"), (2.0, "float16", "2f16"), (7, "uint8", "7u8"),
     (1 << 40, "int64", "1099511627776i64"),
     (True, "bool", "True"), (float("inf"), "float32", "meta[relay.Constant][0]")],
)  # fmt: skip
def test_constants(value, dtype, text):
    constant = relay.const(value, dtype)
    assert str(constant).splitlines()[0] == text
    ir.assert_structural_equal(relay.parse_expr(constant.astext()), constant)


def test_metadata():
    x = relay.var("x", shape=(3,))
    function = relay.Function([x], x + relay.const(numpy.arange(3, dtype="float32")))
    ir.assert_structural_equal(relay.parse_expr(function.astext()), function)
    assert "#[metadata]" not in function.astext(show_meta_data=False)
    table = {"relay.Constant": [function.body.args[1]]}
    mod = relay.parse(function.astext(show_meta_data=False), init_meta_table=table)
    ir.assert_structural_equal(mod["main"], function)
    with pytest.raises(DiagnosticError, match="no relay.Constant number 0"):
        relay.parse(function.astext(show_meta_data=False))


def test_names_never_clash():
    x, other, digit = relay.var("x", "int32"), relay.var("x", "int32"), relay.var("0.w", "int32")
    text = str(relay.Function([x, other, digit], relay.Tuple([other, x, digit])))
    assert "(%x1, %x, %v0_w)" in text


def test_annotations_and_free_variables():
    x = relay.var("x", shape=(3,))
    text = relay.astext(x + 1, annotate=lambda expr: "here")
    assert "free_var %x: Tensor[(3,), float32];" in text and "/* here */" in text
    mod = relay.parse(text)
    assert [param.name_hint for param in mod["main"].params] == ["x"]


def test_definitions_join_a_module():
    mod = relay.parse("def @f(%x: int32) { %x }")
    both = relay.parse("def @main(%x: int32) { @f(%x) }", init_module=mod)
    assert both["main"].body.op is mod.get_global_var("f") and "main" not in mod


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ('#[version = "0.0.6"]\ndef @main() { () }', 'not of version "0.0.5"', "1:1"),
        ("def @main(%x: Tensor[(1), flot32]) { %x }", "'flot32' is no type", "1:27"),
        ("def @main(%x: int32) {\n  ad(%x, %x)\n}", "no operator or constructor 'ad'", "2:3"),
        ("def @main() {\n  %y\n}", "'%y' is not bound here", "2:3"),
        ("def @main() {\n  %0\n}", "nothing before is numbered '%0'", "2:3"),
        ("def @main() { @f() }", "there is no function '@f'", "1:15"),
        ("def @main() { add(1f", "expected '\\)', found the end of the text", "1:21"),
        ("def @main() { 1 $ 2 }", "unexpected '\\$'", "1:17"),
        ("def @main() { 1 /* }", "the comment has no end", "1:17"),
        ("def @f() { 1 }\ndef @f() { 2 }", "'@f' is defined twice", "2:5"),
        ("def @main() { match (1) { Nil => 1 } }", "'Nil' is no pattern", "1:27"),
        ("def @main() { let %x = %x; %x }", "'%x' is not bound here", "1:24"),
        ("def @main() { 1 } #[metadata] {", "the metadata section cannot be read", "1:30"),
        ("def @main() { nn.relu }", "expected '\\(' after the operator nn.relu", "1:23"),
    ],
)
def test_errors_have_line_and_column(text, message, place):
    with pytest.raises(DiagnosticError, match=message) as raised:
        relay.parse(text)
    assert f"from_string:{place}" in str(raised.value)


def test_wrong_attributes_name_the_operator():
    with pytest.raises(Exception, match="no attribute 'axes'") as raised:
        relay.parse("def @main(%x: float32) {\n  nn.softmax(%x, axes=1)\n}")
    assert "from_string:2:3" in str(raised.value)


def test_fromtext_needs_the_version():
    assert "main" in relay.fromtext('#[version = "0.0.5"]\ndef @main() { () }')
    with pytest.raises(DiagnosticError, match="has to begin with"):
        relay.fromtext("def @main() { () }")


def test_deep_programs():
    x = relay.var("x", shape=(2,))
    value = x
    for _ in range(20_000):
        value = relay.Call(ir.Op.get("tanh"), [value])
    text = relay.Function([x], value).astext()
    assert relay.parse_expr(text).astext() == text


@pytest.mark.parametrize(
    "info",
    [
        TensorStructInfo([2, 3], "float32"),
        TupleStructInfo([TensorStructInfo([4], "int8"), TensorStructInfo([], "float32")]),
        TensorStructInfo(None, "float32", None, 2),
    ],
    ids=str,
)
def test_what_a_call_states_about_its_result_is_kept(info):
    x = relay.var("x", shape=(2, 3))
    callee = ir.Op.get("relax.call_dps_packed")
    call = Call(callee, [ExternFunc("my.function"), relay.Tuple([x])], None, [info])
    mod = ir.IRModule.from_expr(relay.Function([x], call))
    text = relay.astext(mod)
    found = relay.parse(text)
    assert ir.structural_equal(mod, found)
    assert ir.structural_equal(found["main"].body.sinfo_args[0], info)
    assert relay.astext(found) == text
