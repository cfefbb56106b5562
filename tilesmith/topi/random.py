"""Random numbers that depend on a key alone: Threefry-4x64 with 20 rounds.

A generator is a tensor of ten uint64, which an operator takes and gives back changed. Whoever uses
a generator again gets the same numbers again; `threefry_split` makes two of one.

    words 0-3   the key: the seed
    words 4-5   the path: a bit for each split on the way to this generator, from the first bit of
                word 4 on; 1 says "the right one"
    words 6-7   how many blocks have been made (128 bits, the upper ones first)
    words 8-9   one bit is set, at the place in the path of the next split: bit 63 of word 8 first

A new generator is (seed, seed, seed, seed, 0, 0, 0, 0, 1 << 63, 0). A block of four random words is
the cipher of (path with the bit of words 8-9, number of the block) under the key. No two generators
that come from one by splits share such an input, because their last set bits end different paths;
so their numbers do not depend on each other (Claessen and Palka, "Splittable pseudorandom number
generators using cryptographic hashing", 2013). After 128 splits in a row the key of the next one is
a block with a number that is never reached, and its path is empty again.

The cipher is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. The paper
has it with two words as well; a key of four words and a path take four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime import nd
from tilesmith.runtime.devices import Device
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.procedure import index_dtype, pointers
from tilesmith.topi.scan import cumsum
from tilesmith.topi.search import searchsorted
from tilesmith.topi.utils import (
    DType,
    Number,
    Shape,
    get_const_tuple,
    product,
    ravel_index,
    simplify,
    unravel_index,
)

__all__ = [
    "multinomial", "normal", "threefry_generate", "threefry_split", "threefry_test_wrapping",
    "uniform",
]  # fmt: skip

_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_ROUNDS = 20
_PARITY = 0x1BD11BDAA9FC1A22
_ONES = (1 << 64) - 1


def _word(value: int) -> PrimExpr:
    return const(value, "uint64")


def _block(builder: IRBuilder, key: Sequence[PrimExpr], text: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Emit the cipher of four words; return the four words that it gives."""
    parity = _word(_PARITY)
    for word in key:
        parity = op.bitwise_xor(parity, word)
    keys = [*key, builder.let("parity", parity)]
    x: list[PrimExpr] = [builder.let(f"x{i}", text[i] + keys[i]) for i in range(4)]
    for number in range(_ROUNDS):
        for half, (a, b) in enumerate(((0, 1), (2, 3)) if number % 2 == 0 else ((0, 3), (2, 1))):
            left = _ROTATIONS[number % 8][half]
            x[a] = builder.let(f"x{a}", x[a] + x[b])
            turned = op.bitwise_or(x[b] << _word(left), x[b] >> _word(64 - left))
            x[b] = builder.let(f"x{b}", op.bitwise_xor(turned, x[a]))
        if number % 4 == 3:
            step = number // 4 + 1
            x = [word + keys[(step + i) % 5] for i, word in enumerate(x)]
            x[3] = x[3] + _word(step)
            x = [builder.let(f"x{i}", word) for i, word in enumerate(x)]
    return x


