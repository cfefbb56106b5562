"""Analyses: regions, variables, well-formedness, where buffers live, cost, purity."""

import pytest

from tests.tir.sample_programs import elementwise, matmul, module
from tilesmith import tir
from tilesmith.ir import (
    CallEffectKind,
    Let,
    PointerType,
    PrimType,
    Ramp,
    Range,
    Var,
    assert_structural_equal,
    const,
    is_const,
    structural_equal,
)
from tilesmith.support.errors import UnsupportedError, VerifyError
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    decl_buffer,
    stmt_seq,
)
from tilesmith.tir.analysis import (
    BlockScope,
    DepKind,
    assert_pure_function,
    calculate_allocated_bytes,
    calculate_constant_bytes,
    calculate_workspace_bytes,
    detect_buffer_access_lca,
    estimate_tir_flops,
    expr_deep_equal,
    find_anchor_block,
    get_block_access_region,
    get_block_read_write_region,
    is_pure_function,
    side_effect,
    undefined_vars,
    verify_ssa,
    verify_well_formed,
)


def opaque(body, allocated=(), matched=()):
    return Block([], [], [], "b", body, None, allocated, matched)


def loop(extent, body, name="i"):
    variable = Var(name, "int32")
    return For(variable, 0, extent, ForKind.SERIAL, body(variable))


def box(region):
    """The bounds of a region of constants."""
    return [(int(one.min), int(one.extent)) for one in region.region]


def only(regions):
    (region,) = regions
    return region


# Regions.


@pytest.mark.parametrize("func", [elementwise(), matmul()])
def test_regions_of_points(func):
    node = func.body
    while not isinstance(node, Block):
        node = node.block if isinstance(node, BlockRealize) else node.body
    reads, writes, others = get_block_access_region(node, {})
    assert not others
    for found, declared in ((reads, node.reads), (writes, node.writes)):
        assert len(found) == len(declared)
        for left, right in zip(found, declared):
            assert_structural_equal(left, right)


def test_regions_are_relaxed_over_inner_loops():
    a, b = decl_buffer((32, 32), name="A"), decl_buffer((64,), name="B")
    body = loop(
        4, lambda i: loop(8, lambda j: BufferStore(b, a[i * 2 + 1, j], [i * 8 + j + 3], None))
    )
    reads, writes = get_block_read_write_region(opaque(body), {})
    assert box(only(reads)) == [(1, 7), (0, 8)]
    assert box(only(writes)) == [(3, 32)]


def test_regions_in_terms_of_outer_iterators():
    a, b = decl_buffer((32,), name="A"), decl_buffer((32,), name="B")
    vi = IterVar((0, 8), "vi", 0)
    body = loop(4, lambda i: BufferStore(b, a[vi.var * 4 + i], [vi.var * 4 + i]))
    reads, _ = get_block_read_write_region(Block([vi], [], [], "b", body), {})
    region = only(reads).region[0]
    assert structural_equal(region.min, vi.var * 4) and is_const(region.extent, 4)


def test_accesses_of_one_buffer_are_united():
    a, b = decl_buffer((32,), name="A"), decl_buffer((32,), name="B")
    vi = IterVar((0, 8), "vi", 0)
    body = BufferStore(b, a[vi.var] + a[vi.var + 1] + a[vi.var + 2], [vi.var])
    reads, _ = get_block_read_write_region(Block([vi], [], [], "b", body), {})
    region = only(reads).region[0]
    assert region.min is vi.var and is_const(region.extent, 3)


def test_vectors_lets_and_loaded_indices():
    a, b = decl_buffer((32,), name="A"), decl_buffer((32,), "int32", name="B")
    x = Var("x", "int32")
    vector = BufferStore(a, const(1.0, "float32x4"), [Ramp(8, 2, 4)])
    reads, writes = get_block_read_write_region(opaque(vector), {})
    assert not reads and box(only(writes)) == [(8, 7)]
    bound = LetStmt(x, const(5, "int32"), BufferStore(a, 1.0, [x + 1]))
    _, writes = get_block_read_write_region(opaque(bound), {})
    assert box(only(writes)) == [(6, 1)]
    gathered = BufferStore(a, 1.0, [b[3]])
    reads, writes = get_block_read_write_region(opaque(gathered), {})
    assert box(only(writes)) == [(0, 32)] and box(only(reads)) == [(3, 1)]


