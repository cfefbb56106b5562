"""Copies under a loop (read_at, write_at) and circular buffers (rolling_buffer)."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def tiled(sch):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [3, 3])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, k0, i1, j, k1)
    return block, i0, k0


def test_read_at():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        C: T.Buffer((9, 6), "float32"),
    ):
        A_shared = T.alloc_buffer((9, 11), "float32", scope="shared")
        for i in range(9):
            with T.block("A_shared"):
                v0 = T.axis.spatial(9, i)
                T.reads(A[v0, 0:11])
                T.writes(A_shared[v0, 0:11])
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(1, 11):
                    A_shared[v0 + ax0, ax1] = A[v0 + ax0, ax1]
            for j, k in T.grid(6, 11):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A_shared[vi, vk] * B[vk, vj]

    def rows(sch):
        sch.read_at(loops(sch, "C")[0], sch.get_block("C"), "A", "shared")

    check(programs.matmul, rows, expected)
    check(programs.matmul64, rows)


@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_tiles_at_loops(program):
    def steps(sch):
        block, i0, k0 = tiled(sch)
        sch.read_at(k0, block, 0, "shared")
        sch.read_at(k0, block, "B", "shared")
        sch.write_at(i0, block, 0, "local")

    sch = check(program, steps)
    copy = sch.get(sch.get_block("A_shared"))
    assert len(copy.iter_vars) == 2 and copy.annotations["auto_copy"] == 1
    assert "if " in str(copy.body)  # the last tile of k is cut


def test_write_at_with_readers():
    def steps(sch):
        outer, _ = sch.split(loops(sch, "C")[0], [None, 4])
        sch.compute_at(sch.get_block("B"), outer)
        sch.write_at(outer, sch.get_block("B"), 0, "local")

    sch = check(programs.elementwise, steps)
    assert [r.buffer.name for r in sch.get(sch.get_block("C")).reads] == ["B_local"]


def test_read_at_and_write_at_refusals():
    def together(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])

    def read(sch):
        sch.read_at(loops(sch, "C")[0], sch.get_block("C"), 0, "local")

    refused(programs.elementwise, [together, read], "block 'B' writes 'B' under the loop")
    refused(
        programs.elementwise,
        lambda sch: sch.read_at(loops(sch, "C")[0], sch.get_block("B"), 0, "local"),
        "the loop is not an ancestor of block 'B'",
    )

    def unfinished(sch):
        sch.write_at(loops(sch, "C")[1], sch.get_block("C"), 0, "local")

    refused(programs.matmul, [tiled, unfinished], "block 'C' is complete only after loop 'k_0'")

    def decomposed(sch):
        sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[2])

    def write(sch):
        sch.write_at(loops(sch, "C_update")[0], sch.get_block("C_update"), 0, "local")

    refused(programs.matmul, [decomposed, write], "block 'C_init' writes 'C' too")

    @T.prim_func
    def other_rows(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = T.float32(2)
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[7 - vi]

    refused(
        other_rows,
        lambda sch: sch.write_at(loops(sch, "A")[0], sch.get_block("A"), 0, "local"),
        "block 'B' reads parts of 'A' that this iteration of the loop does not write",
    )


# --- rolling buffers ------------------------------------------------------------------------------


def roll(number=0):
    def steps(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[number])
        sch.rolling_buffer(sch.get_block("B"), 0)

    return steps


def test_rolling_buffer():
    @T.prim_func
    def expected(A: T.Buffer((18,), "float32"), C: T.Buffer((14,), "float32")):
        B = T.alloc_buffer((3,), "float32")
        for i in range(14):
            for ax0 in range(3):
                with T.block("B"):
                    vi = T.axis.spatial(16, i + ax0)
                    T.where(i < 1 or 2 <= ax0)
                    B[vi % 3] = A[vi] + A[vi + 1] + A[vi + 2]
            with T.block("C"):
                vi = T.axis.spatial(14, i)
                T.reads(B[vi % 3 : vi % 3 + 3])
                T.writes(C[vi])
                C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]

    sch = check(programs.stencil, roll())
    assert str(main_of(sch).body.block.alloc_buffers[0].shape) == str(
        expected.body.block.alloc_buffers[0].shape
    )
    (producer,) = [sch.state.stmt(sch.get_sref(sch.get_block("B")))]
    assert str(producer.predicate) == "i < 1 or 2 <= ax0"
    check(programs.padded, lambda sch: (sch.compute_at(sch.get_block("P"), loops(sch, "C")[0]),
                                        sch.rolling_buffer(sch.get_block("P"), 0)))  # fmt: skip


@T.prim_func
def pooling(A: T.Buffer((12, 12), "float32"), C: T.Buffer((8, 8), "float32")):
    """A filter of 3 x 3 after a filter of 3 x 3."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((10, 10), "float32")
    for i, j, x, y in T.grid(10, 10, 3, 3):
        with T.block("B"):
            vi, vj, vx, vy = T.axis.remap("SSRR", [i, j, x, y])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi + vx, vj + vy]
    for i, j, x, y in T.grid(8, 8, 3, 3):
        with T.block("C"):
            vi, vj, vx, vy = T.axis.remap("SSRR", [i, j, x, y])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi + vx, vj + vy]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8])
