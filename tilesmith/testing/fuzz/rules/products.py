"""Draws products of matrices and sums of products over any axes."""

from __future__ import annotations

from typing import Any

from tilesmith import te, topi
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.rules.maker import Maker, form

__all__: list[str] = []

TILES = (4, 8, 16, 32)
"""Lanes of packed weights."""


def tiles_of(columns: int, width: int) -> int:
    """Return how many tiles of a width hold some columns."""
    return -(-columns // width)


@form("product", 4)
def product(make: Maker) -> list[Tensor]:
    """Multiply matrices, with leading axes, either operand transposed."""
    m, k, n = make.sizes(3, 130)
    if make.chance(0.2):
        m = 1
    dtype = make.dtype("int8")
    out = "int32" if dtype == "int8" else None
    lead = [make.size(4) for _ in range(make.among([0, 0, 0, 1, 2]))]
    a, b = make.chance(0.2), make.chance(0.3)
    x = make.source([*lead, *((k, m) if a else (m, k))], dtype)
    y = make.source([*(lead if make.chance(0.3) else ()), *((n, k) if b else (k, n))], dtype)
    return make.epilogue(topi.nn.matmul(x, y, None, out, a, b))


@form("dense", 2)
def dense(make: Maker) -> list[Tensor]:
    """Multiply rows with a weight of rows, plain or in tiles."""
    m, k = make.sizes(2, 130)
    dtype = make.dtype()
    if make.chance(0.2):
        m = 1
    x = make.source([m, k], dtype)
    if make.chance():
        n = make.size(130)
        bias = make.input((n,), dtype) if make.chance(0.3) else None
        return make.epilogue(topi.nn.dense(x, make.input((n, k), dtype), bias))
    width, count = make.among(TILES), make.count(6)
    return make.epilogue(topi.nn.dense_pack(x, make.input((count, k, width), dtype)))


@form("batch", 2)
def batch(make: Maker) -> list[Tensor]:
    """Multiply matrices in a batch, one operand for all of it at times."""
    b = make.size(9)
    m, k, n = make.sizes(3, 70)
    dtype = make.dtype("int8")
    out = "int32" if dtype == "int8" else None
    left, right = make.chance(0.3), make.chance()
    first, second = make.among([(b, b), (b, b), (1, b), (b, 1)])
    x = make.source([first, *((k, m) if left else (m, k))], dtype)
    y = make.source([second, *((n, k) if right else (k, n))], dtype)
    made = topi.nn.batch_matmul(x, y, None, out, left, right)
    return make.epilogue(made)


@form("packed product", 2)
def packed_product(make: Maker) -> list[Tensor]:
    """Multiply rows with a weight in tiles, whose last one is partly unused."""
    m, k = make.sizes(2, 100)
    columns, width = make.count(100), make.among(TILES)
    lead = [make.size(3)] if make.chance(0.2) else []
    kind = make.among(["plain", "plain", "pairs", "words"])
    tiles = tiles_of(columns, width)
    if kind == "plain":
        dtype = make.dtype()
        x, y = make.source([*lead, m, k], dtype), make.input((tiles, k, width), dtype)
        return make.epilogue(topi.nn.matmul_packed(x, y, columns))
    k = make.count(40)
    if kind == "pairs":
        x = make.source([*lead, m, k], "bfloat16")
        y = pairs(make, [tiles, (k + 1) // 2, width])
        return make.epilogue(topi.nn.matmul_pairs(x, y, columns))
    products = make.among(WORDS)
    x = make.source([*lead, m, k], make.among(["uint8", "int8"]))
    y = words(make, [tiles, -(-k // elements_of_words(products)), width])
    return make.epilogue(topi.nn.matmul_words(x, y, columns, make.number(0, 3), products))


def pairs(make: Maker, shape: list[Any]) -> Tensor:
    """Return an input of words that are two bfloat16 each."""
    return make.input(shape, "uint32", -2, 2, pairs=True)


WORDS = ("u8i8", "i8i8", "i16i16")
"""What is multiplied in words."""


def elements_of_words(products: str) -> int:
    """Return how many elements a word has."""
    return 2 if products == "i16i16" else 4


def words(make: Maker, shape: list[Any]) -> Tensor:
    """Return an input of words that are four bytes or two int16 each."""
    return make.input(shape, "int32", -(1 << 31), (1 << 31) - 1)


_SUMS = (
    "ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "abc,cd->adb", "bhqd,bhkd->bhqk", "ijk,jl->ikl",
    "ij,j->i", "i,j->ij", "ij,ij->i", "ij,ij->j", "ijk,ijl->kl", "bij,bj->bi", "ij,jk,kl->il",
    "i,i->", "abij,abjk->iak", "ij,ik->jk",
)  # fmt: skip


@form("sum of products", 2)
def sum_of_products(make: Maker) -> list[Tensor]:
    """Sum products over any axes, as Einstein's notation says."""
    text = make.among(_SUMS)
    letters = sorted(set(text) - set(",->"))
    sizes = dict(zip(letters, make.sizes(len(letters), 70)))
    dtype = make.dtype()
    operands = text.partition("->")[0].split(",")
    inputs = [make.source([sizes[one] for one in word], dtype) for word in operands]
    if len(inputs) > 2:
        make.inexact()
    made = topi.einsum(text, *inputs)
    return make.epilogue(made) if made.shape else [made]


@form("weighted sum", 1)
def weighted_sum(make: Maker) -> list[Tensor]:
    """Sum products of three, or maxima of sums, over one axis."""
    m, k, n = make.sizes(3, 70)
    x, y, z = make.input((m, k)), make.input((n, k)), make.input((k,))
    kind = make.among(["scaled", "shifted", "max", "select"])
    r = te.reduce_axis((0, k), name="k")

    def element(i: Any, j: Any) -> Any:
        if kind == "scaled":
            return te.sum(x(i, r) * y(j, r) * z(r), axis=r)
        if kind == "shifted":
            return te.sum((x(i, r) + z(r)) * y(j, r), axis=r)
        if kind == "max":
            return te.max(x(i, r) + y(j, r), axis=r)
        return te.sum(te.if_then_else(x(i, r) > z(r), x(i, r) * y(j, r), 0.0), axis=r)

    return make.epilogue(te.compute((m, n), element, name="weighted"))


@form("two products", 1)
def two_products(make: Maker) -> list[Tensor]:
    """Multiply the result of a product again, with work between."""
    m, k, n = make.sizes(3, 40)
    last = make.count(24)
    first = topi.nn.matmul(make.input((m, k)), make.input((k, n)))
    between = make.epilogue(first)[-1]
    if str(between.dtype) != "float32":
        return [between]
    make.inexact(30)
    return make.epilogue(topi.nn.matmul(between, make.input((n, last))))


@form("attention", 1)
def attention(make: Maker) -> list[Tensor]:
    """Attend: two products with a softmax between them."""
    b, heads = make.count(2), make.count(3)
    queries, keys = make.size(24), make.count(24)
    depth, own = make.count(16), make.count(16)
    q = make.input((b, queries, heads, depth), low=-1, high=1)
    k = make.input((b, keys, heads, depth), low=-1, high=1)
    v = make.input((b, keys, heads, own))
    make.inexact(10)
    mask = make.among([None, None, "TopLeft", "BottomRight"])
    bias = make.input((b, heads, queries, keys)) if make.chance(0.3) else None
    return make.epilogue(topi.nn.attention(q, k, v, bias, None, mask))