def _add(high: PrimExpr, low: PrimExpr, number: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return the sum of 128 bits and 64 bits."""
    total = low + number
    return high + op.cast("uint64", total < low), total


def _check(gen: Tensor) -> None:
    if gen.dtype != "uint64" or get_const_tuple(gen.shape) != (10,):
        raise TypeMismatchError(
            f"a generator is ten uint64, got {list(gen.shape)} {gen.dtype}",
            notes=("the description of topi.random says what they are",),
        )


def _load(builder: IRBuilder, state: BufferVar) -> list[PrimExpr]:
    return [builder.let(f"word{i}", state[i]) for i in range(10)]


def threefry_generate(gen: Tensor, out_shape: Shape) -> list[Tensor]:
    """Return the changed generator and random uint64 numbers.

    Each block makes four of them; what a last block makes beyond ``out_shape`` is left out.
    """
    _check(gen)
    shape = [op.cast(index_dtype([product(out_shape)]), size) for size in _sizes(out_shape)]
    count = product(shape)
    blocks = simplify(op.floordiv(count + 3, const(4, count.dtype)))

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        state, changed, out = pointers(builder, [*inputs, *outputs])
        words = _load(builder, state)
        marked = [op.bitwise_or(words[4 + i], words[8 + i]) for i in range(2)]
        with builder.for_range(const(0, count.dtype), blocks, "block") as number:
            text = [*marked, *_add(words[6], words[7], op.cast("uint64", number))]
            for i, word in enumerate(_block(builder, words[:4], text)):
                place = number * 4 + i
                with builder.if_scope(place < count):
                    out[unravel_index(place, shape)] = word
        after = [*words[:6], *_add(words[6], words[7], op.cast("uint64", blocks)), *words[8:]]
        for i, word in enumerate(after):
            changed[i] = word
        return builder.get()

    made: list[Tensor] = te.extern(
        [(10,), shape], [gen], body, "threefry_generate", ["uint64", "uint64"]
    )
    return made


def _sizes(shape: Shape) -> list[PrimExpr]:
    return [size if isinstance(size, PrimExpr) else const(int(size), "int32") for size in shape]


def threefry_split(gen: Tensor) -> tuple[Tensor, Tensor]:
    """Return two generators whose numbers do not depend on each other, in place of one."""
    _check(gen)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        state, *sides = pointers(builder, [*inputs, *outputs])
        words = _load(builder, state)
        next_bit = [
            words[8] >> _word(1),
            op.bitwise_or(words[9] >> _word(1), words[8] << _word(63)),
        ]
        is_full = builder.let("is_full", op.equal(words[9], _word(1)))
        for number, side in enumerate(sides):
            path = [
                op.bitwise_or(words[4 + i], words[8 + i]) if number else words[4 + i]
                for i in range(2)
            ]
            with builder.if_scope(is_full):
                fresh = _block(builder, words[:4], [*path, _word(_ONES), _word(_ONES)])
                after = [*fresh, *[_word(0)] * 4, _word(1 << 63), _word(0)]
                for i, word in enumerate(after):
                    side[i] = word
            with builder.else_scope():
                for i, word in enumerate([*words[:4], *path, _word(0), _word(0), *next_bit]):
                    side[i] = word
        return builder.get()

    left, right = te.extern([(10,), (10,)], [gen], body, "threefry_split", ["uint64", "uint64"])
    return left, right


def threefry_test_wrapping(target: str | Target, device: Device) -> bool:
    """Return whether a sum of uint64 wraps around on a device, as the cipher needs it."""
    from tilesmith.lowering import build  # only here: computes need no back ends

    a = te.placeholder((1,), "uint64", "a")
    b = te.compute((1,), lambda i: a[i] + _word(1), "b")
    schedule = tir.Schedule(te.create_prim_func([a, b]))
    target = Target(target)
    if "gpu" in target.keys:
        schedule.bind(schedule.get_loops("b")[0], "threadIdx.x")
    largest = nd.array(numpy.array([_ONES], "uint64"), device)
    result = nd.array(numpy.ones(1, "uint64"), device)
    build(schedule.mod, target=target)(largest, result)
    return bool(result.numpy()[0] == 0)


# Distributions

_SIGNIFICANDS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _value(given: Tensor | Number, dtype: DataType) -> PrimExpr:
    """Return the only value of a tensor, or a number."""
    if not isinstance(given, Tensor):
        return given if isinstance(given, PrimExpr) else const(given, dtype)
    if any(size != 1 for size in get_const_tuple(given.shape)):
        raise ShapeError(f"a parameter of a distribution is one value, got {list(given.shape)}")
    return given(*[const(0, "int32") for _ in given.shape])


def _float_dtype(dtype: DType) -> tuple[DataType, DataType]:
    """Return the dtype of the numbers, and the one in which they are computed."""
    dtype = DataType(dtype)
    if dtype not in _SIGNIFICANDS:
        raise UnsupportedError(
            f"random numbers of dtype {dtype}: one of {', '.join(_SIGNIFICANDS)}"
        )
    return dtype, DataType("float64" if dtype == "float64" else "float32")


def _fraction(word: PrimExpr, bits: int, wide: DataType) -> PrimExpr:
    """Return a number from 0 to below 1, of ``bits`` random bits, exactly."""
    return op.cast(wide, word >> _word(64 - bits)) * const(2.0**-bits, wide)


def uniform(
    gen: Tensor,
    low: Tensor | Number,
    high: Tensor | Number,
    out_shape: Shape,
    out_dtype: DType,
) -> list[Tensor]:
    """Return the changed generator and numbers from ``low`` to below ``high``, all as likely.

    ``low`` and ``high`` are numbers or tensors of one value.
    """
    dtype, wide = _float_dtype(out_dtype)
    changed, words = threefry_generate(gen, out_shape)
    bits = _SIGNIFICANDS[dtype]

    def element(*i: Any) -> PrimExpr:
        first, last = [op.cast(wide, _value(end, dtype)) for end in (low, high)]
        value = op.cast(dtype, first + _fraction(words(*i), bits, wide) * (last - first))
        # Rounding may have led to the end, which is not included.
        begin, end = op.cast(dtype, first), op.cast(dtype, last)
        return tir.Select(value < end, value, begin)

    return [changed, compute(words.shape, element, "uniform", tag.INJECTIVE)]


def normal(
    gen: Tensor,
    mean: Tensor | Number,
    scale: Tensor | Number,
    out_shape: Shape,
    out_dtype: DType,
) -> list[Tensor]:
    """Return the changed generator and numbers of a normal distribution with a mean and a standard
    deviation, which are numbers or tensors of one value.

    Two random words make two numbers (Box and Muller, 1958).
    """
    dtype, wide = _float_dtype(out_dtype)
    shape = _sizes(out_shape)
    count = product(shape)
    pairs = simplify(op.floordiv(count + 1, const(2, count.dtype)))
    changed, words = threefry_generate(gen, [pairs, const(2, count.dtype)])

    def element(*i: Any) -> PrimExpr:
        place = ravel_index(i, shape)
        pair = op.floordiv(place, 2)
        # All 64 bits, and never 0: the least likely numbers are about 9.5 from the mean.
        chance = op.cast(wide, words(pair, 0)) * const(2.0**-64, wide) + const(2.0**-65, wide)
        length = tir.sqrt(const(-2.0, wide) * tir.log(op.minimum(chance, const(1.0, wide))))
        bits = _SIGNIFICANDS[wide]
        angle = _fraction(words(pair, 1), bits, wide) * const(2 * math.pi, wide)
        is_second = op.equal(op.floormod(place, 2), 1)
        turned = tir.Select(is_second, tir.sin(angle), tir.cos(angle)) * length
        middle, deviation = [op.cast(wide, _value(given, dtype)) for given in (mean, scale)]
        return op.cast(dtype, middle + turned * deviation)

    return [changed, compute(shape, element, "normal", tag.INJECTIVE)]


def multinomial(gen: Tensor, probs: Tensor, num_samples: int | PrimExpr) -> list[Tensor]:
    """Return the changed generator and ``num_samples`` int32 indices for each row of ``probs``,
    each as likely as its number is large; these need not sum up to 1. Samples are independent.

    A row that has no positive number gives its last index.
    """
    if not probs.shape:
        raise ShapeError("multinomial takes rows of probabilities, got a single value")
    _, wide = _float_dtype(probs.dtype)
    size, rows = probs.shape[-1], probs.shape[:-1]
    totals = cumsum(probs, axis=-1, dtype=wide)
    changed, words = threefry_generate(gen, [*rows, num_samples])

    def place(*i: Any) -> PrimExpr:
        total = totals(*i[:-1], size - 1)
        value = _fraction(words(*i), _SIGNIFICANDS[wide], wide) * total
        return tir.Select(value < total, value, const(0.0, wide))

    places = compute(words.shape, place, "multinomial_places")
    found = searchsorted(totals, places, right=True, out_dtype="int32")
    last = op.cast("int32", size) - 1
    return [
        changed,
        compute(found.shape, lambda *i: op.minimum(found(*i), last), "multinomial", tag.INJECTIVE),
    ]
