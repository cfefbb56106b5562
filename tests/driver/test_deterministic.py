"""The same model gives the same code, byte for byte, in every process."""

import os
import subprocess
import sys

MODEL = """
import sys
import numpy as np
from tilesmith import relax
from tilesmith.relax import op

rng = np.random.default_rng(0)

def weights(*shape):
    return relax.const(rng.standard_normal(shape).astype("float32"))

builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((1, 16, 9, 9), "float32"))
with builder.function("main", [x]):
    with builder.dataflow():
        first = builder.emit(op.nn.relu(op.nn.conv2d(x, weights(32, 16, 3, 3), padding=1)))
        second = builder.emit(op.nn.conv2d(first, weights(32, 32, 1, 1)))
        pooled = builder.emit(op.nn.max_pool2d(op.add(first, second), (3, 3), (2, 2)))
        rows = builder.emit(op.reshape(pooled, (1, 512)))
        result = builder.emit_output(op.nn.softmax(op.matmul(rows, weights(512, 33))))
    builder.emit_func_output(result)

import tilesmith
executable = tilesmith.compile(builder.get(), target="llvm -num-cores=2", cache=False)
executable.export_library(sys.argv[1])  # code, metadata and packed weights
"""


def test_processes_with_other_hashes_make_the_same_library(tmp_path):
    made = []
    for seed, workers in (("1", "0"), ("4711", "2")):
        library = tmp_path / f"made_{seed}.so"
        environment = {
            **os.environ, "PYTHONHASHSEED": seed, "TILESMITH_WORKERS": workers,
            "TILESMITH_CACHE_DIR": str(tmp_path / seed),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", MODEL, str(library)],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        made.append(library.read_bytes())
    assert made[0] == made[1]
