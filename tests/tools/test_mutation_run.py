"""The mutation run: which changes it makes, what counts, that it goes on where it stopped."""

import json
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import mutants  # noqa: E402
from mutation_reach import Blocks  # noqa: E402
from mutation_records import Reach, nearest_tests  # noqa: E402
from mutation_run import Stages, chosen, report, run  # noqa: E402
from mutation_tree import Settings, Tree  # noqa: E402

SOURCE = '''\
"""A docstring about 1 < 2."""

from typing import TYPE_CHECKING

__all__ = ["part"]


def part(a: "int | None", b: int = 3) -> int:
    """Return min(1, 2)."""
    if a is None:
        raise ValueError(f"give a number, not {a - 1}")
    if a < b and not b == 0:
        b -= 1
        a, b = divide(b - a, min(a, 7))
    return b
'''


def changes(source=SOURCE):
    made = mutants.mutants_of("tilesmith/te/part.py", source)
    return {(one.line, one.before, one.after) for one in made}


@pytest.mark.parametrize(
    "change",
    [
        (8, "3", "4"), (8, "3", "2"), (10, "a is None", "False"),
        (10, "a is None", "a is not None"),
        (12, "a < b", "a <= b"), (12, "a < b", "b < a"), (12, "a < b and not b == 0", "a < b"),
        (12, "a < b and not b == 0", "a < b or not b == 0"), (12, "not b == 0", "b == 0"),
        (13, "b -= 1", "pass"), (14, "b - a", "a - b"), (14, "b - a", "b + a"),
        (14, "min(a, 7)", "max(a, 7)"), (14, "min(a, 7)", "min(7, a)"), (14, "7", "8"),
        (14, "divide(b - a, min(a, 7))", "divide(min(a, 7), b - a)"),
    ],
)  # fmt: skip
def test_mistakes_that_one_may_make(change):
    assert change in changes()


def test_texts_for_people_stay():
    assert {line for line, _, _ in changes()}.isdisjoint({1, 3, 5, 9, 11})


def test_columns_count_characters():
    (change,) = [
        one for one in changes('x = "ä→" + str(a < b)\n') if one[1:] == ("a < b", "a <= b")
    ]
    assert change[0] == 1


def test_a_change_that_is_no_program_is_noticed():
    mutant = mutants.Mutant("a.py", 1, 0, 1, "sign", "a", "a b")
    assert not mutants.compiles(mutant, "a = 1\n")


def test_the_nearest_tests_come_first(tmp_path):
    for name in ("te/test_part.py", "te/test_other.py"):
        place = tmp_path / "tests" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
    assert list(nearest_tests(tmp_path, "tilesmith/te/part.py")) == [
        ["tests/te/test_part.py"], ["tests/te"],
    ]  # fmt: skip


class ToyStages:
    """Says of a mutant what its text says; remembers what it was asked."""

    def __init__(self, tree):
        self.tree, self.asked = tree, []

    def is_reached(self, mutant):
        return mutant.line > 10

    def probe(self, mutant):
        assert (self.tree.place / mutant.path).read_text() == mutant.applied(SOURCE)
        self.asked.append(mutant.name)
        return "no change" if mutant.kind == "off by one" else "counts"

    def tests(self, mutant):
        return "survived" if mutant.kind == "comparison" else "FAILED tests/te/test_part.py"

    def fuzzing(self, mutant, record):
        record.programs += 5
        record.fuzz_seconds = self.tree.settings.fuzz_seconds
        return "survived" if mutant.line == 13 else "pass: tir.Simplify: wrong result"


@pytest.fixture
def settings(tmp_path):
    source = tmp_path / "source" / "tilesmith" / "te" / "part.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    return Settings(tmp_path / "source", tmp_path / "output", ("tilesmith/te",), count=100)


def test_a_run_goes_on_where_it_stopped_with_the_tree_as_it_was(settings):
    tree = Tree(settings)
    settings.count = 4
    first, second = ToyStages(tree), ToyStages(tree)
    run(settings, [first], lambda text: None)
    assert (settings.tree / "tilesmith/te/part.py").read_text() == SOURCE
    assert (tree.place / "tilesmith/te/part.py").read_text() == SOURCE
    settings.count = 100
    (settings.tree / "tilesmith/te/part.py").write_text("")  # edited meanwhile
    run(settings, [second], lambda text: None)
    assert first.asked and set(first.asked).isdisjoint(second.asked)
    names = {one.stem for one in (settings.output / "records").iterdir()}
    assert names == {*first.asked, *second.asked}


