"""FakeQuantizationToInteger: computes with integers what lies between dequantize and quantize.

    %0 = qnn.dequantize(%x, …);                 %0 = qnn.conv2d(%x, %w, …);
    %1 = qnn.dequantize(%w, …);          →      %1 = qnn.requantize(%0, …);
    %2 = nn.conv2d(%0, %1);
    qnn.quantize(%2, …)

A region is what a ``quantize`` depends on, up to ``dequantize``, constants and integers. The rules
are in `fake_quantization_to_integer`. A region with a call that has no integer form stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IRModule, Op, TensorAffineType, TupleAffineType
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import make_call
from tilesmith.relay.qnn.op.parameters import info_of
from tilesmith.relay.transform.fake_quantization_to_integer import OPTIONAL_RULE, RULE
from tilesmith.relay.transform.integer_values import NoIntegerFormError
from tilesmith.relay.transform.normal_form import without_lets
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts
from tilesmith.support.errors import TilesmithError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["FakeQuantizationToInteger", "list_fake_quantized_op_freqs"]


class _TypeMap:
    """The quantisations of integer expressions; for the call that is converted, the wanted one."""

    def __init__(self, wanted: TensorAffineType | None) -> None:
        self.wanted = wanted
        self.known: dict[int, Any] = {}
        self.kept: list[Any] = []  # while they are kept, their identities are theirs alone
        self.is_asked = False

    def __contains__(self, expr: Any) -> bool:
        return id(expr) in self.known

    def __getitem__(self, expr: Any) -> Any:
        found = self.known.get(id(expr))
        if found is not None:
            return found
        if self.wanted is None:
            raise NoIntegerFormError("what the result should be is not known")
        self.is_asked = True
        return self.wanted

    def note(self, expr: Any, type_: Any) -> None:
        """Note the quantisation of an expression."""
        self.known[id(expr)] = type_
        self.kept.append(expr)


def _calls(node: Any, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def _stated(call: Call) -> TensorAffineType:
    """Return the quantisation that a call of quantize or dequantize states."""
    attrs: Any = call.attrs
    data, scale, point = call.args
    is_end = _calls(call, "qnn.quantize")
    dtype = attrs.out_dtype if is_end else info_of(data).dtype
    return TensorAffineType(scale, point, str(dtype), attrs.axis)


def _is_integer(expr: Any) -> bool:
    info = known_struct_info(expr)
    return isinstance(info, TensorStructInfo) and info.dtype.is_integer


def _region(call: Call) -> list[Any] | None:
    """Return what a quantize depends on, parts first; None if nothing there is quantised."""

    def enter(node: Any) -> bool:
        if _calls(node, "qnn.dequantize"):
            return False
        return isinstance(node, (Call, Tuple, TupleGetItem)) and not _is_integer(node)

    found = [one for one in post_order(call.args[0], enter) if not isinstance(one, Op)]
    return found if any(_calls(one, "qnn.dequantize") for one in found) else None


class _Converter:
    """Converts the regions of one function; parts that several of them share, once where what they
    give does not depend on the region.
    """

    def __init__(self, optional: Iterable[str]) -> None:
        self.optional = frozenset(optional)
        self.shared: dict[int, tuple[Any, Any]] = {}
        self.kept: list[Any] = []

    def rule(self, op: Op) -> Any:
        """Return the rule of an operator, None if it has none."""
        found = op.get_attr(RULE)
        if found is None and op.name in self.optional:
            found = op.get_attr(OPTIONAL_RULE)
        return found

    def missing(self, nodes: list[Any]) -> str:
        """Return what a region has no rule for, "" if it has all."""
        for node in nodes:
            if isinstance(node, (Constant, Tuple, TupleGetItem)) or _is_integer(node):
                continue
            if not isinstance(node, Call):
                return "a value that is not quantised"
            if not isinstance(node.op, Op):
                return "the call of a function"
            if self.rule(node.op) is None:
                return node.op.name
        return ""

    def convert(self, call: Any, nodes: list[Any]) -> Any:
        """Return the integers that a quantize gives."""
        types = _TypeMap(_stated(call))
        done: dict[int, Any] = {}
        depends: dict[int, bool] = {}
        for node in nodes:
            known = self.shared.get(id(node))
            if known is None:
                known, depends[id(node)] = self.converted(node, done, depends, types)
                if not depends[id(node)]:
                    self.shared[id(node)] = known
                    self.kept.append(node)
            done[id(node)] = known[0]
            if known[1] is not None:
                types.note(*known)
        again = call.with_fields(args=(done[id(call.args[0])], *call.args[1:]))
        return call.op.get_attr(RULE)(again, types)[0]

    def converted(
        self, node: Any, done: dict[int, Any], depends: dict[int, bool], types: _TypeMap
    ) -> tuple[tuple[Any, Any], bool]:
        """Return a node as integers with their quantisation (None for what is not quantised), and
        whether they depend on what the region wants.
        """
        if _calls(node, "qnn.dequantize"):
            data, given = node.args[0], _stated(node)
            if data in types:  # the same integers, read in another way
                data = make_call("copy", [data])
            return (data, given), False
        if isinstance(node, Constant) or _is_integer(node):
            return (node, None), False
        inner = [part for part in parts(node) if not isinstance(part, Op)]
        changed = [done.get(id(part), part) for part in inner]
        is_dependent = any(depends.get(id(part), False) for part in inner)
        if isinstance(node, Tuple):
            fields = [types[one] if one in types else None for one in changed]
            if None in fields:
                raise NoIntegerFormError("a field of a tuple is not quantised")
            return (Tuple(changed), TupleAffineType(fields)), is_dependent
        if isinstance(node, TupleGetItem):
            given = types[changed[0]].types[node.index]
            return (TupleGetItem(changed[0], node.index), given), is_dependent
        types.is_asked = False
        again = with_parts(node, [node.op, *changed])
        if again is node:  # nothing of it is quantised: a computation with constants
            raise NoIntegerFormError(f"no operand of {node.op.name} is quantised")
        made, given = self.rule(node.op)(again, types)
        if made in types and types[made] is not given:
            made = make_call("copy", [made])
        return (made, given), is_dependent or types.is_asked

    def integers(self, call: Call, hard_fail: bool) -> Any:
        """Return what computes a quantize with integers, or the call itself."""
        nodes = _region(call)
        if nodes is None:
            return call
        missing = self.missing(nodes)
        try:
            if missing:
                raise NoIntegerFormError(f"{missing} has no rule")
            return self.convert(call, nodes)
        except TilesmithError as error:
            if hard_fail:
                raise UnsupportedError(
                    f"FakeQuantizationToInteger: {error.args[0]}",
                    span=call.span,
                    notes=("without hard_fail what cannot be converted stays as it is",),
                ) from error
            record_fallback("legalization", "a region that ends in qnn.quantize", error)
            return call

    def onwards(self, call: Any) -> Any:
        """Return a call of dequantised values as the dequantisation of a call of integers, where
        that needs no further quantisation; else the call itself.
        """
        rule = self.rule(call.op) if isinstance(call.op, Op) else None
        ends = [_calls(arg, "qnn.dequantize") for arg in call.args]
        is_plain = all(end or isinstance(arg, Constant) for end, arg in zip(ends, call.args))
        if rule is None or not any(ends) or not is_plain or call.op.name.startswith("qnn."):
            return call
        types = _TypeMap(None)
        inner = []
        for arg, end in zip(call.args, ends):
            one = arg
            if end:
                one = arg.args[0]
                types.note(one, _stated(arg))
            inner.append(one)
        try:
            made, given = rule(call.with_fields(args=inner), types)
        except TilesmithError as error:
            record_fallback("legalization", f"a call of {call.op.name}", error)
            return call
        if not isinstance(given, TensorAffineType):
            return call
        return make_call(
            "qnn.dequantize", [made, given.scale, given.zero_point],
            {"axis": given.axis, "out_dtype": info_of(call).dtype},
        )  # fmt: skip


def _rewritten(function: Function, converter: _Converter, hard_fail: bool, use_qat: bool) -> Any:
    done: dict[int, Any] = {}
    for node in post_order(function):
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        if _calls(new, "qnn.quantize"):
            new = converter.integers(new, hard_fail)
        elif use_qat and isinstance(new, Call):
            new = converter.onwards(new)
        done[id(node)] = new
    return done[id(function)]


@relay_pass("FakeQuantizationToInteger", 0, ["InferType"])
def FakeQuantizationToInteger(
    mod: IRModule,
    hard_fail: bool = False,
    use_qat: bool = False,
    optional_qnn_ops: Iterable[str] | None = None,
) -> IRModule:
    """Compute with integers what lies between ``qnn.dequantize`` and ``qnn.quantize``.

    ``hard_fail`` raises UnsupportedError for what has no integer form, which stays otherwise;
    ``use_qat`` also converts calls of dequantised values that no quantize follows (their results
    are dequantised); ``optional_qnn_ops`` names operators whose optional rules apply, as
    "nn.softmax".
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        known = without_lets(function, lambda let: False)
        converter = _Converter(optional_qnn_ops or ())
        made = _rewritten(known, converter, hard_fail, False)
        if use_qat:
            made = _rewritten(made, converter, hard_fail, True)
        mod[variable] = made
    return infer_module(mod)


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return how often each operator computes with dequantised values on the way to a
    ``qnn.quantize``: what FakeQuantizationToInteger has still to convert, or could not.
    """
    mod = infer_module(mod)
    found: dict[str, int] = {}
    for _, function in functions_of(mod):
        known = without_lets(function, lambda let: False)
        counted: set[int] = set()
        for end in [node for node in post_order(known) if _calls(node, "qnn.quantize")]:
            for node in _region(end) or ():
                is_leaf = _calls(node, "qnn.dequantize") or _is_integer(node)
                is_call = isinstance(node, Call) and isinstance(node.op, Op)
                if is_call and not is_leaf and id(node) not in counted:
                    counted.add(id(node))
                    found[node.op.name] = found.get(node.op.name, 0) + 1
    return found
