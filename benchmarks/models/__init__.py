"""Builds well-known networks as ONNX, with random weights under which activations keep a size of
about 1.

    from benchmarks.models import build_model, model_inputs
    model = build_model("resnet18")
    feed = model_inputs("resnet18")

    python -m benchmarks.models resnet18 -o resnet18.onnx

The same name always gives the same bytes: weights come from a seeded generator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from benchmarks.models import bert, mobilenet, resnet

MODELS: dict[str, Callable[..., onnx.ModelProto]] = {
    "resnet18": resnet.resnet18,
    "resnet50": resnet.resnet50,
    "mobilenetv2": mobilenet.mobilenetv2,
    "bert": bert.bert_base,
}


def build_model(name: str, seed: int = 0, **options: object) -> onnx.ModelProto:
    """Return the network called `name` (a key of MODELS); `options` are those of its function."""
    if name not in MODELS:
        raise KeyError(f"unknown model '{name}'; known: {', '.join(MODELS)}")
    return MODELS[name](np.random.default_rng(seed), **options)


def model_inputs(name: str, seed: int = 1, batch: int = 1) -> dict[str, np.ndarray]:
    """Return one set of inputs for the network called `name`."""
    rng = np.random.default_rng(seed)
    if name == "bert":
        return bert.inputs(rng, batch)
    return {"image": rng.standard_normal((batch, 3, 224, 224), dtype="float32")}
