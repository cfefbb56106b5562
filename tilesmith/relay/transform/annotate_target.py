"""AnnotateTarget: marks the calls that external compilers take by compiler_begin, compiler_end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.dataflow_groups import is_grouped
from tilesmith.relay.expr import Call, Let, Tuple, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.annotation.annotation import compiler_begin, compiler_end
from tilesmith.relay.op.contrib.register import PATTERN_TABLES
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts
from tilesmith.support.errors import TypeMismatchError

__all__ = ["AnnotateTarget", "BEGIN", "END", "is_annotation"]

BEGIN, END = "annotation.compiler_begin", "annotation.compiler_end"


def is_annotation(expr: Any, name: str) -> bool:
    """Return whether an expression is a call of `BEGIN` or `END`."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == name


@relay_pass("AnnotateTarget")
def AnnotateTarget(
    mod: IRModule, targets: str | Sequence[str], include_non_call_ops: bool = True
) -> IRModule:
    """Mark the calls that external compilers take, each as a region of its own.

    A compiler takes a call of an operator if the operator's attribute ``target.NAME`` says so:
    ``register_op_attr("nn.dense", "target.NAME", lambda call: True)``; and a call of a function
    whose attribute ``Composite`` begins with ``NAME.``. Of several targets the one that made the
    operands goes first, then the order of ``targets``. With ``include_non_call_ops`` the field of
    a result belongs to the compiler that made it.
    """
    names = [targets] if isinstance(targets, str) else [str(one) for one in targets]
    if not names:
        raise TypeMismatchError("AnnotateTarget needs the name of a target")
    for name in names:
        PATTERN_TABLES.get(name, None)  # loads what says which operators it takes
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_grouped(function):
            mod[variable] = _Annotator(names, include_non_call_ops).run(function)
    return infer_module(mod)


class _Annotator:
    def __init__(self, targets: list[str], with_fields: bool) -> None:
        self.targets = targets
        self.with_fields = with_fields
        self.chosen: dict[int, str] = {}  # by the id of the node as it was
        self.done: dict[int, Any] = {}

    def run(self, function: Function) -> Function:
        """Return the function with annotations."""
        for node in post_order(function, lambda one: not is_grouped(one)):
            self.done[id(node)] = self._annotated(node)
        made: Function = self.done[id(function)]
        return made

    def _annotated(self, node: Any) -> Any:
        if is_grouped(node):
            return node
        if isinstance(node, Let) and id(node.value) in self.chosen:
            self.chosen[id(node.var)] = self.chosen[id(node.value)]
        target = self._target(node)
        if target is None:
            return with_parts(node, [self.done[id(part)] for part in parts(node)])
        self.chosen[id(node)] = target
        new = [self._argument(part, target) for part in parts(node)]
        return compiler_end(with_parts(node, new), target)

    def _argument(self, part: Any, target: str) -> Any:
        if isinstance(part, (Op, Function)):
            return part
        if isinstance(part, Tuple):  # its fields enter one by one: what is given are tensors
            return with_parts(part, [compiler_begin(self.done[id(f)], target) for f in part.fields])
        return compiler_begin(self.done[id(part)], target)

    def _target(self, node: Any) -> str | None:
        """Return the compiler that takes a node, or None."""
        if isinstance(node, TupleGetItem):
            return self.chosen.get(id(node.tuple_value)) if self.with_fields else None
        if not isinstance(node, Call):
            return None
        accepts = self._acceptance(node)
        operands = [
            one for arg in node.args for one in (arg.fields if isinstance(arg, Tuple) else (arg,))
        ]
        before = [self.chosen[id(one)] for one in operands if id(one) in self.chosen]
        for target in dict.fromkeys([*before, *self.targets]):
            if accepts(target):
                return target
        return None

    @staticmethod
    def _acceptance(call: Call) -> Callable[[str], bool]:
        op: Any = call.op
        if isinstance(op, Function):
            composite = str(op.attrs.get("Composite", ""))
            return lambda target: composite.split(".")[0] == target
        if not isinstance(op, Op) or op.name in (BEGIN, END):
            return lambda target: False

        def accepts(target: str) -> bool:
            predicate = op.get_attr("target." + target)
            return predicate is not None and bool(predicate(call))

        return accepts
