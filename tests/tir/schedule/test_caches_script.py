"""Copies of buffers and their storage scopes."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused, schedule_of
from tilesmith.script import tir as T
from tilesmith.tir.queries import loads


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def test_cache_read_and_write():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        A_shared = T.alloc_buffer((7, 13), "float32", scope="shared")
        B_local = T.alloc_buffer((7, 13), "float32", scope="local")
        for ax0, ax1 in T.grid(7, 13):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v0, v1] = A[v0, v1]
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A_shared[vi, vj] + T.float32(1)
        for ax0, ax1 in T.grid(7, 13):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = B_local[v0, v1]

    @T.prim_func
    def rows(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        block = sch.get_block("B")
        sch.cache_read(block, 0, "shared")
        sch.cache_write(block, "B", "local")

    check(rows, steps, expected)


def test_a_cache_of_constant_memory_behind_a_check():
    @T.prim_func
    def checked(A: T.Buffer((1,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main"})
        assert A[0] >= 0, "a number is too small"
        table = T.allocate_const([3, 5, 7, 9], "int32", [4])
        C = T.decl_buffer((4,), "int32", data=table)
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = C[vi] + A[0]

    @T.prim_func
    def expected(A: T.Buffer((1,), "int32"), B: T.Buffer((4,), "int32")):
        C_local = T.alloc_buffer((4,), "int32", scope="local")
        assert A[0] >= 0, "a number is too small"
        table = T.allocate_const([3, 5, 7, 9], "int32", [4])
        C = T.decl_buffer((4,), "int32", data=table)
        for ax0 in range(4):
            with T.block("C_local"):
                v0 = T.axis.spatial(4, ax0)
                C_local[v0] = C[v0]
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = C_local[vi] + A[0]

    check(checked, lambda sch: sch.cache_read(sch.get_block("B"), 0, "local"), expected)


def test_caches_behind_fused_loops_of_unknown_sizes():
    """The condition of the split, ``x < n * m``, follows from ``x // m < n`` and ``x % m < m``."""

    @T.prim_func
    def rows(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
        T.func_attr({"global_symbol": "main"})
        A, B = T.match_buffer(a, (n, m)), T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    sch = schedule_of(rows)
    sch.split(sch.fuse(*loops(sch, "B")), [None, 8])
    sch.cache_write("B", 0, "local")
    assert sch.get_block("B_local") is not None


@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_cached_tiles(program):
    def steps(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 4])
        k0, k1 = sch.split(k, [None, 3])
        sch.reorder(i0, k0, i1, j, k1)
        a = sch.cache_read(block, "A", "shared")
        b = sch.cache_read(block, "B", "local")
        c = sch.cache_write(block, 0, "local")
        sch.compute_at(a, k0)
        sch.compute_at(b, k0)
        sch.reverse_compute_at(c, i0)

    check(program, steps)


def test_cache_consumers():
    def one(sch):
        sch.cache_read(sch.get_block("C"), "B", "local", consumer_blocks=[sch.get_block("C")])

    sch = check(programs.three_stages, one)
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B", "C"]
    sch = check(programs.three_stages, lambda sch: sch.cache_read(sch.get_block("C"), 0, "local"))
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B_local", "C"]

    def write(sch):
        sch.cache_write(sch.get_block("B"), 0, "local", consumer_blocks=[sch.get_block("D")])

    sch = check(programs.three_stages, write)
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B_local", "C"]


