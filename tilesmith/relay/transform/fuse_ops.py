"""FuseOps: puts operators that one kernel can compute into functions with ``Primitive=1``.

    nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b))
    ->  %0 = fn (%p0, %p1, %p2, Primitive=1) { nn.relu(nn.bias_add(nn.conv2d(%p0, %p1), %p2)) };
        %0(%x, %w, %b)

Which operators fuse is said by ``TOpPattern`` and the rule of relax's
`analysis/fusion_groups.py`. Each operator that fuses with no other gets a function of its own.
LabelOps gives each of these functions a name that equal ones share.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op, structural_hash
from tilesmith.ir.transform import PassContext
from tilesmith.relax.analysis.fusion_groups import FusionNode, group
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.patterns import pattern_of
from tilesmith.relay.options import FUSED_CALLS, LINK_PARAMS
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts
from tilesmith.support.fallbacks import fallbacks_within, record_fallback

__all__ = ["FuseOps", "LabelOps"]

_RESHAPES = ("reshape", "contrib_reverse_reshape", "reshape_like", "squeeze", "expand_dims")


def _is_open(node: Any) -> bool:
    return not is_closed(node)


def _operands(node: Any) -> list[Any]:
    """Return the operands of an operator, with the fields of tuples instead of the tuples."""
    found, pending = [], list(reversed(node.args if isinstance(node, Call) else parts(node)))
    while pending:
        one = pending.pop()
        if isinstance(one, Tuple):
            pending.extend(reversed(one.fields))
        else:
            found.append(one)
    return found


def _kind(node: Any) -> FusionKind | None:
    """Return how a node fuses; None for one that is no operator and no field of a result."""
    if isinstance(node, TupleGetItem):
        return FusionKind.INJECTIVE
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    if node.op.spec is not None and not node.op.spec.is_pure:
        return None
    if node.op.name == "annotation.stop_fusion":
        return None
    return pattern_of(node.op)


class _Graph:
    """The operators of a function as a graph, with their groups."""

    def __init__(self, function: Function, max_depth: int) -> None:
        self.order = list(post_order(function.body, _is_open))
        self.scopes = Scopes(function.body).of
        self.max_depth = max_depth
        self.of: dict[int, FusionNode] = {}
        self.nodes: list[FusionNode] = []
        for node in self.order:
            kind = _kind(node)
            if kind is None:
                self._escape(node)
                continue
            if isinstance(node, TupleGetItem):
                kind = self._kind_of_field(node)
            made = FusionNode(len(self.nodes), node, kind)
            for operand in dict.fromkeys(_operands(node)):
                source = self.of.get(id(operand))
                if source is not None:
                    self._use(source, made)
            self.nodes.append(made)
            self.of[id(node)] = made
        root = self.of.get(id(function.body))
        if root is not None:
            root.escapes = True
        self._close_tuples()

    def _escape(self, node: Any) -> None:
        """Note that what a node is made of is seen outside of groups. Tuples are asked where they
        are used: operators take them apart.
        """
        if isinstance(node, Tuple):
            return
        for part in parts(node):
            for one in _operands(part) if isinstance(part, Tuple) else (part,):
                if id(one) in self.of:
                    self.of[id(one)].escapes = True

    def _use(self, source: FusionNode, user: FusionNode) -> None:
        if self.scopes[id(source.value)] != self.scopes[id(user.value)]:
            source.escapes = True
            return
        source.users.append((user, _edge(source.value, user)))

    def _kind_of_field(self, item: TupleGetItem) -> FusionKind:
        source = self.of.get(id(item.tuple_value))
        fuses = source is not None and source.kind <= FusionKind.INJECTIVE
        return FusionKind.INJECTIVE if fuses else FusionKind.OPAQUE

    def _close_tuples(self) -> None:
        """Operators with several results fuse only where all users take fields."""
        for node in self.nodes:
            if isinstance(node.value.checked_type, TensorType):
                continue
            fields_only = all(isinstance(user.value, TupleGetItem) for user, _ in node.users)
            if node.kind > FusionKind.INJECTIVE or node.escapes or not fields_only:
                node.kind = node.group_kind = FusionKind.OPAQUE
                for user, _ in node.users:
                    if isinstance(user.value, TupleGetItem):
                        user.kind = user.group_kind = FusionKind.OPAQUE

    def groups(self) -> dict[int, list[Any]]:
        """Return the members of each group, by the ``id`` of its last one. Fields of a tuple that
        is made outside of a group are outside, too.
        """
        if self.max_depth <= 1:
            return {id(node.value): [node.value] for node in self.nodes}
        found: dict[int, list[Any]] = {}
        for members in group(self.nodes, self.max_depth, self._refused):
            own = {id(one.value) for one in members}
            kept = [
                one.value
                for one in members
                if not isinstance(one.value, TupleGetItem) or id(one.value.tuple_value) in own
            ]
            if kept:
                found[id(kept[-1])] = kept
        return found

    def _refused(self, node: FusionNode) -> None:
        reason = f"more than {self.max_depth} calls in one function ({FUSED_CALLS})"
        record_fallback("fusion", f"value {node.index} of the function", reason)


def _edge(source: Any, user: FusionNode) -> FusionKind:
    """Return the kind of a use: what broadcasts may still read this value element by element."""
    if user.kind != FusionKind.BROADCAST:
        return user.kind
    given, result = source.checked_type, user.value.checked_type
    is_whole = isinstance(given, TensorType) and list(given.shape) == list(result.shape)
    return FusionKind.ELEMWISE if is_whole else user.kind


class _Builder:
    """Makes the function of one group and the call of it."""

    def __init__(self, members: list[Any], outside: dict[int, Any], link_params: bool) -> None:
        self.members = members
        self.outside = outside
        self.link_params = link_params
        self.inside: dict[int, Any] = {}
        self.params: list[Any] = []
        self.args: list[Any] = []

    def call(self) -> Any:
        """Return the call that takes the place of the group."""
        for member in self.members:
            self.inside[id(member)] = self._rebuilt(member)
        last = self.members[-1]
        operators = [one.op.name for one in self.members if isinstance(one, Call)]
        if not operators:
            return with_parts(last, [self.outside[id(last.tuple_value)]])
        attrs = {"Primitive": 1}
        if all(name in _RESHAPES for name in operators):
            attrs["relay.reshape_only"] = 1
        made = Function(self.params, self.inside[id(last)], last.checked_type, attrs=attrs)
        return Call(made, self.args, span=last.span)

    def _rebuilt(self, member: Any) -> Any:
        if isinstance(member, TupleGetItem):
            return with_parts(member, [self._inner(member.tuple_value)])
        return with_parts(member, [member.op, *[self._inner(arg) for arg in member.args]])

    def _inner(self, operand: Any) -> Any:
        known = self.inside.get(id(operand))
        if known is not None:
            return known
        if isinstance(operand, Tuple):
            made: Any = with_parts(operand, [self._inner(field) for field in operand.fields])
        elif isinstance(operand, Constant) and (self.link_params or not operand.data.shape):
            made = operand
        else:
            made = var(f"p{len(self.params)}", operand.checked_type)
            self.params.append(made)
            self.args.append(self.outside[id(operand)])
        self.inside[id(operand)] = made
        return made


def _fused(function: Function, max_depth: int, link_params: bool) -> Function:
    graph = _Graph(function, max_depth)
    groups = graph.groups()
    hidden = {id(one) for members in groups.values() for one in members[:-1]}
    done: dict[int, Any] = {}
    for node in graph.order:
        if id(node) in hidden:
            continue
        if id(node) in groups:
            done[id(node)] = _Builder(groups[id(node)], done, link_params).call()
            continue
        if is_closed(node):
            done[id(node)] = node
            continue
        own = parts(node)
        if any(id(part) not in done for part in own):  # a tuple that is seen inside of groups only
            continue
        made = with_parts(node, [done[id(part)] for part in own])
        is_barrier = isinstance(made, Call) and made.op is Op.get("annotation.stop_fusion")
        done[id(node)] = made.args[0] if is_barrier else made
    return with_parts(function, (done[id(function.body)],))  # type: ignore[no-any-return]


@relay_pass("FuseOps", 0, ["InferType"])
def FuseOps(mod: IRModule, fuse_opt_level: int = -1) -> IRModule:
    """Put operators that one kernel can compute into functions with ``Primitive=1``.

    ``fuse_opt_level`` 0 puts each operator into a function of its own; -1 takes the ``opt_level``
    of the context. The options ``relay.FuseOps.max_depth`` and ``relay.FuseOps.link_params`` of the
    context bound the size of a function, and keep constants inside.
    """
    context = PassContext.current()
    level = context.opt_level if fuse_opt_level == -1 else fuse_opt_level
    max_depth = context.get_config(FUSED_CALLS) if level > 0 else 1
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            with fallbacks_within(variable.name_hint):
                mod[variable] = _fused(function, max_depth, context.get_config(LINK_PARAMS))
    return mod


@relay_pass("LabelOps", 1)
def LabelOps(mod: IRModule) -> IRModule:
    """Give each primitive function the attribute ``hash``, which equal functions share."""

    def labelled(node: Any) -> Any:
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            plain = Function(node.params, node.body, node.ret_type, node.type_params)
            return node.with_attr("hash", f"{structural_hash(plain) & (2**64 - 1):016x}")
        return node

    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, labelled)
    return mod
