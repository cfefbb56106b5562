"""Writes `docs/coverage/relay_operators.md`: what is known of each of relay's operators.

    python tools/relay_operators.py                # the operators that the page lists, and new ones
    python tools/relay_operators.py --names LIST   # a list: lines `- L1 (54): acos, add, …`
    python tools/relay_operators.py --check        # write nothing, fail at a difference

What is true of an operator is tried on its example (`tools/relay_examples.py`): its type is
inferred, the graph that it means is lowered, a gradient is asked for.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilesmith.relay.operator_gradients
import tilesmith.relay.qnn.op  # noqa: F401 - declares operators
from tilesmith import relay
from tilesmith.ir import IRModule, Op
from tilesmith.relax.expr import Call as GraphCall
from tilesmith.relax.expr import Var as GraphVar
from tilesmith.relax.spec import Execution
from tilesmith.relax.transform import LegalizeOps
from tilesmith.relay.analysis import free_vars, post_order_visit
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.op.view import View
from tilesmith.relay.operator_gradients import operator_gradient
from tilesmith.relay.translate import to_relax
from tilesmith.support.errors import OpNotImplemented, TypeMismatchError

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generated_page import write_or_check
from relay_examples import EXAMPLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage" / "relay_operators.md"

_TUNERS = "a tuner that chooses layouts inserts it, and there is no tuning yet"
_NPU = "it is code for Arm's Ethos-U processor, whose compiler is not a part of Tilesmith"
_STREAMS = "it marks the parts of a program for VTA, which is not there yet"

MISSING: dict[str, str] = {
    **dict.fromkeys([f"contrib.ethosu.{name}" for name in (
        "binary_elementwise", "conv2d", "depthwise_conv2d", "identity", "pooling",
        "unary_elementwise")], _NPU),
    **dict.fromkeys(["auto_scheduler_layout_transform", "meta_schedule_layout_transform"], _TUNERS),
    **dict.fromkeys(["annotation.bitpack_start", "annotation.bitpack_end"], _STREAMS),
    "annotation.with_funcid": "it numbers functions for a tracer of other compilers",
    "call_lowered": "calls of kernels stand in the lowered graph of relax: call_tir",
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": "NNPACK is not linked",
    "nn.contrib_conv3d_winograd_without_weight_transform": (
        "three-dimensional convolutions are not computed by tiles: nn.conv3d"),
    "nn.internal.sparse_dense_padded": "it is the padded form of nn.sparse_dense for GPUs",
    "torch_op": "it calls a function of libtorch, which is not linked",
}  # fmt: skip
"""Why operators that users know are not there."""


@dataclass
class Facts:
    """What is known of an operator."""

    name: str
    level: int
    is_typed: bool
    meaning: str
    gradient: str
    is_lowered: bool
    is_evaluated: bool

    @property
    def row(self) -> str:
        """The line of the table."""
        words = [self.is_typed, self.meaning, self.gradient, self.is_lowered, self.is_evaluated]
        cells = [("no", "yes")[word] if isinstance(word, bool) else word for word in words]
        return f"| `{self.name}` | " + " | ".join(cells) + " |"


def example_call(name: str) -> Any:
    """Return the call of an operator in its example."""
    if name not in EXAMPLES:
        raise LookupError(f"give {name} an example in tools/relay_examples.py")
    calls: list[Any] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, GraphCall) and isinstance(expr.op, Op) and expr.op.name == name:
            calls.append(expr)

    post_order_visit(EXAMPLES[name](), visit)
    if not calls:
        raise LookupError(f"the example of {name} does not call it")
    return calls[-1]


def called(function: Any) -> list[Any]:
    """Return the operators that a function of relax calls."""
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    values.append(function.body.body)
    return [
        value.op for value in values if isinstance(value, GraphCall) and isinstance(value.op, Op)
    ]


def facts_of(name: str) -> Facts:
    """Try an operator on its example."""
    op = Op.get(name)
    call = infer_expr(example_call(name))
    if not op.spec.is_pure:
        meaning = "what it does to memory"
        return Facts(
            name, op.support_level, True, meaning, "no", is_lowered=False, is_evaluated=False
        )
    graph = to_relax(IRModule.from_expr(relay.Function(free_vars(call), call)))
    operators = called(graph["main"])
    names = list(dict.fromkeys([one.name for one in operators]))
    if op.spec.translate is None:
        meaning = "of its own"
    else:
        meaning = " ".join([f"`{one.removeprefix('relax.')}`" for one in names]) or "its operand"
    rest = called(LegalizeOps()(graph)["main"])
    return Facts(
        name,
        op.support_level,
        call.checked_type is not None,
        meaning,
        gradient_of(call),
        all(one.spec is not None and one.spec.execution is not Execution.KERNEL for one in rest),
        all(one.spec is None or one.spec.evaluate is not None for one in operators),
    )


def gradient_of(call: Any) -> str:
    """Return whether an operator has a gradient: "yes", "zero", or "no"."""
    infos = call._struct_info if call.struct_info is None else call.struct_info
    result = GraphVar("y", infos)
    fields = getattr(infos, "fields", None)
    grad: Any = GraphVar("g", infos) if fields is None else relay.Tuple(
        [GraphVar("g", info) for info in fields])  # fmt: skip
    try:
        found = operator_gradient(call, list(call.args), result, grad)
    except (OpNotImplemented, TypeMismatchError):
        return "no"
    return "yes" if any(one is not None for one in found) else "zero"


def names_of_list(path: Path) -> dict[str, int]:
    """Return the operators of a list, with their levels."""
    rows = re.findall(r"^- L(\d+) \(\d+\): (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip(): int(level) for level, names in rows for name in names.split(",")}


def names_of_page(text: str) -> dict[str, int]:
    """Return the operators that users know, with their levels, as the page lists them."""
    found: dict[str, int] = {}
    level = -1
    for line in text.splitlines():
        if line.startswith("## "):
            heading = re.fullmatch(r"## Level (\d+)", line)
            level = int(heading[1]) if heading else -1
        name = re.match(r"\| `([^`]+)` \|", line)
        if name is not None and level >= 0:
            found[name[1]] = level
        absent = re.match(r"- level (\d+): (.*)", line)
        if absent is not None:
            found.update({one: int(absent[1]) for one in re.findall("`([^`]+)`", absent[2])})
    return found


def counts(facts: Iterable[Facts]) -> list[int]:
    """Return how many operators there are, and of how many each thing is true."""
    given = list(facts)
    return [
        len(given),
        sum([one.is_typed for one in given]),
        sum([one.is_lowered for one in given]),
        sum([one.is_evaluated for one in given]),
        sum([one.gradient == "yes" for one in given]),
        sum([one.gradient == "zero" for one in given]),
    ]


HEAD = "| operator | typed | computed by | differentiable | lowered | in numpy |"


def table(facts: Iterable[Facts]) -> list[str]:
    """Return a table of operators."""
    return ["", HEAD, "|---|---|---|---|---|---|", *[one.row for one in facts]]


def page(known: dict[str, int]) -> str:
    """Return the text of the page."""
    views = sorted([name for name in Op.list_op_names() if isinstance(Op.get(name).spec, View)])
    facts = [facts_of(name) for name in views]
    listed = [one for one in facts if one.name in known]
    further = [one for one in facts if one.name not in known]
    absent = {name: level for name, level in known.items() if name not in views}
    lines = [
        "# Relay's operators", "",
        "Written by `tools/relay_operators.py`, which tries each operator on an example: its type"
        " is inferred,", "the graph that it means is lowered to tensor programs, its gradient is"
        " written. The column *computed by*", "names the operators of relax that a call stands"
        " for. A gradient is *zero* where an operator is constant", "almost everywhere or gives"
        " indices. Operators that act on memory are not lowered one by one:", "`ManifestAlloc`"
        " writes them, and programs that hold them compile.", "",
        "| level | known | there | typed | lowered | in numpy | differentiable | zero gradient |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    levels = sorted(set(known.values()))
    for level in levels:
        of_level = [one for one in listed if known[one.name] == level]
        numbers = [sum([one == level for one in known.values()]), *counts(of_level)]
        lines.append(f"| {level} | " + " | ".join([str(number) for number in numbers]) + " |")
    numbers = [len(known), *counts(listed)]
    lines.append("| all | " + " | ".join([str(number) for number in numbers]) + " |")
    numbers = counts(further)
    lines.append("| further | | " + " | ".join([str(number) for number in numbers]) + " |")
    for level in levels:
        of_level = [one for one in listed if known[one.name] == level]
        if of_level:
            lines += ["", f"## Level {level}", *table(of_level)]
    lines += ["", "## Further operators", *table(further)]
    return "\n".join([*lines, *absent_rows(absent)]) + "\n"


def absent_rows(absent: dict[str, int]) -> list[str]:
    """Return the names that are missing, by reason."""
    lines = ["", "## Operators that are not there"] if absent else []
    reasons: dict[str, list[str]] = {}
    for name in absent:
        reasons.setdefault(MISSING[name], []).append(name)
    for reason, names in reasons.items():
        lines += ["", f"Because {reason}:", ""]
        for level in sorted({absent[name] for name in names}):
            group = [f"`{name}`" for name in sorted(names) if absent[name] == level]
            lines.append(f"- level {level}: " + " ".join(group))
    return lines


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=Path, help="a list of operators; else those of the page")
    parser.add_argument("--check", action="store_true", help="write nothing, fail at a difference")
    options = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    stale = [name for name in MISSING if name in Op.list_op_names()]
    problems = f"MISSING has reasons for operators that are there: {', '.join(stale)}"
    known = names_of_page(old) if options.names is None else names_of_list(options.names)
    text = page(known)
    write_or_check(PAGE, text, check=options.check, problems=problems if stale else "")


if __name__ == "__main__":
    main()
