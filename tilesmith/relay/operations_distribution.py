"""Where the operators of a program that was divided among compilers run.

analyze_operations_distribution(partitioned)
# {"conv1": ["dnnl", "dnnl.conv2d_relu", 1], "relu1": ["dnnl", "dnnl.conv2d_relu", 1], …}
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.dataflow_groups import is_grouped
from tilesmith.relay.expr import Call
from tilesmith.relay.function import Function
from tilesmith.relay.walks import functions_of, post_order

__all__ = ["AnalyzeOperationsDistribution", "analyze_operations_distribution"]

GENERIC = "generic"
"""The compiler of what no external compiler takes."""


class AnalyzeOperationsDistribution:
    """Collects in ``unique_op_ids``, for calls of operators, the compiler, the function and its
    number.

    The key is the name that the call's span gives, else that of the operator; names that come again
    get a number. The function is what one compiler takes as a whole: a composite one, or the
    operator; calls in the same one have the same number.
    """

    def __init__(self) -> None:
        self.unique_op_ids: dict[str, list[Any]] = {}
        self.compiler_name = GENERIC
        self.func_name = ""  # that of the composite function that is being looked at
        self.func_id = 0
        self._counts: dict[str, int] = {}

    def extract(self, call: Function) -> None:
        """Collect the operators that a function calls."""
        before = self.compiler_name, self.func_name
        self.compiler_name = str(call.attrs.get("Compiler", self.compiler_name))
        composite = call.attrs.get("Composite")
        if composite and not self.func_name:
            self.func_name = str(composite)
            self.func_id += 1
        for node in post_order(call.body, lambda one: not is_grouped(one)):
            if isinstance(node, Call):
                self.visit_call(node)
        self.compiler_name, self.func_name = before

    def visit_call(self, call: Call) -> None:
        """Collect a call of an operator, or what the function made of a match calls."""
        if is_grouped(call.op):
            self.extract(call.op)
        elif isinstance(call.op, Op):
            if not self.func_name:
                self.func_id += 1
            name = _source_of(call) or call.op.name
            count = self._counts[name] = self._counts.get(name, 0) + 1
            key = name if count == 1 else f"{name}#{count}"
            self.unique_op_ids[key] = [
                self.compiler_name, self.func_name or call.op.name, self.func_id
            ]  # fmt: skip


def _source_of(call: Call) -> str | None:
    source = getattr(call.span, "source_name", None)
    return None if source is None else str(getattr(source, "name", source))


def analyze_operations_distribution(mod: IRModule) -> dict[str, list[Any]]:
    """Return, for each call of an operator in a module, ``[compiler, function, number]``: see
    `AnalyzeOperationsDistribution`. The compiler "generic" is Tilesmith itself.
    """
    collector = AnalyzeOperationsDistribution()
    for _, function in functions_of(mod):
        collector.extract(function)
    return collector.unique_op_ids
