"""The queries about statements and buffers: accesses, buffers, free variables, effects."""

import pytest

from tests.tir.sample_programs import matmul
from tilesmith.ir import Call, Let, PointerType, PrimType, Range, Var, const
from tilesmith.tir import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    decl_buffer,
    stmt_seq,
)
from tilesmith.tir.queries import (
    accesses,
    buffers,
    executed,
    free_variables,
    has_side_effect,
    loads,
    reads_memory,
    statements,
    stores,
    uses_variable,
)

DEPTH = 100_000
A, B, INDEX = (
    decl_buffer((8,), name="A"),
    decl_buffer((8,), name="B"),
    decl_buffer((8,), "int32", name="P"),
)
i, j, k, x = (Var(name, "int32") for name in "ijkx")


def names(found):
    return [one.name for one in found]


def text(found):
    return [str(one).removesuffix("\n") for one in found]


def test_accesses_come_in_order_outer_ones_first():
    program = stmt_seq(
        BufferStore(A, B[INDEX[i]] + A[j], [i]),
        IfThenElse(A[k] > 0.0, BufferStore(B, 1.0, [INDEX[k]]), BufferStore(A, 2.0, [k])),
    )
    assert text(loads(program)) == ["B[P[i]]", "P[i]", "A[j]", "A[k]", "P[k]"]
    assert text(loads(program, A)) == ["A[j]", "A[k]"]
    assert names(one.buffer for one in stores(program)) == ["A", "B", "A"]
    assert names(one.buffer for one in accesses(program)) == list("ABPAABPA")
    assert len(list(accesses(program, A))) == 4
    assert names(buffers(program)) == ["A", "B", "P"]
    kinds = [type(one).__name__ for one in statements(program)]
    assert kinds == ["SeqStmt", "BufferStore", "IfThenElse", "BufferStore", "BufferStore"]


def block_with_regions():
    """A block whose regions and matched buffer are given by loads."""
    point = BufferRegion.from_point(A, [INDEX[0]])
    matched = BufferRegion.from_point(A, [INDEX[1]])
    view = decl_buffer((1,), name="view", elem_offset=Var("offset", "int32"))
    iterator = IterVar((0, 8), "v", 0)
    return Block(
        [iterator], [point], [point], "b", BufferStore(view, B[iterator.var], [0]),
        BufferStore(view, 0.0, [0]), [], [MatchBufferRegion(view, matched)],
    )  # fmt: skip


def test_declared_regions_are_not_carried_out():
    block = block_with_regions()
    assert text(loads(block)) == ["P[1]", "B[v]"]
    assert not any(isinstance(one, BufferRegion) and "P[0]" in str(one) for one in executed(block))
    assert names(buffers(block)) == ["A", "P", "view", "B"]
    init, update = stores(block)
    assert init is block.init and update is block.body


def test_functions_are_roots_too():
    func = matmul()
    assert names(one.buffer for one in loads(func)) == ["C", "A", "B"]
    assert len(list(stores(func))) == 2
    assert next(statements(func)) is func.body


def test_an_access_uses_the_pointer_of_its_buffer():
    store = BufferStore(A, B[i], [j])
    for variable, expected in ((A.data, True), (B.data, True), (i, True), (j, True), (k, False)):
        assert uses_variable(store, {variable}) == expected
    assert uses_variable([const(1, "int32"), B[i]], {i, k})


n, m = Var("n", "int32"), Var("m", "int32")
SIZED = decl_buffer((n, 4), name="S")
MEMORY = Var("memory", PointerType(PrimType("float32")))
VIEW = decl_buffer((m,), name="view", data=MEMORY)
THREAD = IterVar((0, 2), "tx", IterVar.ThreadIndex, "threadIdx.x")

FREE = [
    (i + j * i, "i j", "i j"),
    (Let(i, j, i + k), "j k", "j k"),
    (Let(i, i + 1, i), "i", "i"),  # the value does not see the variable
    (Let(i, j, i) + i, "j i", "j i"),  # used after its scope
    (i + Let(i, j, i), "i j", "i j"),
    (Let(i, j, Let(i, i + k, i) + i), "j k", "j k"),  # shadowed, and still bound afterwards
    (For(i, 0, i, 0, Evaluate(i)), "i", "i"),
    (stmt_seq(For(i, 0, 4, 0, Evaluate(i + j)), Evaluate(i)), "j i", "j i"),
    (LetStmt(x, i, LetStmt(x, x + j, Evaluate(x))), "i j", "i j"),
    (Evaluate(SIZED[i, 0]), "S_data n i", "S_data i"),
    (Allocate(MEMORY, "float32", [n], True, Evaluate(MEMORY)), "n", "n"),
    (DeclBuffer(VIEW, Evaluate(VIEW[0])), "memory m", "memory m"),
    (AttrStmt(THREAD, "thread_extent", n, Evaluate(THREAD.var)), "n", "n"),
    (AttrStmt(SIZED, "some_key", k, Evaluate(i)), "k i", "k i"),
    (PrimFunc([SIZED, i], Evaluate(SIZED[i, n] + m)), "m", "m"),
    (BlockRealize([j], True, block_with_regions()), "j A P B", "j A P B"),
]


@pytest.mark.parametrize("node, with_sizes, flat", FREE)
def test_free_variables(node, with_sizes, flat):
    shown = {A.data: "A", B.data: "B", INDEX.data: "P", SIZED.data: "S_data"}

    def listed(**options):
        return " ".join(shown.get(one, one.name) for one in free_variables(node, **options))

    assert listed() == with_sizes and listed(sizes=False) == flat


def test_known_variables_are_not_free():
    assert free_variables(i + j, [i]) == [j]
    assert free_variables([i + 1, j + i]) == [i, j]


def test_a_shared_expression_is_looked_at_in_each_scope():
    shared = i + 1
    assert free_variables(Let(i, j, shared) + shared) == [j, i]
    doubled = i
    for _ in range(60):
        doubled = doubled + doubled
    assert free_variables(doubled) == [i]


def test_effects():
    pure = Call("float32", "tir.exp", [B[i]])
    asserted = Call("int32", "tir.tvm_storage_sync", ["shared"])
    assert reads_memory(pure) and not has_side_effect(pure)
    assert has_side_effect(asserted)
    assert not reads_memory(i * j) and not has_side_effect(i * j)


def test_deep_statements():
    program, loops = Evaluate(i), []
    for number in range(DEPTH):
        variable = Var(f"v{number}", "int32")
        program = LetStmt(variable, j, program) if number % 2 else For(variable, 0, 2, 0, program)
        loops.append(variable)
    assert free_variables(program) == [j, i]
    assert sum(1 for _ in statements(program)) == DEPTH + 1
    assert list(loads(program)) == [] and buffers(program) == []
    assert uses_variable(program, {i}) and not uses_variable(program, {k})
    deep = A[i]
    for _ in range(DEPTH):
        deep = deep + 1.0
    store = BufferStore(B, deep, [Range(0, 1).min])
    assert text(loads(store)) == ["A[i]"] and not has_side_effect(deep) and reads_memory(deep)
    assert free_variables(store) == [B.data, A.data, i]
