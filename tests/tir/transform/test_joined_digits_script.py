"""FlattenBuffer: indices that are digits of one number become that number."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import FloorDiv, FloorMod
from tilesmith.ir.queries import any_node
from tilesmith.script import tir as T
from tilesmith.tir import transform
from tilesmith.tir.queries import stores


def flattened(index, shape, count=60):
    """Fill a buffer at indices made from a number that is a sum of loop variables."""

    @T.prim_func
    def main(B: T.Buffer(shape, "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(count // 4, 4):
            B[index(i * 4 + j)] = T.float32(1)

    got = apply(main, transform.FlattenBuffer())
    assert_same_results(main, got)
    (store,) = stores(got.body)
    return any_node(store.indices, lambda one: isinstance(one, FloorDiv | FloorMod))


@pytest.mark.parametrize(("index", "shape"), [
    (lambda n: (n // 6, n % 6), (10, 6)),
    (lambda n: (n // 15, n % 15 // 3, n % 3), (4, 5, 3)),
    (lambda n: (0, n // 6, n % 6), (1, 10, 6)),
])  # fmt: skip
def test_digits_are_joined(index, shape):
    assert not flattened(index, shape)


@pytest.mark.parametrize(("index", "shape"), [
    (lambda n: (n // 6, n % 6), (10, 7)),  # a gap after each row
    (lambda n: (n // 7 % 5, n % 5), (5, 5)),  # digits of two numbers
    (lambda n: (n // 10, (n + 1) % 10), (6, 10)),
])  # fmt: skip
def test_others_stay(index, shape):
    assert flattened(index, shape)
