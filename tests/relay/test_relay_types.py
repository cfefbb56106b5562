"""InferType."""

import pytest

from tilesmith import ir, relay
from tilesmith.relay.transform import InferType, InferTypeLocal
from tilesmith.support.errors import DiagnosticError, TilesmithError, TypeMismatchError

LIST = "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n"


def inferred(text):
    return InferType()(relay.parse(text))


def result_of(text):
    from tilesmith.relay.printer import type_text

    return type_text(inferred(text)["main"].ret_type)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def @main(%x: Tensor[(2, 3), float32]) { (%x, 1i8) }", "(Tensor[(2, 3), float32], int8)"),
        ("def @main(%x: (int32, bool)) { %x.1 }", "bool"),
        ("def @main(%c: bool) { if (%c) { 1f } else { 2f } }", "float32"),
        ("def @main(%x: int32) { let %f = fn (%a) { add(%a, 1) }; %f(%x) }", "int32"),
        ("def @main(%x: int32) { let %i = fn [A](%a: A) -> A { %a }; (%i(%x), %i(1f)) }",
         "(int32, float32)"),
        ("def @id[A](%a: A) -> A { %a }\ndef @main(%x: int32) { @id(@id)(%x) }", "int32"),
        ("def @main(%x: int32) { let %r = ref(%x); ref_write(%r, 2); ref_read(%r) }", "int32"),
        ("def @main(%x: int32) { ref_write(ref(%x), 2) }", "()"),
        ("def @main() { @f(1) }\ndef @f(%x: int32) { (%x,) }", "(int32,)"),
        ("def @f(%x: Tensor[(n, 3), int8]) -> Tensor[(n, n), int8] { @f(%x) }\n"
         "def @main(%y: Tensor[(4, 3), int8]) { @f(%y) }", "Tensor[(4, 4), int8]"),
        (LIST + "def @main() { Cons(1, Cons(2, Nil)) }", "List[int32]"),
        (LIST + "def @main(%x: List[int8]) { match (%x) { Cons(%a, _) => %a, Nil => 0i8 } }",
         "int8"),
        (LIST + "def @main(%x: List[int8]) { let %l = Nil; match (%x) { Nil => %l, _ => %x } }",
         "List[int8]"),
        ("def @main(%x: (int8, bool)) { match (%x) { (%a, _) => %a } }", "int8"),
        ("def @main(%x: Tensor[(?, 3), int8], %c: bool) { if (%c) { %x } else "
         "{ meta[relay.Constant][0] } }", None),
        ("def @main(%x: Tensor[(2, 3), int8], %y: Tensor[(?, 3), int8], %c: bool) "
         "{ if (%c) { %x } else { %y } }", "Tensor[(?, 3), int8]"),
        ("def @main() { let %f = fn (%n: int32) -> int32 { %f(%n) }; %f }", "fn (int32) -> int32"),
    ],
)  # fmt: skip
def test_results(text, result):
    if result is None:
        with pytest.raises(DiagnosticError, match="no relay.Constant"):
            result_of(text)
    else:
        assert result_of(text) == result


def test_the_module_stays_what_it_was():
    mod = relay.parse("def @main(%x: int32) -> int32 { let %y = add(%x, 1); %y }")
    body = mod["main"].body
    typed = InferType()(mod)
    assert typed["main"] is mod["main"]
    assert body.var.checked_type == body.checked_type == relay.scalar_type("int32")
    assert body.var.type_annotation is None
    assert mod["main"].checked_type == relay.FuncType(
        [relay.scalar_type("int32")], relay.scalar_type("int32")
    )
    assert typed.get_global_var("main").checked_type == mod["main"].checked_type


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("def @main(%x: Tensor[(2), float32]) {\n  add(%x, 1i8)\n}", "float32 and int8", "2:3"),
        ("def @f(%x: Tensor[(2), int8]) { %x }\ndef @main(%y: Tensor[(3), int8]) {\n  @f(%y)\n}",
         "expected Tensor\\[\\(2,\\), int8\\], found Tensor\\[\\(3,\\), int8\\]", "3:3"),
        ("def @main(%x: Tensor[(n, n), int8], %y: Tensor[(2, 3), int8]) {\n"
         "  let %f = fn (%a: Tensor[(m, m), int8]) { %a };\n  %f(%y)\n}",
         "argument 0 of %f: expected Tensor\\[\\(m, m\\)", "3:3"),
        ("def @main(%c: bool) {\n  if (%c) { 1 } else { 1f }\n}", "expected int32, found float32",
         "2:3"),
        ("def @main(%c: int32) {\n  if (%c) { 1 } else { 1 }\n}", "expected bool, found int32",
         "2:3"),
        ("def @main(%x) {\n  add(%x, 1)\n}", "the types of the operands are not known", "2:3"),
        ("def @main() {\n  let %y: float32 = 1;\n  %y\n}", "the value of %y: expected float32",
         "2:3"),
        ("def @main(%x: (int8, int8)) {\n  %x.2\n}", "field 2 of a tuple of 2", "2:3"),
        ("def @main() {\n  1(2)\n}", "the function is called: expected int32", "2:3"),
        ("def @f(%x: int8) { %x }\ndef @main() {\n  @f()\n}", "1 parameters, got 0 arguments",
         "3:3"),
        ("def @main() -> int8 { 1 }", "the result of the function: expected int8, found",
         "1:5"),
        (LIST + "def @main() {\n  Cons(1, Cons(1f, Nil))\n}", "argument 1 of Cons", "6:3"),
        (LIST + "def @main(%x: List[int8]) {\n  match (%x) { Cons(%a) => %a }\n}",
         "Cons takes 2 values, the pattern has 1", "6:3"),
        ("def @main() {\n  let %f = fn (%g) { %g(%g) };\n %f\n}", "%g is called", "2:22"),
    ],
)  # fmt: skip
def test_errors_show_both_types_and_the_line(text, message, place):
    with pytest.raises(TilesmithError, match=message) as raised:
        inferred(text)
    assert f"from_string:{place}" in str(raised.value)


def test_errors_of_programs_made_in_python_show_the_call():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    with pytest.raises(TypeMismatchError, match="expected Tensor") as raised:
        function = relay.Function([x], x)
        InferType()(ir.IRModule.from_expr(relay.Function([y], relay.Call(function, [y]))))
    assert "%0(%y)" in str(raised.value)


def test_local():
    x = relay.var("x", shape=(relay.Any(), 3))
    assert InferTypeLocal(relay.Tuple([x])) == relay.TupleType([relay.TensorType((relay.Any(), 3))])


def test_deep_programs_take_linear_time():
    x = relay.var("x", shape=(2,))
    calls, lets = x, x
    names = [relay.var(f"v{number}") for number in range(3_000)]
    tanh = ir.Op.get("tanh")
    for _ in range(100_000):
        calls = relay.Call(tanh, [calls])
    for name in reversed(names[:3_000]):
        lets = relay.Let(name, relay.Call(tanh, [x]), lets)
    mod = ir.IRModule({"main": relay.Function([x], calls), "lets": relay.Function([x], lets)})
    mod = InferType()(mod)
    assert mod["main"].ret_type == mod["lets"].ret_type == relay.TensorType((2,))
    assert calls.checked_type == relay.TensorType((2,))
