"""Defunctionalization: functions as values become data."""

import pytest

from tests.relay.gradient_programs import PROGRAMS, number, scalar, total
from tilesmith import ir, relay
from tilesmith.relay.testing import run_as_python
from tilesmith.relay.transform import (
    Defunctionalization,
    InferType,
    RemoveUnusedFunctions,
    gradient,
)
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.errors import TypeMismatchError, UnsupportedError


def assert_first_order(mod):
    """No function is a value, and no parameter holds one."""
    for _, function in functions_of(mod):
        for node in post_order(function.body):
            assert not isinstance(node, relay.Function)
            if isinstance(node, relay.Call):
                assert isinstance(node.op, (ir.Op, ir.GlobalVar, relay.Constructor))


@pytest.mark.parametrize("of_gradient", [False, True])
@pytest.mark.parametrize("make", PROGRAMS)
def test_programs_mean_the_same(make, of_gradient):
    function, mod = make()
    mod = ir.IRModule() if mod is None else mod
    if of_gradient:
        function = gradient(function, mod)
    plain = InferType()(ir.IRModule.from_expr(function, mod.functions, mod.type_definitions))
    given = [number(0.3).data, number(0.7).data]
    wanted = run_as_python(plain.get_global_var("main"), plain)(*given)
    made = mod.shallow_copy()
    made["main"] = Defunctionalization(function, made)
    made = InferType()(RemoveUnusedFunctions()(made))
    assert_first_order(made)
    found = run_as_python(made.get_global_var("main"), made)(*given)
    assert total(found) == pytest.approx(total(wanted))


def test_what_cannot_become_data():
    x = scalar("x")
    real = relay.scalar_type("float64")
    f = relay.var("f", relay.FuncType([real], real))
    with pytest.raises(TypeMismatchError, match="has the type fn"):
        Defunctionalization(relay.Function([f, x], relay.Call(f, [x])), ir.IRModule())
    with pytest.raises(TypeMismatchError, match="without type parameters"):
        Defunctionalization(x, ir.IRModule())
    mod = ir.IRModule()
    prelude = relay.Prelude(mod)
    with pytest.raises(UnsupportedError, match="@id, which has type parameters"):
        Defunctionalization(
            relay.Function(
                [x], prelude.hd(prelude.map(prelude.id, prelude.cons(x, prelude.nil())))
            ),
            mod,
        )
