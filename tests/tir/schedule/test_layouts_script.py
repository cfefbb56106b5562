"""Primitives that change layouts of buffers and iterators of blocks."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tilesmith import tir
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def test_transform_layout():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((13, 7), "float32")
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(7, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj, vi] + T.float32(1)

    def steps(sch):
        sch.transform_layout(sch.get_block("B"), ("write", 0), lambda i, j: (j, i))

    check(programs.elementwise, steps, expected)
    check(programs.elementwise64, steps)


@pytest.mark.parametrize("program", [programs.elementwise, programs.elementwise64])
@pytest.mark.parametrize("pad", [None, 0.0, 3])
def test_transform_layout_with_padding(program, pad):
    def steps(sch):
        sch.transform_layout(
            sch.get_block("C"), ("read", 0), lambda i, j: (i, j // 4, j % 4), pad_value=pad
        )

    check(program, steps)
    refused(
        program, lambda sch: sch.transform_layout(sch.get_block("B"), "X", lambda i, j: (i, j)),
        "block 'B' neither reads nor writes 'X'",
    )  # fmt: skip


def test_a_block_that_writes_all_of_a_buffer_writes_the_padding_too():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((7, 4, 4), "float32")
        for i, axis1, axis2 in T.grid(7, 4, 4):
            with T.block("B"):
                vi, v1, v2 = T.axis.remap("SSS", [i, axis1, axis2])
                T.reads(A[vi, v1 * 4 + v2])
                T.writes(B[vi, v1, v2])
                B[vi, v1, v2] = T.if_then_else(
                    13 <= v1 * 4 + v2, T.float32(5), A[vi, v1 * 4 + v2] * T.float32(2)
                )
        for i, j in T.grid(7, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(B[vi, vj // 4, vj % 4])
                T.writes(C[vi, vj])
                C[vi, vj] = B[vi, vj // 4, vj % 4] + T.float32(1)

    def steps(sch):
        pack = lambda i, j: (i, j // 4, j % 4)
        sch.transform_layout(sch.get_block("B"), ("write", 0), pack, pad_value=5.0)

    check(programs.elementwise, steps, expected)
    check(programs.elementwise64, steps)


@pytest.mark.parametrize("pad", [0.0, lambda i, jo, ji: ji * 1.0])
def test_a_sum_writes_the_padding_too(pad):
    def steps(sch):
        block = sch.get_block("C")
        sch.cache_write(block, 0, "global")
        pack = lambda i, j: (j // 4, i, j % 4)
        sch.transform_layout(block, ("write", 0), pack, pad_value=pad)

    check(programs.matmul, steps)


def test_padding_of_a_parameter_is_assumed():
    sch = schedule_of(programs.elementwise)
    pack = lambda i, j: (i, j // 4, j % 4)
    sch.transform_layout(sch.get_block("B"), "A", pack, pad_value=0.0)
    func = main_of(sch)
    assert [int(n) for n in func.buffer_map[func.params[0]].shape] == [7, 4, 4]
    text = func.script()
    assert 'with T.block("buffer_A_assumptions")' in text and "T.assume(" in text
    lowered = tir.transform.RemoveAssume()(sch.mod)
    assert "T.assume" not in lowered.script()
    open_padding = schedule_of(programs.elementwise)
    open_padding.transform_layout(open_padding.get_block("B"), "A", pack)
    assert "assum" not in main_of(open_padding).script()


def test_transform_layout_of_a_parameter():
    sch = schedule_of(programs.matmul)
    sch.transform_layout(sch.get_block("C"), "B", lambda i, j: (j, i))
    shapes = [[int(n) for n in b.shape] for b in main_of(sch).buffer_map.values()]
    assert shapes == [[9, 11], [6, 11], [9, 6]]


@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_transform_block_layout(program):
    def steps(sch):
        sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i * 6 + j, k))

    sch = check(program, steps)
    assert [int(sch.get(loop).extent) for loop in loops(sch, "C")] == [54, 11]
    refused(
        program,
        lambda sch: sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i, j * 11 + k)),
        "the map mixes data-parallel and reduction iterators",
    )
    refused(
        program,
        lambda sch: sch.transform_block_layout(
            sch.get_block("C"), lambda i, j, k: (i, j, k // 4, k % 4)
        ),
        "the map does not reach each point exactly once",
    )


def test_padding_of_expressions():
    """The value may depend on the new indices; what it would read is not there yet."""

    def selected(sch):
        sch.transform_layout(
            "B", "B", lambda i, j: (i, j // 4, j % 4), lambda i, j, k: T.Select(k > 2, 1.0, 2.0)
        )

    check(programs.elementwise, selected)

    def reading(sch):
        buffer = sch.get(sch.get_block("B")).reads[0].buffer
        sch.transform_layout(
            "B", "B", lambda i, j: (i, j // 4, j % 4), lambda i, j, k: buffer[i, 0]
        )

    refused(programs.elementwise, reading, "the value of the padding reads a buffer")


def test_layouts_that_the_user_vouches_for():
    def steps(sch):
        sch.transform_layout("B", "B", lambda i, j: (j, i), assume_injective_transform=True)

    check(programs.elementwise, steps)

    def shared_places(sch):
        sch.transform_layout("B", "B", lambda i, j: (i // 2, j))

    refused(programs.elementwise, shared_places, "elements share places")