def test_who_survived_is_fuzzed_for_the_rest_of_a_longer_time(settings):
    tree = Tree(settings)
    settings.fuzz_seconds = 60
    run(settings, [ToyStages(tree)], lambda text: None)
    settings.fuzz_seconds = 600
    again = ToyStages(tree)
    verdicts = {one["name"]: "as good" for one in report(settings.output, {})["survivors"]}
    run(settings, [again], lambda text: None, verdicts)
    assert set(programs_of(settings)) == {("survived", 5), ("pass: tir.Simplify: wrong result", 5)}
    run(settings, [again], lambda text: None)
    assert not again.asked
    assert set(programs_of(settings)) == {("survived", 10), ("pass: tir.Simplify: wrong result", 5)}


def programs_of(settings):
    records = [json.loads(one.read_text()) for one in (settings.output / "records").iterdir()]
    counts = [one for one in records if one["status"] == "counts"]
    return [(one["fuzzing"], one["programs"]) for one in counts]


def test_several_mutants_at_once(settings):
    trees = [Tree(settings), Tree(settings, 1)]
    stages = [ToyStages(tree) for tree in trees]
    said = []
    run(settings, stages, said.append)
    names = {one.stem for one in (settings.output / "records").iterdir()}
    assert trees[0].place != trees[1].place
    assert len(names) == sum(len(one.asked) for one in stages) > len(said) > 0
    alone = ToyStages(trees[0])
    settings.output = settings.output.with_name("again")
    again = []
    run(settings, [alone], again.append)
    assert again == said and set(alone.asked) == names


def test_a_mutant_that_was_left_in_the_copy_is_taken_out(settings):
    tree = Tree(settings)
    tree.apply(next(chosen(settings, tree.unchanged)))
    assert (tree.place / "tilesmith/te/part.py").read_text() != SOURCE
    assert (Tree(settings).place / "tilesmith/te/part.py").read_text() == SOURCE


def test_the_report_names_survivors(settings):
    tree = Tree(settings)
    run(settings, [ToyStages(tree)], lambda text: None)
    made = report(settings.output, {})
    assert made["counted"] > made["found by fuzzing"] > 0 and made["without effect"] > 0
    lines = {one["mutant"]["line"] for one in made["survivors"]}
    assert 13 in lines  # fuzzing did not find it
    text = (settings.output / "report.md").read_text()
    assert "dropped statement: `b -= 1` → `pass`" in text
    judged = {one["name"]: "only shorter code" for one in made["survivors"]}
    again = report(settings.output, judged)
    assert not again["survivors"] and again["equivalent by verdict"] == len(judged)
    assert json.loads((settings.output / "report.json").read_text()) == again


def test_tests_that_fail_without_a_mutant_do_not_count(settings):
    """One test fails always, another one with the mutant."""
    place = settings.tree / "tests" / "te" / "test_part.py"
    place.parent.mkdir(parents=True)
    place.write_text(
        "from pathlib import Path\n"
        "def test_elsewhere():\n    assert False\n"
        "def test_always():\n    assert False\n"
        "def test_text():\n    assert '< b and' in Path('tilesmith/te/part.py').read_text()\n"
    )
    tree = Tree(settings)
    names = ("test_always", "test_text", "test_elsewhere")
    tests = {f"tests/te/test_part.py::{name}": -1 for name in names}
    tests["tests/te/test_part.py::test_elsewhere"] = 0  # does not reach the block
    reach = Reach(Blocks(tree.unchanged, settings.packages), [], [], [], tests)
    stages = Stages(settings, tree, reach)
    found = {one.after: one for one in mutants.mutants_of("tilesmith/te/part.py", SOURCE)}
    for after, expected in (
        ("a < b or not b == 0", "tests/te/test_part.py::test_text"),
        ("b + a", "survived"),
    ):
        tree.apply(found[after])
        assert stages.tests(found[after]) == expected
        tree.restore(found[after])
    assert stages.failing() == ["tests/te/test_part.py::test_always"]
