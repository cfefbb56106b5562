"""The models in plain torch have the sizes of the published ones, and are measured and compared."""

import dataclasses

import pytest
import torch

from benchmarks import run, torch_models
from benchmarks.models.torch_zoo import ZOO
from benchmarks.torch_models import Case, flat, measure, steady

# Millions of weights of the published networks; those without a fixed form are left out.
SIZES = {
    "resnet18": 11.69, "resnet50": 25.56, "mobilenet_v2": 3.50, "mobilenet_v3": 5.48,
    "efficientnet_b0": 5.29, "regnet_y": 4.34, "convnext_t": 28.59, "vit_b16": 86.57,
    "swin_t": 28.29, "bert_base": 109.48, "gpt2_prefill": 124.44, "gpt2_decode": 124.44,
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_models_have_the_published_sizes(name):
    with torch.device("meta"):
        model = ZOO[name].make()
    count = sum(each.numel() for each in model.parameters()) / 1e6
    assert count == pytest.approx(SIZES[name], rel=0.005)


def small(name):
    """Return the entry with the small model in the place of the large one."""
    entry = ZOO[name]
    return dataclasses.replace(entry, make=entry.small, inputs=lambda batch: entry.small_inputs())


def test_a_model_is_measured(monkeypatch):
    entry = dataclasses.replace(small("gpt2_decode"), dynamic=lambda: ({}, ({2: "old"},) * 4))
    monkeypatch.setitem(ZOO, "gpt2_decode", entry)
    record = measure("gpt2_decode", 1, 1, 2, is_dynamic=True, rival=False, profile=False)
    assert not record["failures"]
    assert max(record["largest_error"].values()) < 1e-4
    assert set(record["latency"]) == {"torch", "tilesmith", "tilesmith dynamic"}
    assert record["times_as_fast"]["torch"] > 0 and record["dynamic_to_static"] > 0
    assert set(record["seconds"]["tilesmith"]) == {"export", "import", "compile"}
    row = run.torch_row("gpt2_decode", record, ["tilesmith", "tilesmith dynamic", "torch"])
    assert len(row) == 9 and "-" not in row


def test_a_failure_is_a_result(monkeypatch):
    def compiled(self, is_dynamic):
        raise ValueError("planted")

    monkeypatch.setitem(ZOO, "lstm", small("lstm"))
    monkeypatch.setattr(torch_models.Case, "compiled", compiled)
    record = measure("lstm", 1, 1, 2, is_dynamic=False, rival=False, profile=False)
    assert record["failures"] == {"tilesmith": "ValueError: planted"}
    assert run.torch_row("lstm", record, ["tilesmith", "torch"])[1] == "-"


def test_buffers_that_a_model_writes_to_begin_as_they_were(monkeypatch):
    monkeypatch.setitem(ZOO, "llama", small("llama"))
    case = Case("llama", 1, 1)
    assert not case.model.layers[0].keys.any() and case.after["layers.0.keys"].any()


def test_batch_normalisation_sees_the_inputs():
    model, inputs = small("resnet18").build()
    steady(model, inputs)
    norm = model.stem[1]
    assert not model.training and norm.running_mean.any()
    assert flat((inputs, model(*inputs)))[1].isfinite().all()
