"""What ``tilesmith.compile(precision=…)`` was asked for; checked before the long work begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilesmith.support.errors import ConfigError

__all__ = ["PRECISIONS", "LowPrecision", "low_precision"]

PRECISIONS = {
    "bf16": "bfloat16", "bfloat16": "bfloat16", "float16": "float16", "fp16": "float16",
    "int8": "int8",
}  # fmt: skip
_METHODS = ("mse", "percentile", "kl_divergence", "max")


@dataclass(frozen=True)
class LowPrecision:
    """A precision below float32, and how it is reached."""

    dtype: str | None
    """The dtype of operands: "bfloat16", "float16", "int8"; None: as the model has them."""
    calibration: Iterable[Any] = ()
    method: str = "mse"
    is_forced: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What keys of the cache have to say."""
        return {} if self.dtype is None else {"precision": [self.dtype, self.is_forced]}


def low_precision(
    precision: str | None, calibration: Iterable[Any] | None, method: str, is_forced: bool
) -> LowPrecision:
    """Return the checked arguments of `tilesmith.compile` about precision."""
    if precision is not None and precision not in PRECISIONS:
        raise ConfigError(
            f"there is no precision {precision!r}",
            notes=("'bf16', 'fp16', 'int8', or None: as the model has it",),
        )
    if method not in _METHODS:
        raise ConfigError(
            f"there is no calibration method {method!r}", notes=(", ".join(_METHODS),)
        )
    dtype = None if precision is None else PRECISIONS[precision]
    if dtype == "int8" and calibration is None:
        raise ConfigError(
            "precision='int8' needs calibration data",
            notes=(
                "calibration=[{'image': array}, …]: 10 to 100 typical inputs, each a dictionary by "
                "name, a tuple, or one array",
                "a model that is quantised already (QDQ nodes) needs no precision",
            ),
        )
    if dtype != "int8" and calibration is not None:
        raise ConfigError(f"calibration is for precision='int8', not {precision!r}")
    if dtype is None and is_forced:
        raise ConfigError("force_precision without a precision", notes=("precision='bf16', …",))
    return LowPrecision(dtype, () if calibration is None else calibration, method, is_forced)