def test_own_memory_and_results_of_reductions_are_left_out():
    a, temporary = decl_buffer((4,), name="A"), decl_buffer((4,), name="temporary")
    body = stmt_seq(BufferStore(temporary, a[0], [0]), BufferStore(a, temporary[0], [1]))
    reads, writes, _ = get_block_access_region(opaque(body, [temporary]), {})
    assert only(reads).buffer is a and only(writes).buffer is a
    vk = IterVar((0, 4), "vk", IterVar.CommReduce)
    update, init = BufferStore(a, a[0] + 1.0, [0]), BufferStore(a, 0.0, [0])
    reads, _ = get_block_read_write_region(Block([vk], [], [], "b", update, init), {})
    assert not reads
    reads, _ = get_block_read_write_region(Block([vk], [], [], "b", update), {})
    assert only(reads).buffer is a


def test_nested_blocks_count_with_what_they_declare():
    a = decl_buffer((32, 32), name="A")
    vi = IterVar((0, 8), "vi", 0)
    inner = Block(
        [vi], [], [BufferRegion(a, [Range.from_min_extent(vi.var, 2), Range(0, 5)])], "inner",
        Evaluate(0),
    )  # fmt: skip
    body = loop(8, lambda i: BlockRealize([i * 3], True, inner))
    _, writes = get_block_read_write_region(opaque(body), {})
    assert box(only(writes)) == [(0, 23), (0, 5)]


def test_matched_buffers_stand_for_their_source():
    a = decl_buffer((32, 32), name="A")
    tile = decl_buffer((4,), name="tile")
    source = BufferRegion(a, [Range.from_min_extent(const(7, "int32"), 1), Range(8, 12)])
    block = opaque(BufferStore(tile, 1.0, [2]), matched=[MatchBufferRegion(tile, source)])
    _, writes = get_block_read_write_region(block, {})
    assert only(writes).buffer is a and box(only(writes)) == [(7, 1), (10, 1)]


def test_pointers():
    a, b, c = [decl_buffer((32,), name=name) for name in "ABC"]
    read = tir.tvm_access_ptr("float32", a.data, 0, 4, 1)
    written = tir.tvm_access_ptr("float32", b.data, 0, 4, 2)
    body = Evaluate(tir.call_extern("int32", "f", read, written, c.data))
    reads, writes, others = get_block_access_region(opaque(body), {x.data: x for x in (a, b, c)})
    assert [only(found).buffer for found in (reads, writes, others)] == [a, b, c]
    reads, writes = get_block_read_write_region(opaque(body), {x.data: x for x in (a, b, c)})
    assert [r.buffer for r in reads] == [a, c] and [r.buffer for r in writes] == [b, c]


# Variables and rules.


def test_undefined_variables():
    x, y = Var("x", "int32"), Var("y", "int32")
    assert undefined_vars(x + y) == [x, y]
    assert undefined_vars(x + y, [x]) == [y]
    assert undefined_vars(Let(x, y, x + 1)) == [y]
    assert not undefined_vars(elementwise(None))
    func = elementwise(None)
    size = func.buffers[0].shape[0]
    names = {variable.name for variable in undefined_vars(func.body)}
    assert names == {size.name, "A", "B"}


def test_single_definition():
    assert verify_ssa(matmul())
    i = Var("i", "int32")
    twice = stmt_seq(*[For(i, 0, 4, 0, Evaluate(i + 1)) for _ in range(2)])
    assert not verify_ssa(PrimFunc([], twice))


@pytest.mark.parametrize("func", [elementwise(), elementwise(None), matmul(), module(matmul())])
def test_well_formed(func):
    assert verify_well_formed(func)


def broken():
    i, x = Var("i", "int32"), Var("x", "int32")
    a = decl_buffer((4,), name="A")
    vi = IterVar((0, 4), "vi", 0)
    yield "bound nowhere", PrimFunc([], Evaluate(x + 1))
    yield "after the end", PrimFunc([], stmt_seq(For(i, 0, 4, 0, Evaluate(i + 1)), Evaluate(i + 1)))
    yield "again inside", PrimFunc([], For(i, 0, 4, 0, For(i, 0, 4, 0, Evaluate(i + 1))))
    yield "neither a parameter", PrimFunc([], BufferStore(a, 1.0, [0]))
    inside = Block([vi], [], [], "b", BufferStore(a, 1.0, [i]))
    yield (
        "loop variable 'i' from outside",
        PrimFunc([a], For(i, 0, 4, 0, BlockRealize([i], True, inside))),
    )
    block = Block([vi], [], [], "b", Evaluate(0))
    realize = BlockRealize([0], True, block)
    object.__setattr__(realize, "iter_values", (const(0, "int32"), const(1, "int32")))
    yield "1 iterators, 2 values", PrimFunc([], realize)
    yield "its value is int64", PrimFunc([], BlockRealize([const(0, "int64")], True, block))


