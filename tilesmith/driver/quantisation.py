"""Quantises a model of floats to integers after training, with calibration data.

    y = R.nn.conv2d(x, w)
      ->
    q = R.quantize(x, s, z)                        bytes
    d = R.dequantize(q, s, z)
    y = R.nn.conv2d(d, R.dequantize(integers, scale of each output))

That is the form of quantised ONNX models: ComputeInIntegers makes products of integers of it. Data
of products with constant weights are quantised where they are made, so that all operators that
work in any precision read bytes; normalisation and softmax read the floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.driver.calibration import Histogram, Quantisation, chosen_quantisation
from tilesmith.driver.pipelines import simplifying_passes
from tilesmith.ir import IRModule, Op
from tilesmith.relax import op as operators
from tilesmith.relax import transform as graph
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    Tuple,
    Var,
    VarBinding,
    const,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.spec import Precision
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.pair_products import FEWEST_COLUMNS
from tilesmith.support.errors import ConfigError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["calibrated", "prepared", "products", "quantised", "sites", "with_results"]

Batch = Mapping[str, Any] | Sequence[Any]
_MOVING = {
    operators.permute_dims.op, operators.reshape.op, operators.flatten.op,
    operators.expand_dims.op, operators.squeeze.op, operators.nn.max_pool2d.op,
}  # fmt: skip
_MOST_STEPS = 16


def prepared(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """Return a simplified module: parameters are constants, normalisations are in the weights.
    The bindings of its functions are not in dataflow blocks, so that each may be a result.
    """
    if params:
        mod = graph.BindParams("main", dict(params))(mod)
    for step in (*simplifying_passes(), graph.ToNonDataflow()):
        mod = step(mod)
    return mod


def _bindings(mod: IRModule) -> list[Any]:
    """Return the bindings of ``main``, those of its branches left out."""
    main: Any = mod["main"]
    return [one for block in main.body.blocks for one in block.bindings]


def _is_float32(expr: Any) -> bool:
    info = known_struct_info(expr)
    return isinstance(info, TensorStructInfo) and info.dtype == "float32"


def products(mod: IRModule) -> list[Any]:
    """Return the bindings of products and convolutions of float32, in their order."""
    return [
        one
        for one in _bindings(mod)
        if isinstance(one, VarBinding) and isinstance(one.value, Call)
        and isinstance(one.value.op, Op) and _is_float32(one.var)
        and one.value.op.get_attr("TMixedPrecisionPolicy", Precision.NEVER) == Precision.ALWAYS
    ]  # fmt: skip


def _output_axis(call: Any) -> int | None:
    """Return the axis of a constant weight that counts the outputs; None if the product is not one
    that has a kernel of bytes.
    """
    if len(call.args) < 2 or not isinstance(call.args[1], Constant):
        return None
    shape = numpy.asarray(call.args[1].data).shape
    if call.op is operators.matmul.op:
        data: Any = known_struct_info(call.args[0])
        is_matrix = len(shape) == 2 and data.ndim >= 2
        return 1 if is_matrix and shape[1] >= FEWEST_COLUMNS else None
    if call.op is not operators.nn.conv2d.op:
        return None
    attrs = call.attrs
    plain = attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW"
    return 0 if plain and shape[0] >= FEWEST_COLUMNS else None


def sites(mod: IRModule) -> list[Var]:
    """Return the variables of a prepared module that are quantised, in their order: the data of
    products, before what only moves elements.
    """
    made_by = {one.var: one.value for one in _bindings(mod) if isinstance(one, VarBinding)}
    found: dict[Var, None] = {}
    for binding in products(mod):
        call = binding.value
        if _output_axis(call) is None:
            if isinstance(call.args[-1], Constant):
                reason = "no kernel of bytes for its layout, its weights or their few outputs"
                record_fallback("precision", call.op.name, reason)
            continue
        data = call.args[0]
        for _ in range(_MOST_STEPS):
            source = made_by.get(data)
            if not isinstance(source, Call) or source.op not in _MOVING:
                break
            data = source.args[0]
        if isinstance(data, Var) and _is_float32(data):
            found[data] = None
    return list(found)


def with_results(mod: IRModule, more: Sequence[Any]) -> IRModule:
    """Return a prepared module whose ``main`` gives its result, and behind it the values of
    variables, as one tuple.
    """
    main: Any = mod["main"]
    body = main.body
    result = Tuple([body.body, *more])
    changed = mod.shallow_copy()
    changed["main"] = Function(
        main.params, body.with_fields(body=result), None, main.is_pure, main.attrs
    )
    return changed


def arguments(names: Sequence[str], batch: Any) -> list[Any]:
    """Return the inputs of a model for an element of calibration data; raise ConfigError if it has
    not one for each.
    """
    if isinstance(batch, Mapping):
        unknown = [name for name in batch if name not in names]
        missing = [name for name in names if name not in batch]
        if unknown or missing:
            what = f"no input '{missing[0]}'" if missing else f"an unknown input '{unknown[0]}'"
            raise ConfigError(
                f"an element of the data has {what}", notes=("inputs: " + ", ".join(names),)
            )
        return [batch[name] for name in names]
    given = list(batch) if isinstance(batch, (tuple, list)) else [batch]
    if len(given) != len(names):
        raise ConfigError(
            f"an element of the data has {len(given)} inputs, the model takes {len(names)}",
            notes=("inputs: " + ", ".join(names),),
        )
    return given


def flat(value: Any) -> list[numpy.ndarray]:
    """Return the arrays of a result, tuples flattened."""
    if isinstance(value, (tuple, list)):
        return [leaf for one in value for leaf in flat(one)]
    return [numpy.from_dlpack(value) if hasattr(value, "__dlpack__") else numpy.asarray(value)]


def calibrated(
    mod: IRModule,
    data: Iterable[Batch],
    method: str,
    compile_module: Callable[[IRModule], Any],
) -> list[Quantisation]:
    """Return how each of the `sites` of a prepared module is quantised: the model of floats runs on
    all the data, and gives their values.
    """
    places = sites(mod)
    run = None
    histograms = [Histogram() for _ in places]
    main: Any = mod["main"]
    names = [param.name_hint for param in main.params]
    count = 0
    for batch in data:
        given = arguments(names, batch)
        count += 1
        if not places:
            continue
        if run is None:
            run = compile_module(with_results(mod, places))
        values = flat(run(*given))
        for histogram, value in zip(histograms, values[len(values) - len(places) :]):
            histogram.add(value)
    if not count:
        raise ConfigError("the calibration data are empty", notes=("give 10 to 100 inputs",))
    return [chosen_quantisation(one, method) for one in histograms]


def _stored_weight(values: numpy.ndarray, axis: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return a weight as signed bytes, and the scale of each output."""
    others = tuple([place for place in range(values.ndim) if place != axis])
    scales = (abs(values).max(others) / 127).astype("float32")
    scales = numpy.where(scales > 1e-30, scales, numpy.float32(1))
    shape = [1] * values.ndim
    shape[axis] = -1
    integers = numpy.rint(values / scales.reshape(shape)).clip(-127, 127).astype("int8")
    return integers, scales


