"""Questions about expressions of the functional door."""

import pytest

from tilesmith import ir, relay
from tilesmith.relay import analysis
from tilesmith.relay.analysis import Feature
from tilesmith.support.errors import TypeMismatchError

LIST = "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n"


def hints(variables):
    return [one.name_hint for one in variables]


def test_variables():
    x, y, z = (relay.var(name, "float32") for name in "xyz")
    expr = relay.Let(y, x + z, relay.Function([z], y + z))
    assert hints(analysis.bound_vars(expr)) == ["z", "y"]
    assert hints(analysis.free_vars(y + x)) == ["y", "x"]
    assert hints(analysis.free_vars(relay.Let(y, x, y))) == ["x"]
    assert set(analysis.all_vars(relay.Let(y, x, x))) == {x, y}


def test_type_variables():
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x = relay.var("x", relay.TupleType([a, b]))
    function = relay.Function([x], x, None, [a])
    assert hints(analysis.free_type_vars(function)) == ["b"]
    assert hints(analysis.bound_type_vars(function)) == ["a"]
    assert set(hints(analysis.all_type_vars(function))) == {"a", "b"}
    assert hints(analysis.free_type_vars(relay.FuncType([a], b, [a]))) == ["b"]


@pytest.mark.parametrize(
    ("make", "is_well_formed"),
    [
        (lambda x, y: relay.Let(x, relay.const(1), x), True),
        (lambda x, y: relay.Let(x, relay.const(1), relay.Let(x, x, x)), False),
        (lambda x, y: relay.Let(x, x, x), False),
        (lambda x, y: relay.Tuple([relay.Let(x, y, x), x]), False),
        (lambda x, y: relay.Tuple([y, y]), True),
        (lambda x, y: relay.Let(x, relay.Function([y], x(y)), x), True),
        (lambda x, y: relay.Tuple([relay.Function([x], x), relay.Function([x], x)]), False),
        (lambda x, y: relay.Match(y, [relay.Clause(relay.PatternVar(x), x)]), True),
    ],
)
def test_well_formed(make, is_well_formed):
    expr = make(relay.var("x"), relay.var("y", "int32"))
    assert analysis.well_formed(expr) is is_well_formed


def test_features():
    mod = relay.parse(LIST + """def @main(%x: List[int32]) {
      let %f = fn (%n: int32) -> int32 { %f(%n) };
      match (%x) { Cons(%a, _) => { let %r = ref(%a); %f(ref_read(%r)) }, Nil => 1 }
    }""")  # fmt: skip
    assert analysis.detect_feature(mod) == {
        Feature.fVar, Feature.fLet, Feature.fFunction, Feature.fCall, Feature.fMatch,
        Feature.fRefCreate, Feature.fRefRead, Feature.fConstant, Feature.fLetRec,
    }  # fmt: skip
    x = relay.var("x", "int32")
    shared = x + 1
    assert Feature.fGraph in analysis.detect_feature(relay.Tuple([shared, shared]))
    assert Feature.fGraph not in analysis.detect_feature(relay.Tuple([x, x]))


def test_kinds():
    list_, a = relay.GlobalTypeVar("List"), relay.TypeVar("a")
    scalar = relay.scalar_type("int32")
    assert analysis.check_kind(relay.TupleType([scalar, a])) == relay.TypeKind.Type
    assert analysis.check_kind(list_(scalar)) == relay.TypeKind.Type
    assert analysis.check_kind(list_) == relay.TypeKind.AdtHandle
    with pytest.raises(TypeMismatchError, match="no type of values"):
        analysis.check_kind(relay.TupleType([list_]))
    mod = relay.parse(LIST)
    with pytest.raises(TypeMismatchError, match="takes 1 types"):
        analysis.check_kind(mod.get_global_type_var("List")(scalar, scalar), mod)


def test_counts():
    mod = relay.parse("""def @f(%x: float32) { tanh(%x) }
    def @main(%x: float32) { let %y = exp(tanh(%x)); add(@f(%y), @f(%x)) }""")
    assert analysis.list_op_freqs(mod) == {"tanh": 2, "exp": 1, "add": 1}
    assert analysis.count_layers(mod, ["tanh", "exp"]) == 2
    graph = analysis.CallGraph(mod)
    assert graph.ref_count("f") == graph.global_call_count("main") == 2
    assert not graph.is_recursive("main") and "calls f 2 times" in str(graph)


def test_constants_and_dtypes():
    one, x = relay.const(1), relay.var("x", shape=(2,))
    assert analysis.check_constant(relay.Tuple([one, relay.Tuple([one])]))
    assert not analysis.check_constant(relay.Tuple([one, x]))
    function = relay.Function([x], relay.Tuple([x, one]))
    mod = relay.transform.InferType()(ir.IRModule.from_expr(function))
    assert analysis.all_dtypes(mod["main"].body) == {"float32", "int32"}


@pytest.mark.parametrize(
    ("clauses", "missing"),
    [
        ("Cons(%a, _) => 1, Nil => 2", []),
        ("_ => 1", []),
        ("Cons(%a, _) => 1", ["Nil"]),
        ("Nil => 1, Cons(_, Nil) => 2", ["Cons(_, Cons(_, _))"]),
        ("Nil => 1, Cons(_, Cons(%a, _)) => 2", ["Cons(_, Nil)"]),
    ],
)
def test_unmatched_cases(clauses, missing):
    mod = relay.parse(LIST + f"def @main(%x: List[int32]) {{ match (%x) {{ {clauses} }} }}")

    def text(pattern):
        if isinstance(pattern, relay.PatternConstructor):
            inner = ", ".join([text(one) for one in pattern.patterns])
            return pattern.constructor.name_hint + (f"({inner})" if inner else "")
        return "_"

    cases = analysis.unmatched_cases(mod["main"].body, mod)
    assert [text(case) for case in cases] == missing


def test_numbers_of_products():
    text = """def @main(%x: Tensor[(1, 4, 5, 5), float32], %w: Tensor[(6, 2, 3, 3), float32],
                        %a: Tensor[(2, 3), float32], %b: Tensor[(4, 3), float32]) {
      (nn.conv2d(%x, %w, groups=2, channels=6, kernel_size=[3, 3]), nn.dense(%a, %b))
    }"""
    mod = relay.transform.InferType()(relay.parse(text))
    assert analysis.get_total_mac_number(mod["main"].body) == 6 * 9 * 18 + 2 * 4 * 3


def test_a_part_of_a_program():
    mod = relay.parse("def @main(%x: float32, %y: float32) { add(exp(%x), tanh(%y)) }")
    part = analysis.extract_intermdeiate_expr(mod, 1)["main"]
    assert part.body.op is ir.Op.get("tanh") and hints(part.params) == ["y"]
    with pytest.raises(Exception, match="main has 3 calls"):
        analysis.extract_intermdeiate_expr(mod, 3)
