"""CombineParallelConv2D, …Dense, …BatchMatmul: make one operator of several with the same input.

    (nn.conv2d(%x, %w1), nn.conv2d(%x, %w2))
    ->  %y = nn.conv2d(%x, concatenate((%w1, %w2))); (strided_slice(%y, …), strided_slice(%y, …))

Operators that follow in each branch (the same one, element by element) are combined, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilesmith.ir import IRModule, structural_equal
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relay.expr import Call, Constant, Let, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.patterns import pattern_of
from tilesmith.relay.op.view import axis_of
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.transform.calls import attrs_of, dtype_of, is_call, make, shape_of
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts

__all__ = [
    "BatchingOps", "CombineParallelBatchMatmul", "CombineParallelConv2D", "CombineParallelDense",
]  # fmt: skip

_MOST = 64  # expressions that make a weight


class _Joined:
    """Combines branches by joining their weights along an axis; results lie side by side."""

    name = ""

    def key(self, call: Any) -> Any:
        """Return what calls share that can be combined; None for a call that cannot be."""
        raise NotImplementedError

    def weight_axis(self, call: Any) -> int:
        """Return the axis of the weight along which results differ."""
        raise NotImplementedError

    def result_axis(self, call: Any) -> int:
        """Return the axis along which the results lie side by side."""
        return len(call.checked_type.shape) - 1

    def attributes(self, calls: list[Any]) -> dict[str, Any]:
        """Return the attributes of the combined call."""
        return attrs_of(calls[0])

    def start(self, calls: list[Any], data: Any, weights: list[Any]) -> Any:
        """Return the combined call."""
        whole = make("concatenate", Tuple(weights), axis=self.weight_axis(calls[0]))
        return make(self.name, data, whole, **self.attributes(calls))

    def fits(self, calls: list[Any], steps: list[Any], place: int) -> bool:
        """Return whether the other operands of a step can be combined."""
        axis = self.result_axis(calls[0])
        others = [step.args[1 - place] for step in steps]
        if steps[0].op.name in _BY_CHANNEL:
            rank = len(calls[0].checked_type.shape)
            return place == 0 and axis_of(steps[0].attrs.axis, rank) == axis
        if _are_one(others):
            return _size_along(others[0], calls[0], axis) == 1
        found = [_size_along(other, call, axis) for other, call in zip(others, calls)]
        own = [call.checked_type.shape[axis].value for call in calls]
        return found == own and len({_without(other, axis, call)
                                     for other, call in zip(others, calls)}) == 1  # fmt: skip

    def step(self, calls: list[Any], steps: list[Any], value: Any, place: int,
             others: list[Any]) -> Any:  # fmt: skip
        """Return a step on the combined value."""
        first = steps[0]
        if first.op.name in _BY_CHANNEL:
            other: Any = make("concatenate", Tuple(others), axis=0)
        elif _are_one([step.args[1 - place] for step in steps]):
            other = others[0]
        else:
            rank = len(calls[0].checked_type.shape)
            own = len(first.args[1 - place].checked_type.shape)
            axis = self.result_axis(calls[0]) - (rank - own)
            other = make("concatenate", Tuple(others), axis=axis)
        args = (value, other) if place == 0 else (other, value)
        return Call(first.op, args, first.attrs, span=first.span)

    def pieces(self, calls: list[Any], value: Any) -> Iterator[Any]:
        """Yield the results of the branches, as parts of the combined value."""
        axis, begin = self.result_axis(calls[0]), 0
        for call in calls:
            size = call.checked_type.shape[axis].value
            yield make(
                "strided_slice",
                value,
                begin=[0] * axis + [begin],
                end=[-1] * axis + [size],
                strides=[1] * (axis + 1),
                slice_mode="size",
            )
            begin += size


_BY_CHANNEL = ("nn.bias_add", "nn.prelu")


def _are_one(nodes: list[Any]) -> bool:
    """Return whether expressions are one and the same, or equal numbers."""
    first = nodes[0]
    if isinstance(first, Constant) and not first.data.shape:
        return all(isinstance(one, Constant) and structural_equal(one, first) for one in nodes)
    return all(one is first for one in nodes)


def _size_along(other: Any, call: Call, axis: int) -> int | None:
    """Return the size of an operand along an axis of the result that it is broadcast to."""
    shape, rank = shape_of(other), len(call.checked_type.shape)
    if shape is None or len(shape) > rank:
        return None
    return ((1,) * (rank - len(shape)) + shape)[axis]


def _without(other: Any, axis: int, call: Any) -> Any:
    """Return the rank and the sizes of an operand but for that along an axis of the result."""
    shape = shape_of(other) or ()
    own = axis - (len(call.checked_type.shape) - len(shape))
    return len(shape), shape[:own], shape[own + 1 :]


class _Convolutions(_Joined):
    name = "nn.conv2d"

    def key(self, call: Any) -> Any:
        attrs, shape = attrs_of(call), shape_of(call.args[1]) or ()
        layout, out_layout = attrs["kernel_layout"], attrs["out_layout"] or attrs["data_layout"]
        known = bool(shape) and shape_of(call) is not None
        if not known or attrs["groups"] != 1 or not (layout.isupper() and out_layout.isupper()):
            return None
        rest = {name: value for name, value in attrs.items() if name != "channels"}
        if rest["kernel_size"] is None:
            rest["kernel_size"] = tuple([shape[layout.index(axis)] for axis in "HW"])
        return str(rest), str(dtype_of(call.args[1]))

    def weight_axis(self, call: Any) -> int:
        return int(call.attrs.kernel_layout.index("O"))

    def result_axis(self, call: Any) -> int:
        return int((call.attrs.out_layout or call.attrs.data_layout).index("C"))

    def attributes(self, calls: list[Any]) -> dict[str, Any]:
        axis = self.result_axis(calls[0])
        channels = sum([call.checked_type.shape[axis].value for call in calls])
        return {**attrs_of(calls[0]), "channels": channels}


class _Dense(_Joined):
    name = "nn.dense"

    def key(self, call: Any) -> Any:
        if shape_of(call.args[1]) is None or shape_of(call) is None:
            return None
        return call.attrs.out_dtype, str(dtype_of(call.args[1]))

    def weight_axis(self, call: Any) -> int:
        return 0

    def attributes(self, calls: list[Any]) -> dict[str, Any]:
        units = sum([call.checked_type.shape[-1].value for call in calls])
        return {**attrs_of(calls[0]), "units": units}


class _Products(_Joined):
    name = "nn.batch_matmul"

    def key(self, call: Any) -> Any:
        shape = shape_of(call.args[1])
        if shape is None or shape_of(call) is None:
            return None
        return str(attrs_of(call)), str(dtype_of(call.args[1])), shape[0]

    def weight_axis(self, call: Any) -> int:
        return 1 if call.attrs.transpose_b else 2


class _Batched(_Joined):
    """Combines dense layers with weights of one shape as the members of a batch."""

    name = "nn.dense"

    def key(self, call: Any) -> Any:
        shape = shape_of(call.args[1])
        known = shape is not None and len(call.checked_type.shape) == 2
        if not known or shape_of(call) is None:
            return None
        return call.attrs.out_dtype, str(dtype_of(call.args[1])), shape

    def start(self, calls: list[Any], data: Any, weights: list[Any]) -> Any:
        stacked = make("stack", Tuple([data] * len(calls)), axis=0)
        whole = make("stack", Tuple(weights), axis=0)
        attrs: Any = calls[0].attrs
        return make("nn.batch_matmul", stacked, whole, out_dtype=attrs.out_dtype)

    def fits(self, calls: list[Any], steps: list[Any], place: int) -> bool:
        others = [step.args[1 - place] for step in steps]
        if steps[0].op.name == "nn.prelu":
            return False
        if steps[0].op.name == "nn.bias_add":
            return place == 0 and axis_of(steps[0].attrs.axis, 2) == 1
        shapes = {shape_of(other) for other in others}
        return len(shapes) == 1 and None not in shapes

    def step(self, calls: list[Any], steps: list[Any], value: Any, place: int,
             others: list[Any]) -> Any:  # fmt: skip
        given = [one.args[1 - place] for one in steps]
        other = others[0]
        if not (_are_one(given) and not shape_of(given[0])):
            missing = 2 - len(given[0].checked_type.shape)
            if missing:
                others = [make("expand_dims", one, axis=0, num_newaxis=missing) for one in others]
            other = make("stack", Tuple(others), axis=0)
        args = (value, other) if place == 0 else (other, value)
        if steps[0].op.name == "nn.bias_add":
            return make("add", *args)
        return Call(steps[0].op, args, steps[0].attrs, span=steps[0].span)

    def pieces(self, calls: list[Any], value: Any) -> Iterator[Any]:
        parts_ = make("split", value, indices_or_sections=len(calls), axis=0)
        for number in range(len(calls)):
            yield make("squeeze", TupleGetItem(parts_, number), axis=[0])


class _Group:
    """Branches that are combined: their first calls, then the steps of all of them."""

    def __init__(self, starts: list[Call]) -> None:
        self.starts = starts
        self.steps: list[tuple[int, list[Call]]] = []  # the operand's place, one call per branch
        self.results: list[Any] | None = None

    def ends(self) -> list[Call]:
        """Return the last call of each branch."""
        return self.steps[-1][1] if self.steps else self.starts


class _Combiner:
    """Combines the branches of one function."""

    def __init__(self, function: Function, rule: _Joined, least: int) -> None:
        self.rule = rule
        self.root = function.body
        self.order = list(post_order(self.root, lambda one: not is_closed(one)))
        self.scopes = Scopes(self.root)
        self.users: dict[int, list[Any]] = {}
        for node in self.order:
            for part in () if is_closed(node) else parts(node):
                self.users.setdefault(id(part), []).append(node)
        self.bound = {node.var for node in self.order if isinstance(node, Let)}
        self.groups = [group for group in self._starts(least) if self._extend(group)]
        self.of_end = {id(end): group for group in self.groups for end in group.ends()}
        self.hidden = {
            id(call)
            for group in self.groups
            for calls in [group.starts, *[calls for _, calls in group.steps]]
            for call in calls
        } - set(self.of_end)
        self.done: dict[int, Any] = {}

    # Finding

    def _starts(self, least: int) -> Iterator[_Group]:
        found: dict[Any, list[Call]] = {}
        for node in self.order:
            if is_call(node, self.rule.name) and self._is_early(node.args[1]):
                key = self.rule.key(node)
                if key is not None:
                    whole = (id(node.args[0]), self.scopes.of[id(node)], key)
                    found.setdefault(whole, []).append(node)
        for calls in found.values():
            if len(calls) >= max(least, 2):
                yield _Group(calls)

    def _is_early(self, expr: Any) -> bool:
        """Return whether an expression can be computed before the branches: it is small, depends on
        no let and on nothing that is itself combined.
        """
        seen, pending = set(), [expr]
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            is_bound = isinstance(node, Var) and node in self.bound
            if is_bound or is_call(node, self.rule.name) or len(seen) > _MOST:
                return False
            pending += parts(node)
        return True

    def _extend(self, group: _Group) -> bool:
        while True:
            steps = [self._next(end) for end in group.ends()]
            first = steps[0]
            if first is None or any(not _is_same_step(one, first) for one in steps):
                return True
            place = 0
            if len(first.args) == 2:
                pairs = zip(steps, group.ends())
                places = {0 if step.args[0] is end else 1 for step, end in pairs}
                place = places.pop()
                others = [step.args[1 - place] for step in steps]
                if places or not all(self._is_early(other) for other in others):
                    return True
                if not self.rule.fits(group.starts, steps, place):
                    return True
            group.steps.append((place, steps))

    def _next(self, call: Any) -> Any:
        """Return the call that alone uses a value, if it keeps the type."""
        users = self.users.get(id(call), [])
        if len(users) != 1 or not is_call(users[0]) or call is self.root:
            return None
        user = users[0]
        kinds = {1: FusionKind.ELEMWISE, 2: FusionKind.BROADCAST}
        if pattern_of(user.op) > kinds.get(len(user.args), -1):
            return None
        same = self.scopes.of[id(user)] == self.scopes.of[id(call)]
        is_tensor = isinstance(user.checked_type, TensorType)
        return user if same and is_tensor and user.checked_type == call.checked_type else None

    # Rewriting

    def run(self) -> Any:
        """Return the rewritten body."""
        if not self.groups:
            return self.root
        for node in self.order:
            self._visit(node)
        return self.done[id(self.root)]

    def _visit(self, node: Any) -> None:
        if id(node) in self.hidden or id(node) in self.done:
            return
        group = self.of_end.get(id(node))
        if group is not None:
            self._combine(group)
        elif is_closed(node):
            self.done[id(node)] = node
        else:
            self.done[id(node)] = with_parts(node, [self.done[id(one)] for one in parts(node)])

    def _early(self, expr: Any) -> Any:
        for node in post_order(expr, lambda one: id(one) not in self.done):
            self._visit(node)
        return self.done[id(expr)]

    def _combine(self, group: _Group) -> None:
        calls = group.starts
        data = self.done[id(calls[0].args[0])]
        value = self.rule.start(calls, data, [self._early(call.args[1]) for call in calls])
        for place, steps in group.steps:
            if len(steps[0].args) == 1:
                value = steps[0].with_fields(args=(value,))
                continue
            others = [self._early(step.args[1 - place]) for step in steps]
            value = self.rule.step(calls, steps, value, place, others)
        for end, piece in zip(group.ends(), self.rule.pieces(calls, value)):
            self.done[id(end)] = piece


def _is_same_step(step: Any, first: Call) -> bool:
    if step is None or step.op is not first.op or len(step.args) != len(first.args):
        return False
    return bool(structural_equal(step.attrs, first.attrs)) if first.attrs is not None else True


def _each(mod: IRModule, rule: Callable[[], _Joined], least: int) -> IRModule:
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = with_parts(function, (_Combiner(function, rule(), least).run(),))
    return mod


@relay_pass("CombineParallelConv2D", 4, ["InferType"])
def CombineParallelConv2D(mod: IRModule, min_num_branches: int = 3) -> IRModule:
    """Make one convolution of several with the same input and attributes; it has the channels of
    all of them.
    """
    return _each(mod, _Convolutions, min_num_branches)


@relay_pass("CombineParallelDense", 4, ["InferType"])
def CombineParallelDense(
    mod: IRModule, min_num_branches: int = 3, to_batch: bool = True
) -> IRModule:
    """Make one product of several dense layers with the same input: a batch of products of equal
    sizes, or without ``to_batch`` a layer with the units of all of them.
    """
    return _each(mod, _Batched if to_batch else _Dense, min_num_branches)


@relay_pass("CombineParallelBatchMatmul", 4, ["InferType"])
def CombineParallelBatchMatmul(mod: IRModule, min_num_branches: int = 3) -> IRModule:
    """Make one batch of products of several with the same first operand."""
    return _each(mod, _Products, min_num_branches)


@relay_pass("BatchingOps", 4, ["InferType"])
def BatchingOps(mod: IRModule) -> IRModule:
    """Combine convolutions, dense layers and batches of products that have the same input, from
    three on.
    """
    for rule in (_Convolutions, _Batched, _Products):
        mod = _each(mod, rule, 3)
    return mod
