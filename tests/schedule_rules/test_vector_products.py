"""Products of one row with packed weights: several panels are read side by side."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.vector_product import vectors_side_by_side
from tilesmith.target import Target
from tilesmith.target.machine import AVX2, AVX512, ZEN_AVX512, machine_model

NEAR = "llvm -mcpu=x86-64-v3"
FAR = NEAR + " -machine=l2_bytes:1024"


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def scheduled(rows, depth, tiles, width, columns, target):
    """Return ``relu(x @ B)`` for a packed B, scheduled for a target."""
    x, b = te.placeholder((rows, depth), name="x"), te.placeholder((tiles, depth, width), name="b")
    y = topi.nn.relu(topi.nn.matmul_packed(x, b, columns))
    function = te.create_prim_func([x, b, y], index_dtype_override="int64")
    return default_schedule(function, Target(target))


@pytest.mark.parametrize(
    ("rows", "columns", "target", "panels"),
    [
        (1, 256, FAR + " -num-cores=1", 4),
        (1, 96, FAR + " -num-cores=1", 3),  # six panels
        (1, 80, FAR + " -num-cores=1", 1),  # five panels: no group divides them
        (1, 250, FAR + " -num-cores=1", 1),  # the last panel is padded
        (1, 256, FAR + " -num-cores=8", 2),  # a task for each thread
        (1, 256, NEAR + " -num-cores=1", 1),
        (1, 256, FAR + ",panels_at_once:1 -num-cores=1", 1),
        (2, 256, FAR + " -num-cores=1", 1),
    ],
)
def test_one_row_spans_several_panels(rows, columns, target, panels):
    depth, width = 24, 16
    tiles = -(-columns // width)
    made = scheduled(rows, depth, tiles, width, columns, target)
    x, weights = random(rows, depth), np.zeros((depth, tiles * width), "float32")
    weights[:, :columns] = random(depth, columns, seed=1)
    packed = np.ascontiguousarray(weights.reshape(depth, tiles, width).transpose(1, 0, 2))
    out = ts.nd.array(np.zeros((rows, columns), "float32"))
    ts.build(made, target="llvm")["main"](ts.nd.array(x), ts.nd.array(packed), out)
    want = np.maximum(x @ weights[:, :columns], 0)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)
    accumulators = re.findall(
        r"decl_buffer\(\(T.int64\((\d+)\),\), scope=.local", ts.lower(made).script()
    )
    assert {*accumulators} == {str(rows * panels * width)}


@pytest.mark.parametrize(
    ("columns", "size", "machine", "vectors"),
    [
        (4096, 1 << 26, AVX2, 2),
        (4096, 1 << 10, AVX2, 4),  # in L2
        (1000, 1 << 26, AVX2, 4),  # would leave a part of a group
        (4096, 1 << 26, AVX512, 4),
        (4096, 1 << 26, ZEN_AVX512, 4),
    ],
)
def test_panels_that_are_read_side_by_side_are_narrow(columns, size, machine, vectors):
    assert vectors_side_by_side(4, columns, size, machine) == vectors


def test_weights_of_one_row_are_packed_for_it():
    weights, row = random(96, 256, seed=1), random(1, 96)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    target = "llvm -num-cores=1 -machine=panels_at_once:4,l2_bytes:1024"
    made = ts.compile(model, target=target)
    machine = machine_model(Target(target))
    width = vectors_side_by_side(4, 256, weights.nbytes, machine) * machine.lanes(32)
    assert [one.shape for one in made.constants.values()] == [(256 // width, 96, width)]
    np.testing.assert_allclose(made(row).numpy(), row @ weights, rtol=1e-4, atol=1e-4)
