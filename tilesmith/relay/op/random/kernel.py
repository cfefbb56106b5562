"""``relay.op.random.kernel``: random numbers from keys (Threefry)."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import REQUIRED, Schema, dtype, integer, ints
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.view import computed, function, functions, make_call

computed(
    "random.threefry_generate",
    "key",
    lambda attrs, key: topi.random.threefry_generate(key, list(attrs.out_shape)),
    level=0,
    schema=Schema(out_shape=ints()),
    description="A new key, and random bits (uint64) of a shape.",
)
computed(
    "random.threefry_split",
    "key",
    lambda attrs, key: list(topi.random.threefry_split(key)),
    level=0,
    description="Two keys made of one.",
)


def _define_distribution(name: str, description: str) -> None:
    def compute(attrs: Any, key: Any, first: Any, second: Any) -> Any:
        draw = getattr(topi.random, name)
        return draw(key, first, second, list(attrs.out_shape), attrs.out_dtype)

    computed(
        "random." + name,
        "key first:number second:number",
        compute,
        level=0,
        schema=Schema(out_shape=ints(), out_dtype=dtype(REQUIRED)),
        description=description,
    )


_define_distribution("uniform", "A new key, and numbers spread evenly between two bounds.")
_define_distribution("normal", "A new key, and numbers of a normal distribution.")
computed(
    "random.multinomial",
    "key probs",
    lambda attrs, key, probs: topi.random.multinomial(key, probs, attrs.num_samples),
    level=0,
    schema=Schema(num_samples=integer()),
    description="A new key, and places drawn with the given probabilities.",
)


@function("random.threefry_key")
def threefry_key(seed: int) -> Any:
    """Return a key made of a seed."""
    key = numpy.zeros(10, "uint64")
    key[0:4] = [0, 0, 0, int(seed)]
    key[8:10] = [1 << 63, 0]
    return const(key)


@function("random.threefry_generate")
def threefry_generate(key: Any, shape: Any) -> TupleWrapper:
    """Return a new key, and random bits (uint64) of a shape."""
    return TupleWrapper(make_call("random.threefry_generate", [key], {"out_shape": shape}), 2)


@function("random.threefry_split")
def threefry_split(key: Any) -> TupleWrapper:
    """Return two keys made of one."""
    return TupleWrapper(make_call("random.threefry_split", [key]), 2)


def _draw(name: str, key: Any, shape: Any, dtype: Any, first: Any, second: Any) -> TupleWrapper:
    bounds = [one if isinstance(one, RelaxExpr) else const(one, dtype) for one in (first, second)]
    attributes = {"out_shape": shape, "out_dtype": dtype}
    return TupleWrapper(make_call("random." + name, [key, *bounds], attributes), 2)


@function("random.uniform")
def uniform(
    key: Any, shape: Any, dtype: Any = "float32", low: Any = 0.0, high: Any = 1.0
) -> TupleWrapper:
    """Return a new key, and numbers spread evenly from ``low`` to ``high``."""
    return _draw("uniform", key, shape, dtype, low, high)


@function("random.normal")
def normal(
    key: Any, shape: Any, dtype: Any = "float32", mean: Any = 0.0, scale: Any = 1.0
) -> TupleWrapper:
    """Return a new key, and numbers of a normal distribution."""
    return _draw("normal", key, shape, dtype, mean, scale)


@function("random.multinomial")
def multinomial(key: Any, probs: Any, num_samples: int) -> TupleWrapper:
    """Return a new key, and ``num_samples`` places drawn with the given probabilities."""
    call = make_call("random.multinomial", [key, probs], {"num_samples": num_samples})
    return TupleWrapper(call, 2)


globals().update(functions("random."))
