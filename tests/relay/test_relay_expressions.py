"""The nodes of the functional door, and walks through them."""

import numpy
import pytest

from tilesmith import ir, relax, relay
from tilesmith.relay.expr import CallWithFields, LetWithFields, VarWithFields
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnknownMemberError


def call(name, *args, **attrs):
    return relay.Call(ir.Op.get(name), args, attrs or None)


def tensor(name, *shape):
    return relay.var(name, shape=shape or (2, 3))


def test_shared_nodes_are_one_class():
    for name in ("Var", "Constant", "Tuple", "TupleGetItem", "Call", "If"):
        assert getattr(relay, name) is getattr(relax, name)


def test_python_operators_call_the_door_of_their_operands():
    x = tensor("x")
    assert (x + 1).op is ir.Op.get("add") and (x % 2).op is ir.Op.get("mod")
    assert (-x).op is ir.Op.get("negative") and x.astype("int8").op is ir.Op.get("cast")
    assert (1 - x).args[0].dialect == "relay" and (x < 1).checked_type.dtype == "bool"
    y = relax.Var("y", relax.TensorStructInfo((2, 3), "float32"))
    assert (y + 1).op is ir.Op.get("relax.add") and y.checked_type is y.struct_info
    assert relay.Tuple([y, x])[1] is x and relay.Tuple([y, x]).dialect == "relay"


def test_a_type_is_a_view_of_struct_info():
    n = ir.Var("n", "int32")
    for type_ in [
        relay.TensorType((1, n, relay.Any()), "int8"),
        relay.TupleType([relay.TensorType(()), relay.TupleType([])]),
        relay.FuncType([relay.TensorType((2,))], relay.RefType(relay.TypeVar("a"))),
        relay.GlobalTypeVar("List")(relay.scalar_type("int32")),
    ]:
        var = relay.var("v", type_)
        assert var.type_annotation == type_ == var.checked_type, type_
    assert relay.var("v", shape=(1, n)).type_annotation.shape[1] is n
    assert relay.var("v").type_annotation is None
    assert relay.is_dynamic(relay.TensorType((n,))) and not relay.is_dynamic(relay.TensorType((1,)))


def test_branches_are_expressions():
    x = tensor("x")
    choice = relay.If(relay.const(True), x, x + 1)
    assert choice.true_branch is x and choice.dialect == "relay"
    y = relax.Var("y", relax.TensorStructInfo((), "bool"))
    assert isinstance(relax.If(y, y, y).true_branch, relax.SeqExpr)


def test_equality_is_up_to_names():
    def function(name, type_name):
        a = relay.TypeVar(type_name)
        x, y = relay.var(name, a), relay.var("y")
        return relay.Function([x], relay.Let(y, x, relay.Tuple([y, x])), None, [a])

    assert ir.structural_equal(function("x", "a"), function("z", "b"))
    assert ir.structural_hash(function("x", "a")) == ir.structural_hash(function("z", "b"))
    x, y = tensor("x"), tensor("y")
    assert not ir.structural_equal(relay.Function([x, y], x), relay.Function([x, y], y))
    function = relay.Function([x], call("add", x, relay.const(numpy.ones((2, 3), "float32"))))
    assert ir.structural_equal(ir.load_json(ir.save_json(function)), function)


def test_modules_hold_functions():
    x = tensor("x")
    function = relay.Function([x], x + 1, attrs={"Inline": 1})
    mod = ir.IRModule.from_expr(function)
    assert mod["main"] is function and function.attrs["Inline"] == 1
    assert function.with_attr("a", 2).attrs["a"] == 2
    assert function(x).op is function


def test_bind():
    x, y = tensor("x"), tensor("y")
    function = relay.Function([x, y], call("add", x, y))
    bound = relay.bind(function, {"y": relay.const(numpy.ones((2, 3), "float32"))})
    assert bound.params == (x,) and isinstance(bound.body.args[1], relay.Constant)
    assert relay.bind(x + y, {x: y}).args[0] is y
    with pytest.raises(UnknownMemberError, match="no parameter 'z'"):
        relay.bind(function, {"z": x})


def test_copies_with_fields():
    x, y = tensor("x"), tensor("y")
    add = call("add", x, y)
    assert CallWithFields(add) is add and CallWithFields(add, args=[y, x]).args == (y, x)
    assert VarWithFields(x, vid="z").name_hint == "z"
    let = relay.Let(x, y, x)
    assert LetWithFields(let, body=y).body is y and LetWithFields(let, value=y) is let


