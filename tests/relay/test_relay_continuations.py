"""Continuation passing style, there and back."""

import pytest

from tests.relay.gradient_programs import PROGRAMS, number, scalar, total
from tilesmith import ir, relay
from tilesmith.relay.testing import count_ops, run_as_python
from tilesmith.relay.transform import (
    DeadCodeElimination,
    InferType,
    PartialEvaluate,
    ToCPS,
    to_cps,
    un_cps,
)
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import TypeMismatchError


def infer(function, mod):
    return InferType()(ir.IRModule.from_expr(function, mod.functions, mod.type_definitions))


@pytest.mark.parametrize("make", PROGRAMS)
def test_there_and_back(make):
    function, mod = make()
    mod = ir.IRModule() if mod is None else mod
    longer = to_cps(function, mod)
    back = infer(un_cps(longer), mod)
    plain = infer(function, mod)
    assert back["main"].checked_type == plain["main"].checked_type
    given = [number(0.3).data, number(0.7).data]
    wanted = run_as_python(plain.get_global_var("main"), plain)(*given)
    found = run_as_python(back.get_global_var("main"), back)(*given)
    assert total(found) == pytest.approx(total(wanted))
    rest = DeadCodeElimination()(PartialEvaluate()(back))
    assert count_ops(rest["main"]).keys() <= {*count_ops(function), "add", "multiply", "greater"}


def test_the_form():
    x, y = scalar("x"), scalar("y")
    f = relay.var("f")
    body = relay.Let(f, relay.Function([y], relay.sin(y)), relay.exp(f(f(x))))
    longer = ToCPS(relay.Function([x], body))
    real = relay.scalar_type("float64")
    (answer,) = longer.type_params
    wanted = relay.FuncType([real, relay.FuncType([real], answer)], answer, [answer])
    assert longer.checked_type == wanted
    for node in post_order(longer):
        if isinstance(node, relay.Let):  # calls of functions are the last thing that happens
            value = node.value
            assert not isinstance(value, relay.Call) or isinstance(value.op, ir.Op)


def test_what_has_no_such_form():
    x = scalar("x")
    with pytest.raises(TypeMismatchError, match="a function, not a Var"):
        to_cps(x)
    with pytest.raises(TypeMismatchError, match="its continuation"):
        un_cps(relay.Function([x], x))
