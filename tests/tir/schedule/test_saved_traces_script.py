"""Traces as text and as JSON: what values they hold, what happens to broken ones."""

import json
from operator import add, floordiv, mod, mul, sub

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, run_text, schedule_of
from tilesmith import tir
from tilesmith.ir import IntImm, assert_structural_equal, const
from tilesmith.script import from_source
from tilesmith.tir.schedule import Instruction, InstructionKind, ScheduleError, Trace


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def saved(sch):
    """The trace after a way through text."""
    return json.loads(json.dumps(sch.trace.as_json()))


# --- values ---------------------------------------------------------------------------------------


def test_expressions_over_random_variables():
    def steps(sch):
        loop = loops(sch, "C")[0]
        a, b = sch.sample_perfect_tile(loop, 2, decision=[3, 3])
        sch.split(loop, [None, b * 2 - a])
        sch.annotate(sch.get_block("C"), "sum", a + b)

    sch = check(programs.matmul, steps)
    split, annotate = [row for row in saved(sch)[0] if row[0] in ("Split", "Annotate")]
    assert split[1] == ["l1", None, "v5 * 2 - v4"]  # as in the logs of other tuners
    assert annotate[1][1] == "v4 + v5"
    assert int(sch.get(loops(sch, "C")[1]).extent) == 3
    assert sch.get(sch.get_block("C")).annotations["sum"] == 6
    # Another decision goes through the expression, also after saving.
    (sample,) = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    other = schedule_of(programs.matmul)
    changed = sch.trace.with_decision(sample, [1, 9], remove_postproc=False)
    Trace.apply_json_to_schedule(json.dumps(changed.as_json()), other)
    assert int(other.get(loops(other, "C")[1]).extent) == 17


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_expressions_in_json_have_their_value_again(data):
    sch = schedule_of(programs.matmul)
    block = sch.get_block("C")
    leaves = [*sch.sample_perfect_tile(sch.get_loops(block)[0], 2, decision=[3, 3])]
    leaves.append(sch.sample_categorical([2, 5], [0.5, 0.5], decision=1))
    operators = (add, sub, mul, floordiv, mod, tir.min, tir.max)
    value = data.draw(st.sampled_from(leaves))
    for _ in range(data.draw(st.integers(0, 4))):
        operator = data.draw(st.sampled_from(operators))
        by = data.draw(st.one_of(st.sampled_from(leaves), st.integers(1, 7)))
        is_left = operator in (floordiv, mod) or data.draw(st.booleans())
        value = operator(value, by) if is_left else operator(by, value)
    sch.annotate(block, "value", value)
    again = schedule_of(programs.matmul)
    Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
    assert_structural_equal(main_of(again), main_of(sch))


def test_nested_annotations():
    """Lists, dictionaries and sampled values inside of each other."""

    def steps(sch):
        block = sch.get_block("C")
        width = sch.sample_categorical([4, 8], [0.5, 0.5], decision=1)
        sch.annotate(block, "list", [1, [2.5, width], "text"])
        sch.annotate(block, "dict", {"width": width, "inner": {"twice": width * 2, "no": None}})
        sch.annotate(sch.get_loops(block)[0], "flag", True)
        sch.annotate(sch.get_loops(block)[0], "infinite", float("inf"))

    sch = check(programs.matmul, steps)
    annotations = sch.get(sch.get_block("C")).annotations
    assert annotations["list"] == (1, (2.5, 8), "text")
    assert annotations["dict"]["inner"]["twice"] == 16
    # A sample that only an annotation uses is not dropped.
    kinds = [inst.kind.name for inst in sch.trace.simplified(False).insts]
    assert "SampleCategorical" in kinds


def size_of(sch):
    return main_of(sch).buffer_map[main_of(sch).params[0]].shape[0]