def test_wrong_parts_are_refused():
    with pytest.raises(TypeMismatchError, match="both a type and a shape"):
        relay.var("x", relay.scalar_type("int8"), shape=(1,))
    with pytest.raises(TypeMismatchError, match="a parameter is a variable"):
        relay.Function([relay.const(1)], relay.const(1))
    with pytest.raises(TypeMismatchError, match="let binds a variable"):
        relay.Let("x", relay.const(1), relay.const(1))
    pair = relay.TupleWrapper(relay.Tuple([tensor("x"), tensor("y")]), 2)
    assert [one.index for one in pair] == [0, 1] and pair[-1].index == 1
    with pytest.raises(IndexError):
        pair[2]


def test_the_scope_builder():
    x, condition = tensor("x"), relay.var("c", "bool")
    sb = relay.ScopeBuilder()
    with sb.if_scope(condition):
        sb.ret(sb.let("one", x + 1))
    with sb.else_scope():
        sb.ret(x)
    one, two = relay.var("a"), relay.var("b")
    assert ir.structural_equal(
        relay.Function([x, condition], sb.get()),
        relay.Function([x, condition], relay.If(condition, relay.Let(one, x + 1, one), x)),
    )
    sb = relay.ScopeBuilder()
    sb.ret(sb.let(two, x))
    assert isinstance(sb.get(), relay.Let)
    with pytest.raises(ConfigError, match="returns no value"):
        relay.ScopeBuilder().get()
    with pytest.raises(ConfigError, match="follows the end"):
        sb.ret(x)


class Names(relay.ExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []

    def visit_var(self, var):
        self.names.append(var.name_hint)

    def visit_call(self, call):
        super().visit_call(call)
        self.names.append(getattr(call.op, "name", "One"))


class Doubled(relay.ExprMutator):
    def visit_constant(self, const):
        return relay.const(const.data.numpy() * 2)


def everything():
    x, y, z = tensor("x"), relay.var("y"), relay.var("z")
    list_ = relay.GlobalTypeVar("List")
    one = relay.Constructor("One", [relay.TensorType((2, 3))], list_)
    match = relay.Match(
        relay.Call(one, [y]),
        [relay.Clause(relay.PatternConstructor(one, [relay.PatternVar(z)]), z + relay.const(1.0))],
    )
    ref = relay.RefRead(relay.RefCreate(relay.const(2.0)))
    choice = relay.If(relay.var("c", "bool"), match, call("exp", ref))
    return relay.Function([x], relay.Let(y, call("tanh", x), relay.Tuple([choice, choice])[0]))


def test_visitors_see_shared_nodes_once():
    seen = Names()
    seen.visit(everything())
    assert seen.names == ["x", "y", "tanh", "c", "One", "z", "add", "exp"]


def test_mutators_keep_what_does_not_change():
    function = everything()
    assert relay.ExprMutator().visit(function) is function
    changed = Doubled().visit(function)
    assert str(changed) == str(function).replace("2f", "4f").replace("1f", "2f")


class Halved(relay.MixedModeMutator):
    def rewrite_call(self, pre, post):
        return post.args[0] if post.op is ir.Op.get("tanh") else post


def test_mixed_visitors_go_deep():
    x = tensor("x")
    value = x
    for _ in range(10_000):
        value = call("tanh", call("exp", value))
    seen = []

    class Count(relay.MixedModeVisitor):
        def visit_call(self, call):
            seen.append(call)

    Count().visit(value)
    assert len(seen) == 20_000
    half = Halved().visit(value)
    assert sum(isinstance(one, relay.Call) for one in post_order(half)) == 10_000


def post_order(expr):
    found = []
    relay.analysis.post_order_visit(expr, found.append)
    return found


def test_type_functors():
    a = relay.TypeVar("a")
    type_ = relay.FuncType([a, relay.TupleType([relay.TensorType((1,), "int8")])], a, [a])

    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, typ):
            return relay.TensorType(typ.shape, "int16")

    assert relay.TypeMutator().visit(type_) is type_
    assert Wider().visit(type_).arg_types[1].fields[0].dtype == "int16"
    seen = []

    class Variables(relay.TypeVisitor):
        def visit_type_var(self, typ):
            seen.append(typ.name_hint)

    Variables().visit(type_)
    assert seen == ["a", "a", "a"]
