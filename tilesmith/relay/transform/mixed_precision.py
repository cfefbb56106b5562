"""ToMixedPrecision: computes products and convolutions on narrow floats, and what follows them.

What happens to calls is an attribute of their operators (`register_mixed_precision_conversion`): a
rule ``(call, mixed_precision_type)`` → ``[category, dtype of accumulators, dtype of the result]``.
From the start operators have that of the list that names them, which follows from the precision
that relax's records state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import IRModule, Op, register_op_attr
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax.spec import Precision
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relay.expr import Call, Let, Tuple, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import View, make_call
from tilesmith.relay.options import KEEP_DTYPES
from tilesmith.relay.rewriting import with_type_of
from tilesmith.relay.transform.calls import attrs_of
from tilesmith.relay.transform.normal_form import without_lets
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError

__all__ = [
    "DEFAULT_ALWAYS_LIST", "DEFAULT_FOLLOW_LIST", "DEFAULT_NEVER_LIST", "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW", "MIXED_PRECISION_NEVER", "ToMixedPrecision", "generic_always_op",
    "generic_follow_op", "generic_never_op", "get_generic_out_dtypes", "register_func_to_op_list",
]  # fmt: skip

MIXED_PRECISION_ALWAYS = int(Precision.ALWAYS)
MIXED_PRECISION_FOLLOW = int(Precision.FOLLOW)
MIXED_PRECISION_NEVER = int(Precision.NEVER)

KEY = "FTVMMixedPrecisionConversionType"

_OWN_FOLLOW = (
    "adv_index annotation.cast_hint annotation.checkpoint annotation.stop_fusion broadcast_to "
    "broadcast_to_like ceil clip contrib_reverse_reshape copy dyn.broadcast_to dyn.expand_dims "
    "dyn.nn.pad dyn.nn.upsampling dyn.nn.upsampling3d dyn.reshape dyn.squeeze dyn.strided_slice "
    "dyn.tile dyn.topk floor full_like gather gather_nd image.resize1d image.resize2d "
    "image.resize3d layout_transform meshgrid nn.adaptive_max_pool1d nn.adaptive_max_pool2d "
    "nn.adaptive_max_pool3d nn.batch_flatten nn.batch_to_space_nd nn.bias_add nn.depth_to_space "
    "nn.dilate nn.dropout nn.global_max_pool1d nn.global_max_pool2d nn.global_max_pool3d "
    "nn.max_pool1d nn.max_pool3d nn.mirror_pad nn.prelu nn.space_to_batch_nd nn.space_to_depth "
    "nn.upsampling nn.upsampling3d reshape_like reverse_sequence round scatter scatter_elements "
    "scatter_nd sequence_mask sigmoid sign slice_like sliding_window sort strided_set tanh trunc "
    "vision.roi_pool vision.yolo_reorg zeros_like ones_like"
).split()
"""Operators that only move elements, or choose among them, or keep them small."""

_OWN_NEVER = (
    "fast_erf fast_exp fast_tanh image.grid_sample log10 log2 nn.avg_pool2d_grad nn.cross_entropy "
    "nn.fast_softmax nn.global_avg_pool1d nn.global_avg_pool2d nn.global_avg_pool3d "
    "nn.l2_normalize nn.max_pool2d_grad stft dft trunc_divide variance"
).split()


def _by_record(*wanted: Precision) -> list[str]:
    """Return the operators whose record states a precision."""
    found = []
    for name in Op.list_op_names():
        spec = Op.get(name).spec
        if isinstance(spec, View) and spec.record is not None and spec.precision in wanted:
            found.append(name)
    return sorted(found)


DEFAULT_ALWAYS_LIST = [*_by_record(Precision.ALWAYS), "nn.conv3d_transpose"]
DEFAULT_FOLLOW_LIST = sorted({*_by_record(Precision.FOLLOW, Precision.ANY), *_OWN_FOLLOW})
DEFAULT_NEVER_LIST = sorted(
    {*_by_record(Precision.NEVER), *_OWN_NEVER} - {*DEFAULT_ALWAYS_LIST, *DEFAULT_FOLLOW_LIST}
)


def register_func_to_op_list(list_ops: Iterable[str]) -> Callable[..., Any]:
    """Register a rule for operators, without taking the place of what a program has registered."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in list_ops:
            register_op_attr(name, KEY, function, 1)
        return function

    return register


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> list[str]:
    """Return the dtypes of accumulators and of the result: float32 accumulates where the operator
    can state it.
    """
    can_state = "out_dtype" in attrs_of(call_node)
    return ["float32" if can_state else mixed_precision_type, mixed_precision_type]