@pytest.mark.parametrize(("message", "func"), list(broken()))
def test_broken_rules(message, func):
    assert not verify_well_formed(func, assert_mode=False)
    with pytest.raises(VerifyError, match=message):
        verify_well_formed(func)


def test_opaque_blocks_may_look_outside():
    i = Var("i", "int32")
    a = decl_buffer((4,), name="A")
    block = Block([], [], [], "b", BufferStore(a, 1.0, [i]))
    assert verify_well_formed(PrimFunc([a], For(i, 0, 4, 0, BlockRealize([], True, block))))


def test_lowered_code_is_well_formed():
    a = Var("a", PointerType(PrimType("float32"), "global"))
    flat = decl_buffer((4,), name="flat", data=a)
    memory = Var("memory", PointerType(PrimType("float32"), "local"))
    view = decl_buffer((4,), name="view", data=memory)
    inside = DeclBuffer(view, BufferStore(flat, view[0], [0]))
    assert verify_well_formed(PrimFunc([a], Allocate(memory, "float32", [4], True, inside)))
    with pytest.raises(VerifyError, match="'memory'"):
        verify_well_formed(PrimFunc([a], inside))


# Where buffers live.


def test_lowest_common_ancestor():
    a, b, c = [decl_buffer((4, 4), name=name) for name in "ABC"]
    i, j, k = [Var(name, "int32") for name in "ijk"]
    first = For(j, 0, 4, 0, BufferStore(b, a[i, j], [i, j]))
    second = For(k, 0, 4, 0, stmt_seq(BufferStore(c, b[i, k], [i, k]), Evaluate(c[i, k] + 1.0)))
    outer = For(i, 0, 4, 0, stmt_seq(first, second))
    found = detect_buffer_access_lca(PrimFunc([a], outer))
    assert found == {a: first, b: outer, c: second}


def test_results_live_outside_of_the_reduced_loops():
    func = matmul()
    found = detect_buffer_access_lca(func)
    assert found[func.buffers[2]] is func.body.body
    assert isinstance(found[func.buffers[0]], Block)


def test_global_memory_lives_right_inside_of_the_grid():
    a, b = decl_buffer((4,), name="A"), decl_buffer((4,), name="B", scope="shared")
    i = Var("i", "int32")
    thread = IterVar(None, Var("bx", "int32"), IterVar.ThreadIndex, "blockIdx.x")
    inner = For(
        Var("j", "int32"), 0, 4, 0, stmt_seq(BufferStore(a, 1.0, [i]), BufferStore(b, 1.0, [i]))
    )
    nest = For(i, 0, 4, ForKind.THREAD_BINDING, inner, thread)
    assert detect_buffer_access_lca(PrimFunc([], nest)) == {a: nest, b: inner}


# Cost.


def test_operations_are_counted():
    assert estimate_tir_flops(matmul(8, 6, 10)) == 2 * 8 * 6 * 10
    assert estimate_tir_flops(elementwise()) == 16 * 12
    assert estimate_tir_flops(module(matmul(), elementwise())) == 2 * 8 * 6 * 10 + 16 * 12
    with pytest.raises(UnsupportedError, match="not constant"):
        estimate_tir_flops(elementwise(None))


@pytest.mark.parametrize(("function", "count"), [(tir.dot_u8i8, 4), (tir.dot_i16i16, 2)])
def test_operations_of_dot_products_are_counted(function, count):
    words = [Var(name, dtype) for name, dtype in (("a", "uint32"), ("b", "int32"))]
    out = decl_buffer((1,), "int32", "out")
    store = BufferStore(out, words[1] + function(*words), [0])
    assert estimate_tir_flops(store) == 2 * count


