"""A primitive declared outside of the package: one function, and a sampler for the fuzzer."""

from __future__ import annotations

import inspect
import json
import random

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import main_of, schedule_of
from tilesmith.ir import assert_structural_equal
from tilesmith.support.errors import ConfigError, InternalError
from tilesmith.testing.fuzz.cases import argument_sets
from tilesmith.testing.fuzz.checks import Checker
from tilesmith.testing.fuzz.generator import generate
from tilesmith.testing.fuzz.recipe import build
from tilesmith.testing.fuzz.schedules import SAMPLERS, sampler
from tilesmith.testing.fuzz.steps import Nothing, Pick, Recorder
from tilesmith.tir import Schedule
from tilesmith.tir.schedule import LoopRV, ScheduleError, Trace
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.primitive import PRIMITIVES, forget, primitive
from tilesmith.tir.schedule.primitives.loops import reorder, split
from tilesmith.tir.schedule.trace import KINDS


def declare_tile():
    """The worked example of CONTRIBUTING."""

    @primitive(is_composed=True)
    def tile(rows: LoopCursor, columns: LoopCursor, size: int = 4) -> list[LoopCursor]:
        """Divide two nested loops into tiles: rows, columns, rows in a tile, columns in a tile.

          for i, j in T.grid(64, 64): ...
        tile(i, j, 8)
          for i_0, j_0, i_1, j_1 in T.grid(8, 8, 8, 8): ...
        """
        if columns.parent() != rows:
            advice = "give a loop and the one directly inside of it"
            raise refuse("the loops are not nested directly", columns, advice)
        outer, inner = split(rows, [None, size]), split(columns, [None, size])
        loops = [outer[0], inner[0], outer[1], inner[1]]
        reorder(*loops)
        return loops

    @sampler("Tile", 1)
    def draw_tile(pick: Pick) -> None:
        loops = pick.loops(pick.block())
        if len(loops) < 2:
            raise Nothing
        pick.call("tile", loops[-2], loops[-1], pick.number(1, 5))


@pytest.fixture
def tile():
    declare_tile()
    yield PRIMITIVES.get("tile")
    forget("tile")
    del SAMPLERS["Tile"]


def annotated_columns(sch, i, j):
    """The rows are split before the columns are refused."""
    sch.annotate(j, "note", 1)
    return (i, j), {}


def schedule(program):
    """A schedule with the primitive used once, and what that gave."""
    sch = schedule_of(program, seed=0)
    i, j = sch.get_loops(sch.get_block("C"))[:2]
    return sch, sch.tile(i, j, size=8)


def test_method(tile):
    sch, loops = schedule(programs.matmul)
    assert all(isinstance(loop, LoopRV) for loop in loops) and len(loops) == 4
    by_hand = schedule_of(programs.matmul)
    i, j = by_hand.get_loops(by_hand.get_block("C"))[:2]
    (i_0, i_1), (j_0, j_1) = by_hand.split(i, [None, 8]), by_hand.split(j, [None, 8])
    by_hand.reorder(i_0, j_0, i_1, j_1)
    assert_structural_equal(main_of(sch), main_of(by_hand))


def test_signature_and_text(tile):
    signature = inspect.signature(schedule_of(programs.matmul).tile)
    assert str(signature) == (
        "(rows: 'LoopRV', columns: 'LoopRV', size: 'int' = 4) -> 'list[LoopRV]'"
    )
    assert Schedule.tile.__doc__.startswith("Divide two nested loops")
    assert "tile(i, j, 8)" in Schedule.tile.__doc__ and Schedule.tile.__name__ == "tile"


