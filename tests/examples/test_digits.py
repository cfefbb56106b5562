"""The digits example: the committed model, the picture, and the demo from end to end."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"
MODEL = FOLDER / "digits.onnx"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits_data", FOLDER / "data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.split()


def test_model_is_small_and_valid():
    import onnx

    assert MODEL.stat().st_size < 1_000_000
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    assert {"Conv", "MaxPool", "Gemm", "Softmax"} <= {node.op_type for node in model.graph.node}


def test_split_is_fixed(digits):
    train, held_out, train_labels, labels = digits
    assert train.shape == (1437, 1, 8, 8) and held_out.shape == (360, 1, 8, 8)
    assert held_out.dtype == np.float32 and len(train_labels) == 1437
    assert np.bincount(labels).min() >= 34, "every digit is held out about equally often"


def test_model_has_learnt_the_digits(digits):
    import onnxruntime

    _, images, _, labels = digits
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"image": images})
    assert (probabilities.argmax(1) == labels).mean() > 0.97


def test_demo(tmp_path):
    picture = tmp_path / "predictions.png"
    finished = subprocess.run(
        [sys.executable, str(FOLDER / "demo.py"), "--picture", str(picture), "--threads", "2"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "accuracy" in finished.stdout and "latency" in finished.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