class _Quantised(PyExprMutator):
    """Quantises variables, and the weights of the products of them."""

    def __init__(self, mod: IRModule, chosen: Mapping[Var, Quantisation]) -> None:
        super().__init__(mod)
        self.chosen = chosen
        self.bytes: dict[Var, Any] = {}
        self.branches = 0

    def visit_if_(self, op: Any) -> Any:
        """Leave branches as they are: bytes that are made in one are not known behind it."""
        self.branches += 1
        try:
            return super().visit_if_(op)
        finally:
            self.branches -= 1

    def read(self, arg: Any) -> Any:
        """Return an operand, from its bytes if it is quantised."""
        if isinstance(arg, Tuple):
            return Tuple([self.read(field) for field in arg.fields])
        how = self.chosen.get(arg) if isinstance(arg, Var) else None
        if how is None:
            return self.visit_expr(arg)
        if arg not in self.bytes:
            scale, point = const(numpy.float32(how.scale)), const(numpy.uint8(how.point))
            small = operators.quantize(self.visit_expr(arg), scale, point, -1, "uint8")
            wide = operators.dequantize(self.builder_.emit(small), scale, point, -1, "float32")
            self.bytes[arg] = self.builder_.emit(wide)
        return self.bytes[arg]

    def visit_call_(self, op: Call) -> Any:
        """Let a call read bytes, and a product have a weight of bytes."""
        if not isinstance(op.op, Op) or self.branches:
            return self.visit_expr_post_order(op)
        policy = op.op.get_attr("TMixedPrecisionPolicy", Precision.NEVER)
        if policy == Precision.NEVER:
            return self.visit_expr_post_order(op)
        args = [self.read(arg) for arg in op.args]
        axis = _output_axis(op) if policy == Precision.ALWAYS else None
        if axis is not None and _is_float32(op):
            weight: Any = op.args[1]
            integers, scales = _stored_weight(numpy.asarray(weight.data), axis)
            points = const(numpy.zeros(len(scales), "int8"))
            wide = operators.dequantize(const(integers), const(scales), points, axis, "float32")
            args[1] = self.builder_.emit(wide)
        return Call(op.op, args, op.attrs, op.sinfo_args, op.span)


def quantised(mod: IRModule, chosen: Sequence[Quantisation]) -> IRModule:
    """Return a prepared module whose `sites` are quantised as chosen."""
    mutator = _Quantised(mod, dict(zip(sites(mod), chosen, strict=True)))
    changed = mod.shallow_copy()
    changed["main"] = mutator.visit_expr(mod["main"])
    return changed
