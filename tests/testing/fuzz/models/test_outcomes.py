"""What came of a case: planted crashes, hangs, errors and wrong results are seen as what they are;
findings are counted once, reduced, saved, and can be replayed.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tilesmith.cli.main import tilesmith
from tilesmith.support.errors import FrontendError, InternalError
from tilesmith.testing.fuzz.models import campaign
from tilesmith.testing.fuzz.models.campaign import Options, fuzz_models, replay_finding
from tilesmith.testing.fuzz.models.reference import difference, is_endless
from tilesmith.testing.fuzz.models.verdict import judge

PLANTED = "tests.testing.fuzz.models.planted"
CASE = {"seed": 1, "kind": "model", "base": "softmax", "mutations": [], "through": "python"}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Runs a case in a server with a fault planted; servers are kept."""
    folder = tmp_path_factory.mktemp("saved")
    runners = {}

    def asked(fault, case, seconds=30.0):
        if fault not in runners:
            patch = f"{PLANTED}:{fault}" if fault else None
            options = Options(patch=patch, own_models=True, case_seconds=seconds)
            with campaign.environment(str(folder)):
                runners[fault] = campaign.Runner(options, folder)
                runners[fault].ask({"case": CASE})
        return runners[fault].ask({"case": case})

    yield asked
    for runner in runners.values():
        runner.close()


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("crash", "crash at import", "SIGSEGV in "),
        ("hang", "hang at import", "time in fuzz/models/planted.py"),
        ("spin", "hang at import", "planted.py"),
        ("memory", "memory at import", "MemoryError in "),
        ("untyped", "untyped at import", "StopAsyncIteration in fuzz/models/planted.py"),
        ("vague", "vague at import", "KeyError in fuzz/models/planted.py"),
    ],
)
def test_a_planted_fault_is_seen(ask, fault, outcome, words):
    record, files = ask(fault, {**CASE, "base": "unary"}, 3.0)
    assert record["signature"].startswith(f"{outcome}: ") and words in record["signature"]
    assert record["names"] == ["model.onnx"] and files[0]


def test_a_refusal_is_no_finding(ask):
    record, _ = ask("typed", CASE)
    assert record["outcome"] == "typed" and "signature" not in record


def test_a_wrong_result_is_seen(ask):
    record, _ = ask("wrong", {**CASE, "base": "unary"})
    assert record["outcome"] == "differs"
    assert ask("wrong", CASE)[0]["outcome"] == "same"


@pytest.mark.parametrize("base", ["conv", "external", "loop_fixed", "quantised", "function"])
def test_models_that_nobody_changed_give_the_same(ask, base):
    assert ask(None, {**CASE, "base": base})[0]["outcome"] == "same"


def foreign():
    try:
        {}["missing"]
    except KeyError as error:
        raise FrontendError(f"KeyError: {error}") from error


def test_errors_are_judged():
    def outcome(error):
        return judge(error, "import")["outcome"]

    assert outcome(FrontendError("what, where, what to do")) == "typed"
    assert outcome(FrontendError("")) == "vague"
    assert outcome(InternalError("a bug")) == outcome(KeyError("x")) == "untyped"
    assert outcome(RecursionError()) == outcome(AssertionError()) == "untyped"
    assert outcome(MemoryError()) == "memory"
    with pytest.raises(FrontendError) as caught:
        foreign()
    assert outcome(caught.value) == "vague"


@pytest.mark.parametrize(
    ("results", "expected", "words"),
    [
        ([[1.0, np.nan]], [[1.0, np.nan]], None),
        ([[1.0]], [[1.0], [2.0]], "2 results"),
        ([[1.0]], [[[1.0]]], "another shape"),
        ([[1.0]], [[np.nan]], "other values"),
        ([[np.inf]], [[-np.inf]], "other values"),
        ([[-np.inf]], [[np.finfo("float32").min]], None),
        ([[1000.0, 0.01]], [[1000.0, 0.02]], None),
        ([[1.0]], [[1.1]], "other values"),
    ],
)
def test_differences(results, expected, words):
    found = difference(*[[np.asarray(x, "float32") for x in side] for side in (results, expected)])
    assert found is None if words is None else words in found


def test_findings_are_kept_once_and_replayed(tmp_path):
    patch = f"{PLANTED}:vague"
    summary = fuzz_models(
        Options(cases=12, seed=5, kind="model", output=tmp_path, patch=patch, own_models=True)
    )
    assert summary.cases == 12 and summary.counts["model", "vague"] > 2
    (signature,) = [key for key in summary.findings if key.startswith("vague")]
    assert summary.again[signature] == summary.counts["model", "vague"] - 1
    finding = summary.findings[signature]
    assert len(finding["case"]["mutations"]) == 0  # none of them is needed
    stored = json.loads(Path(finding["file"]).read_text())
    assert stored["signature"] == signature and "model.onnx" in stored["files"]
    assert replay_finding(Path(finding["file"])) is None  # without the planted fault


def test_a_fixed_run():
    result = CliRunner().invoke(
        tilesmith, ["fuzz", "models", "--cases", "60", "--seed", "1", "--json"]
    )
    record = json.loads(result.stdout)
    assert record["cases"] == 60 and record["seed"] == 1
    assert record["outcomes"]["same"] and record["outcomes"]["typed"]
    assert not record["findings"] and result.exit_code == 0


def test_a_kind_that_is_not_there():
    result = CliRunner().invoke(tilesmith, ["fuzz", "models", "--kind", "modles"])
    assert result.exit_code == 2 and "artifact" in result.stderr


@pytest.mark.parametrize("count", [3, 10**12])
def test_a_loop_without_end_is_not_run(count, tmp_path):
    import onnx

    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float y) <int64 n = {{{count}}}> {{
          y = Loop(n, "", x) <body = l (int64 i, bool c, float[2] s) => (bool d, float[2] t) {{
            d = Identity(c)
            t = Add(s, s)
          }}>
        }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    assert is_endless(tmp_path / "model.onnx") is (count > 3)
