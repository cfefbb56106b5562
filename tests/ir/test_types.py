"""Types of the functional graph IR: equality, text, JSON, what modules define."""

import pytest

from tilesmith import ir, relax, tir
from tilesmith.ir import (
    Constructor,
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    GlobalVar,
    IncompleteType,
    IRModule,
    Op,
    PrimType,
    RelayRefType,
    TensorAffineType,
    TensorType,
    TupleAffineType,
    TupleType,
    TypeCall,
    TypeConstraint,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
    is_relax_expr,
    load_json,
    save_json,
    structural_equal,
    structural_hash,
)
from tilesmith.runtime.registry import register_func, remove_global_func
from tilesmith.support.errors import (
    ConfigError,
    TypeMismatchError,
    UnknownMemberError,
    UnknownNameError,
)


def identity(name="t"):
    t = TypeVar(name)
    return FuncType([t, TensorType((2,))], t, [t])


def list_type(name="List", variable="t"):
    """Lists: ``type List[t] { Nil(), Cons(t, List[t]) }``."""
    header, t = GlobalTypeVar(name), TypeVar(variable)
    nil, cons = Constructor("Nil", [], header), Constructor("Cons", [t, header(t)], header)
    return TypeData(header, [t], [nil, cons])


def quantized(scale=0.5):
    return TensorAffineType(ir.const(scale, "float32"), ir.const(3), "int8", 1)


@pytest.fixture
def relation():
    register_func("tests.Same", lambda *types: None)
    yield EnvFunc.get("tests.Same")
    remove_global_func("tests.Same")


@pytest.mark.parametrize(
    ("make", "other", "text"),
    [
        (lambda: TensorType((1, 4), "int8"), TensorType((4, 1)), "Tensor[(1, 4), int8]"),
        (lambda: TensorType(()), TensorType((1,)), "Tensor[(), float32]"),
        (identity, FuncType([], TypeVar("t")), "fn [t](t, Tensor[(2,), float32]) -> t"),
        (list_type, list_type("Other"), "type List[t] { Nil(), Cons(t, List[t]) }"),
        (IncompleteType, IncompleteType(TypeKind.ShapeVar), "ir.IncompleteType(kind=0)"),
        (lambda: RelayRefType(PrimType("int8")), RelayRefType(PrimType("int16")), "ref(T.int8)"),
        (lambda: GlobalTypeVar("A"), GlobalTypeVar("B"), "A"),
        (lambda: GlobalTypeVar("A")(PrimType("int8")), GlobalTypeVar("A")(), "A[T.int8]"),
        (lambda: TupleType([TensorType((2,))]), TupleType([]), "(Tensor[(2,), float32],)"),
        (
            quantized,
            quantized(0.25),
            'ir.TensorAffineType(scale=T.float32(0.5), zero_point=3, dtype="int8", axis=1)',
        ),
        (
            lambda: TupleAffineType([quantized()]),
            TupleAffineType([]),
            "ir.TupleAffineType(types=[ir.TensorAffineType(scale=T.float32(0.5), zero_point=3, "
            'dtype="int8", axis=1)])',
        ),
    ],
)
def test_types_are_compared_printed_and_saved(make, other, text):
    one = make()
    assert one == make() and hash(one) == hash(make()) and one != other
    assert structural_equal(one, make()) and structural_hash(one) == structural_hash(make())
    assert str(one) == text
    assert load_json(save_json(one)) == one


def test_names_of_type_variables_do_not_count():
    assert identity("t") == identity("u") and list_type("L", "t") == list_type("L", "u")
    t, u = TypeVar("t"), TypeVar("t")
    assert t == t and t != u and TypeVar("t").kind is TypeKind.Type
    assert FuncType([t], u, [t, u]) != FuncType([t], t, [t, u])
    assert t(PrimType("int8")) == TypeCall(t, [PrimType("int8")])


def test_shapes():
    n = tir.Var("n", "int64")
    assert TensorType((2, 3)).concrete_shape == (2, 3) and TensorType(()).concrete_shape == ()
    assert TensorType([n, 3], "bool").shape[0] is n and TensorType((1,)).dtype == "float32"
    with pytest.raises(TypeMismatchError, match="known only when it runs"):
        TensorType((n, 3)).concrete_shape
    for wrong in (2.5, "n", None):
        with pytest.raises(TypeMismatchError):
            TensorType((wrong,))


