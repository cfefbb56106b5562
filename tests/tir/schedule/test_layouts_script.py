"""Primitives that change layouts of buffers and iterators of blocks."""

import json
import re

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import assert_same_results
from tilesmith import tir
from tilesmith.ir import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.schedule import Trace


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
@pytest.mark.parametrize("pad", [0.0, 3.5])
def test_transform_layout_with_padding(program, pad):
    def steps(sch):
        sch.transform_layout(
            sch.get_block("C"), ("read", 0), lambda i, j: (i, j // 4, j % 4), pad_value=pad
        )

    sch = check(program, steps)
    assert "B_padding" not in main_of(sch).script()  # the producer writes it too
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
                    v1 == 3 and 1 <= v2, T.float32(5), A[vi, v1 * 4 + v2] * T.float32(2)
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
    open_padding.transform_layout(
        open_padding.get_block("B"), "A", pack, assume_injective_transform=True
    )
    assert "assum" not in main_of(open_padding).script()


@pytest.mark.parametrize("pad", [0, T.int8(0), T.float16(0), lambda i, j, k: 0, T.float64(0)])
def test_padding_has_the_dtype_of_the_buffer(pad):
    def steps(sch):
        sch.transform_layout("B", "B", lambda i, j: (i, j // 4, j % 4), pad_value=pad)

    refused(programs.elementwise, steps, "holds float32, the value of the padding is")


def test_padding_has_to_be_given():
    pack = lambda i, j: (i, j // 4, j % 4)
    refused(
        programs.elementwise, lambda sch: sch.transform_layout("B", "B", pack),
        "padding where axis1 == 3 and 1 <= axis2, and no pad_value",
    )  # fmt: skip
    check(programs.elementwise, lambda sch: sch.transform_layout("B", "B", lambda i, j: (j, i)))


def padded_by_a_block(before: bool):
    @T.prim_func
    def given(A: T.Buffer((6, 5), "float32"), C: T.Buffer((5, 6), "float32")):
        B = T.alloc_buffer((5, 6), "float32")
        for i, j in T.grid(6, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(5, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((6, 5), "float32"), C: T.Buffer((5, 6), "float32")):
        B = T.alloc_buffer((2, 6, 4), "float32")
        for i, j in T.grid(6, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj // 4, vi, vj % 4] = A[vi, vj] * T.float32(2)
        for o, i, p in T.grid(2, 6, 4):
            with T.block("buffer_B_padding"):
                vo, vi, vp = T.axis.remap("SSS", [o, i, p])
                T.where(o == 1 and 1 <= p)
                T.reads()
                T.writes(B[vo, vi, vp])
                B[vo, vi, vp] = T.float32(0)
        for i, j in T.grid(5, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 4, vj, vi % 4] + T.float32(1)

    return given if before else expected


@pytest.mark.parametrize("kind", [("B", "write"), ("C", "read")])
def test_a_block_of_its_own_writes_the_padding_after_the_rest(kind):
    pack = lambda i, j: (i // 4, j, i % 4)
    check(
        padded_by_a_block(True),
        lambda sch: sch.transform_layout(kind[0], (kind[1], 0), pack, pad_value=0.0),
        padded_by_a_block(False),
    )


def test_padding_of_symbolic_sizes():
    @T.prim_func
    def before(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 3), "float32")
        C = T.match_buffer(c, (n, 3), "float32")
        B = T.alloc_buffer((n, 3), "float32")
        for i, j in T.grid(n, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(n, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    def steps(sch):
        pack = lambda i, j: (i // 4, j, i % 4)
        sch.transform_layout("B", ("write", 0), pack, pad_value=0.0)

    sch = schedule_of(before)
    steps(sch)
    assert "T.if_then_else(v_axis0 == n // 4 and n % 4 <= v_axis2" in main_of(sch).script()
    for n in (1, 3, 4, 9):
        check(before.specialize({before.params[0]: tir.decl_buffer((n, 3))}), steps)


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


CHANGES_OF_LAYOUT = {
    "transform_layout": lambda s, b: s.transform_layout(b, ("write", 0), lambda i, j: (j, i)),
    "storage_align": lambda s, b: s.storage_align(b, 0, 0, 16, 3),
    "set_axis_separator": lambda s, b: s.set_axis_separator(b, ("write", 0), [1]),
    "unsafe_set_dtype": lambda s, b: s.unsafe_set_dtype(b, 0, "float16"),
}


@pytest.mark.parametrize("name", CHANGES_OF_LAYOUT)
@pytest.mark.parametrize("way", ["passed to a function", "a row passed", "declared over"])
def test_buffers_whose_pointer_is_used_keep_their_layout(name, way):
    @I.ir_module
    class Called:
        @T.prim_func
        def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
            T.func_attr({"global_symbol": "main"})
            X = T.alloc_buffer((6, 8), "float32")
            for i, j in T.grid(6, 8):
                with T.block("pre"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    X[vi, vj] = A[vi, vj] + T.float32(1)
            for i in range(6):
                with T.block("call"):
                    vi = T.axis.spatial(6, i)
                    T.reads(X[vi, 0:8])
                    T.writes(B[vi, 0:8])
                    Called.row(X.data, B.data, vi)

        @T.prim_func(private=True)
        def row(a: T.handle("float32"), b: T.handle("float32"), i: T.int32):
            A = T.decl_buffer((6, 8), data=a)
            B = T.decl_buffer((6, 8), data=b)
            for j in range(8):
                B[i, j] = A[i, j] * T.float32(2)

    @T.prim_func
    def aliased(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
        X = T.alloc_buffer((6, 8), "float32")
        for i, j in T.grid(6, 8):
            with T.block("pre"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(6, 8):
            with T.block("flat"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(X[vi, vj])
                T.writes(B[vi, vj])
                Y = T.decl_buffer((48,), "float32", data=X.data)
                B[vi, vj] = Y[vi * 8 + vj] * T.float32(2)

    @I.ir_module
    class Rows:
        @T.prim_func
        def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
            X = T.alloc_buffer((6, 8), "float32")
            for i, j in T.grid(6, 8):
                with T.block("pre"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    X[vi, vj] = A[vi, vj] + T.float32(1)
            for i in range(6):
                with T.block("call"):
                    vi = T.axis.spatial(6, i)
                    T.reads(X[vi, 0:8])
                    T.writes(B[vi, 0:8])
                    T.call_extern("int32", "scale", T.address_of(X[vi, 0]), T.address_of(B[vi, 0]))

    ways = {"passed to a function": Called, "a row passed": Rows, "declared over": aliased}
    sch = tir.Schedule(ways[way])
    with pytest.raises(tir.ScheduleError, match=r"is used as a pointer \(X.data\)"):
        CHANGES_OF_LAYOUT[name](sch, sch.get_block("pre", func_name="main"))


def test_axis_separators_of_a_map():
    def steps(sch):
        separator = tir.IndexMap.AXIS_SEPARATOR
        sch.transform_layout("B", ("write", 0), lambda i, j: [j, separator, i])

    sch = check(programs.elementwise, steps)
    (buffer,) = [region.buffer for region in sch.get(sch.get_block("B")).writes]
    assert buffer.axis_separators == (1,)
    assert "lambda i, j: (j, IndexMap.AXIS_SEPARATOR, i)" in str(sch.trace)
    with pytest.raises(UnsupportedError, match="no axis separators"):
        sch.transform_block_layout("C", lambda i, j: (i, tir.IndexMap.AXIS_SEPARATOR, j))


@pytest.mark.parametrize("program", [programs.elementwise, programs.elementwise64])
def test_maps_over_sampled_factors(program):
    """The trace keeps the variables: with another decision there is another layout."""

    def steps(sch):
        _, inner = sch.sample_perfect_tile(sch.get_loops("B")[1], 2, decision=[1, 13])
        width = sch.sample_categorical([2, 7], [0.5, 0.5], decision=1)
        sch.transform_layout(
            "B", ("write", 0), lambda i, j: (j // inner, i // width, i % width, j % inner)
        )
        sch.transform_block_layout("C", lambda i, j: (i // width, i % width * 13 + j))

    sch = check(program, steps)
    assert [int(n) for n in sch.get(sch.get_block("B")).writes[0].buffer.shape] == [1, 1, 7, 13]
    assert re.search(r"index_map=.* i % .*v\d", str(sch.trace))
    (sample,) = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    changed = sch.trace.with_decision(sample, [13, 1], remove_postproc=False)
    for way in (
        lambda other: changed.apply_to_schedule(other, remove_postproc=False),
        lambda other: Trace.apply_json_to_schedule(json.dumps(changed.as_json()), other),
        lambda other: changed.simplified(False).apply_to_schedule(other, False),
    ):
        other = schedule_of(program)
        way(other)
        shape = other.get(other.get_block("B")).writes[0].buffer.shape
        assert [int(n) for n in shape] == [13, 1, 7, 1]


@T.prim_func
def flat_between(a: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "main"})
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    C = T.match_buffer(c, (m, n), "float32")
    B = T.alloc_buffer((m * n,), "float32")
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * n + vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(m, n):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * n + vj] + T.float32(1)


def test_maps_over_symbolic_sizes():
    @T.prim_func
    def expected(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (m, n), "float32")
        C = T.match_buffer(c, (m, n), "float32")
        B = T.alloc_buffer((m, n), "float32")
        for i, j in T.grid(m, n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(m * n):
            with T.block("C"):
                v0 = T.axis.spatial(m * n, ax0)
                C[v0 // n, v0 % n] = B[v0 // n, v0 % n] + T.float32(1)

    size = flat_between.buffer_map[flat_between.params[0]].shape[1]
    sch = schedule_of(flat_between)
    sch.transform_layout("B", ("write", 0), lambda i: (i // size, i % size))
    sch.transform_block_layout("C", lambda i, j: (i * size + j,))
    assert_structural_equal(main_of(sch), expected.with_attr(flat_between.attrs))
    for sizes in ({"n": 3, "m": 5}, {"n": 1, "m": 4}):
        assert_same_results(flat_between, main_of(sch), sizes)


@T.prim_func
def between_in_a_block(A: T.Buffer((4,), "float32"), C: T.Buffer((2,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for _ in range(1):
        with T.block("outer"):
            B = T.alloc_buffer((2,), "float32")
            T.reads(A[0:2])
            T.writes(C[0:2])
            for i in range(2):
                with T.block("B"):
                    vi = T.axis.spatial(2, i)
                    B[vi] = A[vi] + 1.0
            for i in range(2):
                with T.block("C"):
                    vi = T.axis.spatial(2, i)
                    C[vi] = B[vi]


def test_padding_of_a_buffer_inside_of_a_block():
    """The block around declares what the writer reads for the elements that are not padding."""

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), C: T.Buffer((2,), "float32")):
        for _ in range(1):
            with T.block("outer"):
                B = T.alloc_buffer((1, 3), "float32")
                T.reads(A[0:2])
                T.writes(C[0:2])
                for i in range(2):
                    with T.block("B"):
                        vi = T.axis.spatial(2, i)
                        B[vi // 3, vi % 3] = A[vi] + 1.0
                for axis0, axis1 in T.grid(1, 3):
                    with T.block("buffer_B_padding"):
                        v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
                        T.where(axis1 == 2)
                        B[v_axis0, v_axis1] = T.float32(0)
                for i in range(2):
                    with T.block("C"):
                        vi = T.axis.spatial(2, i)
                        C[vi] = B[vi // 3, vi % 3]

    def steps(sch):
        sch.transform_layout(
            sch.get_block("B"), ("write", 0), lambda i: (i // 3, i % 3), pad_value=0.0
        )

    check(between_in_a_block, steps, expected)
