"""Programs for the schedule rules: every form is drawn and shrinks; targets; what is counted."""

import random
from collections import Counter

import numpy as np
import pytest

from tilesmith.ir import structural_equal
from tilesmith.target import Target
from tilesmith.testing.fuzz.campaign import Summary
from tilesmith.testing.fuzz.cases import make_case, run_case
from tilesmith.testing.fuzz.replay import file_text, run_file
from tilesmith.testing.fuzz.rules.maker import FORMS, Maker
from tilesmith.testing.fuzz.rules.programs import (
    build_for_rules,
    draw_for_rules,
    simpler_for_rules,
)
from tilesmith.testing.fuzz.rules.targets import draw_target, runs_here, simpler_targets
from tilesmith.testing.fuzz.values import arrays, differences
from tilesmith.tir.analysis import verify_well_formed


def program_of(form, seed, choices=()):
    return {
        "form": form, "seed": seed, "choices": list(choices), "layouts": {}, "target": "llvm"
    }  # fmt: skip


def choices_of(form, seed):
    make = Maker(random.Random(seed))
    FORMS[form][1](make)
    return make.choices


@pytest.mark.parametrize("form", FORMS)
def test_programs_of_a_form_are_well_formed(form):
    for seed in range(12):
        function, sets = build_for_rules(program_of(form, seed))
        assert verify_well_formed(function, strict=False)
        for arguments in sets:
            shapes = [buffer.shape for buffer in function.buffer_map.values()]
            assert [len(one["shape"]) for one in arguments] == [len(one) for one in shapes]


@pytest.mark.parametrize("form", FORMS)
def test_choices_make_a_program_again_and_simpler_ones_do_too(form):
    choices = choices_of(form, 3)
    first, arguments = build_for_rules(program_of(form, 3))
    again, others = build_for_rules(program_of(form, 77, choices))
    assert structural_equal(first, again) and arguments == others
    simplest, (small, *_) = build_for_rules(program_of(form, 3, [0] * 200))
    assert all(max(one["shape"], default=1) <= 32 for one in small)
    assert verify_well_formed(simplest, strict=False)


def test_open_sizes_differ_between_calls():
    seen = Counter()
    for seed in range(40):
        _, sets = build_for_rules(program_of("product", seed))
        seen[len(sets)] += 1
    assert seen[1] and seen[2]


def test_simpler_programs_lower_one_thing():
    program = draw_for_rules(random.Random(5))
    for one in simpler_for_rules(program):
        changed = [key for key in program if one[key] != program[key]]
        assert len(changed) == 1 and changed[0] in ("target", "choices", "layouts")
    texts = list(simpler_targets("llvm -num-cores=2 -machine=l1_ways:1,fork_cycles:1"))
    assert "llvm -num-cores=2 -machine=fork_cycles:1" in texts and "llvm -num-cores=2" in texts
    assert "llvm -num-cores=1 -machine=l1_ways:1,fork_cycles:1" in texts


def test_targets_are_known_and_some_run_here():
    texts = {draw_target(random.Random(seed)) for seed in range(200)}
    running = [text for text in texts if runs_here(Target(text))]
    assert running and len(running) < len(texts)
    assert not runs_here(Target("llvm -mtriple=riscv64-linux-gnu"))


def test_words_hold_two_numbers():
    argument = {"shape": [2, 3], "dtype": "uint32", "low": 1, "high": 1, "pairs": True}
    (array,) = arrays([argument], 0)
    assert array.shape == (2, 3) and (array == 0x3F803F80).all()


@pytest.mark.parametrize(
    "got, want, near, is_equal",
    [
        ([1.0, 1000.5], [1.0, 1000.0], 1e-3, True),
        ([1.0, 1002.0], [1.0, 1000.0], 1e-3, False),
        ([1e-6], [0.0], 1e-5, True),
        ([np.nan], [0.0], 1e-5, False),
        ([np.inf, 1.0], [np.inf, 1.0], 1e-5, True),
        ([np.inf], [1.0], 1e-5, False),
    ],
)
def test_results_that_are_near(got, want, near, is_equal):
    text = differences(np.float32(got), np.float32(want), 0, near)
    assert (text is None) == is_equal


def test_a_planted_fault_is_planted_again_by_its_file():
    finding = {
        "case": {"seed": 1, "back_ends": [], "device": "cuda", "planted": True}, "phase": "pass",
        "name": "planted faults", "signature": "pass: planted faults", "failure": "load: only one",
        "detail": "", "script": "@T.prim_func\ndef main():\n    pass", "arguments": [],
        "schedule": [],
    }  # fmt: skip
    assert "planted=True" in file_text(finding)
    assert "planted" not in file_text({**finding, "name": "tir.Simplify"}).split("def schedule")[1]


def test_a_case_is_saved_as_a_script_with_its_target(tmp_path):
    """A form without steps; the file does what the case did."""
    case = make_case(0, None, "rules")
    case["rules"] = {**program_of("softmax", 1), "target": "llvm -num-cores=2"}
    case.update(steps=[["Split", 3]], back_ends=["llvm"], watched=True, verified=True)
    result = run_case(case)
    assert result["finding"] is None and result["counts"]["form softmax"] == 1
    function, sets = build_for_rules(case["rules"])
    finding = {
        "signature": "codegen: llvm: wrong result", "phase": "codegen", "case": case,
        "failure": "wrong result", "detail": "", "script": function.script(), "schedule": [],
        "arguments": sets,
    }  # fmt: skip
    path = tmp_path / "test_it_script.py"
    path.write_text(file_text(finding))
    assert 'target="llvm -num-cores=2")' in path.read_text()
    assert run_file(path) is None


def test_a_primitive_that_is_always_refused_is_reported():
    summary = Summary()
    summary.counts.update({"refused Split": 100, "refused Fuse": 500, "refused Bind": 99})
    summary.counts["applied Fuse"] = 1
    assert summary.as_json()["never_applied"] == ["Split"]
