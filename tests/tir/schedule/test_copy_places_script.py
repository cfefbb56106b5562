"""Where copies of buffers go, and how much of global memory one thread makes."""

import pytest

from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


@T.prim_func
def chain(
    A: T.Buffer((8, 6), "float32"),
    W: T.Buffer((8, 6), "float32"),
    D: T.Buffer((8, 6), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((8, 6), "float32")
    C = T.alloc_buffer((8, 6), "float32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj] + W[vi, vj]


def names(sch):
    """The blocks of the program in the order in which they run."""
    (root,) = [sch.get_block("root")]
    return [sch.get(block).name_hint for block in sch.get_child_blocks(root)]


def test_copies_of_parameters_come_first():
    sch = check(chain, lambda sch: sch.cache_read(sch.get_block("D"), 2, "shared"))
    assert names(sch) == ["W_shared", "B", "C", "D"]


def test_reordered_copies_of_parameters_come_first():
    def steps(sch):
        sch.reindex_cache_read(sch.get_block("D"), 2, "shared", lambda i, j: (j, i))

    assert names(check(chain, steps)) == ["W_shared", "B", "C", "D"]


def test_copies_for_all_come_right_after_what_they_copy():
    sch = check(chain, lambda sch: sch.cache_read(sch.get_block("D"), 1, "shared"))
    assert names(sch) == ["B", "B_shared", "C", "D"]
    assert sch.get(sch.get_block("C")).reads[0].buffer.name == "B_shared"


def test_copies_for_named_consumers_come_right_before_these():
    def steps(sch):
        consumer = sch.get_block("D")
        sch.cache_read(consumer, 1, "shared", consumer_blocks=[consumer])

    sch = check(chain, steps)
    assert names(sch) == ["B", "C", "B_shared", "D"]
    assert sch.get(sch.get_block("C")).reads[0].buffer.name == "B"


def test_only_named_consumers_read_the_copy():
    def steps(sch):
        sch.cache_read(sch.get_block("D"), 1, "shared", consumer_blocks=[sch.get_block("C")])

    sch = check(chain, steps)
    assert [region.buffer.name for region in sch.get(sch.get_block("D")).reads] == ["C", "B", "W"]


def test_each_thread_makes_its_own_part_of_global_memory():
    @T.prim_func
    def expected(
        A: T.Buffer((8, 6), "float32"),
        W: T.Buffer((8, 6), "float32"),
        D: T.Buffer((8, 6), "float32"),
    ):
        B = T.alloc_buffer((8, 6), "float32")
        C = T.alloc_buffer((8, 6), "float32")
        for i, j in T.grid(8, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(6, thread="threadIdx.x"):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = C[vi, vj] * B[vi, vj] + W[vi, vj]

    def steps(sch):
        outer, inner = sch.get_loops(sch.get_block("D"))
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        sch.compute_at(sch.get_block("C"), inner)

    check(chain, steps, expected)


def test_reindexed_parameters_stay_at_the_block():
    sch = check(chain, lambda sch: sch.reindex(sch.get_block("D"), ("read", 2)))
    assert names(sch) == ["B", "C", "W_reindex", "D"]


COPIES_OUT = {
    "reindex": lambda sch, block: sch.reindex(block, ("write", 0)),
    "reindex_cache_write": lambda sch, block: sch.reindex_cache_write(
        block, 0, "global", lambda vi, vk: (vi,)
    ),
    "cache_write": lambda sch, block: sch.cache_write(block, 0, "global"),
    "write_at": lambda sch, block: sch.write_at(sch.get_loops(block)[0], block, 0, "global"),
}


@pytest.mark.parametrize("copy_out", COPIES_OUT.values(), ids=COPIES_OUT)
def test_an_init_outside_of_a_part_of_a_reduction_leaves_a_copy_empty(copy_out):
    @T.prim_func
    def second_part(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            with T.block("first"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi, 0]
        with T.block("outer"):
            T.reads(A[0:4, 1:8], B[0:4])
            T.writes(B[0:4])
            for i, k in T.grid(4, 7):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(8, k + 1)
                    T.reads(A[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    refused(
        second_part,
        lambda sch: copy_out(sch, sch.get_block("B")),
        "the loops in block 'outer' may leave out the start of reduction iterator 'vk', where block"
        " 'B' initialises 'B'; the copy is empty",
    )


@pytest.mark.parametrize("name", COPIES_OUT)
def test_a_copy_of_a_part_leaves_other_parts_alone(name):
    @T.prim_func
    def lower_rows(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(2):
            with T.block("first"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi, 0]
        with T.block("outer"):
            T.reads(A[2:4, 0:8])
            T.writes(B[2:4])
            for i, k in T.grid(2, 8):
                with T.block("B"):
                    vi = T.axis.spatial(4, i + 2)
                    vk = T.axis.reduce(8, k)
                    T.reads(A[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    def steps(sch):
        COPIES_OUT[name](sch, sch.get_block("B"))

    if name == "write_at":  # copies what one iteration of the loop writes
        check(lower_rows, steps)
    else:
        refused(lower_rows, steps, "may take only a part of the values of its iterator 'vi'")


@pytest.mark.parametrize(
    "steps",
    [
        lambda sch: sch.cache_read(sch.get_block("C"), 0, "local"),
        lambda sch: sch.reindex(sch.get_block("C"), ("read", 0)),
        lambda sch: sch.reindex_cache_read(sch.get_block("C"), 0, "local", lambda i: (i,)),
        lambda sch: sch.read_at(
            sch.get_loops(sch.get_block("C"))[0], sch.get_block("C"), 0, "local"
        ),
    ],
    ids=["cache_read", "reindex", "reindex_cache_read", "read_at"],
)
def test_copies_of_declared_buffers_stand_inside_of_the_declaration(steps):
    @T.prim_func
    def table(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        data = T.allocate_const([1.0, 2.0, 4.0, 8.0], "float32", (4,))
        K = T.decl_buffer((4,), "float32", data=data)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = K[vi] + A[vi]

    check(table, steps)


def test_what_earlier_iterations_have_written_is_not_copied_inside_of_the_loop():
    @T.prim_func
    def carried(C: T.Buffer((3, 2), "int32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((3, 2), "int32")
        for i in range(3):
            for j in range(2):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = vi - 3
            for j in range(2):
                with T.block("C"):
                    vi = T.axis.opaque(3, i)
                    vj = T.axis.spatial(2, j)
                    T.reads(B[0 : vi + 1, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = T.max(B[vi, vj], B[0, vj])

    def steps(sch):
        sch.cache_read(sch.get_block("C"), 0, "global")

    refused(carried, steps, "may read what earlier iterations have written to 'B'")
