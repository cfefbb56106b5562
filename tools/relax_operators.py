"""Writes `docs/coverage/relax_operators.md`: what is known of each operator of graphs.

    python tools/relax_operators.py            # write the page
    python tools/relax_operators.py --check    # write nothing, fail at a difference

Arguments, attributes, the evaluation in numpy, gradients and precision are read in the operator's
record. Inference, lowering and fusion are tried on a call: one that relay's examples stand for
(`tools/relay_examples.py`), or one of `tools/relax_examples.py`.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilesmith.relax.op as operators
from tilesmith import relax, relay
from tilesmith.ir import IntImm, IRModule, Op, Var
from tilesmith.relax import BlockBuilder, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.analysis import FusionKind, tir_op_pattern
from tilesmith.relax.spec import Execution, OpSpec, no_gradient
from tilesmith.relax.transform import LegalizeOps
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.translate import to_relax
from tilesmith.support.errors import TilesmithError
from tilesmith.tir import PrimFunc

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generated_page import write_or_check
from relax_examples import EXAMPLES
from relay_examples import EXAMPLES as RELAY_EXAMPLES
from relay_operators import called, example_call

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage" / "relax_operators.md"


@dataclass
class Facts:
    """What is known of an operator, as the cells of its row."""

    name: str
    arguments: str
    symbolic: str
    lowered: str
    fusion: str
    numpy: str
    gradient: str
    precision: str

    @property
    def row(self) -> str:
        """The line of the table."""
        cells = [self.arguments, self.symbolic, self.lowered, self.fusion, self.numpy,
                 self.gradient, self.precision]  # fmt: skip
        return f"| `{self.name}` | " + " | ".join(cells) + " |"


def records() -> list[OpSpec]:
    """Return the records of all operators, by name."""
    for module in pkgutil.iter_modules(operators.__path__):
        importlib.import_module(f"{operators.__name__}.{module.name}")
    specs = [Op.get(name).spec for name in Op.list_op_names() if name.startswith("relax.")]
    return sorted([one for one in specs if isinstance(one, OpSpec)], key=lambda one: one.name)


def example_calls() -> dict[str, Any]:
    """Return a call of each operator that has an example."""
    found: dict[str, Any] = {}
    for name in RELAY_EXAMPLES:
        if not Op.get(name).spec.is_pure:
            continue
        call = infer_expr(example_call(name))
        graph = to_relax(IRModule.from_expr(relay.Function(free_vars(call), call)))["main"]
        for block in graph.body.blocks:
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, relax.Call) and isinstance(value.op, Op):
                    found.setdefault(value.op.name, value)
    for name, make in EXAMPLES.items():
        found[name] = make()
    return found


def facts_of(spec: OpSpec, call: Any) -> Facts:
    """Return what is known of an operator; ``call`` is an example, or None."""
    lowered, fusion = _lowered(spec, call)
    gradient = "yes" if spec.gradient is not None else "no"
    return Facts(
        spec.name.removeprefix("relax."),
        _arguments(spec),
        "" if call is None or lowered in ("stays", "on the host") else _symbolic(call),
        lowered,
        fusion,
        "yes" if spec.evaluate is not None else "no",
        "zero" if spec.gradient is no_gradient else gradient,
        spec.precision.name.lower(),
    )


def _arguments(spec: OpSpec) -> str:
    names = [one.name + ("?" if one.is_optional else "") for one in spec.arguments]
    attributes = list(spec.schema.fields) if spec.schema is not None else []
    return ", ".join([f"*{name}*" for name in names] + [f"`{name}`" for name in attributes])


def _lowered(spec: OpSpec, call: Any) -> tuple[str, str]:
    """Return what an operator becomes, and the kinds of fusion of its kernels."""
    if spec.view_of is not None:
        return "a view", ""
    if spec.execution is Execution.HOST:
        return "on the host", ""
    if spec.execution is not Execution.KERNEL:
        return "stays", ""
    if spec.is_identity:
        return "its operand", ""
    if call is None:
        raise LookupError(f"give {spec.name} an example in tools/relax_examples.py")
    module = LegalizeOps()(_module(call))
    rest = [one.name for one in called(module["main"])]
    if spec.name in rest:
        return "no", ""
    kinds = [tir_op_pattern(one) for one in module.functions.values() if isinstance(one, PrimFunc)]
    words = dict.fromkeys([FusionKind(kind).name.lower().replace("_", " ") for kind in kinds])
    if not kinds:
        return "other operators", ""
    return ("a kernel" if len(kinds) == 1 else f"{len(kinds)} kernels"), ", ".join(words)


def _module(call: Any) -> IRModule:
    """Return a module whose `main` is one call."""
    params: list[Any] = []
    fresh = _with_arguments(call, lambda info: info, params)
    builder = BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(fresh))
    return builder.get()


def _with_arguments(call: Any, change: Any, params: list[Any]) -> Any:
    """Return a call with new variables, whose types are changed, for all that is computed."""

    def argument(expr: Any) -> Any:
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([argument(one) for one in expr.fields])
        if not isinstance(expr, (relax.Var, relax.Constant)):
            return expr  # shapes and numbers
        if isinstance(expr, relax.Constant) and expr.struct_info.ndim == 0:
            return expr
        params.append(relax.Var(f"x{len(params)}", change(expr.struct_info)))
        return params[-1]

    return relax.Call(call.op, [argument(one) for one in call.args], call.attrs, call.sinfo_args)


def _symbolic(call: Any) -> str:
    """Return whether the sizes of a result are inferred where all sizes of the operands are
    symbolic; "" where no operand is a tensor with sizes.
    """
    sizes: dict[int, Var] = {}

    def extent(size: Any) -> Any:
        if not isinstance(size, IntImm) or size.value < 2:
            return size
        return sizes.setdefault(size.value, Var(f"n{size.value}", "int64"))

    def change(info: Any) -> Any:
        if isinstance(info, TupleStructInfo):
            return TupleStructInfo([change(one) for one in info.fields])
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            return info
        return TensorStructInfo([extent(size) for size in info.shape.values], info.dtype)

    made = _with_arguments(call, change, [])
    if not sizes:
        return ""
    try:
        return "yes" if _is_known(BlockBuilder().normalize(made).struct_info) else "rank"
    except TilesmithError:
        return "no"


def _is_known(info: Any) -> bool:
    """Return whether the sizes of all tensors of a type are known as expressions."""
    if isinstance(info, TupleStructInfo):
        return all(_is_known(one) for one in info.fields)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return not isinstance(info, TensorStructInfo) or info.shape is not None


HEAD = (
    "| operator | *arguments*, `attributes` | symbolic sizes | becomes | fusion | in numpy | "
    "gradient | narrow floats |"
)


def page() -> str:
    """Return the text of the page."""
    calls = example_calls()
    facts = [facts_of(spec, calls.get(spec.name)) for spec in records()]
    groups: dict[str, list[Facts]] = {}
    for one in facts:
        groups.setdefault(one.name.partition(".")[0] if "." in one.name else "", []).append(one)
    kernels = sum(["kernel" in one.lowered for one in facts])
    lines = [
        "# Operators of graphs", "",
        "Written by `tools/relax_operators.py` from the operators' records. What a call becomes,"
        " and how its", "sizes are inferred, is tried on an example.", "",
        "- *symbolic sizes*: the sizes of the result are inferred as expressions where those of the"
        " operands are", "  symbolic; *rank*: only the number of axes is, because sizes depend on"
        " data.",
        "- *becomes*: kernels of LegalizeOps, a view of the operand, a step on the host; *stays*:"
        " the executor", "  or a pass knows it; *other operators*: it is decomposed.",
        "- *fusion*: the kind of its kernels, by which FuseOps joins them.",
        "- *gradient*: *zero* where an operator is constant almost everywhere or gives indices.",
        "- *narrow floats*: what ToMixedPrecision does: *always* (it gains from them), *follow* (as"
        " narrow as the", "  inputs), *never*, *any* (it takes what it is given).", "",
        f"There are {len(facts)} operators; {kernels} become kernels,"
        f" {sum([one.numpy == 'yes' for one in facts])} are evaluated in numpy,"
        f" {sum([one.gradient == 'yes' for one in facts])} have a", "gradient and"
        f" {sum([one.gradient == 'zero' for one in facts])} a zero one;"
        f" {sum([one.symbolic == 'yes' for one in facts])} infer all sizes from symbolic"
        " ones.",
    ]  # fmt: skip
    for name in sorted(groups):
        lines += ["", f"## {name or 'Common'}", "", HEAD, "|" + "---|" * 8]
        lines += [one.row for one in groups[name]]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail at a difference")
    write_or_check(PAGE, page(), check=parser.parse_args().check)


if __name__ == "__main__":
    main()
