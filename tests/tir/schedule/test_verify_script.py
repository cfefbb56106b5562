"""The verifier that runs after each primitive, the flags of blocks, the state's tables."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import schedule_of
from tilesmith import tir
from tilesmith.ir import IRModule, Var
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import InternalError, VerifyError
from tilesmith.support.knobs import knobs
from tilesmith.tir.analysis import DepKind
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.schedule import ScheduleDebugMask, ScheduleError, StmtSRef
from tilesmith.tir.schedule.flags import BlockFlags, cached_flags
from tilesmith.tir.stmt import BufferStore


def flags_of(sch, name):
    return cached_flags(sch.cursor(sch.get_block(name)))


def change_block(sch, name, **fields):
    """Put another block where one stands, as a broken primitive might."""
    sref = sch.get_sref(sch.get_block(name))
    realize = sch.state.stmt(sref)
    block = realize.block.with_fields(**fields)
    sch.state.replace(sref, realize.with_fields(block=block), {realize.block: block})


def watch_regions(sch):
    sch.state.debug_mask = int(ScheduleDebugMask.VERIFY_REGIONS)
    return sch


def next_step(sch):
    sch.get_block("root")


def test_flags():
    sch = schedule_of(programs.matmul_relu)
    assert flags_of(sch, "C") == flags_of(sch, "D") == BlockFlags(True, True, True)
    assert flags_of(sch, "root").stage_pipeline
    sch.compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("D"))[0])
    assert flags_of(sch, "D").region_cover and flags_of(sch, "C").affine_binding


@pytest.mark.parametrize(
    ("condition", "is_covered"),
    [("i > 0", False), ("i >= 0", True), ("i < 7", False), ("i < 8", True)],
)
def test_a_producer_with_a_condition_covers_what_it_does_not_exclude(condition, is_covered):
    program = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            T.where({condition})
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.float32(1)
""")
    assert flags_of(schedule_of(program), "C").region_cover is is_covered


@T.prim_func
def diagonal(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    B = T.alloc_buffer((6, 6), "float32")
    for i in range(6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, i])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(6, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]


def test_flags_that_do_not_hold():
    sch = schedule_of(diagonal)
    assert flags_of(sch, "B") == BlockFlags(False, True, True)
    assert flags_of(sch, "C") == BlockFlags(True, False, True)
    assert not flags_of(sch, "root").stage_pipeline


def test_flags_are_kept_until_the_scope_changes():
    sch = schedule_of(programs.elementwise)
    first = flags_of(sch, "B")
    assert flags_of(sch, "B") is first
    sch.split(sch.get_loops(sch.get_block("C"))[1], [None, 4])
    assert flags_of(sch, "B") is not first and flags_of(sch, "B") == first


def test_stale_flags_are_found():
    sch = schedule_of(programs.elementwise)
    block = sch.get_block("B")
    sref = sch.get_sref(block)
    flags_of(sch, "B")
    (table,) = [state.flags for state in sch.state._functions.values()]
    table[sref] = (table[sref][0], BlockFlags(False, True, True))
    loop = sch.get_loops(block)[0]  # nothing changed: not looked at again
    sch.state.replace(sch.get_sref(loop), sch.get(loop).with_fields(annotations={"a": 1}))
    table[sref] = (sch.state.stmt(sch.state.scope(sref)).block, BlockFlags(False, True, True))
    with pytest.raises(InternalError, match="block 'B' of 'main' is said to be"):
        next_step(sch)


@pytest.mark.parametrize(
    "kind, text", [("reads", "reads A\\[vi:vi \\+ 1"), ("writes", "writes B\\[vi:vi \\+ 1")]
)
def test_regions_that_do_not_hold_the_accesses_are_found(kind, text):
    sch = watch_regions(schedule_of(programs.elementwise))
    block = sch.get(sch.get_block("B"))
    (region,) = getattr(block, kind)
    vi, vj = [iterator.var for iterator in block.iter_vars]
    change_block(sch, "B", **{kind: (BufferRegion.from_point(region.buffer, [vi + 1, vj]),)})
    with pytest.raises(InternalError, match="block 'B' of 'main' " + text):
        next_step(sch)


def test_undeclared_buffers_are_found():
    sch = watch_regions(schedule_of(programs.elementwise))
    sch.get_block("C")
    change_block(sch, "C", reads=())
    with pytest.raises(InternalError, match="reads B"):
        next_step(sch)
    quiet = schedule_of(programs.elementwise)
    quiet.state.debug_mask = int(ScheduleDebugMask.VERIFY_SREF_TREE)
    quiet.get_block("C")
    change_block(quiet, "C", reads=())
    next_step(quiet)


