"""Products of bfloat16 by tiles of AMX: code for CPUs that have them, and the same sums, emulated.

The emulation runs the implementation of the intrinsic itself: each instruction is a function that
works on tiles in numpy.
"""

import ctypes

import ml_dtypes
import numpy
import pytest

import tilesmith as ts
from tilesmith import relax, te, tir, topi
from tilesmith.relax.transform.pair_products import in_pairs
from tilesmith.schedule_rules.contractions import amx
from tilesmith.schedule_rules.contractions.contraction import find_contraction
from tilesmith.script import from_source
from tilesmith.script import relax as R
from tilesmith.support.errors import ScheduleError

RANDOM = numpy.random.default_rng(0)
SAPPHIRE = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2"
TILES = {}


def product(rows, inputs, columns):
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, inputs), "bfloat16"))
    weight = RANDOM.standard_normal((inputs, columns)).astype(ml_dtypes.bfloat16)
    with builder.function("main", [x]):
        made = relax.op.matmul(x, relax.const(weight), out_dtype="float32")
        builder.emit_func_output(builder.emit(relax.op.nn.relu(builder.emit(made))))
    return builder.get()


@pytest.mark.parametrize(("sizes", "has_tiles"), [((32, 64, 32), True), ((33, 48, 32), False)])
def test_code_for_cpus_with_tiles(sizes, has_tiles):
    code = relax.build(product(*sizes), SAPPHIRE).get_source("asm")
    assert ("tdpbf16ps" in code) == has_tiles
    assert ("vdpbf16ps" in code) != has_tiles


def _numbers(address, stride):
    """Return a tile's memory: 16 rows of 64 bytes."""
    rows = [ctypes.string_at(address + row * stride, 64) for row in range(16)]
    return numpy.frombuffer(b"".join(rows), "uint32").reshape(16, 16)


@ts.register_func("tests.amx.tileloadd64", override=True)
def _load(tile, address, stride):
    TILES[tile] = _numbers(address if isinstance(address, int) else address.value, stride).copy()


@ts.register_func("tests.amx.tilestored64", override=True)
def _store(tile, address, stride):
    address = address if isinstance(address, int) else address.value
    for row, values in enumerate(TILES[tile]):
        ctypes.memmove(address + row * stride, values.tobytes(), 64)


@ts.register_func("tests.amx.tdpbf16ps", override=True)
def _multiply(total, left, right):
    a = TILES[left].view(ml_dtypes.bfloat16).astype("float32").reshape(16, 16, 2)
    b = TILES[right].view(ml_dtypes.bfloat16).astype("float32").reshape(16, 16, 2)
    sums = TILES[total].view("float32") + numpy.einsum("ikp,kjp->ij", a, b)
    TILES[total] = sums.astype("float32").view("uint32")


@ts.register_func("tests.amx.ldtilecfg", override=True)
def _configure(address):
    address = address if isinstance(address, int) else address.value
    setting = ctypes.string_at(address, 64)
    assert setting[0] == 1 and setting[16:32] == bytes([64, 0] * 8)
    assert setting[48:56] == bytes([16] * 8)


@ts.register_func("tests.amx.tilerelease", override=True)
def _release():
    TILES.clear()


def emulated(rows, columns, steps):
    """Define the intrinsic with functions instead of instructions."""
    name = f"emulated_{rows}x{columns}x{steps}"
    if tir.TensorIntrin.get(name, allow_missing=True) is None:
        text = amx.implementation(rows, columns, steps)
        text = text.replace('T.call_llvm_intrin("void", "llvm.x86.', 'T.call_packed("tests.amx.')
        tir.TensorIntrin.register(name, amx.description(rows, columns, steps), from_source(text))
    return name


def scheduled(rows, inputs, columns, width):
    """Return a product, scheduled for emulated tiles."""
    data = te.placeholder((rows, inputs), "bfloat16", name="data")
    weight = te.placeholder((columns // width, inputs // 2, width), "uint32", name="weight")
    made = topi.nn.matmul_pairs(data, weight, columns)
    sch = tir.Schedule(te.create_prim_func([data, weight, topi.nn.relu(made)]))
    block = sch.get_block("matmul_pairs")
    amx.schedule_amx(sch, block, find_contraction(sch.get(block)), threads=1)
    return sch


@pytest.mark.parametrize(
    ("rows", "inputs", "columns", "width"),
    [(32, 64, 64, 32), (16, 32, 96, 48), (48, 96, 16, 16), (32, 32, 128, 64)],
)
def test_the_same_sums_by_emulated_tiles(rows, inputs, columns, width, monkeypatch):
    monkeypatch.setattr(amx, "tile_product", emulated)
    function = ts.build(scheduled(rows, inputs, columns, width).mod, target="llvm")
    x = RANDOM.standard_normal((rows, inputs)).astype(ml_dtypes.bfloat16)
    w = RANDOM.standard_normal((inputs, columns)).astype(ml_dtypes.bfloat16)
    tiles = in_pairs(w).reshape(inputs // 2, columns // width, width).transpose(1, 0, 2)
    out = ts.nd.empty((rows, columns), "float32")
    function(ts.nd.array(x), ts.nd.array(numpy.ascontiguousarray(tiles)), out)
    expected = numpy.maximum(x.astype("float32") @ w.astype("float32"), 0)
    numpy.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-4)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ScheduleError, match="tiles of 16"):
        scheduled(40, 64, 32, 32)
    with pytest.raises(ScheduleError, match="at least 16 rows"):
        scheduled(8, 64, 32, 32)
