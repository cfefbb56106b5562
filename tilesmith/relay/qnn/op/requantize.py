"""Requantisation: integers of one scale and zero point to those of another, and its defaults.

With ``compute_dtype="int64"`` the ratio of the scales is a number of 31 bits and a shift, and the
arithmetic is exact in 64 bits (Jacob et al., 2017). With a float dtype the product is rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, dtype, integer, text
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.op.qdq import ROUNDINGS
from tilesmith.relay.op.view import define, make_call, rank_of
from tilesmith.relay.qnn.op.parameters import (
    SCALE,
    ZERO_POINT,
    along,
    centred,
    check_dtype,
    check_parameters,
    constant_of,
    fixed_point,
    parameter,
    raw,
    saturated,
    sizes_along,
)
from tilesmith.support.errors import ConfigError, OpAttributeInvalid
from tilesmith.support.scopes import Scoped

__all__ = [
    "RequantizeConfig", "current_requantize_config", "requantize", "requantize_config", "rescaled",
]  # fmt: skip

_COMPUTE_DTYPES = ("int64", "float32", "float64")


class RequantizeConfig(Scoped):
    """What requantisations do that do not state it: ``with requantize_config(rounding=...)``."""

    def __init__(self, rounding: str = "UPWARD", compute_dtype: str = "int64") -> None:
        for value, known in ((rounding, ROUNDINGS), (compute_dtype, _COMPUTE_DTYPES)):
            if value not in known:
                raise ConfigError(
                    f"requantize_config: '{value}' is not known", notes=(f"known: {known}",)
                )
        self.rounding = rounding
        self.compute_dtype = compute_dtype

    @classmethod
    def current(cls) -> RequantizeConfig:
        """Return the configuration that was entered last, or the defaults."""
        return cls.innermost() or _DEFAULTS


_DEFAULTS = RequantizeConfig()


def current_requantize_config() -> RequantizeConfig:
    """Return the configuration in force."""
    return RequantizeConfig.current()


def requantize_config(**kwargs: Any) -> RequantizeConfig:
    """Return a configuration, to be entered by ``with``: ``rounding`` is "UPWARD" or "TONEAREST",
    ``compute_dtype`` "int64", "float32" or "float64".
    """
    unknown = [name for name in kwargs if name not in ("rounding", "compute_dtype")]
    if unknown:
        raise ConfigError(
            f"requantize_config has no field '{unknown[0]}'",
            notes=("its fields are rounding and compute_dtype",),
        )
    return RequantizeConfig(**kwargs)


def rescaled(
    data: Any,
    factor: Any,
    in_point: Any,
    out_point: Any,
    *,
    axis: int = -1,
    out_dtype: Any = "int32",
    rounding: str = "None",
    compute_dtype: str = "None",
) -> Any:
    """Return ``clamp(round((data - in_point) * factor) + out_point)`` of integers.

    ``factor`` is an array of real factors, one or one by place along ``axis``, or an expression,
    which is computed with in floats. Points are constants or expressions.
    """
    config = current_requantize_config()
    rounding = config.rounding if rounding in ("None", "") else rounding
    compute = config.compute_dtype if compute_dtype in ("None", "") else compute_dtype
    if rounding not in ROUNDINGS or compute not in _COMPUTE_DTYPES:
        raise OpAttributeInvalid(
            f"requantisation rounds {ROUNDINGS} in {_COMPUTE_DTYPES}, not {rounding} in {compute}"
        )
    rank = rank_of(data)
    is_known = not isinstance(factor, RelaxExpr)
    if compute == "int64" and is_known:
        fixed = [along(part, rank, axis) for part in fixed_point(factor)]
        points = [along(point, rank, axis) for point in (in_point, out_point)]
        multiplier, shift, *ends = [
            one if isinstance(one, RelaxExpr) else raw(one) for one in (*fixed, *points)
        ]
        return relax.fixed_point_requantize(
            data, multiplier, shift, ends[0], ends[1], rounding=rounding, out_dtype=out_dtype
        )
    compute = "float64" if compute == "int64" else compute
    real = relax.astype(centred(data, in_point, axis), compute)
    scale = along(factor, rank, axis)
    scale = relax.astype(scale, compute) if not is_known else raw(scale.astype(compute))
    moved = _rounded(relax.multiply(real, scale), rounding, compute)
    if str(out_dtype) == "int32":  # float32 has no number that is the greatest int32
        moved = relax.astype(moved, "float64")
    wide = relax.astype(relax.clip(moved, -(2.0**31), 2.0**31 - 1), "int64")
    point = along(out_point, rank, axis)
    point = (
        relax.astype(point, "int64") if isinstance(point, RelaxExpr) else raw(point.astype("int64"))
    )
    return saturated(relax.add(wide, point), out_dtype)


def _rounded(value: Any, rounding: str, compute: str) -> Any:
    half = raw(numpy.asarray(0.5, compute))
    if rounding == "UPWARD":
        return relax.floor(relax.add(value, half))
    return relax.multiply(relax.sign(value), relax.floor(relax.add(relax.abs(value), half)))


def ratio(over: Any, under: Any) -> Any:
    """Return the quotient of two scales in float64: an array if both are constants."""
    above, below = constant_of(over), constant_of(under)
    if above is not None and below is not None:
        return numpy.asarray(above.astype("float64") / below.astype("float64"))
    return relax.divide(relax.astype(over, "float64"), relax.astype(under, "float64"))


def _requantize(
    attrs: Any, data: Any, in_scale: Any, in_point: Any, out_scale: Any, out_point: Any
) -> Any:
    name = "qnn.requantize"
    check_dtype(name, "data", data, "int8", "uint8", "int16", "int32", "int64")
    channels = sizes_along(data, attrs.axis)
    check_parameters(name, channels, input_scale=in_scale, input_zero_point=in_point)
    check_parameters(name, None, output_scale=out_scale, output_zero_point=out_point)
    return rescaled(
        data,
        ratio(in_scale, out_scale),
        in_point,
        out_point,
        axis=attrs.axis,
        out_dtype=attrs.out_dtype,
        rounding=attrs.rounding,
        compute_dtype=attrs.compute_dtype,
    )


define(
    "qnn.requantize",
    "data input_scale input_zero_point output_scale output_zero_point",
    _requantize,
    level=11,
    schema=Schema(
        axis=integer(-1),
        rounding=text("None"),
        compute_dtype=text("None"),
        out_dtype=dtype("int8"),
    ),
    description="Integers of one scale and zero point as those of another.",
)


def requantize(
    data: Any,
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Any:
    """Return the integers that stand for the same numbers with another scale and zero point.

    ``round((data - input_zero_point) * input_scale / output_scale) + output_zero_point``, within
    the range of ``out_dtype``. Input parameters may have one value for each place along ``axis``.
    ``rounding``: halves go up ("UPWARD") or away from zero ("TONEAREST"). Scales that are no
    constants are computed with in float64 where ``compute_dtype`` is "int64". "None" is what
    `requantize_config` says.
    """
    operands = [
        data,
        parameter(input_scale, SCALE),
        parameter(input_zero_point, ZERO_POINT),
        parameter(output_scale, SCALE),
        parameter(output_zero_point, ZERO_POINT),
    ]
    attributes = {
        "axis": axis,
        "rounding": rounding,
        "compute_dtype": compute_dtype,
        "out_dtype": out_dtype,
    }
    return make_call("qnn.requantize", operands, attributes)
