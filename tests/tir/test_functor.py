"""Substitution, new definitions, generic transforms, specialised functions."""

import numpy as np
import pytest

from tests.tir.sample_programs import elementwise, matmul
from tilesmith import tir
from tilesmith.ir import (
    Add,
    IntImm,
    PointerType,
    PrimType,
    Range,
    Var,
    assert_structural_equal,
    const,
    is_const,
    structural_equal,
)
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownNameError
from tilesmith.tir import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    decl_buffer,
    stmt_seq,
)
from tilesmith.tir.analysis import undefined_vars, verify_ssa
from tilesmith.tir.functor import (
    Substitution,
    ir_transform,
    post_order_visit,
    pre_order_visit,
    renew_defs,
    substitute,
)
from tilesmith.tir.interpreter import run
from tilesmith.tir.queries import buffers


def everything():
    """A function with each kind of definition."""
    n, i, x = Var("n", "int32"), Var("i", "int32"), Var("x", "int32")
    a = decl_buffer((n, 4), name="A")
    memory = Var("memory", PointerType(PrimType("float32"), "local"))
    view = decl_buffer((4,), name="view", data=memory)
    tile = decl_buffer((1, 4), name="tile", elem_offset=Var("offset", "int32"))
    vi = IterVar((0, n), "vi", 0)
    thread = IterVar((0, 2), "tx", IterVar.ThreadIndex, "threadIdx.x")
    region = BufferRegion(a, [Range.from_min_extent(vi.var, 1), Range.from_min_extent(0, 4)])
    temporary = decl_buffer((n,), name="temporary")
    body = stmt_seq(
        BufferStore(tile, 1.0, [0, 0]),
        BufferStore(temporary, a[vi, 0], [vi.var]),
        LetStmt(x, vi.var + 1, Evaluate(x + tile.elem_offset)),
        Allocate(memory, "float32", [4], True, DeclBuffer(view, BufferStore(view, 0.0, [0]))),
        AttrStmt(thread, "thread_extent", 2, Evaluate(thread.var + 1)),
    )
    block = Block(
        [vi], [], [region], "b", body, None, [temporary], [MatchBufferRegion(tile, region)]
    )
    return PrimFunc([a], For(i, 0, n, 0, BlockRealize([i], True, block))), n


def definitions(func):
    """All variables and buffers of a function."""
    found = set()

    def note(node):
        if isinstance(node, (Var, Buffer)):
            found.add(node)
        for field in node.node_fields:
            value = getattr(node, field.name)
            values = (
                value.values() if hasattr(value, "values") and callable(value.values) else value
            )
            for item in values if isinstance(values, (tuple, type({}.values()))) else (value,):
                if isinstance(item, (Var, Buffer)):
                    found.add(item)

    post_order_visit(func, note)
    for buffer in [item for item in found if isinstance(item, Buffer)]:
        found.add(buffer.data)
    return found


def test_renewed_definitions_are_all_new():
    func, _ = everything()
    renewed = renew_defs(func)
    assert_structural_equal(func, renewed)
    assert not definitions(func) & definitions(renewed)
    assert verify_ssa(renewed) and not undefined_vars(renewed)


@pytest.mark.parametrize("func", [elementwise(None), matmul()])
def test_renewed_functions_do_the_same(func):
    shapes = [(16, 12)] * 2 if len(func.params) == 2 else [(8, 10), (10, 6), (8, 6)]
    arrays = [np.random.default_rng(0).random(shape, dtype="float32") for shape in shapes]
    again = [array.copy() for array in arrays]
    run(func, *arrays)
    run(renew_defs(func), *again)
    np.testing.assert_array_equal(arrays[-1], again[-1])


def test_substitution_reaches_shapes_and_regions():
    func, n = everything()
    bound = substitute(func, {n: 8})
    assert not any(node is n for node in definitions(bound))
    assert is_const(bound.buffers[0].shape[0], 8)
    block = bound.body.body.block
    assert is_const(block.alloc_buffers[0].shape[0], 8)
    assert is_const(block.iter_vars[0].dom.extent, 8)
    assert block.match_buffers[0].source.buffer is bound.buffers[0]
    assert verify_ssa(bound) and not undefined_vars(bound)


def test_substitution_keeps_what_does_not_change():
    func, n = everything()
    assert substitute(func, {Var("other", "int32"): 1}) is func
    assert substitute(func, {}) is func
    x, y = Var("x", "int32"), Var("y", "int32")
    left = x + 1
    whole = Add(left, y + 2)
    changed = substitute(whole, {y: x})
    assert changed.a is left and changed.b.a is x


def test_substitution_of_structures_and_iterators():
    i = IterVar((0, 4), "i", 0)
    first, mapping = substitute([(i.var + 1,), {"k": i.var}], {i: 3})
    assert structural_equal(first[0], Add(const(3, "int32"), 1))
    assert is_const(mapping["k"], 3)
    x = Var("x", "int32")
    assert substitute(i.var + 1, {i.var: IterVar((0, 4), x, 0)}).a is x


def test_substitution_checks_dtypes():
    x = Var("x", "int32")
    with pytest.raises(TypeMismatchError, match="'x' is int32"):
        substitute(x + 1, {x: Var("y", "int64")})