def test_memory_is_counted():
    first = Var("first", PointerType(PrimType("float32"), "global"))
    second = Var("second", PointerType(PrimType("int8"), "shared"))
    body = stmt_seq(
        Allocate(first, "float32", [10], True, Evaluate(0)),
        Allocate(second, "int8", [100], True, Allocate(first, "float32", [4], True, Evaluate(0))),
        AllocateConst(first, "float32", [3], 0, Evaluate(0)),
    )
    # Statements that do nothing were dropped: put them back by name.
    func = PrimFunc([], body)
    assert calculate_allocated_bytes(func) == {"global": 40, "shared": 100}
    assert calculate_allocated_bytes(module(func.with_attr("global_symbol", "f"))) == {
        "f": {"global": 40, "shared": 100}
    }
    assert calculate_workspace_bytes(func, 64) == 128 + 64
    assert calculate_constant_bytes(func, 16) == 16


def test_memory_of_blocks_is_counted():
    block = opaque(Evaluate(0), [decl_buffer((4, 4)), decl_buffer((8,), scope="local")])
    assert calculate_allocated_bytes(PrimFunc([], BlockRealize([], True, block))) == {
        "global": 64, "local": 32,
    }  # fmt: skip


def test_anchor_block():
    anchor = find_anchor_block(module(matmul().with_attr("global_symbol", "main")))
    assert anchor is not None and anchor.name_hint == "C"
    assert find_anchor_block(module(elementwise())) is None


# Effects.


def test_purity():
    memory = Var("memory", PointerType(PrimType("float32"), "global"))
    view = decl_buffer((4,), name="view", data=memory)
    inside = DeclBuffer(view, stmt_seq(BufferStore(view, 1.0, [0]), Evaluate(tir.ret(view[0]))))
    pure = PrimFunc([], Allocate(memory, "float32", [4], True, inside))
    assert is_pure_function(pure) and assert_pure_function(pure)
    assert not is_pure_function(matmul())
    with pytest.raises(VerifyError, match="writes to the buffer 'C'"):
        assert_pure_function(matmul())
    with pytest.raises(VerifyError, match=r"calls tir\.call_extern"):
        assert_pure_function(PrimFunc([], Evaluate(tir.call_extern("int32", "f"))))


def test_effects_of_expressions():
    x, a = Var("x", "float32"), decl_buffer((4,))
    assert side_effect(tir.exp(x) + 1.0) is CallEffectKind.Pure
    assert side_effect(tir.exp(a[0])) is CallEffectKind.ReadState
    assert side_effect(tir.call_extern("float32", "f", a[0])) is CallEffectKind.UpdateState
    assert expr_deep_equal(x + 1.0, x + 1.0) and not expr_deep_equal(x + 1.0, x + 2.0)


# Dependences.


def test_dependences_between_blocks():
    a, b, c = [decl_buffer((4,), name=name) for name in "ABC"]

    def block(name, reads, writes):
        regions = [
            [BufferRegion.full_region(buffer) for buffer in part] for part in (reads, writes)
        ]
        return BlockRealize([], True, Block([], *regions, name, Evaluate(0)))

    first, second = block("first", [a], [b]), block("second", [b], [c])
    third = block("third", [b, c], [a])
    nested = loop(4, lambda i: second)
    scope = BlockScope(opaque(stmt_seq(first, nested, third)))
    assert scope.blocks == [first, second, third]
    assert scope.consumers(first) == [second, third]
    assert scope.producers(third) == [first, second]
    assert not scope.producers(first.block) and not scope.consumers(third)
    kinds = [(d.src.block.name_hint, d.kind) for d in scope.get_deps_by_dst(third)]
    assert kinds == [("first", DepKind.RAW), ("second", DepKind.RAW), ("first", DepKind.WAR)]
    assert [d.dst for d in scope.get_deps_by_src(first.block)] == [second, third, third]


def test_expressions_that_were_seen_are_checked_where_they_stand():
    """What an expression uses is kept from call to call; whether it may is found each time."""
    i, j, unbound = [Var(name, "int32") for name in ("i", "j", "unbound")]
    out = decl_buffer((8,), "int32", "out")
    seen = {}

    def function(variable, index):
        store = BufferStore(out, index, [i])
        return PrimFunc([out.data], DeclBuffer(out, For(variable, 0, 8, ForKind.SERIAL, store)))

    good = i + 1
    assert verify_well_formed(function(i, good), strict=False, seen=seen)
    assert id(good) in seen
    assert verify_well_formed(function(i, good), strict=False, seen=seen)
    for wrong in (function(j, good), function(i, unbound + i)):
        for _ in range(2):
            with pytest.raises(VerifyError, match="bound nowhere"):
                verify_well_formed(wrong, strict=False, seen=seen)