def test_sizes_of_the_program_are_known_by_their_names():
    """In expressions and maps; also in a program that was read again and has other variables."""

    def steps(sch):
        sch.split(loops(sch, "B")[0], [size_of(sch) // 4 + 1, 4])
        sch.cache_write("B", 0, "local")
        sch.transform_layout("B", ("write", 0), lambda i: (i // size_of(sch), i % size_of(sch)))

    sch = check(programs.copy_symbolic, steps, sizes={"n": 13})
    text_again = schedule_of(programs.copy_symbolic)
    run_text(str(sch.trace), text_again)
    assert_structural_equal(main_of(text_again), main_of(sch))
    assert 'n = tir.schedule.get_size_var(sch, "n")' in str(sch.trace)
    for other in (programs.copy_symbolic, from_source(programs.copy_symbolic.script())):
        for again in (schedule_of(other), schedule_of(other)):
            Trace.apply_json_to_schedule(saved(sch), again)
            assert_structural_equal(main_of(again), main_of(sch))
        again = schedule_of(other)
        sch.trace.apply_to_schedule(again, remove_postproc=False)
        assert_structural_equal(main_of(again), main_of(sch))


def test_a_size_named_like_a_random_variable():
    sch = schedule_of(
        from_source(
            programs.copy_symbolic.script()
            .replace("(n", "(l1")
            .replace(" n = ", " l1 = ")
            .replace("n, i", "l1, i")
        )
    )
    (loop,) = loops(sch, "B")
    sch.split(loop, [size_of(sch) // 4 + 1, 4])
    assert "l1 = tir.schedule.get_size_var(" in str(sch.trace) and "l1_, = sch.get_loops(" in str(
        sch.trace
    )
    again = schedule_of(programs.copy_symbolic)
    with pytest.raises(ScheduleError, match="no size of this name"):
        Trace.apply_json_to_schedule(saved(sch), again)
    with pytest.raises(ScheduleError, match="no size variable 'l1'"):
        tir.schedule.get_size_var(again, "l1")


def test_different_variables_of_one_name_cannot_be_saved():
    sch = schedule_of(programs.copy_symbolic)
    sch.annotate("B", "sizes", [size_of(sch), tir.Var("n", "int64")])
    with pytest.raises(ScheduleError, match="different variables of one name"):
        sch.trace.as_json()


def test_maps_as_text():
    def steps(sch):
        sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4), pad_value=1.5)
        sch.transform_block_layout("C", lambda i, j: (i * 13 + j,))

    sch = check(programs.elementwise, steps)
    text = str(sch.trace)
    assert 'buffer=("write", 0), index_map=lambda i, j: (j // 4, i, j % 4)' in text
    assert "def apply_trace(sch: tir.Schedule) -> None:" in text
    check(programs.elementwise64, steps)

    def inverted(sch):
        mapping = tir.IndexMap.from_func(
            lambda i, j: (j, i), inverse_index_map=lambda a, b: (b, a), index_dtype="int32"
        )
        sch.transform_layout("B", ("write", 0), mapping)

    assert "inverse_index_map=" in str(check(programs.elementwise, inverted).trace)


def test_text_of_instructions():
    sch = schedule_of(programs.matmul)
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    sch.split(i, [None, 3])
    sch.reorder(j)
    texts = [str(inst) for inst in sch.trace.insts]
    assert texts[0] == 'b0 = sch.get_block(name="C", func_name="main")'
    assert texts[1] == "l1, l2, l3 = sch.get_loops(block=b0)"
    assert texts[2].startswith("l1, l2 = sch.split(loop=l0, factors=[None, 3]")
    assert texts[3] == "sch.reorder(l0)"
    assert repr(sch.trace.insts[0]) == texts[0]
    sch.annotate(block, "key", 'a "b"')
    sch.cache_read(block, 0, "shared")
    annotate, cache_read = [str(inst) for inst in sch.trace.insts[-2:]]
    assert annotate == 'sch.annotate(block_or_loop=b0, ann_key="key", ann_val="a \\"b\\"")'
    assert cache_read.endswith(
        'sch.cache_read(block=b0, read_buffer_index=0, storage_scope="shared")'
    )


def test_postprocessing_is_left_out():
    sch = schedule_of(programs.matmul)
    loop = loops(sch, "C")[0]
    sch.enter_postproc()
    sch.unroll(loop)
    assert len(sch.trace.as_python(remove_postproc=True)) == 2
    rows, _ = sch.trace.as_json(remove_postproc=True)
    assert [row[0] for row in rows] == ["GetBlock", "GetLoops"]
    other = schedule_of(programs.matmul)
    sch.trace.apply_to_schedule(other, remove_postproc=True)
    assert main_of(other) is programs.matmul
    run_text(str(sch.trace), other)
    assert_structural_equal(main_of(other), main_of(sch))


def test_kinds():
    kind = InstructionKind.get("Split")
    assert not kind.is_pure and InstructionKind.get("GetLoops").is_pure
    assert InstructionKind.get("SampleComputeLocation").is_pure
    assert InstructionKind.get("EnterPostproc").is_postproc
    made = Instruction("Split", [None, [2, 3]], [True, False], [])
    assert made.kind is kind
    with pytest.raises(KeyError, match="Splitt"):
        InstructionKind.get("Splitt")


def test_show(capsys):
    sch = schedule_of(programs.matmul)
    block = sch.get_block("C")
    sch.show()
    shown = capsys.readouterr().out
    assert "def main(" in shown and 'sch.get_block(name="C"' in shown
    sch.show(style="light", black_format=False, show_meta=False)
    assert "def main(" in capsys.readouterr().out
    sch.show(block)
    shown = capsys.readouterr().out
    assert 'T.block("C"' in shown and "def main(" not in shown
    sch.trace.show(style="dark")
    assert "sch.get_block" in capsys.readouterr().out


# --- broken ones ----------------------------------------------------------------------------------

GET = ["GetBlock", [], ["C", "main"], ["b0"]]
LOOPS = ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]


@pytest.mark.parametrize(
    "rows, decisions, text",
    [
        ([GET, ["GetLoop", ["b0"], [], []]], [], r"instruction 1 of the trace \(GetLoop\)"),
        ([GET, ["GetLoops"]], [], r"instruction 1 .*expected \[kind, inputs, attrs, outputs\]"),
        ([GET, 5], [], r"instruction 1 .*expected \[kind"),
        ([GET, ["GetLoops", "b0", [], []]], [], r"instruction 1 .*expected \[kind"),
        ([GET, ["GetLoops", [], [], []]], [], r"0 inputs instead of 1 \(block\)"),
        ([GET, ["Bind", ["b0"], [], []]], [], r"0 attributes instead of 1 \(thread_axis\)"),
        (
            [["GetLoops", ["b7"], [], []]],
            [],
            r"instruction 0 .*uses b7 before its definition",
        ),
        ([["GetLoops", [{"rv": [1]}], [], []]], [], r"instruction 0 .*before its definition"),
        ([GET, ["GetLoops", [{"node": "?"}], [], []]], [], r"instruction 1 of the trace"),
        ([GET, ["GetLoops", [{"what": "?"}], [], []]], [], r"instruction 1 of the trace"),
        ([GET, LOOPS, ["Reorder", ["l1 * x"], [], []]], [], r"instruction 2 .*uses x before"),
        (
            [GET, ["GetLoops", ["b0"], [], ["l1"]]],
            [],
            r"it gave 3 results, the trace names 1",
        ),
        ([GET, LOOPS, ["Split", ["l1", "5 / 2"], [True, False], []]], [], r"instruction 2"),
        ([GET, LOOPS, ["Split", ["l1", "T.min(5)"], [True, False], []]], [], r"instruction 2"),
        ([GET, LOOPS, ["Split", ["l1", "exit(5, 6)"], [True, False], []]], [], r"instruction 2"),
        ([GET], [[4, 1]], r"a decision for instruction 4, of 1"),
        ([GET], [["x", 1]], r"this is not a trace in JSON form"),
    ],
)
def test_broken_json(rows, decisions, text):
    sch = schedule_of(programs.matmul)
    with pytest.raises(ScheduleError, match=text):
        Trace.apply_json_to_schedule(json.dumps([rows, decisions]), sch)


@pytest.mark.parametrize("broken", ["", "{", "[1, 2, 3]", "[[]]", "7", "null"])
def test_no_json_of_a_trace(broken):
    with pytest.raises(ScheduleError, match="this is not a trace in JSON form"):
        Trace.apply_json_to_schedule(broken, schedule_of(programs.matmul))


def test_constants_in_json():
    """Nodes that stand for numbers are saved as numbers."""
    sch = schedule_of(programs.matmul)
    loop = loops(sch, "C")[0]
    sch.split(loop, [const(3), IntImm("int32", 3)])
    assert saved(sch)[0][2][1][1:] == [3, 3]
    assert sch.trace.get_decision(sch.trace.insts[0]) is None


def test_logs_of_other_tuners_are_read():
    """Names stand for variables, expressions are text, attributes that came later are missing."""
    rows = [
        GET,
        LOOPS,
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5 * 1"], [1], ["l6", "l7"]],
        ["Reorder", ["l7", "l6"], [], []],
        ["Annotate", ["b0", '"text"'], ["key"], []],
        ["Annotate", ["b0", "T.max(v5 * 2 + 1, T.min(v4, 9))"], ["number"], []],
        ["CacheRead", ["b0"], [0, "shared"], ["b8"]],
    ]
    sch = schedule_of(programs.matmul)
    Trace.apply_json_to_schedule(json.dumps([rows, [[2, [3, 3]]]]), sch)
    block = sch.get(sch.get_block("C"))
    assert block.annotations["key"] == "text" and block.annotations["number"] == 7
    assert len(sch.get_loops(sch.get_block("C"))) == 4
    again = saved(sch)[0]
    assert again[3][1][:2] == ["l1", "v4"] and again[4][1] == ["l7", "l6"]
    assert again[5][1] == ["b0", '"text"']