def test_what_is_not_well_formed_is_found():
    sch = schedule_of(programs.elementwise)
    body = sch.get(sch.get_block("B")).body
    stray = Var("stray", "int32")
    change_block(sch, "B", body=BufferStore(body.buffer, body.value, [stray, body.indices[1]]))
    with pytest.raises(VerifyError, match="stray"):
        next_step(sch)


def test_regions_that_the_author_has_widened_or_narrowed_are_his():
    @T.prim_func(check_well_formed=False)
    def narrow(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi + 4]

    sch = watch_regions(schedule_of(narrow))
    sch.split(sch.get_loops(sch.get_block("B"))[0], [2, 2])


def test_the_mask_and_the_knob():
    with knobs.override(check_schedules=True):
        assert tir.Schedule(programs.scan).state.debug_mask == -1
        assert tir.Schedule(programs.scan, debug_mask=0).state.debug_mask == 0
    with knobs.override(check_schedules=False):
        assert tir.Schedule(programs.scan).state.debug_mask == 0
        assert tir.Schedule(programs.scan, debug_mask="all").state.debug_mask == -1
        mask = ScheduleDebugMask.VERIFY_SREF_TREE | ScheduleDebugMask.VERIFY_CACHED_FLAGS
        assert tir.Schedule(programs.scan, debug_mask=mask).state.debug_mask == 3
    for wrong in ("some", 1.5, None):
        with pytest.raises(ScheduleError, match="debug_mask is"):
            tir.Schedule(programs.scan, debug_mask=wrong)


# --- identities -----------------------------------------------------------------------------------


def test_identities():
    sch = schedule_of(programs.elementwise)
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    sref = sch.get_sref(block)
    assert sref.stmt is sch.get(block) and sref.parent is sch.get_sref(j)
    assert sref.parent.stmt is sch.get(j) and sref.parent.parent is sch.get_sref(i)
    root = sch.get_sref(sch.get_block("root"))
    assert sch.get_sref(i).parent is root and root.parent is None
    assert repr(sref) == "StmtSRef(block 'B')" and repr(sch.get_sref(i)) == "StmtSRef(loop 'i')"
    sch.compute_inline(block)
    assert sref.stmt is None and sref.parent is None and repr(sref) == "StmtSRef(gone)"


def test_marks():
    inline, root = StmtSRef.inline_mark(), StmtSRef.root_mark()
    assert inline is StmtSRef.inline_mark() and root is StmtSRef.root_mark() is not inline
    assert inline.stmt is None and root.parent is None
    assert repr(inline) == "StmtSRef.inline_mark()"


def test_identities_answer_for_the_schedule_asked_last():
    sch = schedule_of(programs.elementwise)
    block = sch.get_block("B")
    copy = sch.copy()
    copy.annotate(block, "mine", 1)
    assert copy.get_sref(block).stmt.annotations["mine"] == 1
    assert not sch.get_sref(block).stmt.annotations


def test_dependences():
    sch = schedule_of(programs.three_stages)
    names = {name: sch.get_sref(sch.get_block(name)) for name in ("root", "B", "C", "D")}
    scope = sch.state.get_block_scope(names["root"])
    found = {(d.dst, d.kind) for d in scope.get_deps_by_src(names["B"])}
    assert found == {(names["C"], DepKind.RAW), (names["D"], DepKind.RAW)}
    assert [d.src for d in scope.get_deps_by_dst(names["D"])] == [names["B"], names["C"]]
    assert not scope.get_deps_by_dst(names["B"])
    with pytest.raises(ScheduleError, match="expected a block, got a loop"):
        sch.state.get_block_scope(sch.get_sref(sch.get_loops(sch.get_block("B"))[0]))


def test_replace_by_hand():
    """``ScheduleState.replace`` serves users who write primitives of their own."""
    state = tir.ScheduleState(IRModule({"main": programs.scan}), debug_mask="all")
    (variable,) = state.mod.get_global_vars()
    loop = state.child_srefs(state.root(variable))[0]
    before = state.stmt(loop)
    state.replace(state.get_sref(before), before.with_fields(annotations={"mine": 1}))
    assert state.get_sref(state.stmt(loop)) is loop and loop.stmt.annotations["mine"] == 1
    with pytest.raises(ScheduleError, match="not a loop or block of the program"):
        state.get_sref(Var("i", "int32"))