@pytest.mark.parametrize(
    "arguments, text",
    [
        (lambda sch, i, j: ((j, i), {}), "tile: the loops are not nested directly"),
        (lambda sch, i, j: ((i, sch.get_block("C")), {}), "tile: expected a loop, got the block"),
        (lambda sch, i, j: ((i, j, "wide"), {}), "tile: 'size' is a whole number, got 'wide'"),
        (lambda sch, i, j: ((i, j, 2.5), {}), "tile: 'size' is a whole number, got 2.5"),
        (lambda sch, i, j: ((i, j, 0), {}), "tile: factor 0 is not positive"),
        (annotated_columns, "tile: loop 'j' has annotations"),
    ],
)
def test_refusals(tile, arguments, text):
    sch = schedule_of(programs.matmul)
    i, j = sch.get_loops(sch.get_block("C"))[:2]
    args, kwargs = arguments(sch, i, j)
    before = sch.mod
    with pytest.raises(ScheduleError) as error:
        sch.tile(*args, **kwargs)
    assert str(error.value).startswith(text)
    assert_structural_equal(sch.mod, before)


def test_a_refusal_shows_the_program_and_advice(tile):
    sch = schedule_of(programs.matmul)
    i, j = sch.get_loops(sch.get_block("C"))[:2]
    with pytest.raises(ScheduleError) as error:
        sch.tile(j, i)
    message = str(error.value)
    assert "the program now:" in message and "directly inside of it" in message
    assert __file__ in message  # where it was called
    quiet = schedule_of(programs.matmul, error_render_level="fast")
    i, j = quiet.get_loops(quiet.get_block("C"))[:2]
    with pytest.raises(ScheduleError) as error:
        quiet.tile(j, i)
    assert "the program now:" not in str(error.value)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda sch, i, j: sch.tile(i), "Schedule.tile: missing a required argument: 'columns'"),
        (lambda sch, i, j: sch.tile(i, j, 4, 5), "Schedule.tile: too many positional arguments"),
        (lambda sch, i, j: sch.tile(i, j, wide=4), "unexpected keyword argument 'wide'"),
        (lambda sch, i, j: sch.tile(i, j, rows=i), "multiple values for argument 'rows'"),
    ],
)
def test_wrong_calls(tile, call, text):
    sch = schedule_of(programs.matmul)
    with pytest.raises(TypeError, match=text):
        call(sch, *sch.get_loops(sch.get_block("C"))[:2])


def test_traces(tile):
    sch, _ = schedule(programs.matmul)
    saved = json.dumps(sch.trace.as_json())
    assert json.loads(saved)[0][-1] == [
        "Tile", ["l1", "l2"], [8], ["l4", "l5", "l6", "l7"],
    ]  # fmt: skip
    assert "l4, l5, l6, l7 = sch.tile(rows=l1, columns=l2, size=8)" in str(sch.trace)
    replay = schedule_of(programs.matmul)
    Trace.apply_json_to_schedule(saved, replay)
    assert_structural_equal(main_of(replay), main_of(sch))


def test_fuzzed(tile):
    """The sampler draws arguments; each result is compared with the interpreter's."""
    drawn = 0
    for seed in range(12):
        recipe = generate(seed)
        checker = Checker(build(recipe), argument_sets(recipe))
        recorder = Recorder(checker.schedule())
        pick = Pick(recorder, random.Random(seed), recipe)
        try:
            SAMPLERS["Tile"][1](pick)
        except (Nothing, ScheduleError):
            continue
        drawn += 1
        checker.compare(pick.function)
    assert drawn > 3


def test_nothing_is_left_behind():
    declare_tile()
    with pytest.raises(ConfigError, match="'tile' is registered already"):
        declare_tile()
    forget("tile")
    del SAMPLERS["Tile"]
    assert "tile" not in PRIMITIVES and "Tile" not in KINDS and not hasattr(Schedule, "tile")


def test_declarations_say_what_they_cannot_be():
    with pytest.raises(InternalError, match="no kind of schedule parameters"):

        @primitive()
        def with_a_set(loops: set[LoopCursor]) -> None: ...

    with pytest.raises(InternalError, match="which no kind of result fits"):

        @primitive()
        def giving_text(block: BlockCursor) -> str: ...

    assert "with_a_set" not in PRIMITIVES and "giving_text" not in PRIMITIVES


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_methods_are_documented(name):
    method = getattr(Schedule, name)
    assert method.__doc__ and method.__name__ == name
