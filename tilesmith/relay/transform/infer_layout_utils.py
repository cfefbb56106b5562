"""``relay.transform.infer_layout_utils``: what an operator says about layouts."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.node import Node, data

__all__ = ["InferCorrectLayoutOutput"]


class InferCorrectLayoutOutput(Node, key="relay._transform.InferCorrectLayoutOutput"):
    """The layouts that an operator wants of its operands and gives to its results, and the
    attributes with which it then is called: the result of ``FInferCorrectLayout``.
    """

    input_layouts: tuple[Any, ...] = data(convert=tuple)
    output_layouts: tuple[Any, ...] = data(convert=tuple)
    new_attrs: Any = data(default=None)
