"""The commands from end to end on the digits model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from tilesmith.cli.main import tilesmith

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
    """Two channels are fewer than a vector has lanes."""
    model = tmp_path / "image.onnx"
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, strides=[2, 2])],
        "image",
        [value("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.ones((2, 3, 3, 3), "float32"), "w")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset), model)
    arguments = ["compile", model, "-o", tmp_path / "image.tsm", "--report"]
    printed = invoke(*arguments).output
    assert "packing" in printed and "relax.nn.conv2d" in printed
    (first, *_) = json.loads(invoke(*arguments, "--json").stdout)["fallbacks"]
    assert first == {
        "kind": "packing",
        "function": "main",
        "place": "relax.nn.conv2d",
        "reason": "it has fewer than 8 output channels",
        "count": 1,
    }
    assert "fallbacks" not in json.loads(invoke(*arguments[:-1], "--json").stdout)


def test_bounds_are_checked(tmp_path, images):
    """The option reaches the compiler; the model computes the same."""
    path = tmp_path / "checked.tsm"
    arguments = ["compile", DIGITS, "-o", path, "--input-shape", SHAPE]
    assert invoke(*arguments, "--bounds", "check", "--report").exit_code == 0
    output = tmp_path / "y.npy"
    assert invoke("run", path, "-i", tmp_path / "x.npy", "-o", output).exit_code == 0
    np.testing.assert_allclose(np.load(output), expected(images), rtol=1e-4, atol=1e-5)
    refused = invoke(*arguments, "--bounds", "guess")
    assert refused.exit_code == 2 and "check" in refused.stderr


def test_code_for_c_programs(compiled, tmp_path):
    """Also of a model that is in the cache."""
    arguments = ["compile", DIGITS, "-o", tmp_path / "m.o", "--input-shape", SHAPE, "--for-c"]
    assert invoke(*arguments).exit_code == 0
    header = (tmp_path / "m.h").read_text()
    assert "int32_t m_main(" in header and "float32[2, 1, 8, 8]" in header
    assert sorted(os.listdir(tmp_path)) == ["m.h", "m.o", "m.safetensors"]
    assert_fails(invoke(*arguments, "--params", tmp_path / "w.safetensors"), "--for-c")


def test_weights_that_models_share(tmp_path, images):
    weights, sizes = tmp_path / "w.safetensors", []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.tsm"
        arguments = ["compile", DIGITS, "-o", path, "--input-shape", SHAPE, "--params", weights]
        assert invoke(*arguments).exit_code == 0
        sizes.append(weights.stat().st_size)
        output = tmp_path / "y.npy"
        assert invoke("run", path, "-i", tmp_path / "x.npy", "-o", output).exit_code == 0
        np.testing.assert_allclose(np.load(output), expected(images), rtol=1e-4, atol=1e-5)
    assert sizes[0] == sizes[1]
    assert_fails(invoke(*arguments[:-1], tmp_path.parent / "w.safetensors"), "folder")


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


def test_explain_shows_candidates_and_the_schedule():
    given = ["explain", DIGITS, "--input-shape", SHAPE]
    result = invoke(*given, "--json", "--no-measure")
    assert result.exit_code == 0, result.output + result.stderr
    kernels = json.loads(result.stdout)["kernels"]
    served = next(one for one in kernels if one["choices"])
    (first, *others) = served["choices"][0]["candidates"]
    assert others and first["cycles"] > 0 and "compute" in first["components"]
    assert any("sch.compute_at(" in line for line in served["trace"])
    text = invoke(*given, "--kernel", served["kernel"])
    assert text.exit_code == 0, text.output + text.stderr
    assert "measured" in text.stdout and "won" in text.stdout and "sch.split(" in text.stdout
    assert "no kernel 'nonsense'" in invoke(*given, "--kernel", "nonsense").stderr


def test_inspect_writes_files_and_json(tmp_path):
    path = tmp_path / "graph.py"
    result = invoke("inspect", DIGITS, "--input-shape", SHAPE, "-o", path)
    assert result.exit_code == 0 and "def main" in path.read_text()
    record = json.loads(invoke("inspect", DIGITS, "--input-shape", SHAPE, "--json").stdout)
    assert record["stage"] == "graph" and "def main" in record["text"]


def test_precision(tmp_path, images):
    output = tmp_path / "digits.tsm"
    arguments = ["compile", DIGITS, "-o", output, "--input-shape", SHAPE, "--json", "--precision"]
    np.savez(tmp_path / "inputs.npz", image=images)
    given = ["--calibration", tmp_path / "inputs.npz", "--calibration-method", "max"]
    for precision, dtype, more in (("fp16", "float16", []), ("int8", "int8", given)):
        options = [precision, *more, "--accuracy-report", "--force-precision"]
        result = invoke(*arguments, *options)
        assert result.exit_code == 0, result.output + result.stderr
        record = json.loads(result.stdout)
        assert record["precision"] == record["accuracy"]["precision"] == dtype
        assert record["accuracy"]["layers"] and output.stat().st_size > 0
    plain = ["compile", DIGITS, "-o", output, "--target", "llvm -mcpu=nehalem"]
    printed = invoke(*plain, "--precision", "bf16").output
    assert "computed in float32: the target has no dot products of bfloat16" in printed


def test_precision_refuses_what_means_nothing(tmp_path, images):
    plain = ["compile", DIGITS, "-o", tmp_path / "digits.tsm"]
    assert_fails(invoke(*plain, "--precision", "int8"), "needs calibration data")
    assert_fails(invoke(*plain, "--accuracy-report"), "--precision")
    (tmp_path / "bad.npz").write_bytes(b"no arrays")
    bad = ["--precision", "int8", "--calibration", tmp_path / "bad.npz"]
    assert_fails(invoke(*plain, *bad), "bad.npz", "cannot be read")
    np.savez(tmp_path / "other.npz", picture=images)
    other = ["--precision", "int8", "--calibration", tmp_path / "other.npz"]
    assert_fails(invoke(*plain, *other), "no input 'image'")


def test_bench(compiled):
    result = invoke("bench", DIGITS, "--input-shape", SHAPE, "--rounds", "2", "--threads", "1",
                    "--json")  # fmt: skip
    assert result.exit_code == 0, result.output + result.stderr
    record = json.loads(result.stdout)
    (measured,) = record["results"]
    assert set(measured["latency"]) == {"tilesmith", "onnxruntime"} and record["threads"] == 1
    assert measured["largest_difference"] < 1e-5 and measured["times_as_fast_as_onnxruntime"] > 0
    figures = measured["latency"]["tilesmith"]
    assert 0 < figures["p50_ms"] <= figures["p90_ms"] <= figures["p99_ms"]
    result = invoke("bench", compiled, "--rounds", "2")
    assert result.exit_code == 0 and "p99" in result.output and "onnxruntime" not in result.output


@pytest.fixture
def open_artifact(tmp_path):
    invoke("compile", DIGITS, "-o", tmp_path / "open.tsm")
    return tmp_path / "open.tsm"


def test_bench_chooses_open_sizes_and_says_so(open_artifact):
    result = invoke("bench", DIGITS, "--rounds", "2")
    assert result.exit_code == 0 and "batch = 1 (chosen; " in result.output, result.output
    for model in (DIGITS, open_artifact):
        result = invoke("bench", model, "--rounds", "2", "--batch", "1", "--batch", "3", "--json")
        sizes = [one["sizes"] for one in json.loads(result.stdout)["results"]]
        assert sizes == [{"batch": 1}, {"batch": 3}]


def test_bench_refuses_what_means_nothing(compiled):
    assert_fails(invoke("bench", compiled, "--batch", "2"), "no input has a symbolic size")
    assert_fails(invoke("bench", compiled, "--input-shape", SHAPE), "has its sizes")


def test_bench_of_no_images(tmp_path):
    result = invoke("bench", DIGITS, "--batch", "0", "--rounds", "2")
    assert result.exit_code == 0, result.output + result.stderr
    output = tmp_path / "none.tsm"
    assert invoke("compile", DIGITS, "--input-shape", "image:0,1,8,8", "-o", output).exit_code == 0
    assert "float32[0, 10]" in invoke("run", output).output


def test_a_rival_that_cannot_run_the_model_is_shown_as_such(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find\nConv(11)")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    result = invoke("bench", DIGITS, "--rounds", "2")
    assert result.exit_code == 0, result.output + result.stderr
    assert "onnxruntime cannot run this model: [ONNXRuntimeError] : 9" in result.output


def test_run_draws_inputs(compiled, open_artifact):
    result = invoke("run", compiled)
    assert result.exit_code == 0 and result.output.startswith("random inputs (give yours")
    assert "random inputs, batch = 1" in invoke("run", open_artifact).output
    record = json.loads(invoke("run", compiled, "--json").stdout)
    assert record["random_inputs"] and record["outputs"][0]["shape"] == [2, 10]


@pytest.mark.parametrize(
    "target, begin",
    [
        ("c", "/* Made by Tilesmith. C99"),
        ("nvptx", "//\n// Generated by LLVM NVPTX"),
        ("llvm -mtriple=aarch64-linux-gnu", "\t.file"),
    ],
)
def test_assembly_of_other_targets(target, begin):
    result = invoke("inspect", DIGITS, "--stage", "asm", "--input-shape", SHAPE, "--target", target)
    assert result.exit_code == 0 and result.output.startswith(begin), result.output[:300]


def test_an_unknown_function_names_the_nearest():
    arguments = ["inspect", DIGITS, "--input-shape", SHAPE, "--stage", "tir", "--function"]
    assert_fails(invoke(*arguments, "max_pool"), "no kernel 'max_pool'", "'max_pool2d'")
    assert "def max_pool2d" in invoke(*arguments, "max_pool2d").output


def test_a_compile_for_another_machine_gives_objects(tmp_path):
    output = tmp_path / "arm.tsm"
    target = ["--target", "llvm -mtriple=aarch64-linux-gnu"]
    result = invoke("compile", DIGITS, "--input-shape", SHAPE, "-o", output, *target)
    assert result.exit_code == 0, result.stderr
    assert_fails(invoke("run", output), "is for aarch64")
    wrong = ["--target", "llvm -mattr=+avx21"]
    assert_fails(invoke("compile", DIGITS, "-o", output, *wrong), "did you mean 'avx2'")


def test_errors_as_json(tmp_path):
    result = invoke("run", tmp_path / "no.tsm", "--json")
    assert_fails(result, "no.tsm")
    record = json.loads(result.stdout)
    assert (record["kind"], record["exit_code"]) == ("ConfigError", 1)
    assert record["error"].endswith("no.tsm")
    result = invoke("compile", "--json")
    assert result.exit_code == json.loads(result.stdout)["exit_code"] == 2
    assert len(result.stderr.splitlines()) == 1


def test_verbose_sums_up(tmp_path):
    arguments = ["compile", DIGITS, "-o", tmp_path / "x.tsm", "--input-shape", SHAPE, "-v"]
    printed = invoke(*arguments).output
    assert "15 operators" in printed and "fused groups" in printed
    assert "compiling kernels" in printed and "peak of this process" in printed
    summary = json.loads(invoke(*arguments, "--json").stdout)["summary"]
    assert summary["counts"]["kernels"] >= summary["counts"]["fused groups"] > 0
    assert summary["bytes"]["workspace"] > 0 and summary["seconds"]["graph passes"] > 0


def test_timing_accounts_for_all_seconds(tmp_path):
    """Phases add up to the whole; steps are passes over graphs and kernels, and what is none."""
    arguments = ["compile", DIGITS, "-o", tmp_path / "x.tsm", "--input-shape", SHAPE, "--timing"]
    found = json.loads(invoke(*arguments, "--json").stdout)
    seconds, steps = found["summary"]["seconds"], found["summary"]["seconds of steps"]
    assert sum(seconds.values()) == pytest.approx(found["seconds"], rel=0.01)
    own = {"LLVM", "writing LLVM's text", "scheduling kernels"}
    assert own | {"FuseOps", "tir.FlattenBuffer"} <= steps.keys()
    assert min(steps.values()) > 0
    assert "ms  FuseOps" in invoke(*arguments).output


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_ctrl_c_ends_quietly_without_a_file(tmp_path, seconds):
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tilesmith.cli import main; print('ready', flush=True); main()"
    )
    arguments = ["compile", str(DIGITS), "-o", str(tmp_path / "x.tsm")]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_what_memory_does_not_hold_is_one_line(compiled, monkeypatch):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr("tilesmith.cli.arrays.random_inputs", none_left)
    assert_fails(invoke("run", compiled), "not enough memory")
