"""Builds an encoder of BERT's base size: 12 layers of width 768, 12 heads, sequence 128.

Layer normalisation and GELU are written out in small operators, as exporters commonly do;
`layer_norm_op=True` uses ONNX's LayerNormalization instead.
"""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.models.graph import GraphWriter

LAYERS, HIDDEN, HEADS, INTERMEDIATE = 12, 768, 12, 3072
SEQUENCE, VOCABULARY, POSITIONS = 128, 30522, 512
HEAD = HIDDEN // HEADS


class _Writer(GraphWriter):
    def __init__(self, rng: np.random.Generator, layer_norm_op: bool, batch: int) -> None:
        super().__init__("bert-base", rng)
        self.layer_norm_op = layer_norm_op
        for name, value in (
            ("one", 1.0), ("two", 2.0), ("half", 0.5), ("sqrt2", np.sqrt(2)),
            ("epsilon", 1e-12), ("sqrt_head", np.sqrt(HEAD)), ("masked", -10000.0),
        ):  # fmt: skip
            self.constant(np.array(value, "float32"), name)
        self.constant(np.array([batch, SEQUENCE, HEADS, HEAD], "int64"), "shape.heads")
        self.constant(np.array([batch, SEQUENCE, HIDDEN], "int64"), "shape.joined")

    def linear(self, x: str, inputs: int, outputs: int, name: str) -> str:
        """Compute x @ W + b."""
        weight = self.constant(
            self.normal((inputs, outputs), 1 / np.sqrt(inputs)), f"{name}.weight"
        )
        bias = self.constant(self.normal((outputs,), 0.02), f"{name}.bias")
        return self.node("Add", [self.node("MatMul", [x, weight]), bias])

    def layer_norm(self, x: str, name: str) -> str:
        """Compute (x - mean) / sqrt(variance + epsilon) * scale + shift over the last axis."""
        scale = self.constant(
            self.rng.uniform(0.8, 1.2, HIDDEN).astype("float32"), f"{name}.weight"
        )
        shift = self.constant(self.normal((HIDDEN,), 0.05), f"{name}.bias")
        if self.layer_norm_op:
            return self.node("LayerNormalization", [x, scale, shift], axis=-1, epsilon=1e-12)
        mean = self.node("ReduceMean", [x], axes=[-1], keepdims=1)
        centred = self.node("Sub", [x, mean])
        squares = self.node("Pow", [centred, "two"])
        variance = self.node("ReduceMean", [squares], axes=[-1], keepdims=1)
        deviation = self.node("Sqrt", [self.node("Add", [variance, "epsilon"])])
        normal = self.node("Div", [centred, deviation])
        return self.node("Add", [self.node("Mul", [normal, scale]), shift])

    def gelu(self, x: str) -> str:
        """Compute x * (1 + erf(x / sqrt(2))) * 0.5."""
        erf = self.node("Erf", [self.node("Div", [x, "sqrt2"])])
        return self.node("Mul", [self.node("Mul", [x, self.node("Add", [erf, "one"])]), "half"])

    def heads(self, x: str, axes: list[int]) -> str:
        """Split (1, sequence, hidden) into heads, axes in the given order."""
        return self.node("Transpose", [self.node("Reshape", [x, "shape.heads"])], perm=axes)

    def attention(self, x: str, mask: str, name: str) -> str:
        """Mix for each position all positions that the mask lets it see."""
        query = self.heads(self.linear(x, HIDDEN, HIDDEN, f"{name}.query"), [0, 2, 1, 3])
        key = self.heads(self.linear(x, HIDDEN, HIDDEN, f"{name}.key"), [0, 2, 3, 1])
        value = self.heads(self.linear(x, HIDDEN, HIDDEN, f"{name}.value"), [0, 2, 1, 3])
        scores = self.node("Div", [self.node("MatMul", [query, key]), "sqrt_head"])
        weights = self.node("Softmax", [self.node("Add", [scores, mask])], axis=-1)
        mixed = self.node("Transpose", [self.node("MatMul", [weights, value])], perm=[0, 2, 1, 3])
        joined = self.node("Reshape", [mixed, "shape.joined"])
        return self.linear(joined, HIDDEN, HIDDEN, f"{name}.output")

    def embeddings(self) -> str:
        """Sum and normalise the embeddings of words, positions and segments."""
        words = self.constant(self.normal((VOCABULARY, HIDDEN), 0.5), "embeddings.word")
        places = self.constant(self.normal((POSITIONS, HIDDEN), 0.5), "embeddings.position")
        segments = self.constant(self.normal((2, HIDDEN), 0.5), "embeddings.token_type")
        ids = self.constant(np.arange(SEQUENCE, dtype="int64")[None], "position_ids")
        x = self.node("Gather", [words, "input_ids"], axis=0)
        x = self.node("Add", [x, self.node("Gather", [segments, "token_type_ids"], axis=0)])
        x = self.node("Add", [x, self.node("Gather", [places, ids], axis=0)])
        return self.layer_norm(x, "embeddings.norm")

    def mask(self) -> str:
        """Return 0 where a position may be seen, -10000 elsewhere: (1, 1, 1, sequence)."""
        axes = self.constant(np.array([1, 2], "int64"), "mask.axes")
        seen = self.node("Unsqueeze", ["attention_mask", axes])
        seen = self.node("Cast", [seen], to=onnx.TensorProto.FLOAT)
        return self.node("Mul", [self.node("Sub", ["one", seen]), "masked"])


def bert_base(
    rng: np.random.Generator, layer_norm_op: bool = False, batch: int = 1
) -> onnx.ModelProto:
    """Build the network: 109 million weights, 11 GFLOP of multiply-adds at sequence 128."""
    writer = _Writer(rng, layer_norm_op, batch)
    mask = writer.mask()
    x = writer.embeddings()
    for layer in range(LAYERS):
        name = f"layer{layer}"
        mixed = writer.attention(x, mask, f"{name}.attention")
        x = writer.layer_norm(writer.node("Add", [mixed, x]), f"{name}.attention.norm")
        inner = writer.gelu(writer.linear(x, HIDDEN, INTERMEDIATE, f"{name}.intermediate"))
        outer = writer.linear(inner, INTERMEDIATE, HIDDEN, f"{name}.output")
        x = writer.layer_norm(writer.node("Add", [outer, x]), f"{name}.output.norm")
    first = writer.constant(np.array(0, "int64"), "pooler.index")
    token = writer.node("Gather", [x, first], axis=1)
    weight = writer.constant(writer.normal((HIDDEN, HIDDEN), 1 / np.sqrt(HIDDEN)), "pooler.weight")
    bias = writer.constant(writer.normal((HIDDEN,), 0.02), "pooler.bias")
    pooled = writer.node("Tanh", [writer.node("Gemm", [token, weight, bias], transB=1)])
    ids, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    return writer.finish(
        [
            (name, ids, [batch, SEQUENCE])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [
            (x, "last_hidden_state", real, [batch, SEQUENCE, HIDDEN]),
            (pooled, "pooler_output", real, [batch, HIDDEN]),
        ],
    )


def inputs(rng: np.random.Generator, batch: int = 1) -> dict[str, np.ndarray]:
    """Return texts of 100 words in two segments, padded to the length of the sequence."""
    places = np.tile(np.arange(SEQUENCE), (batch, 1))
    return {
        "input_ids": rng.integers(0, VOCABULARY, (batch, SEQUENCE)),
        "attention_mask": (places < 100).astype("int64"),
        "token_type_ids": (places >= 60).astype("int64"),
    }
