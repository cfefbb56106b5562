"""Builds recipes as graph modules: each stage is a kernel, and ``main`` calls one after the other.

Between the kernels stand operators that change no value (``detours``), so that passes over graphs
have something to fold, fuse and remove.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilesmith import relax
from tilesmith.ir import IRModule
from tilesmith.relax import op
from tilesmith.relax.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from tilesmith.testing.fuzz.recipe import (
    Recipe,
    Sizes,
    build,
    outputs_of,
    parameters_of,
    unbound_sizes,
)
from tilesmith.testing.fuzz.stages import all_loads
from tilesmith.tir import PrimFunc

__all__ = ["DETOURS", "GRAPH_STAGES", "build_graph", "draw_detours", "graph_inputs", "graph_sizes"]

GRAPH_STAGES = (
    "compute", "reduce", "contraction", "convolution", "argmax", "scan", "epilogue", "padding",
    "pooling",
)  # fmt: skip
"""Stages that the generator draws for graphs: each computes tensors of its own."""

Detour = Callable[[relax.BlockBuilder, Any, list[Any], str], Any]


def _flattened(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.emit(op.reshape(builder.emit(op.flatten(value)), shape))


def _transposed(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.emit(op.permute_dims(builder.emit(op.permute_dims(value)), None))


def _maximum(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.emit(op.maximum(value, value))


def _wider(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.emit(op.astype(builder.emit(op.astype(value, _WIDER[dtype])), dtype))


def _expanded(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.emit(op.squeeze(builder.emit(op.expand_dims(value, [0])), [0]))


def _parts(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    doubled = builder.emit(op.concat([value, value], axis=0))
    parts = builder.emit(op.split(doubled, 2, axis=0))
    return builder.emit(relax.TupleGetItem(parts, 1))


def _in_tuple(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    pair = builder.emit(relax.Tuple([value, value]))
    return builder.emit(relax.TupleGetItem(pair, 0))


def _matched(builder: relax.BlockBuilder, value: Any, shape: list[Any], dtype: str) -> Any:
    return builder.match_cast(value, TensorStructInfo(shape, dtype))


_WIDER = {
    "bool": "int8", "int8": "int32", "uint8": "int32", "int16": "int64", "uint16": "int32",
    "int32": "int64", "uint32": "int64", "float16": "float32", "bfloat16": "float32",
    "float32": "float64",
}  # fmt: skip

DETOURS: dict[str, Detour] = {
    "flattened": _flattened, "transposed": _transposed, "maximum": _maximum, "wider": _wider,
    "expanded": _expanded, "parts": _parts, "tuple": _in_tuple, "matched": _matched,
}  # fmt: skip
"""Name → operators that give a tensor back as it was."""


def draw_detours(rng: random.Random, recipe: Recipe) -> dict[str, list[str]]:
    """Return the names of detours for some tensors of a recipe."""
    made = {}
    tensors = [*recipe["inputs"], *[t for stage in recipe["stages"] for t in stage["tensors"]]]
    for tensor in tensors:
        if rng.random() < 0.4:
            drawn = rng.choices(list(DETOURS), k=rng.choice([1, 1, 2]))
            made[tensor["name"]] = [name for name in drawn if _applies(name, tensor["dtype"])]
    return made


def _applies(name: str, dtype: str) -> bool:
    if name == "wider":
        return dtype in _WIDER
    return name != "maximum" or dtype != "bool"


def graph_inputs(recipe: Recipe) -> list[str]:
    """Return the names of the tensors that ``main`` takes."""
    outputs = set(outputs_of(recipe))
    return [name for name in parameters_of(recipe) if name not in outputs]


def graph_sizes(recipe: Recipe) -> list[str]:
    """Return the symbolic sizes that ``main`` takes as a shape after the tensors, because no tensor
    that it takes has them as a size.
    """
    shapes = {tensor["name"]: tensor["shape"] for tensor in recipe["inputs"]}
    bound = {size for name in graph_inputs(recipe) for size in shapes[name] if _is_name(size)}
    return [name for name in recipe["symbolic"] if name not in bound]


def _is_name(size: Any) -> bool:
    return isinstance(size, str)


def build_graph(recipe: Recipe, detours: dict[str, list[str]]) -> IRModule:
    """Return the module of a recipe. Its ``main`` takes inputs, then sizes (``graph_sizes``), and
    returns a tuple of the outputs.
    """
    return _Graph(recipe, detours).build()


class _Graph:
    def __init__(self, recipe: Recipe, detours: dict[str, list[str]]) -> None:
        self.recipe = recipe
        self.detours = detours
        self.sizes = Sizes({**recipe, "index": "int64"})
        self.builder = relax.BlockBuilder()
        self.values: dict[str, Any] = {}
        self.tensors = {tensor["name"]: tensor for tensor in recipe["inputs"]}
        for stage in recipe["stages"]:
            self.tensors.update({tensor["name"]: tensor for tensor in stage["tensors"]})

    def info(self, name: str) -> TensorStructInfo:
        tensor = self.tensors[name]
        return TensorStructInfo([self.sizes.expr(s) for s in tensor["shape"]], tensor["dtype"])

    def build(self) -> IRModule:
        builder, inputs = self.builder, graph_inputs(self.recipe)
        params = [relax.Var(name, self.info(name)) for name in inputs]
        sizes = [self.sizes.variables[name] for name in graph_sizes(self.recipe)]
        given = [*params, relax.Var("sizes", ShapeStructInfo(sizes))] if sizes else params
        with builder.function("main", given):
            with builder.dataflow():
                for name, param in zip(inputs, params):
                    self.define(name, param)
                for stage in self.recipe["stages"]:
                    self.call(stage)
                results = [self.values[name] for name in outputs_of(self.recipe)]
                output = builder.emit_output(relax.Tuple(results))
            builder.emit_func_output(output)
        return builder.get()

    def define(self, name: str, value: Any) -> None:
        """Let a tensor's name stand for a value, after its detours."""
        info = self.info(name)
        for detour in self.detours.get(name, ()):
            shape = [self.sizes.expr(size) for size in self.tensors[name]["shape"]]
            value = DETOURS[detour](self.builder, value, shape, str(info.dtype))
        self.values[name] = value

    def call(self, stage: dict[str, Any]) -> None:
        """Emit the call of a stage's kernel."""
        names = [tensor["name"] for tensor in stage["tensors"]]
        loads = sorted(all_loads(stage) - set(names))
        inputs = [{**self.tensors[name], "ulp": None} for name in loads]
        whole = {**stage, "out": True}
        part = {**self.recipe, "inputs": inputs, "stages": [whole], "layouts": {}}
        kernel, arguments, sizes = _kernel(part, stage["name"])
        callee = self.builder.add_func(kernel, stage["name"])
        infos: list[StructInfo] = [self.info(name) for name in names]
        result = self.builder.emit(
            relax.call_tir(
                callee,
                [self.values[name] for name in arguments],
                infos if len(infos) > 1 else infos[0],
                [self.sizes.variables[name] for name in sizes] or None,
            )
        )
        for number, name in enumerate(names):
            one = result
            if len(names) > 1:
                one = self.builder.emit(relax.TupleGetItem(result, number))
            self.define(name, one)


def _kernel(part: Recipe, name: str) -> tuple[PrimFunc, list[str], list[str]]:
    """Return the function of one stage with the parameters in the order of destination-passing
    calls (inputs, outputs, sizes), and the names of its inputs and sizes.
    """
    function = build(part)
    assert isinstance(function, PrimFunc)  # no stage of a graph hands pointers on
    outputs = outputs_of(part)
    scalars = unbound_sizes(part)
    params = {_name(function, param): param for param in function.params}
    inputs = [one for one in parameters_of(part) if one not in outputs]
    order = [params[one] for one in [*inputs, *outputs, *scalars]]
    function = function.with_fields(params=tuple(order)).with_attr("global_symbol", name)
    return function, inputs, scalars


def _name(function: PrimFunc, param: Any) -> str:
    buffer = function.buffer_map.get(param)
    return str(param.name if buffer is None else buffer.name)
