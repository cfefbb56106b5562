"""FuseOps: groups neighbouring calls of PrimFuncs into sub-functions marked ``Primitive``.

    lv = R.call_tir(cls.conv2d, (x, w), …)
    lv1 = R.call_tir(cls.add, (lv, b), …)      ->    lv2 = cls.fused_conv2d_add_relu(x, w, b)
    lv2 = R.call_tir(cls.relu, (lv1,), …)

Which values fuse is the rule of `analysis/fusion_groups.py`. A call with several results (`split`)
fuses together with the accesses to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, SequentialSpan
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.analysis.copied_operands import copies_narrow_operand
from tilesmith.relax.analysis.fusion_groups import (
    FusionNode,
    group,
    members_of_groups,
    merge,
    widen_where_read,
)
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relax.base import FUSED_PREFIX
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import definable_symbolic_vars, prove_equal_shapes, symbolic_vars
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tilesmith.relax.transform.options import FUSED_CALLS
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.tir import PrimFunc

_CALLS = (operators.call_tir.op, operators.call_tir_inplace.op)


class _Graph:
    """The calls of one dataflow block, with their groups."""

    def __init__(self, block: DataflowBlock, mod: IRModule, max_depth: int) -> None:
        self.mod = mod
        self.max_depth = max_depth
        self.nodes: list[FusionNode] = []
        self.of: dict[Var, FusionNode] = {}
        self.items_only = _taken_apart(block)
        self.overwritten = _overwritten(block)
        for index, binding in enumerate(block.bindings):
            uses = list(dict.fromkeys(used_vars(binding.value)))
            escapes = not isinstance(binding.var, DataflowVar)
            node = FusionNode(index, binding, self._kind(binding, uses), escapes)
            for var in uses:
                source = self.of.get(var)
                if source is not None:
                    source.users.append((node, self._edge(var, node)))
            self.nodes.append(node)
            self.of[binding.var] = node

    def _kind(self, binding: Binding, uses: list[Var]) -> FusionKind:
        value: Any = binding.value
        if isinstance(value, TupleGetItem):
            source = self.of.get(value.tuple_value)
            fuses = source is not None and source.kind <= FusionKind.INJECTIVE
            return FusionKind.INJECTIVE if fuses else FusionKind.OPAQUE
        if not (isinstance(binding, VarBinding) and isinstance(value, Call)):
            return FusionKind.OPAQUE
        if value.op not in _CALLS or not isinstance(value.args[0], GlobalVar):
            return FusionKind.OPAQUE
        function = self.mod.functions.get(value.args[0])
        if not isinstance(function, PrimFunc) or not isinstance(value.args[1], Tuple):
            return FusionKind.OPAQUE
        if any(self.overwritten.get(var, binding) is not binding for var in uses):
            return FusionKind.OPAQUE  # it reads what a call overwrites: it must not move behind it
        kind = FusionKind(function.attrs.get("op_pattern", FusionKind.OPAQUE))
        if not isinstance(known_struct_info(binding.var), TensorStructInfo):
            if kind > FusionKind.INJECTIVE or binding.var not in self.items_only:
                return FusionKind.OPAQUE
        return kind

    def _edge(self, var: Var, user: FusionNode) -> FusionKind:
        """Return the kind of a use: an operator that broadcasts may still read this value
        elementwise.
        """
        if user.kind != FusionKind.BROADCAST:
            return user.kind
        source, result = known_struct_info(var), known_struct_info(user.value.var)
        if not isinstance(result, TensorStructInfo):
            return user.kind
        if isinstance(source.shape, ShapeExpr) and isinstance(result.shape, ShapeExpr):
            if prove_equal_shapes(source.shape, result.shape):
                return FusionKind.ELEMWISE
        return user.kind

    def groups(self) -> dict[int, list[FusionNode]]:
        """Return the groups of more than one call, by the index of their last node."""
        grouped = group(self.nodes, self.max_depth, self._refused)
        if self._join_copied():
            grouped = members_of_groups(self.nodes)
        widen_where_read(grouped, _widens, self.max_depth)
        found = [self._members(nodes) for nodes in grouped]
        return {members[-1].index: members for members in found if _number_of_calls(members) > 1}

    def _join_copied(self) -> bool:
        """Let calls that copy an operand first take over the one that moves its elements; return
        whether there are any.
        """
        found = False
        for node in self.nodes:
            if node.kind != FusionKind.INJECTIVE or node.escapes or len(node.users) != 1:
                continue
            user = node.users[0][0]
            apart = node.root() is node and node.size == 1
            if apart and user.kind == FusionKind.OUT_ELEMWISE_FUSABLE:
                if self._copies(user.value, node.value.var):
                    merge([node], user)
                    found = True
        return found

    def _copies(self, binding: Any, operand: Var) -> bool:
        """Return whether a call copies an operand before it uses it."""
        call: Any = binding.value
        function: Any = self.mod.functions[call.args[0]]
        places = [k for k, one in enumerate(call.args[1].fields) if one is operand]
        return len(places) == 1 and copies_narrow_operand(function, places[0])

    def _refused(self, node: FusionNode) -> None:
        reason = f"more than {self.max_depth} calls in one function (relax.FuseOps.max_depth)"
        record_fallback("fusion", f"'{node.value.var.name_hint}'", reason)

    def _members(self, nodes: list[FusionNode]) -> list[FusionNode]:
        """Leave accesses to tuples that are made outside of a group outside, too: the function gets
        the item.
        """
        return [
            node
            for node in nodes
            if not isinstance(node.value.value, TupleGetItem)
            or self.of.get(node.value.value.tuple_value) in nodes
        ]


def _widens(node: FusionNode) -> bool:
    """Return whether a call gives the elements of its one tensor, in more bits."""
    value: Any = node.value.value
    if node.kind > FusionKind.BROADCAST or not isinstance(value, Call):
        return False
    given: Any = [known_struct_info(arg) for arg in used_vars(value)]
    made: Any = known_struct_info(node.value.var)
    if len(given) != 1 or not isinstance(given[0], TensorStructInfo):
        return False
    same = isinstance(given[0].shape, ShapeExpr) and isinstance(made.shape, ShapeExpr)
    is_wider = given[0].dtype.bits < made.dtype.bits
    return is_wider and same and prove_equal_shapes(given[0].shape, made.shape)


def _number_of_calls(nodes: list[FusionNode]) -> int:
    return sum([isinstance(node.value.value, Call) for node in nodes])


def _taken_apart(block: DataflowBlock) -> set[Var]:
    """Return the tuples of a block of which only items are used."""
    found: set[Var] = {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}
    for binding in block.bindings:
        if not isinstance(binding.value, TupleGetItem):
            found.difference_update(used_vars(binding.value))
    return found


def _overwritten(block: DataflowBlock) -> dict[Var, Binding]:
    """Return the variables whose memory calls in place take, with the bindings of these calls."""
    found: dict[Var, Binding] = {}
    for binding in block.bindings:
        call: Any = binding.value
        if isinstance(call, Call) and call.op is operators.call_tir_inplace.op:
            for place in call.attrs.inplace_indices:
                arguments: Any = call.args[1]
                argument = arguments.fields[place] if place >= 0 else None
                if isinstance(argument, Var):
                    found[argument] = binding
    return found


class _FuseOps(PyExprMutator):
    def __init__(self, mod: IRModule, max_depth: int) -> None:
        super().__init__(mod)
        self.mod = mod
        self.max_depth = max_depth

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        groups = _Graph(block, self.mod, self.max_depth).groups()
        if not groups:
            return super().visit_dataflow_block_(block)
        inside = {node.index for members in groups.values() for node in members}
        self.builder_.begin_dataflow_block()
        for index, binding in enumerate(block.bindings):
            if index in groups:
                call = self._fused_call([node.value for node in groups[index]])
                self.builder_.emit_normalized(VarBinding(binding.var, call, binding.span))
            elif index not in inside:
                self.visit_binding(binding)
        return self.builder_.end_block()

    def _fused_call(self, bindings: list[Binding]) -> Call:
        function, args = fused_function(bindings, value_of=self.lookup_binding)
        calls = [binding.value for binding in bindings if isinstance(binding.value, Call)]
        names = [call.args[0].name_hint for call in calls]
        found = [getattr(binding.value, "span", None) for binding in bindings]
        spans = list(dict.fromkeys([span for span in found if span is not None]))
        place = SequentialSpan(spans) if len(spans) > 1 else spans[0] if spans else None
        name = self.builder_.add_func(function, FUSED_PREFIX + "_".join(names))
        return Call(name, args, span=place)


def fused_function(
    bindings: list[Binding],
    attrs: Mapping[str, Any] | None = None,
    keep_constants: bool = False,
    value_of: Callable[[Var], Any] = lambda var: None,
) -> tuple[Function, list[Any]]:
    """Make a function that computes some bindings and returns the last one's value; return it with
    the arguments of the call that replaces them. It is marked ``Primitive`` unless ``attrs`` are
    given. ``value_of`` tells what a variable outside is bound to: item 0 of a tuple ``x`` becomes
    one parameter ``x_0``.
    """
    bound = {binding.var for binding in bindings}
    params: dict[Any, Var] = {}  # outside value → parameter
    args: list[Any] = []

    def parameter(value: Any, hint: str) -> Var:
        key: Any = value if isinstance(value, Var) else id(value)
        item = value_of(value) if isinstance(value, Var) else None
        if isinstance(item, TupleGetItem) and isinstance(item.tuple_value, Var):
            key = (item.tuple_value, item.index)
            hint = f"{item.tuple_value.name_hint}_{item.index}"
        if key not in params:
            params[key] = Var(hint, known_struct_info(value))
            args.append(value)
        return params[key]

    def inner(arg: Any) -> Any:
        if isinstance(arg, Tuple):
            return Tuple([inner(field) for field in arg.fields])
        if isinstance(arg, Var) and arg not in bound:
            return parameter(arg, arg.name_hint)
        if isinstance(arg, Constant) and not keep_constants:
            constants = sum([not isinstance(one, Var) for one in args])
            return parameter(arg, f"param_{constants}")
        return arg

    rebuilt: list[Binding] = []
    for number, binding in enumerate(bindings):
        value = binding.value
        if isinstance(value, Call):
            args_ = [inner(arg) for arg in value.args]
            value = Call(value.op, args_, value.attrs, value.sinfo_args, value.span)
        else:
            value = value.map_children(inner) if isinstance(value, TupleGetItem) else inner(value)
        var = binding.var
        if number == len(bindings) - 1:
            var = Var("gv", known_struct_info(var))
        rebuilt.append(VarBinding(var, value, binding.span))
    own = list(params.values())
    sizes = _missing_sizes(rebuilt, own)
    if sizes:
        own.append(Var("sizes", ShapeStructInfo(sizes)))
        args.append(ShapeExpr(sizes))
    body = SeqExpr([DataflowBlock(tuple(rebuilt))], rebuilt[-1].var)
    function = Function(own, body, None, True, attrs or {"Primitive": 1})
    return copy_with_new_vars(function), args


def _missing_sizes(bindings: list[Binding], params: list[Var]) -> list[Any]:
    """Return the symbolic sizes that occur inside and that no parameter binds."""
    known = {size for param in params for size in definable_symbolic_vars(known_struct_info(param))}
    used: dict[Any, None] = {}
    for node in [*params, *[binding.var for binding in bindings]]:
        used.update(dict.fromkeys(symbolic_vars(known_struct_info(node))))
    for binding in bindings:
        for arg in getattr(binding.value, "args", ()):
            if isinstance(arg, ShapeExpr):
                used.update(dict.fromkeys(symbolic_vars(arg)))
    return [size for size in used if size not in known]


@compiler_pass("FuseOps")
def fuse_ops(mod: IRModule, fuse_opt_level: int = -1) -> IRModule:
    """Groups neighbouring calls into sub-functions marked ``Primitive``. PrimFuncs need the
    attribute ``op_pattern`` (AnnotateTIROpPattern). ``fuse_opt_level`` 0 fuses nothing.
    """
    if fuse_opt_level == 0:
        return mod
    max_depth = PassContext.current().config.get(FUSED_CALLS, 256)
    mutator = _FuseOps(mod, max_depth)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            if function.attrs.get("Primitive") or "Codegen" in function.attrs:
                continue
            with fallbacks_within(name.name_hint):
                updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(name, updated)
    return mutator.builder_.get()