@register_func_to_op_list(DEFAULT_ALWAYS_LIST)
def generic_always_op(call_node: Call, mixed_precision_type: str) -> list[Any]:
    """Compute on narrow inputs."""
    return [MIXED_PRECISION_ALWAYS, *get_generic_out_dtypes(call_node, mixed_precision_type)]


@register_func_to_op_list(DEFAULT_FOLLOW_LIST)
def generic_follow_op(call_node: Call, mixed_precision_type: str) -> list[Any]:
    """Compute on narrow inputs if one of them is narrow."""
    return [MIXED_PRECISION_FOLLOW, *get_generic_out_dtypes(call_node, mixed_precision_type)]


@register_func_to_op_list(DEFAULT_NEVER_LIST)
def generic_never_op(call_node: Call, mixed_precision_type: str) -> list[Any]:
    """Compute in full precision."""
    return [MIXED_PRECISION_NEVER, *get_generic_out_dtypes(call_node, mixed_precision_type)]


class _Mixed:
    """Rewrites one function."""

    def __init__(self, narrow: str, missing_op_mode: int) -> None:
        self.narrow = DataType(narrow)
        self.missing_op_mode = missing_op_mode
        self.missing: set[str] = set()
        self.done: dict[int, Any] = {}
        self.casts: dict[tuple[int, str], Any] = {}
        self.sources: dict[int, Any] = {}  # a conversion that was added → what it converts
        self.kept: list[Any] = []

    def run(self, function: Function, keep_dtypes: bool) -> Function:
        """Return the function with narrow floats inside."""
        body: Any = function.body
        for node in post_order(body, lambda one: not is_closed(one)):
            self.done[id(node)] = self._node(node)
        result = self.done[id(body)]
        if keep_dtypes:
            result = self.like(result, body.struct_info)
        if result is function.body:
            return function
        return function.with_fields(body=result, ret_type=None)

    def _node(self, node: Any) -> Any:
        if is_closed(node):
            return node
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node)
        if isinstance(node, (Tuple, TupleGetItem)):
            return with_parts(node, [self.done[id(part)] for part in parts(node)])
        changed = [self._as_before(part) for part in parts(node)]
        return with_type_of(node, with_parts(node, changed))

    def _as_before(self, node: Any) -> Any:
        """Return a node with its result in the dtype that it had."""
        if not hasattr(node, "struct_info") or isinstance(node, (Op, Function)):
            return self.done[id(node)]
        return self.like(self.done[id(node)], node.struct_info)

    # Conversions

    def like(self, expr: Any, info: Any) -> Any:
        """Return an expression with its floats in the dtypes of a struct info."""
        own = expr.struct_info
        if isinstance(info, TupleStructInfo) and isinstance(own, TupleStructInfo):
            fields = [
                self.like(self._field(expr, place), one) for place, one in enumerate(info.fields)
            ]
            same = all(one is self._field(expr, place) for place, one in enumerate(fields))
            return expr if same else Tuple(fields)
        return self.cast(expr, info.dtype) if isinstance(info, TensorStructInfo) else expr

    def _field(self, expr: Any, place: int) -> Any:
        if isinstance(expr, Tuple):
            return expr.fields[place]
        key = (id(expr), f".{place}")
        if key not in self.casts:
            self.casts[key] = TupleGetItem(expr, place)
            self.kept.append(expr)
        return self.casts[key]

    def cast(self, expr: Any, dtype: DataType) -> Any:
        """Return a tensor of floats in a dtype, a tuple with its fields so; others unchanged."""
        info = expr.struct_info
        if isinstance(info, TupleStructInfo):
            old = [self._field(expr, place) for place in range(len(info.fields))]
            fields = [self.cast(one, dtype) for one in old]
            return expr if all(a is b for a, b in zip(fields, old)) else Tuple(fields)
        if not self._is_changed(info) or info.dtype == dtype:
            return expr
        source = self.sources.get(id(expr))
        if source is not None and source.struct_info.dtype == dtype:
            return source
        key = (id(expr), str(dtype))
        if key not in self.casts:
            self.casts[key] = make_call("cast", [expr], {"dtype": str(dtype)})
            self.sources[id(self.casts[key])] = expr
            self.kept.append(expr)
        return self.casts[key]

    def _is_changed(self, info: Any) -> bool:
        return isinstance(info, TensorStructInfo) and info.dtype in ("float32", self.narrow)

    def _is_narrow(self, expr: Any) -> bool:
        info = expr.struct_info
        if isinstance(info, TupleStructInfo):
            fields = info.fields
            return any(getattr(one, "dtype", None) == self.narrow for one in fields)
        return isinstance(info, TensorStructInfo) and info.dtype == self.narrow

    # Calls

    def _call(self, call: Call) -> Any:
        args = [self.done[id(arg)] for arg in call.args]
        if call.op.name in ("cast", "on_device", "device_copy"):
            return with_parts(call, [call.op, *args])
        category, accumulated, result = self._rule(call)
        is_narrow = any(self._is_narrow(arg) for arg in args)
        if category == MIXED_PRECISION_FOLLOW:
            category = MIXED_PRECISION_ALWAYS if is_narrow else MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER:
            wide = [self.cast(arg, DataType("float32")) for arg in args] if is_narrow else args
            return with_parts(call, [call.op, *wide])
        if any(getattr(arg.struct_info, "dtype", None) == "float64" for arg in args):
            return with_parts(call, [call.op, *args])
        return self._narrowed(call, [self.cast(arg, self.narrow) for arg in args],
                              accumulated, result)  # fmt: skip

    def _narrowed(self, call: Call, args: list[Any], accumulated: str, result: str) -> Any:
        attrs = {key: value for key, value in attrs_of(call).items() if value is not None}
        info = call.struct_info
        if not isinstance(info, TupleStructInfo) and not self._is_changed(info):
            return call.with_fields(args=args)
        if "out_dtype" in attrs:
            attrs["out_dtype"] = accumulated
        elif attrs.get("dtype") == "float32":
            attrs["dtype"] = accumulated
        made = make_call(call.op, args, attrs).with_fields(span=call.span)
        return self.cast(made, DataType(result))

    def _rule(self, call: Call) -> tuple[int, str, str]:
        rule = call.op.get_attr(KEY)
        if rule is None:
            self._miss(call)
            return MIXED_PRECISION_NEVER, "float32", "float32"
        found = list(rule(call, str(self.narrow)))
        if len(found) != 3 or found[0] not in (0, 1, 2):
            raise TypeMismatchError(
                f"the rule of {call.op.name} for mixed precision gave {found}",
                notes=("it gives [category (0, 1 or 2), dtype of accumulators, of the result]",),
            )
        return int(found[0]), str(found[1]), str(found[2])

    def _miss(self, call: Call) -> None:
        name = call.op.name
        if self.missing_op_mode == 0:
            raise UnsupportedError(
                f"nothing states the precision of {name}",
                notes=("relay.op.register_mixed_precision_conversion(name, rule) does",),
                span=call.span,
            )
        if self.missing_op_mode == 1 and name not in self.missing:
            warnings.warn(f"nothing states the precision of {name}: it stays float32", stacklevel=2)
        self.missing.add(name)


