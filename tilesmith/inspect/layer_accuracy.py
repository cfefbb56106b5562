"""``inspect.accuracy``: how well a model in low precision agrees with float32, layer by layer."""

from __future__ import annotations

from typing import Any

from tilesmith.driver.low_precision import AccuracyReport
from tilesmith.driver.model import compile as compile_model

__all__ = ["accuracy"]


def accuracy(
    model: Any, inputs: Any, precision: str, target: Any = "llvm", **options: Any
) -> AccuracyReport:
    """Return how well each product and convolution of a model in a precision ("bf16", "fp16",
    "int8") agrees with float32 on inputs, the worst first; ``print`` shows a table.

    ``model`` and ``options`` (``calibration``, ``params``, …) are those of ``tilesmith.compile``;
    ``inputs`` are those of one run, or a list of such: dictionaries by name, or tuples.
    """
    compiled = compile_model(
        model, target, precision=precision, cache=False, **{"force_precision": True, **options}
    )
    report: AccuracyReport = compiled.accuracy_report(inputs)
    return report
