"""Small transformers as torch exports them with dynamic axes: compiled once, called with several
sizes, against onnxruntime.
"""

import io
import math
import warnings

import numpy as np
import onnx
import pytest
import torch

import tilesmith
from tests.relax.frontend.onnx_reference import reference

WIDTH, HEADS, WORDS = 16, 2, 50


class Attention(torch.nn.Module):
    def __init__(self, is_causal):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.is_causal = is_causal
        self.register_buffer("seen", torch.ones(64, 64, dtype=torch.bool).tril())

    def forward(self, x, mask):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) / math.sqrt(width // HEADS)
        if self.is_causal:
            seen = self.seen[:length, :length]
            scores = torch.where(seen, scores, torch.full([], -1e9))
        if mask is not None:
            scores = scores + (1.0 - mask[:, None, None, :].to(scores.dtype)) * -1e9
        found = scores.softmax(-1) @ parts[2]
        return x + found.permute(0, 2, 1, 3).contiguous().view(batch, length, width)


class Transformer(torch.nn.Module):
    def __init__(self, is_causal):
        super().__init__()
        self.words, self.places = [torch.nn.Embedding(n, WIDTH) for n in (WORDS, 64)]
        self.norm, self.attention = torch.nn.LayerNorm(WIDTH), Attention(is_causal)
        self.last = torch.nn.Sequential(torch.nn.Linear(WIDTH, 32), torch.nn.GELU())

    def forward(self, ids, mask=None):
        places = torch.arange(ids.size(1)).unsqueeze(0).expand(ids.size(0), -1)
        x = self.norm(self.words(ids) + self.places(places))
        return self.last(self.attention(x, mask))


def exported(is_causal, opset):
    """The model as ONNX, with a dynamic batch and length."""
    torch.manual_seed(0)
    ids, mask = torch.randint(0, WORDS, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    inputs = (ids,) if is_causal else (ids, mask)
    names = ["ids", "mask"][: len(inputs)]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Transformer(is_causal).eval(), inputs, file, opset_version=opset, input_names=names,
            output_names=["y"], dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
            dynamo=False,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("is_causal", [False, True], ids=["encoder", "decoder"])
def test_dynamic_axes(is_causal, opset):
    model = exported(is_causal, opset)
    executable = tilesmith.compile(model)
    random = np.random.default_rng(0)
    for shape in ((2, 7), (1, 1), (3, 16), (5, 33)):
        feed = {"ids": random.integers(0, WORDS, shape)}
        if not is_causal:
            feed["mask"] = random.integers(0, 2, shape)
            feed["mask"][:, 0] = 1
        (expected,) = reference(model, feed)
        np.testing.assert_allclose(executable(**feed).numpy(), expected, rtol=1e-4, atol=1e-5)
