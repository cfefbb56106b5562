"""Primitives on reductions."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused
from tilesmith import tir
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def test_decompose_reduction():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        C: T.Buffer((9, 6), "float32"),
    ):
        for i in range(9):
            for j_init in range(6):
                with T.block("C_init"):
                    vi_init, vj_init = T.axis.remap("SS", [i, j_init])
                    C[vi_init, vj_init] = T.float32(0)
            for j, k in T.grid(6, 11):
                with T.block("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    def step(sch):
        sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[1])

    check(programs.matmul, step, expected)
    check(programs.matmul64, step)


def test_updates_do_not_read_what_only_the_start_reads():
    @T.prim_func
    def started(
        A: T.Buffer((5, 4), "float32"), D: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")
    ):
        for i, k in T.grid(5, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = D[vi]
                C[vi] = C[vi] + A[vi, vk]

    def steps(sch):
        sch.decompose_reduction("C", sch.get_loops("C")[1])

    sch = check(started.with_attr({"global_symbol": "main"}), steps)
    read = [region.buffer.name for region in sch.get(sch.get_block("C_update")).reads]
    assert read == ["C", "A"]
    assert [one.buffer.name for one in sch.get(sch.get_block("C_init")).reads] == ["D"]


def test_decompose_reduction_of_tiles_with_predicates():
    def steps(sch):
        i, j, k = loops(sch, "C")
        j0, j1 = sch.split(j, [None, 4])
        k0, k1 = sch.split(k, [None, 3])
        sch.reorder(i, j0, k0, j1, k1)
        sch.decompose_reduction(sch.get_block("C"), k0)

    check(programs.matmul, steps)


def test_decompose_reduction_refusals():
    def inside(sch):
        i, j, k = loops(sch, "C")
        sch.reorder(i, k, j)
        sch.work_on("main")

    refused(
        programs.matmul,
        [inside, lambda sch: sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[2])],
        "loop 'k' carries the reduction iterator 'vk'",
        marked="for k",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.decompose_reduction(sch.get_block("B"), loops(sch, "B")[0]),
        "block 'B' is not a reduction block: it has no T.init()",
    )
    refused(
        programs.matmul_relu,
        lambda sch: sch.decompose_reduction(sch.get_block("C"), loops(sch, "D")[0]),
        "the loop is not an ancestor of block 'C'",
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_rfactor(program, axis):
    def steps(sch):
        made = sch.rfactor(loops(sch, "C")[2], axis)
        sch.parallel(sch.get_loops(made)[2])

    check(program, steps)


def test_rfactor_program():
    @T.prim_func
    def sums(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

    @T.prim_func
    def expected(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        C_rf = T.alloc_buffer((3, 5), "float32")
        for i, k_0, k_1 in T.grid(5, 2, 3):
            with T.block("C_rf"):
                vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                with T.init():
                    C_rf[vk_1, vi] = T.float32(0)
                C_rf[vk_1, vi] = C_rf[vk_1, vi] + A[vi, vk_0 * 3 + vk_1]
        for i, k_1 in T.grid(5, 3):
            with T.block("C"):
                vk_1, vi = T.axis.remap("RS", [k_1, i])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + C_rf[vk_1, vi]

    def steps(sch):
        _, inner = sch.split(loops(sch, "C")[1], [None, 3])
        sch.rfactor(inner, 0)

    check(sums, steps, expected)


@pytest.mark.parametrize("factor", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", ["C", "M"])
def test_rfactor_with_predicates(factor, which, name):
    def steps(sch):
        parts = sch.split(loops(sch, name)[1], [None, factor])
        sch.rfactor(parts[which], 1)

    check(programs.row_softmax_sums, steps)


def test_rfactor_refusals():
    refused(
        programs.matmul,
        lambda sch: sch.rfactor(loops(sch, "C")[0], 0),
        "loop 'i' does not drive reduction iterators only",
        marked="for i",
    )
    refused(
        programs.matmul,
        lambda sch: sch.rfactor(loops(sch, "C")[2], 3),
        "factor_axis 3 is not within 2 dimensions",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.rfactor(loops(sch, "B")[1], 0),
        "is not a reduction block",
    )

    @T.prim_func
    def differences(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] - A[vi, vk]

    refused(
        differences,
        lambda sch: sch.rfactor(loops(sch, "C")[1], 0),
        "combines with something else than +, *, min, max",
    )


def test_rfactor_of_a_start_value():
    """A sum that starts at 5: the partial sums must not each start there."""

    @T.prim_func
    def offset(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(5)
                C[vi] = C[vi] + A[vi, vk]

    check(offset, lambda sch: sch.rfactor(loops(sch, "C")[1], 0))


def test_initial_values_that_are_read():
    """The block of the initialisation declares what it reads."""

    @T.prim_func
    def biased(
        A: T.Buffer((5, 12), "float32"),
        bias: T.Buffer((7,), "float32"),
        B: T.Buffer((5,), "float32"),
    ):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 12):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk], bias[vi + 1])
                T.writes(B[vi])
                with T.init():
                    B[vi] = bias[vi + 1]
                B[vi] = B[vi] + A[vi, vk]

    sch = check(biased, lambda sch: sch.decompose_reduction("B", loops(sch, "B")[1]))
    (read,) = sch.get(sch.get_block("B_init")).reads
    assert read.buffer.name == "bias"


@T.prim_func
def row_sums(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@pytest.mark.parametrize("which, axis", [(1, 0), (1, 1), (2, 0), (2, 1)])
def test_rfactor_of_loops_that_begin_elsewhere_than_at_0(which, axis):
    @T.prim_func
    def sums(A: T.Buffer((5, 10, 12), "int32"), S: T.Buffer((5,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(5):
            for j in range(3, 9):
                for k in range(2, 7):
                    with T.block("sum"):
                        vi = T.axis.spatial(5, i)
                        vj = T.axis.reduce(T.Range(3, 9), j)
                        vk = T.axis.reduce(T.Range(2, 7), k)
                        with T.init():
                            S[vi] = 0
                        S[vi] = S[vi] + A[vi, vj, vk]

    check(sums, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("sum"))[which], axis))


def test_an_init_of_other_elements_than_the_update():
    @T.prim_func
    def shifted(A: T.Buffer((4, 8), "int32"), S: T.Buffer((5,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(4, 8):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi + 1] = 0
                S[vi] = S[vi] + A[vi, vj]

    text = "its init and its update write different elements"
    refused(shifted, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("sum"))[1], 0), text)


def test_rfactor_of_the_only_reduction_loop_stores_values():
    @T.prim_func
    def expected(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
        B_rf = T.alloc_buffer((9, 5), "float32")
        for i, k in T.grid(5, 9):
            with T.block("B_rf"):
                vk, vi = T.axis.remap("SS", [k, i])
                B_rf[vk, vi] = A[vi, vk]
        for i, k in T.grid(5, 9):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + B_rf[vk, vi]

    check(row_sums, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("B"))[1], 0), expected)


@pytest.mark.parametrize("bound", [True, False])
def test_rfactor_takes_a_serial_loop(bound):
    def prepare(sch):
        _, inner = sch.split(sch.get_loops("C")[2], [None, 4])
        if bound:
            sch.bind(inner, "threadIdx.x")
        else:
            sch.unroll(inner)

    refused(
        programs.matmul,
        [prepare, lambda sch: sch.rfactor(sch.get_loops("C")[3], 0)],
        "loop 'k_1' is not serial",
        marked="k_1 in",
    )


@T.prim_func
def rows_on_threads(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in T.thread_binding(16, thread="threadIdx.x"):
        for k in range(8):
            with T.block("B"):
                T.block_attr({"mark": 1})
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


def test_the_start_keeps_threads_and_annotations():
    def steps(sch):
        sch.decompose_reduction(sch.get_block("B"), sch.get_loops(sch.get_block("B"))[0])

    sch = check(rows_on_threads, steps)
    start = sch.get_block("B_init")
    assert sch.get(start).annotations["mark"] == 1
    (loop,) = sch.get_loops(start)
    assert sch.get(loop).thread_binding.thread_tag == "threadIdx.x"


def test_the_last_sum_of_partial_ones_is_made_by_all_threads():
    """The recipe for sums across threads: partial sums beside their sum, under the thread."""

    @T.prim_func
    def expected(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B_rf = T.alloc_buffer((4, 5), "float32")
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for k_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k_0 in range(2):
                    with T.block("B_rf"):
                        vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                        with T.init():
                            B_rf[vk_1, vi] = T.float32(0)
                        B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
                with T.block("B"):
                    vk_1, vi = T.axis.remap("RS", [k_1, i])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + B_rf[vk_1, vi]

    @T.prim_func
    def sums(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    def steps(sch):
        block = sch.get_block("B")
        _, inner = sch.split(sch.get_loops(block)[1], [None, 4])
        i, outer, inner = sch.get_loops(sch.rfactor(inner, 0))
        sch.reorder(i, inner, outer)
        sch.bind(i, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        sch.reverse_compute_at(block, inner)

    sch = check(sums, steps, expected)
    lowered = tir.transform.LowerCrossThreadReduction()(sch.mod)
    assert "T.tvm_thread_allreduce" in lowered.script()


def test_the_last_sum_stays_in_loops_of_one_iteration():
    @T.prim_func
    def sums(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, _unit, k in T.grid(5, 1, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    sch = check(sums, lambda sch: sch.rfactor(sch.get_loops("B")[2], 0))
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops("B")] == ["i", "_unit", "k"]
