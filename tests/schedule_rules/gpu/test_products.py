"""Products of matrices for GPUs: tiles in shared memory, whatever the operands' indices are."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, topi
from tilesmith.schedule_rules.gpu import product
from tilesmith.target import Target
from tilesmith.tir import Schedule
from tilesmith.tir.queries import statements
from tilesmith.tir.stmt import Block

DEVICE = tilesmith.opencl(0)


def _placeholders(*shapes):
    return [te.placeholder(shape, name=f"p{number}") for number, shape in enumerate(shapes)]


def _matmul():
    a, b, c = _placeholders((37, 33), (33, 47), (47,))
    return [a, b, c, topi.nn.relu(topi.add(topi.nn.matmul(a, b), c))]


def _transposed():
    a, b = _placeholders((9, 40), (70, 40))
    return [a, b, topi.nn.dense(a, b)]


def _batched():
    a, b = _placeholders((3, 20, 17), (3, 30, 17))
    return [a, b, topi.nn.batch_matmul(a, b)]


def _convolution():
    a, b = _placeholders((2, 8, 13, 11), (16, 8, 3, 3))
    return [a, b, topi.nn.relu(topi.nn.conv2d(a, b, (2, 1), (1, 1), 1))]


def _windows(a, b):
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    found = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2]
    return np.maximum(np.einsum("nchwij,ocij->nohw", found, b), 0)


CASES = {
    "product, sum, relu": (_matmul, lambda a, b, c: np.maximum(a @ b + c, 0)),
    "transposed": (_transposed, lambda a, b: a @ b.T),
    "batched": (_batched, lambda a, b: a @ b.swapaxes(1, 2)),
    "convolution": (_convolution, _windows),
}


def _scheduled(name):
    function = te.create_prim_func(CASES[name][0]())
    return product(Schedule(function), Target("opencl"))


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_with_two_tiles(name):
    function = _scheduled(name).mod["main"]
    blocks = [one for one in statements(function.body) if isinstance(one, Block)]
    scopes = [buffer.scope() for block in blocks for buffer in block.alloc_buffers]
    assert sorted(scopes) == ["local", "shared", "shared"]


@pytest.mark.skipif(not DEVICE.exist, reason="there is no OpenCL device here")
@pytest.mark.parametrize("name", CASES)
def test_results(name):
    module = tilesmith.build(_scheduled(name).mod, target="opencl")
    *inputs, result = CASES[name][0]()
    random = np.random.default_rng(0)
    values = [random.standard_normal([int(n) for n in p.shape]).astype("float32") for p in inputs]
    out = tilesmith.nd.empty([int(n) for n in result.shape], "float32", DEVICE)
    module(*[tilesmith.nd.array(value, DEVICE) for value in values], out)
    np.testing.assert_allclose(out.numpy(), CASES[name][1](*values), rtol=1e-3, atol=1e-4)


def test_what_is_no_product():
    a, b = _placeholders((40, 50), (3, 50))
    reduced = te.create_prim_func([a, topi.sum(a, axis=1)])
    narrow = te.create_prim_func([a, b, topi.nn.dense(a, b)])
    for function in (reduced, narrow):
        assert product(Schedule(function), Target("opencl")) is None
