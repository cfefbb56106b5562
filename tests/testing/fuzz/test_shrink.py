"""Findings are shrunk: programs, the arguments of steps, and programs that do not end."""

import random
import time

from tilesmith.testing.fuzz.campaign import Options, fuzz
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


def never_ends():
    """Break the compiler: simplifying any program with a product does not end."""
    from tests.testing.fuzz.mutations import Change, after_pass
    from tilesmith.ir import Mul

    def wait(product):
        while True:
            time.sleep(1)

    after_pass("Simplify", Change(Mul, wait).visit)


def test_programs_that_do_not_end_are_shrunk():
    options = Options(
        60, seed=1, only="pass", field="blocks", patch=f"{__name__}:never_ends", stop_at_first=True,
        shrink_seconds=4, case_seconds=6, hang_seconds=0.5,
    )  # fmt: skip
    (finding,) = fuzz(options).findings.values()
    assert finding["failure"] == HANGS
    before, after = make_case(finding["case"]["seed"], "pass", "blocks"), finding["case"]
    assert len(after["steps"]) <= len(before["steps"])
    assert len(str(after["recipe"])) < len(str(before["recipe"]))