def test_caches_within_one_nest():
    """The copy goes between writer and readers, and holds what one iteration needs."""

    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((7, 13), "float32")
        B_local = T.alloc_buffer((7, 13), "float32", scope="local")
        for i in range(7):
            for ax0 in range(13):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for ax0, ax1 in T.grid(1, 13):
                with T.block("B_local"):
                    v0 = T.axis.spatial(7, i + ax0)
                    v1 = T.axis.spatial(13, ax1)
                    B_local[v0, v1] = B[v0, v1]
            for j in range(13):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B_local[vi, vj] + T.float32(1)

    def read(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
        sch.cache_read(sch.get_block("C"), 0, "local")

    check(programs.elementwise, read, expected)

    def write(sch, consumers=()):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
        sch.cache_write(sch.get_block("B"), 0, "local", [sch.get_block(name) for name in consumers])

    check(programs.elementwise, write)
    check(programs.elementwise, lambda sch: write(sch, ["C"]))
    check(programs.elementwise64, write)


def test_caches_in_a_nest_with_a_tail():
    def steps(sch):
        i = loops(sch, "C")[0]
        outer, _ = sch.split(i, [None, 5])
        sch.compute_at(sch.get_block("B"), outer)
        sch.cache_read(sch.get_block("C"), 0, "local")
        sch.cache_write(sch.get_block("B"), 0, "shared")

    check(programs.stencil, steps)
    check(programs.elementwise, steps)


def test_a_cache_of_unfinished_sums():
    def steps(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        sch.reorder(i, k, j)
        sch.reverse_compute_at(sch.get_block("D"), i)
        sch.cache_write(block, 0, "local")

    sch = check(programs.matmul_relu, steps)
    assert len(sch.get_loops(sch.get_block("C_local"))) == 3
    check(programs.matmul_relu, lambda sch: sch.cache_write(sch.get_block("C"), 0, "local"))


@T.prim_func
def parts(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    """Even elements of the upper half are written, the last one by another block."""
    T.func_attr({"global_symbol": "main"})
    for i in range(3):
        with T.block("even"):
            vi = T.axis.spatial(3, i)
            B[vi * 2 + 6] = A[vi * 2 + 1]


@T.prim_func
def upper(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            B[vi + 6] = A[vi + 1]


def test_caches_of_parts():
    """Only what is read or written is copied and held; what was in the rest of an output stays."""

    @T.prim_func
    def expected(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
        A_local = T.alloc_buffer((5,), "float32", scope="local")
        B_local = T.alloc_buffer((5,), "float32", scope="local")
        for ax0 in range(5):
            with T.block("A_local"):
                v0 = T.axis.spatial(5, ax0)
                A_local[v0] = A[1 + v0]
        for i in range(5):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                B_local[vi] = A_local[vi]
        for ax0 in range(5):
            with T.block("B_local"):
                v0 = T.axis.spatial(5, ax0)
                B[6 + v0] = B_local[v0]

    def steps(name):
        def apply(sch):
            sch.cache_read(sch.get_block(name), 0, "local")
            sch.cache_write(sch.get_block(name), 0, "local")

        return apply

    check(upper, steps("B"), expected)
    refused(parts, lambda sch: sch.cache_write(sch.get_block("even"), 0, "local"),
            "block 'even' leaves gaps in the part of 'B' that it writes")  # fmt: skip


@T.prim_func
def some(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            if vi < 5:
                C[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            if vi < 5:
                B[vi] = C[vi]


def test_caches_of_what_is_written_under_a_condition():
    """A copy would overwrite elements of an output that the block leaves alone."""
    refused(
        some,
        lambda sch: sch.cache_write(sch.get_block("B"), 0, "local"),
        "block 'B' writes 'B' under a condition",
    )
    refused(
        some,
        lambda sch: sch.reindex(sch.get_block("B"), ("write", 0)),
        "block 'B' writes 'B' under a condition",
    )
    check(some, lambda sch: sch.cache_write(sch.get_block("C"), 0, "local"))


def test_a_cache_inside_of_a_block():
    """In the scope of an inner block the copy holds what that block needs."""

    @T.prim_func
    def nested(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(2, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                for x, y in T.grid(4, 4):
                    with T.block("B"):
                        vx, vy = T.axis.remap("SS", [x, y])
                        B[vi * 4 + vx, vj * 4 + vy] = A[vi * 4 + vx, vj * 4 + vy] + T.float32(1)

    def steps(sch):
        read = sch.cache_read(sch.get_block("B"), 0, "shared")
        write = sch.cache_write(sch.get_block("B"), 0, "local")
        for copy in (read, write):
            assert [int(sch.get(loop).extent) for loop in sch.get_loops(copy)] == [4, 4]

    check(nested, steps)
    check(nested, lambda sch: sch.cache_read(sch.get_block("tile"), 0, "shared"))


def test_cache_refusals():
    refused(
        programs.elementwise,
        lambda sch: sch.cache_read(sch.get_block("B"), 1, "local"),
        "reads no buffer number 1",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.cache_read(sch.get_block("B"), "X", "local"),
        "block 'B' does not read 'X'; it does: A",
    )

    def decomposed(sch):
        sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[2])

    refused(
        programs.matmul,
        [decomposed, lambda sch: sch.cache_write(sch.get_block("C_update"), 0, "local")],
        "another block writes buffer 'C' too",
    )


def test_set_scope_and_storage_align():
    def steps(sch):
        block = sch.get_block("B")
        sch.set_scope(block, 0, "shared")
        sch.storage_align(block, 0, -2, 32, 8)
        sch.storage_align(block, 0, 0, 16, 4)

    sch = check(programs.elementwise, steps)
    block = sch.get(sch.get_block("B"))
    assert block.writes[0].buffer.scope() == "shared"
    assert sch.get(sch.get_block("C")).reads[0].buffer is block.writes[0].buffer
    assert block.annotations["buffer_dim_align"] == ((0, 0, 16, 4),)
    refused(
        programs.elementwise,
        lambda sch: sch.set_scope(sch.get_block("C"), 0, "shared"),
        "buffer 'C' is a parameter",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("B"), 0, 2, 32, 8),
        "buffer 'B' has no axis 2",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("B"), 0, 0, 0, 8),
        "factor 0 is not positive",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("C"), 0, 0, 8, 0),
        "is a parameter",
    )


SCOPED = {
    "cache_read": lambda sch, scope: sch.cache_read("C", 0, scope),
    "cache_write": lambda sch, scope: sch.cache_write("B", 0, scope),
    "set_scope": lambda sch, scope: sch.set_scope("B", 0, scope),
    "read_at": lambda sch, scope: sch.read_at(sch.get_loops("C")[0], sch.get_block("C"), 0, scope),
    "write_at": lambda sch, scope: sch.write_at(
        sch.get_loops("B")[0], sch.get_block("B"), 0, scope
    ),
    "reindex_cache_read": lambda sch, scope: sch.reindex_cache_read(
        "C", 0, scope, lambda i, j: (j, i)
    ),
}


@pytest.mark.parametrize("primitive", SCOPED)
def test_storage_scopes(primitive):
    steps = SCOPED[primitive]
    for scope in ("wmma", "vtcm", "m16n8k8", "anywhere"):
        refused(
            programs.elementwise,
            lambda sch, scope=scope: steps(sch, scope),
            f"{primitive}: '{scope}' is not a storage scope",
        )
    for scope in ("shared.dyn", "wmma.accumulator", "global.texture-weight", "local"):
        check(programs.elementwise, lambda sch, scope=scope: steps(sch, scope))


@T.prim_func
def halves(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((8,), "float32")
    for i in range(4):
        with T.block("low"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("high"):
            vi = T.axis.spatial(4, i)
            B[vi + 4] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)


def test_what_two_blocks_write_is_cached_behind_both():
    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        B_local = T.alloc_buffer((8,), "float32", scope="local")
        for i in range(4):
            with T.block("low"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]
        for i in range(4):
            with T.block("high"):
                vi = T.axis.spatial(4, i)
                B[vi + 4] = A[vi] * T.float32(2)
        for ax0 in range(8):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, ax0)
                B_local[v0] = B[v0]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B_local[vi] + T.float32(1)

    check(halves, lambda sch: sch.cache_read("C", 0, "local"), expected)


def test_a_sum_whose_start_is_apart_is_cached():
    def steps(sch):
        sch.decompose_reduction("C", sch.get_loops("C")[1])
        sch.cache_read("D", 0, "local")

    sch = check(programs.matmul_relu, steps)
    names = [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["C_init", "C_update", "C_local", "D"]


def test_two_writers_in_the_nest_of_the_reader():
    @T.prim_func
    def in_one_nest(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8, 2), "float32")
        for i in range(8):
            with T.block("low"):
                vi = T.axis.spatial(8, i)
                B[vi, 0] = A[vi]
            with T.block("high"):
                vi = T.axis.spatial(8, i)
                B[vi, 1] = A[vi] * T.float32(2)
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi, 0] + B[vi, 1]

    refused(
        in_one_nest,
        lambda sch: sch.cache_read("C", 0, "local"),
        "'low' and 'high' write 'B'",
        marked='T.block("high")',
    )


def test_what_a_block_updates_is_cached_in_place():
    @T.prim_func
    def doubled(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] * T.float32(2)

    refused(
        doubled, lambda sch: sch.cache_read("A", 0, "local"),
        "does not read 'A' after all that write it", "cache_inplace caches what a block updates",
    )  # fmt: skip

    def steps(sch):
        copy_in, copy_out = sch.cache_inplace("A", 0, "local")
        sch.cache_read(copy_in, 0, "shared")
        sch.cache_write(copy_out, 0, "shared")

    check(doubled, steps)


@T.prim_func
def tiles_of_blocks(A: T.Buffer((12, 8), "float32"), C: T.Buffer((12, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(3, 2):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            for a, b in T.grid(4, 4):
                with T.block("inner"):
                    va, vb = T.axis.remap("SS", [a, b])
                    C[vi * 4 + va, vj * 4 + vb] = A[vi * 4 + va, vj * 4 + vb] + T.float32(1)


def test_caches_in_a_block_hold_what_the_block_touches():
    @T.prim_func
    def expected(A: T.Buffer((12, 8), "float32"), C: T.Buffer((12, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(3, 2):
            with T.block("outer"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                T.writes(C[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                A_shared = T.alloc_buffer((4, 4), "float32", scope="shared")
                C_local = T.alloc_buffer((4, 4), "float32", scope="local")
                for ax0, ax1 in T.grid(4, 4):
                    with T.block("A_shared"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        A_shared[v0, v1] = A[vi * 4 + v0, vj * 4 + v1]
                for a, b in T.grid(4, 4):
                    with T.block("inner"):
                        va, vb = T.axis.remap("SS", [a, b])
                        C_local[va, vb] = A_shared[va, vb] + T.float32(1)
                for ax0, ax1 in T.grid(4, 4):
                    with T.block("C_local"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        C[vi * 4 + v0, vj * 4 + v1] = C_local[v0, v1]

    def steps(sch):
        sch.cache_read("inner", 0, "shared")
        sch.cache_write("inner", 0, "local")

    check(tiles_of_blocks, steps, expected)


def test_views_lie_where_the_copy_does():
    @T.prim_func
    def views(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(6):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                T.reads(A[vi, 0:4])
                T.writes(C[vi, 0:4])
                row = T.match_buffer(A[vi, 0:4], (4,), "float32")
                out = T.match_buffer(C[vi, 0:4], (4,), "float32")
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(4, j)
                        out[vj] = row[vj] + T.float32(1)

    def steps(sch):
        sch.cache_read("C", 0, "shared")
        sch.cache_write("C", 0, "local")

    sch = check(views, steps)
    scopes = [match.buffer.scope() for match in sch.get(sch.get_block("C")).match_buffers]
    assert scopes == ["shared", "local"]
    assert sch.get(sch.get_block("inner")).reads[0].buffer.scope() == "shared"


def test_regions_at_cached_indices():
    """A region whose place is read from the cached buffer names the copy too."""

    @T.prim_func
    def gather(
        A: T.Buffer((9,), "float32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i in range(6):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                T.reads(A[B[vi]], B[vi])
                T.writes(C[vi])
                C[vi] = A[B[vi]] + T.float32(1)

    sch = schedule_of(gather)
    sch.cache_read("C", 1, "shared")
    names = [[one.buffer.name for one in loads(region)] for region in reads_of(sch, "C")]
    assert names == [["B_shared"], []]


def reads_of(sch, name):
    return sch.get(sch.get_block(name)).reads
