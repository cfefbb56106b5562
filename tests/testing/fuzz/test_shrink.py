"""Findings are shrunk: programs, the arguments of steps, and programs that do not end."""

import random

from tilesmith.testing.fuzz import campaign
from tilesmith.testing.fuzz.cases import make_case
from tilesmith.testing.fuzz.isolated import HANGS
from tilesmith.testing.fuzz.shrink import shrink
from tilesmith.testing.fuzz.steps import Pick, Recorder


class _Schedule:
    mod = None


def choices(given):
    """What a sampler that draws a bit of everything chooses."""
    pick = Pick(Recorder(_Schedule()), random.Random(3), {}, given)
    made = [pick.number(2, 9), pick.among("abcde"), *pick.shuffled("xyz"), pick.chance(0.9)]
    return made, pick.choices


def test_choices_can_be_given():
    drawn, kept = choices([])
    assert choices(kept) == (drawn, kept)
    assert choices([0] * 6)[0] == [2, "a", "x", "y", "z", False]
    assert choices([99] * 6)[0] == [9, "e", "z", "y", "x", True]
    first_only, _ = choices([0])
    assert first_only == [2, *drawn[1:]]


def test_steps_choose_simpler_arguments():
    case = {**make_case(5, None, "blocks"), "steps": [["Split", 1], ["Fuse", 2], ["Split", 3]]}

    def run(case):
        """A step fails that splits into more than three, at any loop."""
        drawn = [(step[2] if len(step) > 2 else [4, 7, 1]) for step in case["steps"]]
        fails = any(kind[0] == "Split" and one[1] > 3 for kind, one in zip(case["steps"], drawn))
        return {"case": case, "choices": drawn} if fails else None

    small = shrink(run(case), run, 5)
    assert small["choices"] == [[0, 4, 0]]


class Hanging:
    """A runner of cases that do not end while they have a step Split; it notes its time limits."""

    limits: set[float] = set()

    def __init__(self, patch, timeout):
        self.timeout = timeout

    def run_seed(self, seed, only, field):
        return self.run({**make_case(seed, only, field), "steps": [["Fuse", 1], ["Split", 2]]})

    def run(self, case):
        self.limits.add(self.timeout)
        hangs = any(kind == "Split" for kind, *_ in case["steps"])
        found = {
            "signature": "primitive: Split: does not end", "failure": HANGS, "case": case,
            "choices": [], "detail": "",
        }  # fmt: skip
        return {"counts": {}, "finding": found if hangs else None}

    def close(self):
        """Nothing to end."""


def test_programs_that_do_not_end_are_shrunk(monkeypatch):
    """Attempts are short, which leaves time for many."""
    monkeypatch.setattr(campaign, "IsolatedRunner", Hanging)
    options = campaign.Options(9, seed=1, field="blocks", stop_at_first=True, hang_seconds=2)
    (finding,) = campaign.fuzz(options).findings.values()
    assert finding["case"]["steps"] == [["Split", 2]]
    assert len(str(finding["case"]["recipe"])) < len(str(make_case(1, None, "blocks")["recipe"]))
    assert Hanging.limits == {options.case_seconds, options.hang_seconds}