def test_pointers_can_be_renamed():
    a = decl_buffer((4,), name="A")
    other = Var("other", a.data.type_annotation)
    store = substitute(BufferStore(a, a[0] + 1.0, [1]), {a.data: other})
    assert store.buffer.data is other and store.value.a.buffer is store.buffer


def test_order_of_visits():
    x, y = Var("x", "int32"), Var("y", "int32")
    shared = x + 1
    whole = Add(shared, Add(shared, y))
    after, before = [], []
    post_order_visit(whole, after.append)
    assert after[-1] is whole and [node for node in after if node is shared] == [shared]

    def note(node):
        before.append(node)
        return node is not shared

    pre_order_visit(whole, note)
    assert before[0] is whole and not any(node is x for node in before)


def test_transform():
    func = matmul()
    loops = []

    def outside(node):
        loops.append(node.loop_var.name)

    def inside(node):
        return node.with_fields(kind=1) if node.loop_var.name == "i" else None

    body = ir_transform(func.body, outside, inside, ["tir.For"])
    assert loops == ["i", "j", "k"]
    assert body.kind == 1 and body.body is func.body.body
    replaced = ir_transform(
        func.body, lambda node: Evaluate(1) if node.loop_var.name == "j" else None, None, ["For"]
    )
    assert isinstance(replaced.body, Evaluate)
    assert ir_transform(func.body, None, lambda node: None) is func.body

    def increment(node):
        return const(node.value + 1, node.dtype)

    assert structural_equal(
        ir_transform(
            Evaluate(Add(const(1, "int32"), const(2, "int32"))), None, increment, ["tir.IntImm"]
        ),
        Evaluate(Add(const(2, "int32"), const(3, "int32"))),
    )


def test_depth():
    x = Var("x", "int32")
    value = x
    for _ in range(20_000):
        value = Add(value, 1)
    assert isinstance(substitute(value, {x: 1}), Add)


def test_specialize():
    func = elementwise(None)
    size = func.buffers[0].shape[0]
    assert_structural_equal(func.specialize({size: 16}), elementwise(16))
    assert_structural_equal(
        func.specialize({func.params[0]: decl_buffer((16, 12))}), elementwise(16)
    )
    with pytest.raises(ShapeError, match="cannot stand"):
        func.specialize({func.params[0]: decl_buffer((16, 13))})
    with pytest.raises(UnknownNameError, match="'x'"):
        func.specialize({Var("x", "int32"): 1})
    n = Var("n", "int32")
    scalar = PrimFunc([n], Evaluate(tir.ret(n * 2)))
    assert run(scalar.specialize({n: 21})) == 42
    assert isinstance(scalar.specialize({n: 21}).body.value.args[0], (IntImm, tir.Mul))


def test_specialize_refuses_a_float_for_a_size():
    n, handle = tir.Var("n", "int32"), tir.Var("a", "handle")
    buffer = tir.decl_buffer((n,), "float32", "A")
    function = tir.PrimFunc([handle, n], tir.BufferStore(buffer, 1.0, [0]), None, {handle: buffer})
    with pytest.raises(TypeError, match="'n' is int32"):
        function.specialize({n: 1.5})
    with pytest.raises(ValueError, match="buffer 'A' of float32"):
        function.specialize({handle: tir.decl_buffer((8, 8), "float32", "B")})


def test_substitute_replaces_buffers_where_they_are_defined_and_used():
    old, new = decl_buffer((4,), name="X"), decl_buffer((4,), name="Y")
    index = Var("i", "int32")
    region = BufferRegion.from_point(old, [index])
    pointer = Evaluate(tir.call_intrin("handle", "tir.tvm_access_ptr", 0.0, old.data, 0, 4, 1))
    body = stmt_seq(BufferStore(old, old[index] + 1.0, [index]), pointer)
    view = MatchBufferRegion(decl_buffer((1,), name="V"), region)
    inner = Block([], [region], [region], "inner", body, None, (), [view])
    outer = Block([], [], [], "outer", BlockRealize([], True, inner), None, [old])
    moved = substitute(outer, {}, buffers={old: new})
    assert moved.alloc_buffers == (new,)
    block = moved.body.block
    assert {*buffers(block)} == {new}
    assert block.match_buffers[0].source.buffer is new
    assert block.body[1].value.args[1] is new.data
    assert substitute(outer, {}, buffers={view.buffer: view.buffer}) is outer


def test_views_move_along_to_another_storage_scope():
    old, new = decl_buffer((4,), name="X"), decl_buffer((4,), name="Y", scope="local")
    view = decl_buffer((1,), name="V")
    inner_view = decl_buffer((1,), name="W")
    first = MatchBufferRegion(view, BufferRegion.from_point(old, [0]))
    second = MatchBufferRegion(inner_view, BufferRegion.from_point(view, [0]))
    store = BufferStore(inner_view, 1.0, [0])
    inner = Block([], [], [], "inner", store, None, (), [second])
    outer = Block([], [], [], "outer", BlockRealize([], True, inner), None, (), [first])
    substitution = Substitution({}, {old: new})
    moved = substitution.visit(outer)
    around, inside = moved.match_buffers[0], moved.body.block.match_buffers[0]
    assert [one.buffer.scope() for one in (around, inside)] == ["local", "local"]
    assert inside.source.buffer is around.buffer
    assert moved.body.block.body.buffer is inside.buffer
    assert inside.buffer.data is not inner_view.data
    assert substitution.reuse == {outer: moved, inner: moved.body.block}