def test_modules_define_types():
    definition = list_type()
    header, (nil, cons) = definition.header, definition.constructors
    module = IRModule({}, {header: definition})
    assert module.get_type("List") == (header, nil, cons)
    assert module[header] is definition and header in module
    assert module.get_global_type_vars() == [header]
    assert module.get_global_type_var("List") is header
    assert module.get_constructor(cons.tag) is cons and nil.tag + 1 == cons.tag
    assert "# type List[t] { Nil(), Cons(t, List[t]) }" in str(module)
    for copy in (module.clone(), load_json(save_json(module)), module.with_attr("a", 1)):
        assert copy.type_definitions == {header: definition}
    assert structural_equal(module, load_json(save_json(module)))
    assert not structural_equal(module, IRModule())
    assert structural_hash(module) == structural_hash(IRModule({}, {header: list_type()}))
    assert structural_hash(module) != structural_hash(IRModule())
    merged = IRModule.from_expr(tir.PrimFunc([], tir.Evaluate(0)), None, {header: definition})
    other = IRModule()
    other.update(merged)
    assert other.get_type("List") == merged.get_type("List") and other.get_global_var("main")


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda m: m.get_type("Tree"), UnknownMemberError, "(?s)no type 'Tree'.*types: List"),
        (lambda m: m.get_constructor(-5), UnknownMemberError, "tag -5"),
        (lambda m: m.update({GlobalTypeVar("Tree"): list_type()}), TypeMismatchError, "got Tree"),
        (lambda m: m.update({GlobalTypeVar("T"): PrimType("int8")}), TypeMismatchError, "got T:"),
        (
            lambda m: TypeData(GlobalTypeVar("A"), [], list_type().constructors),
            ConfigError,
            "'Nil' makes a 'List', not a 'A'",
        ),
    ],
)
def test_what_modules_refuse(ask, error, text):
    definition = list_type()
    with pytest.raises(error, match=text):
        ask(IRModule({}, {definition.header: definition}))


def test_old_texts_of_modules_are_read():
    text = save_json(IRModule({"f": tir.PrimFunc([], tir.Evaluate(0))}))
    old = text.replace('{},null,{"m":[]}]', "{},null]").replace(
        '{"m":[]},null,{"m":[]}]', '{"m":[]},null]'
    )
    assert old != text
    assert structural_equal(load_json(old), load_json(text))


def test_operators_say_what_relay_asks(relation):
    op = Op.register("tests.with_types")
    assert (op.num_inputs, op.support_level, op.attrs_type_key, op.arguments) == (-1, 10, "", ())
    with pytest.raises(ConfigError, match="states no arguments"):
        op.add_type_rel("tests.Same")
    op.set_support_level(3)
    op.set_num_inputs(2)
    op.set_attrs_type_key("relay.attrs.Tests")
    op.add_argument("lhs", "Tensor", "The left side.")
    op.add_argument("rhs", "Tensor", "The right side.")
    assert (op.num_inputs, op.support_level, op.attrs_type_key) == (2, 3, "relay.attrs.Tests")
    assert op.arguments[1] == ("rhs", "Tensor", "The right side.")
    assert op.arguments[0].type_info == "Tensor"
    with pytest.raises(UnknownNameError, match=r"tests\.Sam"):
        op.add_type_rel("tests.Sam")
    op.add_type_rel("tests.Same")
    assert str(op.op_type) == (
        "fn [lhs, rhs, out](lhs, rhs) -> out where tests.Same(lhs, rhs, out)"
    )
    with pytest.raises(ConfigError, match="already"):
        op.add_type_rel("tests.Same")


def test_a_type_relation_brings_its_function():
    op = Op.register("tests.with_relation")
    op.set_num_inputs(1)
    op.add_type_rel("tests.Broadcast", lambda *types: len(types))
    constraint = op.op_type.type_constraints[0]
    assert isinstance(constraint, TypeRelation) and isinstance(constraint, TypeConstraint)
    assert constraint.num_inputs == 1 and constraint.func(1, 2, 3) == 3
    remove_global_func("tests.Broadcast")


def test_what_expressions_say_of_themselves():
    func = tir.PrimFunc([], tir.Evaluate(0))
    tensor = relax.TensorStructInfo((2,), "float32")
    var = relax.Var("x", tensor)
    known = GlobalVar("f", tensor)
    assert var.checked_type == known.checked_type == known.struct_info == tensor
    assert known.astext() == 'I.GlobalVar("f")'
    assert known.with_fields(name_hint="g").name_hint == "g"
    with pytest.raises(UnknownMemberError, match="nothing is known"):
        list_type().constructors[0].checked_type
    assert is_relax_expr(var) and is_relax_expr(relax.const(1.0))
    assert not is_relax_expr(func) and not is_relax_expr(known) and not is_relax_expr(tir.Any())
    assert func.attrs == {}
