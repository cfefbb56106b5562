"""The parts of the fuzzer: what it draws, that it is the same every time, what it can replay."""

import json

import numpy as np
import pytest

from tilesmith.testing.fuzz import replay, values
from tilesmith.testing.fuzz.cases import argument_sets, make_case, run_case
from tilesmith.testing.fuzz.checks import Checker
from tilesmith.testing.fuzz.generator import generate
from tilesmith.testing.fuzz.recipe import build
from tilesmith.testing.fuzz.schedules import SAMPLERS
from tilesmith.tir.schedule.primitive import PRIMITIVES
from tilesmith.tir.schedule.trace import KINDS


def test_each_primitive_is_drawn_or_says_why_not():
    for name, record in PRIMITIVES.items():
        has_sampler = record.kind is not None and record.kind.name in SAMPLERS
        assert has_sampler != bool(record.no_sampler), name
    assert set(SAMPLERS) <= set(KINDS)


def test_a_seed_gives_one_case():
    assert make_case(5) == make_case(5) != make_case(6)
    case = make_case(7)
    assert json.loads(json.dumps(case)) == case


def test_programs_run_and_use_everything():
    seen, dtypes = set(), set()
    for seed in range(150):
        recipe = generate(seed)
        seen |= {(stage["kind"], stage["binding"]) for stage in recipe["stages"]}
        dtypes |= {tensor["dtype"] for stage in recipe["stages"] for tensor in stage["tensors"]}
        Checker(build(recipe), argument_sets(recipe))  # verifies and interprets
    kinds = {"compute", "reduce", "argmax", "scan", "update"}
    assert kinds <= {kind for kind, _ in seen}
    assert {"plain", "fused", "tiled", "inner"} <= {binding for _, binding in seen}
    assert {"float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool"} <= dtypes


@pytest.mark.parametrize(
    "got, want, ulp, same",
    [
        (np.float32([1, 2]), np.float32([1, 2]), 0, True),
        (np.float32([0.0]), np.float32([-0.0]), 0, True),
        (np.float32([np.nan]), np.float32([np.nan]), 0, True),
        (np.float32([np.nan]), np.float32([1]), 99, False),
        (np.float32([1]), np.nextafter(np.float32([1]), np.float32(2)), 0, False),
        (np.float32([1]), np.nextafter(np.float32([1]), np.float32(2)), 1, True),
        (np.float16([-1]), np.nextafter(np.float16([-1]), np.float16(1)), 1, True),
        (np.int8([3]), np.int8([4]), 9, False),
        (np.float64([1]), np.float32([1]), 0, False),
    ],
)
def test_comparison(got, want, ulp, same):
    assert (values.differences(got, want, ulp) is None) == same


def finding():
    """A finding as a worker reports one, about a case in which nothing is wrong."""
    case = make_case(3)
    result = run_case(case)
    assert result["finding"] is None
    recipe = case["recipe"]
    return {
        "signature": "pass: tir.Simplify: wrong result", "phase": "pass", "name": "tir.Simplify",
        "failure": "wrong result", "detail": "argument 'T0' differs", "case": case,
        "script": build(recipe).script(), "schedule": [], "after": "",
        "arguments": argument_sets(recipe),
    }  # fmt: skip


@pytest.mark.parametrize("script", [True, False])
def test_saved_findings_are_tests(tmp_path, script):
    made = finding()
    if not script:
        made["script"] = ""
    path = replay.save(made, tmp_path)
    assert path.name.startswith("test_pass_tir_simplify_wrong_result_")
    assert "seed 3" in path.read_text()
    assert replay.run_file(path) is None


def test_a_saved_program_imports_what_it_names(tmp_path):
    made = finding()
    made["script"] = """# from tilesmith.script import ir as I
# from tilesmith.script import tir as T

metadata = I.metadata({"tir.AllocateConst": [I.array("float32", (1,), "AABAwA==")]})

@T.prim_func
def main(B: T.Buffer((4,), "float32")):
    table = T.allocate_const(metadata["tir.AllocateConst"][0], "float32", [1])
    C = T.decl_buffer((1,), data=table)
    for i in range(4):
        B[i] = C[0]
"""
    made["arguments"] = [[{"name": "B", "shape": [4], "dtype": "float32"}]]
    assert replay.run_file(replay.save(made, tmp_path)) is None


def test_a_replay_that_fails_says_what(tmp_path):
    made = finding()
    made["script"] = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
"""
    shape = {"shape": [4], "dtype": "int32"}
    made["arguments"] = [[{"name": "A", "low": 0, "high": 5, **shape}, {"name": "B", **shape}]]
    made["schedule"] = ['sch.work_on("main")', "sch.state = None"]
    failed = replay.run_file(replay.save(made, tmp_path))
    assert failed is not None and "primitive: schedule: raises" in failed