def test_rolling_tiles(rows):
    """Rows of tiles: rows roll, columns that overlap are computed again."""

    def steps(sch):
        i, j, _, _ = loops(sch, "C")
        i0, i1 = sch.split(i, [None, rows])
        j0, j1 = sch.split(j, [None, 4])
        sch.reorder(i0, j0, i1, j1)
        sch.compute_at(sch.get_block("B"), j0)
        if rows < 8:
            sch.rolling_buffer(sch.get_block("B"), "B")

    sch = check(pooling, steps)
    kept = int(main_of(sch).body.block.alloc_buffers[0].shape[0])
    assert kept == (rows + 2 if rows < 8 else 10)


def test_rolling_at_an_inner_loop():
    """Rows depend on two loops: they roll with the inner one and start again with the outer."""

    def steps(sch):
        i = loops(sch, "C")[0]
        sch.split(i, [2, 4])
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[1])
        sch.rolling_buffer(sch.get_block("B"), 0)

    check(pooling, steps)


def test_consumers_of_rolling_buffers_stay():
    """The rows are overwritten in the next iteration."""
    cached = [roll(), lambda sch: sch.cache_write(sch.get_block("C"), 0, "local")]
    refused(
        programs.stencil,
        [*cached, lambda sch: sch.compute_at(sch.get_block("C"), loops(sch, "C_local")[0])],
        "block 'C' reads what 'B' writes, which holds for the same iteration only",
    )
    apart = [roll(), lambda sch: sch.cache_inplace(sch.get_block("C"), 0, "local")]
    refused(programs.stencil, apart, "block 'C' does not write 'B'")

    def elsewhere(sch):
        sch.reverse_compute_at(sch.get_block("D"), loops(sch, "C")[0])

    def rolled(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
        sch.rolling_buffer(sch.get_block("B"), 0)

    check(three, lambda sch: (rolled(sch), elsewhere(sch)))
    refused(
        three,
        [rolled, lambda sch: sch.compute_at(sch.get_block("C"), loops(sch, "D")[0])],
        "block 'C' reads what 'B' writes, which holds for the same iteration only",
    )
    refused(
        three,
        [rolled, lambda sch: sch.compute_inline(sch.get_block("C"))],
        "which holds for the same iteration only",
    )


@T.prim_func
def three(A: T.Buffer((18,), "float32"), D: T.Buffer((14,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((16,), "float32")
    C = T.alloc_buffer((14,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
    for i in range(14):
        with T.block("D"):
            vi = T.axis.spatial(14, i)
            D[vi] = C[vi] * T.float32(2)


def test_rolling_buffer_refusals():
    def step(sch):
        sch.rolling_buffer(sch.get_block("B"), 0)

    refused(programs.stencil, step, "block 'B' and its consumers share no loop", "compute_at")
    refused(
        programs.stencil,
        lambda sch: sch.rolling_buffer(sch.get_block("C"), 0),
        "block 'C' is an output block",
    )
    together = [lambda sch: sch.compute_at(sch.get_block("B"), loops(sch, "C")[0]), step]
    refused(programs.elementwise, together, "in successive iterations do not overlap")

    def threads(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
        sch.parallel(loops(sch, "C")[0])

    refused(programs.stencil, [threads, step], "loop 'i' does not run in order")
    rolled = roll()
    refused(
        programs.stencil,
        [rolled, lambda sch: sch.parallel(loops(sch, "C")[0])],
        "iterator 'vi' of block 'B' must keep its order",
    )