def _is_plain(let: Let) -> bool:
    """Return whether the value of a let is of operators alone."""
    value = let.value
    if isinstance(value, Call):
        return isinstance(value.op, Op)
    return isinstance(value, (Tuple, TupleGetItem))


@relay_pass("ToMixedPrecision", 0, ["InferType"])
def ToMixedPrecision(
    mod: IRModule, mixed_precision_type: str = "float16", missing_op_mode: int = 1
) -> IRModule:
    """Compute with narrow floats what gains from it, and what follows (see
    `register_mixed_precision_conversion`). Of an operator without a rule, ``missing_op_mode`` 0 is
    an error, 1 a warning, 2 nothing: it stays float32.

    With the option ``relay.ToMixedPrecision.keep_orig_output_dtype`` the results of ``main`` have
    the dtypes that they had.
    """
    if missing_op_mode not in (0, 1, 2):
        raise ConfigError(f"missing_op_mode is 0, 1 or 2, not {missing_op_mode}")
    if not DataType(mixed_precision_type).is_float:
        raise ConfigError(f"mixed precision is of floats, not {mixed_precision_type}")
    keep = bool(PassContext.current().config.get(KEEP_DTYPES, False))
    for variable, function in functions_of(mod):
        mod[variable] = without_lets(function, lambda let: not _is_plain(let))
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            keeps_result = variable.name_hint != "main" or keep
            mixed = _Mixed(mixed_precision_type, missing_op_mode)
            mod[variable] = mixed.run(function, keeps_result)
    return infer_module(mod)
