"""What the command understands, and how it says what it does not: help, exit codes, one line."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tilesmith.cli import arrays
from tilesmith.cli.main import COMMANDS, one_line, tilesmith
from tilesmith.cli.options import InputShape
from tilesmith.support.errors import (
    ConfigError,
    OutOfMemoryError,
    TilesmithError,
    UnknownNameError,
)
from tilesmith.support.packages import install_command

REPOSITORY = Path(__file__).resolve().parents[2]
DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


def invoke(*arguments):
    return CliRunner().invoke(tilesmith, [str(argument) for argument in arguments])


def assert_one_line_error(result, code, *words):
    assert result.exit_code == code, result.output + result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.output
    for word in words:
        assert word in lines[0]


def test_help_lists_every_command():
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0 and "--json" in result.output


def test_help_does_not_load_the_compiler():
    code = (
        "import sys; from tilesmith.cli.main import tilesmith\n"
        "try: tilesmith(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'onnx', 'torch', 'llvmlite', 'tilesmith.ir', 'tilesmith.tir'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.stdout.splitlines()[-1] == "[]", finished.stdout


def test_module_and_version():
    finished = subprocess.run(
        [sys.executable, "-m", "tilesmith", "--version"], capture_output=True, text=True
    )
    assert finished.returncode == 0 and finished.stdout.startswith("tilesmith, version")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["compil"], ["compile"]),
        (["compile"], ["MODEL.onnx"]),
        (["compile", DIGITS, "--input-shape", "image"], ["NAME:1,3,224,224"]),
        (["inspect", DIGITS, "--stage", "soup"], ["graph", "asm"]),
        (["bench", DIGITS, "--threads", "0"], ["x>=1"]),
    ],
)
def test_usage_errors_end_with_2(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words)


def test_errors_are_one_line_and_say_what_to_do(tmp_path):
    output = tmp_path / "out.tsm"
    assert_one_line_error(invoke("compile", tmp_path / "no.onnx", "-o", output), 1, "no.onnx")
    assert_one_line_error(invoke("compile", tmp_path, "-o", output), 1, "folder")
    assert_one_line_error(
        invoke("compile", DIGITS, "-o", output, "--target", "lvm"), 1, "'lvm'", "'llvm'"
    )
    assert_one_line_error(invoke("compile", DIGITS, "-o", tmp_path / "no" / "x"), 1, "not exist")
    assert_one_line_error(invoke("compile", DIGITS, "-o", DIGITS), 1, "overwrite")
    assert_one_line_error(invoke("run", DIGITS), 1, "artifact", "tilesmith compile")
    assert_one_line_error(invoke("run", tmp_path / "no.tsm"), 1, "no.tsm")
    assert list(tmp_path.iterdir()) == []


def test_full_traceback_on_demand(tmp_path, monkeypatch):
    monkeypatch.setenv("TILESMITH_TRACEBACK", "full")
    result = invoke("compile", tmp_path / "no.onnx")
    assert isinstance(result.exception, ConfigError)


def test_one_line():
    error = TilesmithError("what", span="file.py:3", notes=("do this", "or\nthat"))
    assert one_line(error) == "what; file.py:3; do this; or; that"
    assert one_line(FileNotFoundError(2, "No such file", "x.onnx")) == "x.onnx: No such file"
    assert one_line(ValueError("two\nlines")) == "ValueError: two lines"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("image:1,3,224,224", ("image", (1, 3, 224, 224))),
        ("a:b:2x4", ("a:b", (2, 4))),
        ("scalar:", ("scalar", ())),
    ],
)
def test_input_shapes(text, expected):
    assert InputShape().convert(text, None, None) == expected


INPUTS = [
    arrays.InputInfo("image", "float32", (1, 4)),
    arrays.InputInfo("ids", "int64", (3,)),
]


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "image.npy", np.arange(4, dtype="float32")[None])
    np.save(tmp_path / "ids.npy", np.array([1, 2, 3]))
    (tmp_path / "text.npy").write_text("no array")
    np.savez(tmp_path / "several.npy.npz", a=1, b=2)
    whole = (tmp_path / "ids.npy").read_bytes()
    (tmp_path / "head.npy").write_bytes(whole.replace(b"}", b"{"))
    (tmp_path / "huge.npy").write_bytes(whole.replace(b"(3,), }", b"(9999999999999,), }"))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    return tmp_path


def test_inputs_by_name_and_in_order(files):
    image, ids = files / "image.npy", files / "ids.npy"
    for given in (
        [image, ids],
        [f"ids={ids}", f"image={image}"],
        [f"ids={ids}", image],
        [ids, f"image={image}"],
    ):
        found = arrays.match_inputs([str(text) for text in given], INPUTS)
        assert found[0].shape == (1, 4) and found[1].dtype == np.int64


@pytest.mark.parametrize(
    "given, error, words",
    [
        ([], ConfigError, ["'image' is missing", "--input image="]),
        (["image.npy"], ConfigError, ["'ids' is missing"]),
        (["image.npy"] * 3, ConfigError, ["2 inputs (image, ids), got 3"]),
        (["imag=image.npy"], UnknownNameError, ["'imag'", "image, ids"]),
        (["ids=ids.npy", "ids=ids.npy"], ConfigError, ["twice"]),
        (["none.npy", "ids.npy"], ConfigError, ["no file none.npy"]),
        (["text.npy", "ids.npy"], ConfigError, ["text.npy cannot be read"]),
        (["head.npy", "ids.npy"], ConfigError, ["head.npy cannot be read"]),
        (["huge.npy", "ids.npy"], OutOfMemoryError, ["no memory for the array", "huge.npy"]),
        (["several.npy.npz", "ids.npy"], ConfigError, ["several arrays"]),
        (["objects.npy", "ids.npy"], ConfigError, ["objects.npy cannot be read"]),
    ],
)
def test_wrong_inputs(files, monkeypatch, given, error, words):
    monkeypatch.chdir(files)
    with pytest.raises(error) as caught:
        arrays.match_inputs(given, INPUTS)
    assert all(word in str(caught.value) for word in words)


def test_random_inputs():
    made = arrays.random_inputs(INPUTS)
    assert made["image"].dtype == np.float32 and set(made["ids"]) <= {0, 1}
    opened = [
        arrays.InputInfo("x", "bfloat16", ("n", "m", 3)),
        arrays.InputInfo("y", "int8", ("n",)),
    ]
    made = arrays.random_inputs(opened)
    assert made["x"].shape == (1, 1, 3) and str(made["x"].dtype) == "bfloat16"
    filled, chosen = arrays.chosen_sizes(opened, batch=4)
    assert chosen == {"n": 4, "m": 1} and filled[1].shape == (4,)


def test_doctor():
    result = invoke("doctor", "--json")
    found = json.loads(result.stdout)
    by_name = {package["package"]: package for package in found["packages"]}
    assert by_name["numpy"]["version"] == np.__version__
    assert by_name["onnx"]["install"] == install_command("onnx", "onnx")
    states = {state["kind"]: state for state in found["targets"]}
    assert states["llvm"]["works"], states["llvm"]["detail"]
    assert result.exit_code == 0
    text = invoke("doctor")
    assert text.exit_code == 0 and "llvmlite" in text.output and "cuda" in text.output
