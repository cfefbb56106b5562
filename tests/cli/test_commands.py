"""The commands from end to end on the digits model."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from tilesmith.cli.main import tilesmith
from tilesmith.target import Target
from tilesmith.target.machine import machine_model

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
SHAPE = "image:2,1,8,8"


def invoke(*arguments):
    return CliRunner().invoke(tilesmith, [str(argument) for argument in arguments])


def assert_fails(result, *words):
    assert result.exit_code == 1, result.output + result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert all(word in result.stderr for word in words), result.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "digits.tsm"
    result = invoke("compile", DIGITS, "-o", path, "--input-shape", SHAPE, "--json")
    assert result.exit_code == 0, result.output + result.stderr
    record = json.loads(result.stdout)
    assert record["bytes"] == path.stat().st_size and record["seconds"] > 0
    return path


@pytest.fixture
def images(tmp_path):
    array = np.random.default_rng(0).random((2, 1, 8, 8), dtype="float32")
    np.save(tmp_path / "x.npy", array)
    return array


def test_a_report_says_what_was_given_up(tmp_path):
    arguments = ["compile", DIGITS, "-o", tmp_path / "digits.tsm", "--report"]
    printed = invoke(*arguments).output
    assert "vectorization" in printed and "softmax" in printed
    assert "not a multiple of" in " ".join(printed.split())
    (first, *_) = json.loads(invoke(*arguments, "--json").stdout)["fallbacks"]
    lanes = machine_model(Target("llvm")).lanes(32)
    assert first == {
        "kind": "vectorization",
        "function": "softmax",
        "place": "block 'T_softmax_exp'",
        "reason": f"the innermost loop has 10 steps, not a multiple of {lanes}",
        "count": 1,
    }
    assert "fallbacks" not in json.loads(invoke(*arguments[:-1], "--json").stdout)


def expected(images):
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": images})[0]


@pytest.mark.parametrize("prefix", ["", "image="])
def test_run_gives_what_onnxruntime_gives(compiled, images, tmp_path, prefix):
    output = tmp_path / "y.npy"
    result = invoke("run", compiled, "--input", f"{prefix}{tmp_path / 'x.npy'}", "--output", output)
    assert result.exit_code == 0, result.output + result.stderr
    np.testing.assert_allclose(np.load(output), expected(images), atol=1e-5)


def test_run_without_output_prints(compiled, images, tmp_path):
    result = invoke("run", compiled, "--input", tmp_path / "x.npy", "--threads", "1")
    assert result.exit_code == 0 and "float32[2, 10]" in result.output
    record = json.loads(invoke("run", compiled, "-i", tmp_path / "x.npy", "--json").stdout)
    assert record["outputs"][0]["shape"] == [2, 10]


def test_wrong_inputs_are_refused(compiled, images, tmp_path):
    output = tmp_path / "y.npy"
    np.save(tmp_path / "narrow.npy", images[:, :, :4])
    np.save(tmp_path / "double.npy", images.astype("float64"))
    for name, words in (("narrow", ["image"]), ("double", ["image", "float64"])):
        result = invoke("run", compiled, "-i", tmp_path / f"{name}.npy", "-o", output)
        assert_fails(result, *words)
    assert_fails(invoke("run", compiled, "-o", output), "image", "missing")
    assert_fails(invoke("run", compiled, "-i", f"img={tmp_path / 'x.npy'}"), "'img'")
    two = ["-o", output, "-o", tmp_path / "z.npy"]
    assert_fails(invoke("run", compiled, "-i", tmp_path / "x.npy", *two), "1 output")
    assert not output.exists()


@pytest.mark.parametrize("keep", [0.3, 0.999])
def test_truncated_artifact(compiled, tmp_path, keep):
    data = compiled.read_bytes()
    broken = tmp_path / "broken.tsm"
    broken.write_bytes(data[: int(len(data) * keep)])
    assert_fails(invoke("run", broken), "broken.tsm")


def test_tampered_artifact(compiled, images, tmp_path):
    data = bytearray(compiled.read_bytes())
    data[len(data) // 2] ^= 0xFF
    broken = tmp_path / "broken.tsm"
    broken.write_bytes(data)
    assert_fails(invoke("run", broken, "-i", tmp_path / "x.npy"), "broken.tsm")


@pytest.mark.parametrize(
    "contents", [b"", b"this is not a model", DIGITS.read_bytes()[:5000]],
    ids=["empty", "text", "truncated"],
)  # fmt: skip
def test_files_that_are_no_models(tmp_path, contents):
    model, output = tmp_path / "broken.onnx", tmp_path / "broken.tsm"
    model.write_bytes(contents)
    assert_fails(invoke("compile", model, "-o", output), "broken.onnx")
    assert list(tmp_path.iterdir()) == [model]


def test_unsupported_operators_are_all_listed(tmp_path):
    helper = onnx.helper
    nodes = [
        helper.make_node("NoSuchOperator", ["x"], ["a"], name="first", domain="my.domain"),
        helper.make_node("Another", ["a"], ["y"], name="second", domain="my.domain"),
    ]
    value = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    result = invoke("compile", path, "-o", tmp_path / "odd.tsm")
    assert_fails(result, "NoSuchOperator", "first", "Another", "second")
    assert not (tmp_path / "odd.tsm").exists()


@pytest.mark.parametrize(
    "stage, words",
    [
        ("graph", ["conv2d"]),
        ("fused", ["def "]),
        ("tir", ["T.block", "prim_func"]),
        ("lowered", ["T.", "for "]),
        ("llvm", ["define ", "getelementptr"]),
        ("asm", [".text", "ret"]),
    ],
)
def test_inspect(stage, words, tmp_path):
    result = invoke("inspect", DIGITS, "--stage", stage, "--input-shape", SHAPE)
    assert result.exit_code == 0, result.output + result.stderr
    assert all(word in result.stdout for word in words), result.stdout[:2000]


def test_inspect_writes_files_and_json(tmp_path):
    path = tmp_path / "graph.py"
    result = invoke("inspect", DIGITS, "--input-shape", SHAPE, "-o", path)
    assert result.exit_code == 0 and "def main" in path.read_text()
    record = json.loads(invoke("inspect", DIGITS, "--input-shape", SHAPE, "--json").stdout)
    assert record["stage"] == "graph" and "def main" in record["text"]


def test_bench(compiled):
    result = invoke("bench", DIGITS, "--input-shape", SHAPE, "--rounds", "2", "--threads", "1",
                    "--json")  # fmt: skip
    assert result.exit_code == 0, result.output + result.stderr
    record = json.loads(result.stdout)
    assert set(record["latency"]) == {"tilesmith", "onnxruntime"} and record["threads"] == 1
    assert record["largest_difference"] < 1e-5 and record["times_as_fast_as_onnxruntime"] > 0
    result = invoke("bench", compiled, "--rounds", "2")
    assert result.exit_code == 0 and "median" in result.output
    assert_fails(invoke("bench", DIGITS), "--input-shape image:")
