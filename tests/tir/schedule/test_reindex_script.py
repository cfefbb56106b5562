"""Copies with indices of another form, copies in and out, precomputed indices."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T
from tilesmith.tir import IndexMap


@T.prim_func
def packed(A: T.Buffer((3, 5, 4), "float32"), B: T.Buffer((12, 5), "float32")):
    """Unpacks the innermost dimension."""
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(12, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi // 4, vj, vi % 4] + T.float32(1)


@T.prim_func
def convolution(
    A: T.Buffer((2, 9), "float32"),
    W: T.Buffer((3, 2, 3), "float32"),
    C: T.Buffer((3, 7), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    for o, x, c, k in T.grid(3, 7, 2, 3):
        with T.block("C"):
            vo, vx, vc, vk = T.axis.remap("SSRR", [o, x, c, k])
            with T.init():
                C[vo, vx] = T.float32(0)
            C[vo, vx] = C[vo, vx] + A[vc, vx + vk] * W[vo, vc, vk]


def test_reindex_of_a_read():
    @T.prim_func
    def expected(A: T.Buffer((3, 5, 4), "float32"), B: T.Buffer((12, 5), "float32")):
        A_reindex = T.alloc_buffer((12, 5), "float32")
        for ax0, ax1 in T.grid(12, 5):
            with T.block("A_reindex"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                A_reindex[vi, vj] = A[vi // 4, vj, vi % 4]
        for i, j in T.grid(12, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_reindex[vi, vj] + T.float32(1)

    check(packed, lambda sch: sch.reindex(sch.get_block("B"), ("read", 0)), expected)
    check(packed, lambda sch: sch.reindex(sch.get_block("B"), "A"), expected)


def test_reindex_of_a_convolution():
    """The input becomes a matrix: this is how a convolution is made fit for a matrix unit."""

    def steps(sch):
        block = sch.get_block("C")
        for buffer in (("read", 0), ("read", 1), ("write", 0)):
            sch.reindex(block, buffer)
        shapes = [[int(n) for n in r.buffer.shape] for r in sch.get(block).reads]
        assert shapes == [[7, 2, 3], [3, 2, 3]]
        assert [int(n) for n in sch.get(block).writes[0].buffer.shape] == [3, 7]

    check(convolution, steps)
    check(programs.matmul64, lambda sch: sch.reindex(sch.get_block("C"), ("read", 1)))


def test_reindex_of_a_write():
    @T.prim_func
    def scattered(A: T.Buffer((12,), "float32"), B: T.Buffer((4, 3), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(12):
            with T.block("B"):
                vi = T.axis.spatial(12, i)
                B[vi % 4, vi // 4] = A[vi]

    @T.prim_func
    def expected(A: T.Buffer((12,), "float32"), B: T.Buffer((4, 3), "float32")):
        B_reindex = T.alloc_buffer((12,), "float32")
        for i in range(12):
            with T.block("B"):
                vi = T.axis.spatial(12, i)
                B_reindex[vi] = A[vi]
        for ax0 in range(12):
            with T.block("B_reindex"):
                vi = T.axis.spatial(12, ax0)
                B[vi % 4, vi // 4] = B_reindex[vi]

    check(scattered, lambda sch: sch.reindex(sch.get_block("B"), ("write", 0)), expected)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("primitive", ["reindex", "cache_write", "reindex_cache_write"])
def test_write_under_a_fused_loop_of_symbolic_extent(primitive, count):
    @T.prim_func
    def sums(a: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m, 16), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i, j, k in T.grid(n, m, 16):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + A[vi, vj, vk]

    def steps(sch):
        block = sch.get_block("B")
        sch.fuse(*sch.get_loops(block)[:count])
        if primitive == "reindex":
            sch.reindex(block, ("write", 0))
        elif primitive == "cache_write":
            sch.cache_write(block, 0, "local")
        else:
            sch.reindex_cache_write(block, 0, "local", lambda i, j, k: (j, i))

    check(sums, steps, sizes={"n": 5, "m": 3})


def test_reindex_of_an_intermediate_buffer():
    def steps(sch):
        sch.reindex(sch.get_block("C"), ("read", 0))
        sch.reindex(sch.get_block("B"), ("write", 0))

    check(programs.elementwise, steps)
    check(programs.elementwise64, steps)


def test_reindex_refusals():
    def reindex(name, buffer):
        return lambda sch: sch.reindex(sch.get_block(name), buffer)

    refused(programs.stencil, reindex("B", ("read", 0)), "accesses 'A' at several different places")
    refused(
        programs.padded,
        reindex("P", ("read", 0)),
        "the index vi - 1 of 'A' is in bounds only under a condition",
        marked='T.block("P")',
    )
    refused(
        programs.elementwise,
        [
            lambda sch: sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("C"))[0]),
            reindex("C", ("read", 0)),
        ],
        "block 'B' writes 'B' in the same nest",
    )

    @T.prim_func
    def sums(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(6, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi] = A[vi, vj]

    refused(
        sums,
        lambda sch: sch.reindex_cache_write(
            sch.get_block("B"), 0, "local", lambda vi, vj: (vj, vi)
        ),
        "the place in 'B' leaves iterator 'vj' open",
    )

    @T.prim_func
    def windows(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                for k in range(2):
                    B[vi * 2 + k] = A[vi * 2 + k]

    refused(windows, reindex("B", ("read", 0)), "depends on 'k', which is bound inside")


def test_reindex_cache():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        A_local = T.alloc_buffer((13, 7), "float32", scope="local")
        B_shared = T.alloc_buffer((7, 7, 2), "float32", scope="shared")
        for ax0, ax1 in T.grid(7, 13):
            with T.block("A_local"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                A_local[vj, vi] = A[vi, vj]
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_shared[vj // 2, vi, vj % 2] = A_local[vj, vi] * T.float32(2)
        for ax0, ax1 in T.grid(7, 13):
            with T.block("B_shared"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                B[vi, vj] = B_shared[vj // 2, vi, vj % 2]

    @T.prim_func
    def rows(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    def steps(sch):
        block = sch.get_block("B")
        sch.reindex_cache_read(block, 0, "local", lambda vi, vj: (vj, vi))
        sch.reindex_cache_write(block, "B", "shared", lambda vi, vj: (vj // 2, vi, vj % 2))

    check(rows, steps, expected)


def test_reindex_cache_of_a_product():
    def steps(sch):
        block = sch.get_block("C")
        sch.reindex_cache_read(block, "A", "shared", lambda i, j, k: (k // 4, i, k % 4))
        sch.reindex_cache_read(
            block, "B", "shared", IndexMap.from_func(lambda i, j, k: (j, k), index_dtype="int32")
        )
        sch.reindex_cache_write(block, "C", "local", lambda i, j, k: (j, i))

    check(programs.matmul, steps)
    check(programs.matmul_relu, steps)


def test_reindex_cache_refusals():
    def read(function, name="C", number=0):
        return lambda sch: sch.reindex_cache_read(sch.get_block(name), number, "local", function)

    program = programs.matmul
    refused(program, read(lambda i, j, k: (i, 0)), "the new indices do not tell iterator 'vk'")
    refused(program, read(lambda i, j, k: (i // 2, k)), "do not tell iterator 'vi'")
    refused(program, read(lambda i, j, k: (i - 1, k)), "may be negative or unbounded")
    mapping = IndexMap.from_func(lambda i: (i,), index_dtype="int32")
    refused(program, read(mapping), "the map takes 1 indices, block 'C' has 3 iterators")
    refused(
        program,
        lambda sch: sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda i, j, k: (i, k)),
        "the new indices do not tell iterator 'vj'",
    )
    refused(
        program,
        lambda sch: sch.reindex_cache_write(
            sch.get_block("C"), 0, "local", lambda i, j, k: (i, j, k)
        ),
        "the place in 'C' leaves iterator 'vk' open",
    )


@T.prim_func
def begins_with_what_it_reads(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
    for i in range(1):
        with T.block("B"):
            vi = T.axis.reduce(1, i)
            with T.init():
                B[0] = A[0]
            B[0] = T.min(B[0], A[0] + T.float32(1))


def test_reindex_cache_of_what_the_init_reads():
    """Found by fuzzing: the init would use an iterator that it does not know."""
    refused(
        begins_with_what_it_reads,
        lambda sch: sch.reindex_cache_read(sch.get_block("B"), 0, "local", lambda i: (i,)),
        "use reduction iterator 'vi', which the init of block 'B' does not know",
    )
    check(
        begins_with_what_it_reads,
        lambda sch: sch.reindex_cache_read(sch.get_block("B"), 0, "local", lambda i: (0,)),
    )


# --- in place -------------------------------------------------------------------------------------


@T.prim_func
def inplace(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    """``A`` is changed, then read."""
    T.func_attr({"global_symbol": "main"})
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi + 1] = A[vi + 1] * T.float32(2)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


def test_cache_inplace():
    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        A_local = T.alloc_buffer((8,), "float32", scope="local")
        for ax0 in range(6):
            with T.block("A_local"):
                v0 = T.axis.spatial((1, 7), 1 + ax0)
                A_local[v0] = A[v0]
        for i in range(6):
            with T.block("A"):
                vi = T.axis.spatial(6, i)
                A_local[vi + 1] = A_local[vi + 1] * T.float32(2)
        for ax0 in range(6):
            with T.block("A_local_out"):
                v0 = T.axis.spatial((1, 7), 1 + ax0)
                A[v0] = A_local[v0]
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    def steps(sch):
        read, write = sch.cache_inplace(sch.get_block("A"), 0, "local")
        assert sch.get(read).name_hint == "A_local" and sch.get(write).name_hint == "A_local_out"

    check(inplace, steps, expected)
    check(programs.scan, lambda sch: sch.cache_inplace(sch.get_block("B"), "B", "local"))


def test_cache_inplace_refusals():
    refused(
        programs.elementwise,
        lambda sch: sch.cache_inplace(sch.get_block("B"), 0, "local"),
        "block 'B' does not write 'A', which it reads",
        "use cache_read",
    )

    @T.prim_func
    def together(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] * T.float32(2)
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    refused(
        together,
        lambda sch: sch.cache_inplace(sch.get_block("A"), 0, "local"),
        "block 'B' uses 'A' in the same nest",
    )


# --- indices --------------------------------------------------------------------------------------


@T.prim_func
def resize(A: T.Buffer((1, 3, 40, 40), "float32"), B: T.Buffer((1, 3, 20, 20), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i0, i1, i2, i3 in T.grid(1, 3, 20, 20):
        with T.block("B"):
            n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
            B[n, c, vi, vj] = A[n, c, vi // 4 + vj // 4, vj // 2]


@pytest.mark.parametrize("threshold", [0, 1])
def test_cache_index(threshold):
    @T.prim_func
    def expected(A: T.Buffer((1, 3, 40, 40), "float32"), B: T.Buffer((1, 3, 20, 20), "float32")):
        index_var_0 = T.alloc_buffer((20, 20), "int32")
        index_var_1 = T.alloc_buffer((20,), "int32")
        for ax0, ax1 in T.grid(20, 20):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads()
                T.writes(index_var_0[v0, v1])
                index_var_0[v0, v1] = v0 // 4 + v1 // 4
        for ax0 in range(20):
            with T.block("index_1"):
                v0 = T.axis.spatial(20, ax0)
                T.reads()
                T.writes(index_var_1[v0])
                index_var_1[v0] = v0 // 2
        for i0, i1, i2, i3 in T.grid(1, 3, 20, 20):
            with T.block("B"):
                n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
                B[n, c, vi, vj] = A[n, c, index_var_0[vi, vj], index_var_1[vj]]

    def steps(sch):
        blocks = sch.cache_index(sch.get_block("B"), "global", threshold)
        assert [sch.get(block).name_hint for block in blocks] == ["index_0", "index_1"]

    check(resize, steps, expected)


def test_cache_index_of_repeated_parts():
    @T.prim_func
    def repeated(A: T.Buffer((9, 9), "float32"), B: T.Buffer((12, 12), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(12, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi // 2, vj // 3] + A[vi // 2 + 1, vj // 2] + A[vi // 2 + 1, vj // 4]

    def names(threshold):
        found = []

        def steps(sch):
            for block in sch.cache_index(sch.get_block("B"), "global", threshold):
                found.append(str(sch.get(block).body.value))

        check(repeated, steps)
        return found

    assert names(4) == []
    assert names(3)[:1] == ["v0 // 2"]
    assert set(names(2)) == {"v0 // 2", "v0 // 2 + 1"}


def test_cache_index_leaves_other_things():
    check(programs.elementwise, lambda sch: sch.cache_index(sch.get_block("B"), "global"))

    @T.prim_func
    def guarded(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(vi > 0, A[7 // T.max(vi, 1)], T.float32(0))

    def steps(sch):
        """The division stays: nobody knows what keeps its divisor from zero."""
        (block,) = sch.cache_index(sch.get_block("B"), "global")
        assert str(sch.get(block).body.value) == "T.max(v0, 1)"

    check(guarded, steps)


def test_precomputed_indices_inlined_again():
    """Both ways, also where a table tells the place of a store."""

    def forward(sch):
        (table,) = sch.cache_index(sch.get_block("B"), "global")
        sch.compute_inline(table)

    def backward(sch):
        sch.cache_index(sch.get_block("B"), "global")
        sch.reverse_compute_inline(sch.get_block("B"))

    check(programs.strided, forward)
    check(programs.strided, backward)


def test_reindex_inside_of_a_block():
    def steps(sch):
        block = sch.get_block("C")
        sch.blockize(sch.get_loops(block)[1])
        sch.reindex(block, ("read", 0))

    check(programs.elementwise, steps)


def test_symbolic_sizes():
    def steps(sch):
        sch.reindex("B", ("read", 0))
        sch.reindex("B", ("write", 0))
        outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
        sch.read_at(outer, "B", 0, "local")

    check(programs.copy_symbolic, steps, sizes={"n": 13})


def test_a_cache_may_be_indexed_by_the_sums_that_index_the_buffer():
    """Elements that several instances read are copied several times, with the same value."""

    @T.prim_func
    def windows(A: T.Buffer((9, 3), "float32"), C: T.Buffer((3, 7), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j, r in T.grid(3, 7, 3):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vj + vr, vi]

    @T.prim_func
    def expected(A: T.Buffer((9, 3), "float32"), C: T.Buffer((3, 7), "float32")):
        T.func_attr({"global_symbol": "main"})
        A_local = T.alloc_buffer((3, 9), "float32", scope="local")
        for i, j, r in T.grid(3, 7, 3):
            with T.block("A_local"):
                vi, vj, vr = T.axis.remap("SSS", [i, j, r])
                A_local[vi, vj + vr] = A[vj + vr, vi]
        for i, j, r in T.grid(3, 7, 3):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A_local[vi, vj + vr]

    def through(mapping):
        return lambda sch: sch.reindex_cache_read("C", 0, "local", mapping)

    check(windows, through(lambda i, j, r: (i, j + r)), expected)
    check(windows, through(lambda i, j, r: (r + j, i)))
    refused(windows, through(lambda i, j, r: (i, j + r * 2)), "the new indices do not tell")
    refused(windows, through(lambda i, j, r: (j + r,)), "the new indices do not tell")


def test_a_cache_is_indexed_by_what_the_buffer_is_indexed_by():
    refused(
        programs.matmul,
        lambda sch: sch.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j, k)),
        "the new indices use iterator 'vj', on which the place in 'A' does not depend",
    )


def test_cache_index_of_places_from_memory():
    @T.prim_func
    def looked_up(
        A: T.Buffer((5, 9), "float32"), K: T.Buffer((7,), "int32"), B: T.Buffer((5, 7), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(5, 7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, T.max(T.min(K[vj], 8), 0)]

    @T.prim_func
    def expected(
        A: T.Buffer((5, 9), "float32"), K: T.Buffer((7,), "int32"), B: T.Buffer((5, 7), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        index_var_0 = T.alloc_buffer((7,), "int32", scope="local")
        for ax0 in range(7):
            with T.block("index_0"):
                v0 = T.axis.spatial(7, ax0)
                T.reads(K[v0])
                T.writes(index_var_0[v0])
                index_var_0[v0] = T.max(T.min(K[v0], 8), 0)
        for i, j in T.grid(5, 7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, index_var_0[vj]]

    check(looked_up, lambda sch: sch.cache_index(sch.get_block("B"), "local"), expected)


def test_cache_index_leaves_places_that_are_not_read_in_any_case():
    @T.prim_func
    def chosen(
        A: T.Buffer((9,), "float32"), K: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(vi < 5, A[T.max(K[vi], 0) % 9], T.float32(0))

    @T.prim_func
    def written_before(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        K = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("K"):
                vi = T.axis.spatial(8, i)
                K[vi] = vi
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[K[vi] + 1]

    def nothing(sch):
        assert sch.cache_index(sch.get_block("B"), "global") == []

    check(chosen, nothing)
    check(written_before, nothing)
