"""The prelude and loops: they are typed, and their text is parsed to the same."""

import pytest

from tilesmith import ir, relay
from tilesmith.relay.loops import while_loop
from tilesmith.relay.prelude import Prelude
from tilesmith.relay.transform import InferType
from tilesmith.support.errors import UnknownMemberError


def test_the_prelude_is_typed():
    mod = InferType()(Prelude().mod)
    ir.assert_structural_equal(relay.parse(mod.astext()), mod)
    for _, function in mod.functions.items():
        assert relay.analysis.well_formed(function)


def test_programs_with_lists():
    mod = ir.IRModule()
    prelude = Prelude(mod)
    x = relay.var("x", "int32")
    numbers = prelude.cons(x, prelude.cons(relay.const(2), prelude.nil()))
    double = relay.Function([y := relay.var("y", "int32")], y + y)
    pairs = prelude.zip(numbers, prelude.map(double, numbers))
    mod["main"] = relay.Function(
        [x], relay.Tuple([prelude.sum(numbers), prelude.length(pairs), pairs])
    )
    result = InferType()(mod)["main"].ret_type
    scalar = relay.scalar_type("int32")
    list_ = prelude.l(relay.TupleType([scalar, scalar]))
    assert result == relay.TupleType([scalar, scalar, list_])
    assert prelude.get_ctor("Option", "Some") is prelude.some
    assert Prelude(mod).get_global_var("map") is prelude.map
    with pytest.raises(UnknownMemberError, match="no constructor 'Many'"):
        prelude.get_ctor("List", "Many")


def test_while_loop():
    i, x = relay.var("i", "int32"), relay.var("x", shape=(2,))
    start = relay.var("start", shape=(2,))
    loop = while_loop(lambda i, x: i < 3, [i, x], lambda i, x: [i + 1, x + x])
    function = relay.Function([start], relay.Call(loop, [relay.const(0), start]))
    result = InferType()(ir.IRModule.from_expr(function))["main"].ret_type
    assert result == relay.TupleType([relay.scalar_type("int32"), relay.TensorType((2,))])
