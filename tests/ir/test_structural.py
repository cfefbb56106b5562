"""Structural equality and hash: renaming, pairing, attributes, paths of differences."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.sample_programs import elementwise, matmul, module
from tilesmith import te
from tilesmith.ir import (
    Add,
    Call,
    IRModule,
    Let,
    Max,
    Mul,
    Select,
    SizeVar,
    Sub,
    Var,
    assert_structural_equal,
    const,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from tilesmith.support.errors import StructuralMismatchError
from tilesmith.tir import (
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    SeqStmt,
    decl_buffer,
    stmt_seq,
)


def both(left, right, **options):
    """Equality in both directions, and that equal nodes hash alike."""
    same = structural_equal(left, right, **options)
    assert structural_equal(right, left, **options) == same
    if same:
        assert structural_hash(left, **options) == structural_hash(right, **options)
    return same


@pytest.mark.parametrize("rows", [16, None])
def test_names_do_not_count(rows):
    assert both(elementwise(rows), elementwise(rows, names=("x", "y")))


@pytest.mark.parametrize(
    "other",
    [
        elementwise(shift=2.0),
        elementwise(rows=17),
        elementwise(rows=None),
        elementwise(kind=2),
        elementwise(symbol="other"),
        matmul(),
    ],
)
def test_what_a_program_says_counts(other):
    assert not both(elementwise(), other)
    assert structural_hash(elementwise()) != structural_hash(other)


def test_free_variables_are_equal_only_to_themselves():
    x, y = Var("x", "int32"), Var("x", "int32")
    assert both(x + 1, x + 1)
    assert not both(x + 1, y + 1)
    assert both(x + 1, y + 1, map_free_vars=True)


def test_mapping_of_free_variables_goes_both_ways():
    x, y, z = [Var(name, "int32") for name in "xyz"]
    assert both(x + y, y + x, map_free_vars=True)
    assert not both(x + y, z + z, map_free_vars=True)
    assert not both(x + x, y + z, map_free_vars=True)
    assert not both(x, SizeVar("x", "int32"), map_free_vars=True)
    assert not both(x, Var("x", "int64"), map_free_vars=True)


def test_swapped_loops_differ():
    def nest(first, second):
        a = decl_buffer((4, 4), name="A")
        i, j = Var("i", "int32"), Var("j", "int32")
        place = [i, j] if first == "i" else [j, i]
        return PrimFunc([a], For(i, 0, 4, 0, For(j, 0, 4, 0, BufferStore(a, 1.0, place))))

    assert both(nest("i", "j"), nest("i", "j"))
    assert not both(nest("i", "j"), nest("j", "i"))


def test_shared_objects_under_other_bindings_differ():
    # The very same store object means something else where its variables are bound the other way.
    a = decl_buffer((4, 4), name="A")
    i, j = Var("i", "int32"), Var("j", "int32")
    store = BufferStore(a, 1.0, [i, j])
    left = PrimFunc([a], For(i, 0, 4, 0, For(j, 0, 4, 0, store)))
    right = PrimFunc([a], For(j, 0, 4, 0, For(i, 0, 4, 0, store)))
    assert not both(left, right)


def test_one_variable_for_several_loops():
    i, j, k = [Var(name, "int32") for name in "ijk"]
    a = decl_buffer((4,), name="A")

    def loop(variable):
        return For(variable, 0, 4, 0, BufferStore(a, 1.0, [variable]))

    assert both(stmt_seq(loop(i), loop(i)), stmt_seq(loop(j), loop(k)))
    assert both(stmt_seq(loop(j), loop(k)), stmt_seq(loop(i), loop(i)))


def test_scope_ends():
    x, y = Var("x", "int32"), Var("y", "int32")
    left = stmt_seq(LetStmt(x, 1, Evaluate(Add(x, 1))), Evaluate(Add(x, 2)))
    right = stmt_seq(LetStmt(y, 1, Evaluate(Add(y, 1))), Evaluate(Add(y, 2)))
    other = stmt_seq(LetStmt(y, 1, Evaluate(Add(y, 1))), Evaluate(Add(x, 2)))
    assert not both(left, right)
    assert both(left, other)


def test_attributes_compare_by_content():
    func = elementwise()
    left = func.with_attr({"a": 1, "b": (1, {"c": 2.0})})
    right = func.with_attr("b", [1, {"c": 2.0}]).with_attr("a", 1)
    assert both(left, right)
    assert not both(left, right.with_attr("a", 2))
    assert not both(func.with_attr("a", 1), func.with_attr("a", True))
    assert not both(func.with_attr("a", 1), func.with_attr("a", 1.0))
    nodes = [func.with_attr("a", Mul(const(2, "int32"), const(3, "int32"))) for _ in range(2)]
    assert both(*nodes)


def test_arrays_compare_by_content():
    def constant(values):
        data = Var("c", decl_buffer((3,)).data.type_annotation)
        return AllocateConst(data, "float32", [3], values, Evaluate(0))

    values = np.array([1, 2, 3], "float32")
    assert both(constant(values), constant(values.copy()))
    assert not both(constant(values), constant(values + 1))
    assert not both(constant(values), constant(values.astype("float64")))


def test_not_a_number_equals_itself():
    assert both(const(float("nan"), "float32"), const(float("nan"), "float32"))
    assert not both(const(0.0, "float32"), const(-0.0, "float32"))


def test_buffers_that_are_declared_nowhere():
    def lowered(size):
        a = decl_buffer((size,), name="A")
        flat = decl_buffer((size,), name="flat", data=a.data)
        return PrimFunc([a], BufferStore(flat, 1.0, [0]))

    assert both(lowered(4), lowered(4))

    def declared(inside):
        a = decl_buffer((4,), name="A")
        first = decl_buffer((4,), name="first", data=a.data)
        second = decl_buffer((4,), name="second", data=a.data)
        used = first if inside == "first" else second
        return PrimFunc([a], DeclBuffer(first, DeclBuffer(second, BufferStore(used, 1.0, [0]))))

    assert not both(declared("first"), declared("second"))


def test_modules_compare_by_name():
    left = module(elementwise(symbol="f"), matmul())
    right = module(matmul(), elementwise(symbol="f"))
    assert both(left, right)
    assert not both(left, module(matmul()))
    assert not both(left, left.with_attr("x", 1))


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        (elementwise(), elementwise(shift=2.0), "<root>.body.body.body.block.body.value.b.value"),
        (elementwise(), elementwise(kind=1), "<root>.body.body.kind"),
        (
            module(elementwise()),
            module(elementwise(shift=0.5)),
            '<root>.functions["main"].body.body.body.block.body.value.b.value',
        ),
    ],
)
def test_path_and_text_of_the_first_difference(left, right, path):
    found = get_first_structural_mismatch(left, right)
    assert found is not None and str(found[0]) == path
    assert found[0].resolve(left) != found[0].resolve(right)
    with pytest.raises(StructuralMismatchError) as raised:
        assert_structural_equal(left, right)
    assert path in str(raised.value)
    assert "caused by lhs at " + path in str(raised.value) and "B[" in str(raised.value)
    assert "and rhs at " + path in str(raised.value) and "the difference: " in str(raised.value)
    assert isinstance(raised.value, ValueError)


def test_no_difference():
    assert get_first_structural_mismatch(matmul(), matmul()) is None
    assert_structural_equal(matmul(), matmul())


def test_deep_and_shared_expressions():
    def chain(depth):
        x = Var("x", "int32")
        value = x
        for _ in range(depth):
            value = Add(value, 1)
        return Let(x, 1, value)

    assert both(chain(20_000), chain(20_000))

    def doubled(times):
        x = Var("x", "int32")
        value = x
        for _ in range(times):
            value = Mul(value, value)
        return Let(x, 1, value)

    assert both(doubled(200), doubled(200))  # a tree would have 2**200 nodes


def test_hash_is_the_same_in_every_process():
    code = (
        "from tests.tir.sample_programs import *; from tilesmith.ir import structural_hash;"
        "print(structural_hash(module(elementwise(None), matmul())))"
    )
    seen = set()
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(result.stdout)
    assert len(seen) == 1


def test_launch_attribute_binds_its_iterator():
    from tilesmith.tir import IterVar

    def launched(name):
        thread = IterVar((0, 4), name, IterVar.ThreadIndex, "threadIdx.x")
        a = decl_buffer((4,), name="A")
        return PrimFunc(
            [a], AttrStmt(thread, "thread_extent", 4, BufferStore(a, 1.0, [thread.var]))
        )

    assert both(launched("x"), launched("y"))


# Random programs: equal under renaming, different after a change.

NAMES = ("a", "b", "c")
BINARY = (Add, Sub, Mul, Max)


def expressions(depth=3):
    leaves = st.one_of(
        st.sampled_from(NAMES).map(lambda name: ("var", name)),
        st.integers(-3, 3).map(lambda value: ("const", value)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(range(len(BINARY))), inner, inner),
            st.tuples(st.just("select"), inner, inner, inner),
            st.tuples(st.just("let"), st.sampled_from(NAMES), inner, inner),
        ),
        max_leaves=8,
    )


def build(tree, scope):
    kind = tree[0]
    if kind == "var":
        return scope[tree[1]]
    if kind == "const":
        return const(tree[1], "int32")
    if kind == "select":
        condition, yes, no = [build(part, scope) for part in tree[1:]]
        return Select(condition < 1, yes, no)
    if kind == "let":
        variable = Var(tree[1], "int32")
        value = build(tree[2], scope)
        return Let(variable, value, build(tree[3], {**scope, tree[1]: variable}))
    return BINARY[kind](build(tree[1], scope), build(tree[2], scope))


def canonical(tree, scope, depth=0):
    """The tree with variables of `let` numbered by depth: equal exactly for equal programs."""
    kind = tree[0]
    if kind == "var":
        return scope[tree[1]]
    if kind == "let":
        value = canonical(tree[2], scope, depth)
        body = canonical(tree[3], {**scope, tree[1]: depth}, depth + 1)
        return ("let", value, body)
    if kind == "const":
        return tree
    return (kind, *[canonical(part, scope, depth) for part in tree[1:]])


def function_of(tree, prefix):
    params = {name: Var(prefix + name, "int32") for name in NAMES}
    call = Call("int32", "tir.ret", (build(tree, params),))
    return PrimFunc(list(params.values()), Evaluate(call))


@settings(max_examples=60, deadline=None)
@given(expressions(), expressions())
def test_random_functions(first, second):
    left, renamed, other = (
        function_of(first, "x"),
        function_of(first, "y"),
        function_of(second, "z"),
    )
    assert both(left, renamed)
    free = {name: name for name in NAMES}
    assert both(left, other) == (canonical(first, free) == canonical(second, free))


def test_plain_structures():
    x = Var("x", "int32")
    assert structural_equal([x, {"k": x + 1}], (x, {"k": x + 1}))
    assert not structural_equal([x], [x, x])
    assert structural_equal(IRModule(), IRModule())


# Parts of functions, and elements of tensor expressions.


def increments(size=4, offset=None, twice=False):
    a = decl_buffer((size,), name="A", elem_offset=offset)
    b = decl_buffer((size,), name="B")
    store = BufferStore(b, a[0] + 1.0, [0])
    return SeqStmt([store, BufferStore(a if twice else b, a[1] + 1.0, [1])])


def test_buffers_of_a_part_are_paired_with_what_they_are_made_of():
    assert both(increments(), increments())
    symbolic = [increments(Var("n", "int32"), Var("o", "int32")) for _ in range(2)]
    assert both(*symbolic)
    assert not both(increments(4), increments(5))
    assert not both(increments(), increments(twice=True))  # the second store is to the other one


def test_expressions_read_their_own_buffers():
    a, b = decl_buffer((4,), name="A"), decl_buffer((4,), name="B")
    assert both(a[0], a[0]) and not structural_equal(a[0], b[0])


def test_an_element_of_a_tensor_is_the_expression_it_stands_for():
    a = te.placeholder((4,), name="A")
    assert both(a[1], a[1]) and both(a[1], a(1)) and not structural_equal(a[1], a[2])
