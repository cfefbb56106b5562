"""PackForVectors: moves channels last and packs constant weights, so that kernels use vectors.

    y = R.nn.conv2d(x, w)              x1 = R.permute_dims(x, [0, 2, 3, 1])
    z = R.nn.relu(y)             →     y1 = R.call_tir(conv2d_nhwc_packed, (x1, packed w))
                                       z1 = R.nn.relu(y1)
                                       z = R.permute_dims(z1, [0, 3, 1, 2])

A value in the new layout is recognised by its binding, the permutation back to the old layout.
Operators that work in any layout continue in the new one; unused permutations are dead code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.ir import IntImm, IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    RelaxExpr,
    ShapeExpr,
    Tuple,
    Var,
    const,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.spec import Execution, Layout
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.byte_products import (
    Bytes,
    DotProducts,
    bytes_behind,
    dot_products,
)
from tilesmith.relax.transform.fewer_steps import convolution_in_fewer_steps
from tilesmith.relax.transform.flat_pixels import FlatPixels
from tilesmith.relax.transform.grouped_weights import form_of_groups
from tilesmith.relax.transform.joined_images import joined_images
from tilesmith.relax.transform.lone_convolutions import (
    Sizes,
    depthwise_stays,
    lone_convolutions,
    pixelwise_stays,
    reading_planes,
    rows_stay_in_planes,
)
from tilesmith.relax.transform.pack_bytes import BytePacking
from tilesmith.relax.transform.pair_products import (
    FEWEST_COLUMNS,
    has_dot_products_of_pairs,
    in_pairs,
)
from tilesmith.relax.transform.repeated_kernels import RepeatedKernels
from tilesmith.relax.transform.tiled_weights import tiled_weights
from tilesmith.relax.transform.transposed_convolution import interleaved, phase_convolution
from tilesmith.runtime.dtype import DataType
from tilesmith.schedule_rules.contractions.tiles import MANY, Tile, best_tile
from tilesmith.schedule_rules.contractions.vector_product import vectors_side_by_side
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.target import Target
from tilesmith.target.machine import MachineModel, machine_model

__all__ = ["pack_for_vectors"]

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
_PERMUTE = operators.permute_dims.op
_WIDENING = {operators.dequantize.op, operators.astype.op}
_GREATEST_SHORT = 32767


def _sizes(expr: Any) -> list[int | None] | None:
    """Return the shape of a value, None for its symbolic sizes; None if it has no shape."""
    info = known_struct_info(expr)
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        return None
    values = getattr(info.shape, "values", None)
    if values is None:
        return None
    return [value.value if isinstance(value, IntImm) else None for value in values]


_SERVED = "a float of up to 32 bits, or int32, in and out"


def _is_served(call: Call) -> bool:
    """Return whether a product has operands and a result of one float dtype of up to 32 bits, or of
    int32.
    """
    dtype, operands = _dtype(call), [_dtype(arg) for arg in call.args]
    is_small = dtype.is_float and dtype.bits <= 32
    if _are_pairs(call):
        return True
    return (is_small or dtype == "int32") and all(own == dtype for own in operands)


def _are_pairs(call: Call) -> bool:
    """Return whether a product adds products of bfloat16 in float32."""
    operands = [_dtype(arg) for arg in call.args]
    return _dtype(call) == "float32" and all(own == "bfloat16" for own in operands)


def _dtype(expr: RelaxExpr) -> DataType:
    info = known_struct_info(expr)
    return info.dtype if isinstance(info, TensorStructInfo) else DataType("void")


def _values(weight: Constant) -> numpy.ndarray:
    """Return weights, if possible without a copy: they may be large."""
    return numpy.asarray(weight.data)


def _unpacked(call: Call, reason: str) -> None:
    record_fallback("packing", call.op.name, reason)


class _Pack(PyExprMutator):
    def __init__(
        self,
        mod: IRModule,
        machine: MachineModel,
        instruction: DotProducts | None,
        has_pairs: bool,
    ) -> None:
        super().__init__(mod)
        self.machine = machine
        self.has_pairs = has_pairs
        self.moved_values: dict[Var, Any] = {}
        self.packed_weights: dict[Any, tuple[Constant, Any]] = {}  # with the weights: by address
        self.lone: set[int] = set()
        self.is_lone = False
        self.kernels = RepeatedKernels(self.builder_)
        self.flat = FlatPixels(self.builder_, self.lookup_binding)
        self.bytes = None
        if instruction is not None:
            self.bytes = BytePacking(self.builder_, instruction, tiled_weights, machine)
        self.rules: dict[Op, Callable[[Call], Any]] = {
            operators.nn.conv2d.op: self.convolution,
            operators.nn.conv2d_transpose.op: self.transposed_convolution,
            operators.nn.conv1d.op: self.lifted,
            operators.nn.conv1d_transpose.op: self.lifted,
            operators.matmul.op: self.product,
            operators.mean.op: self.mean,
            operators.concat.op: self.concatenation,
        }
        self.rules_by_layout = {
            Layout.ELEMENTWISE: self.elementwise,
            Layout.NAMED: self.pooling,
        }

    def visit_call_(self, op: Call) -> Any:
        """Rewrite a call after its arguments."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        rule = self.rules.get(call.op)
        spec = call.op.spec
        if rule is None and spec is not None:
            rule = self.rules_by_layout.get(spec.layout)
            if spec.view_of == 0 and spec.execution is Execution.KERNEL:
                rule = self.reshape
            if rule is None and call.op is not _PERMUTE:
                self.note_way_back(call)
        self.is_lone = id(op) in self.lone
        made = rule(call) if rule is not None else None
        return call if made is None else made

    # Values in the new layout

    def known(self, expr: Any) -> Any:
        """Return the value with its channels last, if that form exists already."""
        binding = self.lookup_binding(expr) if not isinstance(expr, Constant) else None
        if isinstance(binding, Call) and binding.op is _PERMUTE:
            axes = binding.attrs.axes
            if axes is not None and [int(axis) for axis in axes] == _TO_FIRST:
                return binding.args[0]
        return None

    def note_way_back(self, call: Call) -> None:
        """Record that a call without a rule reads values in the old layout that had the new one."""
        parts = [arg.fields if isinstance(arg, Tuple) else (arg,) for arg in call.args]
        if any(self.known(one) is not None for group in parts for one in group):
            record_fallback("layout", call.op.name, "it does not support the channels last")

    def channels_last(self, expr: Any) -> Any:
        """Return the value with its channels last, permuted if necessary."""
        found = self.known(expr)
        if found is not None:
            return found
        made = self.moved_values.get(expr) if isinstance(expr, Var) else None
        if made is None:
            made = self.builder_.emit(self.permuted(expr))
            if isinstance(expr, Var):
                self.moved_values[expr] = made
        return made

    def permuted(self, expr: Any) -> Any:
        """Return a value in the new layout. One that was widened is permuted before it is."""
        value = self.value_of(expr)
        is_change = isinstance(value, Call) and value.op in _WIDENING
        if is_change and _dtype(value.args[0]).bits < _dtype(value).bits:
            given = [known_struct_info(arg) for arg in value.args]
            if given[0].ndim == 4 and all(info.ndim == 0 for info in given[1:]):
                attrs = dict(value.attrs.items())
                if "axis" in attrs:
                    attrs["axis"] = -1
                return Call(value.op, [self.channels_last(value.args[0]), *value.args[1:]], attrs)
        return operators.permute_dims(expr, _TO_LAST)

    def visit_binding_block_(self, block: Any) -> Any:
        """Forget what was permuted in a block behind it: there may be other ways around it."""
        return self.within(block, super().visit_binding_block_)

    def visit_dataflow_block_(self, block: Any) -> Any:
        """As `visit_binding_block_`."""
        return self.within(block, super().visit_dataflow_block_)

    def within(self, block: Any, visit: Callable[[Any], Any]) -> Any:
        """Visit a block that has its own permuted values."""
        outer, self.moved_values = self.moved_values, {}
        try:
            return visit(block)
        finally:
            self.moved_values = outer

    def back(self, value: Any) -> Any:
        """Return a result in the old layout."""
        return operators.permute_dims(self.builder_.emit(value), _TO_FIRST)

    # Operators

    def convolution(self, call: Any) -> Any:
        made = self.convolution_in_place(call) if self.is_lone else None
        if made is not None:
            return made
        made = self.packed_convolution(call)
        return None if made is None else self.back(made)

    def convolution_in_place(self, call: Any) -> Any:
        """Return a convolution without neighbours in NCHW, if that takes less time; None if not."""
        data, weight = call.args[:2]
        attrs, sizes, out = call.attrs, _sizes(data), _sizes(call)
        layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW")
        if layouts != ("NCHW", "OIHW", "NCHW") or sizes is None or out is None:
            return None
        dtypes = {_dtype(data), _dtype(call)}
        if not isinstance(weight, Constant) or dtypes not in ({"float32"}, {"float16"}):
            return None  # those of bytes and of bfloat16 gain more by their dot products
        outputs, inputs, ky, kx = _values(weight).shape
        groups, known = int(attrs.groups), Sizes(sizes, out, ky * kx)
        if groups == sizes[1] == outputs and inputs == 1:
            return call if depthwise_stays(known, self.machine) else None
        is_plain = (ky, kx) == (1, 1) and groups == 1 and outputs >= FEWEST_COLUMNS
        if not is_plain or any(int(one) for one in attrs.padding):
            return None
        if any(int(one) != 1 for one in attrs.strides) or not pixelwise_stays(known, self.machine):
            return None
        return self.flat.convolution(data, const(_values(weight)[:, :, 0, 0]), call)

    def packed_convolution(self, call: Any) -> Any:
        """Return a convolution of packed weights, with its channels last."""
        data, weight = call.args[:2]
        attrs, sizes, out = call.attrs, _sizes(data), _sizes(call)
        plain = attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW"
        if not plain or attrs.out_layout not in (None, "", "NCHW"):
            return _unpacked(call, "its layouts are not NCHW and OIHW")
        if sizes is None or sizes[1] is None:
            return _unpacked(call, "its channels are not constant")
        weight = self.stored(weight)
        if weight is None:
            return _unpacked(call, "its weights are not constant")
        if not _is_served(call):
            return _unpacked(call, f"it is of {_dtype(data)}, not {_SERVED}")
        array, groups = _values(weight), int(attrs.groups)
        lists = (attrs.strides, attrs.padding, attrs.dilation)
        options = [[int(value) for value in values] for values in lists]
        is_depthwise = groups == sizes[1] == array.shape[0] and array.shape[1] == 1
        tile = best_tile((out and out[3]) or MANY, array.shape[0] // groups, self.machine)
        width = max(tile.vectors, 1) * self.machine.lanes(32)
        is_wide = array.shape[0] >= FEWEST_COLUMNS
        if is_wide:
            form = self.byte_depthwise if is_depthwise else self.byte_convolution
            made = form(data, array, groups, width, options)
            if made is not None:
                return made
        if is_wide and _dtype(call) == "float32" and array.dtype != "bfloat16":
            last = partial(self.channels_last, data)
            made = convolution_in_fewer_steps(
                self.kernels, call, last, array, options, _sizes(call), self.machine
            )
            if made is not None:
                return made
        if groups == 1 and is_wide:
            packed, in_words = self.packed_floats(call, array.transpose(2, 3, 1, 0), width)
            packed_form = topi.nn.conv2d_nhwc_pairs if in_words else topi.nn.conv2d_nhwc_packed
            form, given = _read(self, packed_form, call, array.shape[2:], self.channels_last, tile)
            made = self.kernels.call_te(
                form, given, packed, array.shape[0], *options, primfunc_name_hint="conv2d"
            )
            made = self.with_dtype(call, made)
        elif is_depthwise:
            flat = const(array[:, 0].transpose(1, 2, 0))
            made = self.kernels.call_te(
                topi.nn.depthwise_conv2d_nhwc_packed, self.wide_last(call, data), flat, *options,
                primfunc_name_hint="depthwise_conv2d",
            )  # fmt: skip
        elif is_wide:
            form, rest = form_of_groups(
                array, groups, out and out[3], self.machine, _dtype(call) == "float32"
            )
            last = partial(self.wide_last, call)
            form, given = _read(self, form, call, array.shape[2:], last, tile)
            made = self.kernels.call_te(
                form, given, *rest, *options, primfunc_name_hint="grouped_conv2d"
            )
        else:
            return _unpacked(call, f"it has fewer than {FEWEST_COLUMNS} output channels")
        return made

    def stored(self, weight: Any) -> Constant | None:
        """Return the constant that a weight is: also one of float16 that is widened for use."""
        value = self.value_of(weight)
        if isinstance(value, Call) and value.op is operators.astype.op:
            inner: Any = value.args[0]
            is_narrow = isinstance(inner, Constant) and _dtype(inner) == "float16"
            return inner if is_narrow and _dtype(value) == "float32" else None
        return value if isinstance(value, Constant) else None

    def packed_floats(
        self, call: Call, weights: numpy.ndarray, width: int
    ) -> tuple[Constant, bool]:
        """Return packed weights ``(…, inputs, outputs)``, and whether they are words of pairs."""
        is_short = weights.dtype == "bfloat16" and self.has_pairs
        in_words = _are_pairs(call) or is_short
        place = weights.__array_interface__["data"][0]
        key = (place, weights.shape, weights.strides, weights.dtype, width, in_words)
        if key not in self.packed_weights:  # the steps of a recurrent network share their weights
            packed = tiled_weights(in_pairs(weights) if in_words else weights, width)
            self.packed_weights[key] = (packed, weights)
        return self.packed_weights[key][0], in_words

    def wide_last(self, call: Call, data: Any) -> Any:
        """Return data with the channels last, in the dtype of the result: kernels by channels and
        by groups give what they take.
        """
        last = self.channels_last(data)
        if _dtype(last) == _dtype(call):
            return last
        return self.builder_.emit(operators.astype(last, _dtype(call)))

    def with_dtype(self, call: Call, made: Any) -> Any:
        """Return a result of a kernel in the dtype that the call has."""
        made = self.builder_.normalize(made)
        if _dtype(made) == _dtype(call):
            return made
        return operators.astype(self.builder_.emit(made), _dtype(call))

    def value_of(self, expr: Any) -> Any:
        """Return what a variable is bound to, and any other expression as it is."""
        found = self.lookup_binding(expr) if isinstance(expr, Var) else None
        return expr if found is None else found

    def bytes_last(self, data: Any) -> Bytes | None:
        """Return the bytes behind an operand of int32, with their channels last."""
        if _dtype(data) != "int32":
            return None
        last = self.known(data)
        found = bytes_behind(self.value_of, data if last is None else last)
        if found is None or last is not None:
            return found
        return Bytes(self.channels_last(found.data), found.zero_point)

    def byte_convolution(
        self, data: Any, weights: numpy.ndarray, groups: int, width: int, options: list[list[int]]
    ) -> Any:
        """Return a convolution of bytes with its channels last; None if the operands are none, or
        the target has no instruction for them.
        """
        if self.bytes is None or (found := self.bytes_last(data)) is None:
            return None
        return self.bytes.convolution(found, weights, groups, width, options)

    def byte_depthwise(
        self, data: Any, weights: numpy.ndarray, groups: int, width: int, options: list[list[int]]
    ) -> Any:
        """Return a convolution of single channels of bytes with its channels last; None if the
        operands are none.
        """
        if max(-int(weights.min()), int(weights.max())) > _GREATEST_SHORT:
            return None
        found = self.bytes_last(data)
        if found is None or not found.is_fixed:
            return None
        flat = const(weights[:, 0].transpose(1, 2, 0))
        return self.builder_.call_te(
            topi.nn.depthwise_conv2d_nhwc_bytes, found.data, flat, *options, found.zero_point,
            primfunc_name_hint="depthwise_conv2d",
        )  # fmt: skip

    def transposed_convolution(self, call: Call) -> Any:
        data, weight = call.args[:2]
        attrs: Any = call.attrs
        info = known_struct_info(call)
        plain = attrs.data_layout == "NCHW" and attrs.kernel_layout == "IOHW"
        if not plain or attrs.out_layout not in (None, "", "NCHW"):
            return _unpacked(call, "its layouts are not NCHW and IOHW")
        if not isinstance(weight, Constant):
            return _unpacked(call, "its weights are not constant")
        if any(int(value) != 1 for value in attrs.dilation):
            return _unpacked(call, "it has a dilation")
        padding = [int(value) for value in attrs.padding]
        shape = info.shape if isinstance(info, TensorStructInfo) else None
        if min(padding) < 0 or not isinstance(shape, ShapeExpr):
            return _unpacked(call, "it has no known shape, or a negative padding")
        strides = [int(value) for value in attrs.strides]
        extra, groups = [int(value) for value in attrs.output_padding], int(attrs.groups)
        phases = phase_convolution(_values(weight), strides, padding, extra, groups)
        plan = operators.nn.conv2d(
            data, const(phases.weight), padding=phases.padding, groups=groups,
            out_dtype=_dtype(call),
        )  # fmt: skip
        made = self.packed_convolution(self.builder_.normalize(plan))
        if made is None:
            return None
        made = self.builder_.emit(made)
        sizes = shape.values[2:]
        return self.back(interleaved(self.builder_.emit, made, strides, padding[:2], sizes, groups))

    def lifted(self, call: Call) -> Any:
        """Compute a convolution along one axis as one along two."""
        data, weight = call.args[:2]
        attrs: Any = call.attrs
        transposes = call.op is operators.nn.conv1d_transpose.op
        layouts = (attrs.data_layout, attrs.kernel_layout)
        plain = layouts == ("NCW", "IOW" if transposes else "OIW")
        if not plain or attrs.out_layout not in (None, "", "NCW"):
            return _unpacked(call, "its layouts are not the plain ones")
        if not isinstance(weight, Constant):
            return _unpacked(call, "its weights are not constant")
        if not transposes and int(attrs.strides[0]) == 1:
            return None  # vectors run along the axis itself
        before, after = [int(value) for value in attrs.padding]
        options: dict[str, Any] = {
            "strides": [1, int(attrs.strides[0])],
            "padding": [0, before, 0, after],
            "dilation": [1, int(attrs.dilation[0])],
            "groups": int(attrs.groups),
            "out_dtype": attrs.out_dtype,
        }
        if transposes:
            options["output_padding"] = [0, int(attrs.output_padding[0])]
        function = operators.nn.conv2d_transpose if transposes else operators.nn.conv2d
        plane = self.builder_.emit(operators.expand_dims(data, [2]))
        kernel = const(_values(weight)[:, :, None, :])
        wide = self.builder_.normalize(function(plane, kernel, **options))
        made = (self.transposed_convolution if transposes else self.convolution)(wide)
        return None if made is None else operators.squeeze(self.builder_.emit(made), [2])

    def product(self, call: Any) -> Any:
        data, weight = call.args[:2]
        weight = self.stored(weight)
        if weight is None:
            return None  # a product of two values: there are no weights to pack
        array = _values(weight)
        if array.ndim != 2:
            return _unpacked(call, f"its weights have {array.ndim} axes, not 2")
        if not _is_served(call):
            return _unpacked(call, f"it is of {_dtype(data)}, not {_SERVED}")
        if known_struct_info(data).ndim < 2:
            return _unpacked(call, "its left operand is a vector")
        if array.shape[1] < FEWEST_COLUMNS:
            return _unpacked(call, f"its weights have fewer than {FEWEST_COLUMNS} columns")
        sizes = _sizes(data)
        outer = sizes[:-1] if sizes else [None]
        rows = math.prod([size or 1 for size in outer]) if all(outer) else None
        lanes = self.machine.lanes(32)
        vectors = best_tile(rows, array.shape[1], self.machine).vectors
        found = bytes_behind(self.value_of, data) if self.bytes is not None else None
        if self.bytes is not None and found is not None:
            made = self.bytes.product(found, data, array, vectors * lanes)
            if made is not None:
                return made
        if rows == 1:
            vectors = vectors_side_by_side(vectors, array.shape[1], array.nbytes, self.machine)
        packed, in_words = self.packed_floats(call, array, vectors * lanes)
        form = topi.nn.matmul_pairs if in_words else topi.nn.matmul_packed
        made = self.kernels.call_te(form, data, packed, array.shape[1], primfunc_name_hint="matmul")
        return self.with_dtype(call, made)

    def elementwise(self, call: Call) -> Any:
        tensors = [arg for arg in call.args if isinstance(known_struct_info(arg), TensorStructInfo)]
        if not any(self.known(arg) is not None for arg in tensors):
            return self.flat.elementwise(call)
        args = []
        for arg in call.args:
            if arg not in tensors:
                args.append(arg)
                continue
            moved = self.moved_operand(arg)
            if moved is None:
                info = known_struct_info(arg)
                reason = f"its operand {info} has no form with the channels last"
                record_fallback("layout", call.op.name, reason)
                return None
            args.append(moved)
        return self.back(Call(call.op, args, call.attrs, call.sinfo_args))

    def moved_operand(self, arg: Any) -> Any:
        """Return an operand of an elementwise operator with its channels last; None if
        impossible.
        """
        sizes = _sizes(arg)
        if sizes is None:
            return None
        if len(sizes) == 4:
            if isinstance(arg, Constant):
                return const(_values(arg).transpose(_TO_LAST))
            return self.channels_last(arg)
        if not isinstance(arg, Constant) or len(sizes) not in (0, 3):
            return arg if all(size == 1 for size in sizes) else None
        array = _values(arg)
        return const(array.transpose(1, 2, 0)) if len(sizes) == 3 else arg

    def pooling(self, call: Any) -> Any:
        data = self.known(call.args[0])
        if data is None:
            return None
        if call.attrs.layout != "NCHW":
            record_fallback("layout", call.op.name, f"its layout is {call.attrs.layout}, not NCHW")
            return None
        attrs = {**dict(call.attrs.items()), "layout": "NHWC", "out_layout": "NHWC"}
        return self.back(Call(call.op, [data], attrs))

    def concatenation(self, call: Call) -> Any:
        made = joined_images(self.builder_, call, self.known)
        if made is None:
            self.note_way_back(call)
        return None if made is None else self.back(made)

    def mean(self, call: Any) -> Any:
        data = self.known(call.args[0])
        axes = call.attrs.axis
        if data is None or axes is None or sorted(int(axis) % 4 for axis in axes) != [2, 3]:
            return None
        made = Call(call.op, [data], {**dict(call.attrs.items()), "axis": [1, 2]})
        return self.back(made) if call.attrs.keepdims else made

    def reshape(self, call: Call) -> Any:
        """Reshape a tensor of one pixel, for which the order of the axes makes no difference."""
        data = self.known(call.args[0])
        sizes = _sizes(call.args[0])
        if data is None or sizes is None or sizes[2:] != [1, 1]:
            return None
        info = known_struct_info(call)
        shape = info.shape if isinstance(info, TensorStructInfo) else None
        return None if shape is None else operators.reshape(data, shape)


def _read(
    pack: _Pack, form: Any, call: Any, taps: Any, last: Callable[[Any], Any], tile: Tile
) -> tuple[Any, Any]:
    """Return the form of a convolution for its data: in NCHW, if it is lone; or channels last."""
    data = call.args[0]
    is_plain = pack.is_lone and pack.known(data) is None and _dtype(data) == _dtype(call)
    padding = [int(one) for one in call.attrs.padding]
    made = reading_planes(form, taps, padding) if is_plain else None
    sizes, out, stride = _sizes(data), _sizes(call), int(call.attrs.strides[1])
    if made is topi.nn.conv2d_planes_packed and sizes and out:
        stays = rows_stay_in_planes(Sizes(sizes, out, 1), stride, tile, pack.machine)
        made = made if stays else None
    return (form, last(data)) if made is None else (made, data)


@compiler_pass("PackForVectors")
def pack_for_vectors(mod: IRModule, target: Any = None) -> IRModule:
    """Moves convolutions with constant weights to channels last and packs the weights; those of
    bytes for dot products of four of them where the target has such instructions.
    """
    chosen = Target(target) if target is not None else Target("llvm")
    machine = machine_model(chosen)
    has_pairs = has_dot_products_of_pairs(chosen, machine)
    mutator = _Pack(mod, machine, dot_products(chosen, machine), has_pairs)
    for variable, function in list(mod.functions.items()):
        if isinstance(function, Function) and not function.attrs.get("Primitive"):
            anchors = {operators.nn.conv2d.op, operators.nn.conv2d_transpose.op}
            others = {operators.mean.op, operators.concat.op}
            mutator.lone = lone_convolutions(function, anchors, others)
            with fallbacks_within(variable.name_hint):
                mutator.builder_.update_func(variable, mutator.visit_expr(function))
    mutator.packed_weights.clear()  # its rules refer to it: it would keep them until a collection
    return mutator.builder_.get()
