"""Walks through a model of Keras and converts its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay import op
from tilesmith.relay.expr import Tuple, Var, var
from tilesmith.relay.frontend.common import set_span
from tilesmith.relay.frontend.keras import (
    attention,
    core,
    images,
    merging,
    operations,
    recurrent,
    reshaping,
)
from tilesmith.relay.frontend.keras.package import require_keras
from tilesmith.relay.frontend.keras.registry import CONVERTERS, Value, mapped
from tilesmith.relay.frontend.known_types import KnownTypes
from tilesmith.relay.frontend.missing import raise_missing
from tilesmith.relay.function import Function
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import rank_of
from tilesmith.relay.transform.types import InferType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    ConfigError,
    ShapeError,
    TilesmithError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["from_keras"]

_REGISTERED = (attention, core, images, merging, operations, recurrent, reshaping)
"""Modules whose converters have to be there."""

_LAYOUTS = {"NCHW": 4, "NHWC": 0, "NCDHW": 5, "NDHWC": 0, "NCW": 3, "NWC": 0}
"""Layout → the number of axes of the tensors whose channels it moves to axis 1."""

_ADVICE = "model.export('model.onnx', format='onnx'), then relay.frontend.from_onnx('model.onnx')"


def from_keras(
    model: Any, shape: Mapping[str, Sequence[Any]] | None = None, layout: str = "NCHW"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Import a model of Keras 3; return the module and the weights by their names. The parameters
    of ``main`` are the inputs and then the weights.

    Args:
        model: a Sequential or functional model; models may nest. It is imported as it computes in
            evaluation.
        shape: input → shape, as the imported model has it. An unknown batch is 1 without it.
        layout: with "NCHW", inputs and outputs with four axes have their channels at axis 1 even if
            Keras describes them as the last ("NCDHW": those with five, "NCW": with three). With
            "NHWC", all are as Keras describes them.

    Raises OpNotImplemented (all layers without a converter at once), MissingDependencyError.
    """
    keras = require_keras()
    if not isinstance(model, keras.Model):
        raise TypeMismatchError(
            f"from_keras takes a model of Keras, got {type(model).__name__}",
            notes=("read a file first: keras.models.load_model('model.keras')",),
        )
    if layout not in _LAYOUTS:
        raise ConfigError(
            f"from_keras: there is no layout '{layout}'", notes=(f"one of {', '.join(_LAYOUTS)}",)
        )
    if not model.built or not hasattr(model, "inputs") or model.inputs is None:
        raise UnsupportedError(
            f"the model '{model.name}' does not know its inputs yet",
            notes=("start it with keras.Input(shape), or call model.build(shape) before",),
        )
    raise_missing("Keras", "layers", _missing(keras, model), _ADVICE)
    graph = _Importer(keras, _LAYOUTS[layout])
    graph.begin(model, shape or {})
    return graph.module(), graph.params


# What cannot be imported


def _key(layer: Any) -> str:
    kind = type(layer)
    module = kind.__module__
    if not module.startswith(("keras.src.", "keras.")):
        return f"{module}.{kind.__name__}"
    return f"ops.{kind.__name__}" if ".ops." in module else kind.__name__


def _parts(layer: Any) -> list[Any]:
    """Return the layers that a layer wraps."""
    found = [getattr(layer, name, None) for name in ("layer", "forward_layer", "backward_layer")]
    return [one for one in found if one is not None]


def _nodes(model: Any) -> Iterator[Any]:
    """Yield the calls of a functional model in an order in which they can be made."""
    by_depth = model._nodes_by_depth  # there is no public way to them
    for depth in sorted(by_depth, reverse=True):
        for node in by_depth[depth]:
            if node.operation is not None and not node.is_input:
                yield node


def _is_graph(keras: Any, layer: Any) -> bool:
    return isinstance(layer, keras.Sequential) or hasattr(layer, "_nodes_by_depth")


def _layers(keras: Any, model: Any) -> Iterator[Any]:
    """Yield the layers of a model, of models in it, and those that are wrapped."""
    waiting, seen = [model], set()
    while waiting:
        layer = waiting.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if isinstance(layer, keras.Sequential):
            waiting += reversed(layer.layers)
        elif _is_graph(keras, layer):
            waiting += reversed([node.operation for node in _nodes(layer)])
        else:
            yield layer
            waiting += _parts(layer)


def _missing(keras: Any, model: Any) -> list[tuple[str, str]]:
    """Return (name, class and reason) of all layers that have no converter."""
    found = []
    for layer in _layers(keras, model):
        key = _key(layer)
        if key == "InputLayer":
            continue
        if key not in CONVERTERS:
            found.append((layer.name, key))
        elif key == "Embedding" and layer.mask_zero:
            found.append((layer.name, "Embedding with mask_zero=True: masks are not imported"))
        elif getattr(layer, "stateful", False):
            found.append((layer.name, f"{key} with stateful=True"))
    return found


# The import


class _Importer:
    """A model while it is imported: its inputs, weights, outputs."""

    def __init__(self, keras: Any, moved_rank: int) -> None:
        self.keras = keras
        self.params: dict[str, NDArray] = {}
        self._moved_rank = moved_rank
        self._inputs: list[Var] = []
        self._weights: dict[tuple[int, str], Var] = {}
        self._types = KnownTypes()
        self._body: Any = None

    # What converters ask for

    def is_moved(self, rank: int) -> bool:
        """Return whether images with so many axes have their channels at axis 1."""
        return rank == self._moved_rank

    def numpy_of(self, value: Any) -> numpy.ndarray:
        """Return a tensor of Keras, or a number, as an array."""
        if isinstance(value, (bool, int, float, numpy.ndarray, numpy.generic)):
            return numpy.asarray(value)
        ops = self.keras.ops
        return numpy.asarray(ops.convert_to_numpy(ops.stop_gradient(value)))

    def array(self, layer: Any, name: str) -> numpy.ndarray:
        """Return a weight of a layer, in the dtype in which it computes."""
        found = self.numpy_of(getattr(layer, name))
        wanted = getattr(layer, "compute_dtype", None)
        if wanted is not None and found.dtype.kind == "f" and str(found.dtype) != wanted:
            found = found.astype(wanted)
        return found

    def weight(
        self, layer: Any, name: str, arrange: Callable[[numpy.ndarray], numpy.ndarray] | None = None
    ) -> Var:
        """Return the parameter for a weight of a layer; ``arrange`` is of one form for each."""
        known = self._weights.get((id(layer), name))
        if known is None:
            held = self.array(layer, name)
            if arrange is not None:
                held = numpy.ascontiguousarray(arrange(held))
            full = f"{getattr(layer, 'path', None) or layer.name}/{name.strip('_')}"
            while full in self.params:
                full += "_"
            self.params[full] = array(held)
            known = var(full, shape=held.shape, dtype=str(held.dtype))
            self._weights[(id(layer), name)] = known
        return known

    def call(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the results of a layer for values."""
        if _is_graph(self.keras, layer):
            return self._run(layer, _flat([*args, *kwargs.values()]))
        if _flat(kwargs.get("mask")):
            raise UnsupportedError(
                f"the layer '{layer.name}' is called with a mask, which is not imported",
                notes=("attention takes attention_mask, which is",),
            )
        kwargs = {name: one for name, one in kwargs.items() if name not in ("training", "mask")}
        wanted = getattr(layer, "compute_dtype", None)
        if wanted is not None and getattr(layer, "autocast", True):

            def cast(leaf: Any) -> Any:
                return _as_float(leaf, wanted) if isinstance(leaf, Value) else leaf

            args, kwargs = mapped(args, cast), mapped(kwargs, cast)
        try:
            found = CONVERTERS[_key(layer)](self, layer, *args, **kwargs)
        except TilesmithError as error:
            error.notes += (f"while the layer '{layer.name}' ({_key(layer)}) was imported",)
            raise
        return mapped(found, lambda leaf: self._finished(leaf, layer.name))

    def _finished(self, value: Value, name: str) -> Value:
        found = set_span(value.expr, name)
        self._types.add(found)
        return Value(found, value.moved)

    # Models

    def begin(self, model: Any, shapes: Mapping[str, Sequence[Any]]) -> None:
        """Convert a model whose inputs become the module's parameters."""
        names = [one.name for one in model.inputs]
        for name in shapes:
            if name not in names:
                raise UnknownNameError(
                    f"from_keras: the model has no input '{name}'",
                    notes=(f"its inputs: {', '.join(names)}",),
                )
        first = self._has_channels_first(model)
        values = []
        for one in model.inputs:
            rank = len(one.shape)
            moved = self.is_moved(rank) and not first
            sizes = shapes.get(one.name) or _default_sizes(one, moved)
            if len(sizes) != rank:
                raise ShapeError(
                    f"from_keras: the input '{one.name}' has {rank} axes, its shape {tuple(sizes)}"
                )
            made = var(one.name, shape=tuple(sizes), dtype=str(one.dtype))
            self._inputs.append(made)
            values.append(Value(made, moved))
        results = _flat(self._run(model, values))
        outputs = [self._output(one) if not first else one.plain() for one in results]
        self._body = outputs[0] if len(outputs) == 1 else Tuple(outputs)

    def _has_channels_first(self, model: Any) -> bool:
        formats = {getattr(one, "data_format", None) for one in _layers(self.keras, model)}
        if "channels_first" in formats and not self._moved_rank:
            raise UnsupportedError(
                "from_keras: the model has its channels first (data_format='channels_first')",
                notes=("import it with layout='NCHW'",),
            )
        return "channels_first" in formats

    def _output(self, value: Value) -> Any:
        if self.is_moved(rank_of(value.expr)):
            return value.first()
        return value.plain()

    def _run(self, model: Any, inputs: Sequence[Value]) -> Any:
        if isinstance(model, self.keras.Sequential):
            found: Any = inputs[0]
            for layer in model.layers:
                found = self.call(layer, found)
            return found
        table = {id(one): value for one, value in zip(model.inputs, inputs)}

        def filled(leaf: Any) -> Any:
            return table[id(leaf)] if isinstance(leaf, self.keras.KerasTensor) else leaf

        for node in _nodes(model):
            args = mapped(node.arguments.args, filled)
            kwargs = mapped(node.arguments.kwargs, filled)
            results = _flat(self.call(node.operation, *args, **kwargs))
            table.update(zip([id(one) for one in node.outputs], results))
        found = [table[id(one)] for one in model.outputs]
        return found[0] if len(found) == 1 else found

    def module(self) -> IRModule:
        """Return the module, with types."""
        main = Function([*self._inputs, *self._weights.values()], self._body)
        typed: IRModule = InferType()(IRModule.from_expr(main))
        return typed


def _flat(structure: Any) -> list[Value]:
    """Return the values in a structure, those of a dict by the order of its names."""
    if isinstance(structure, Value):
        return [structure]
    if isinstance(structure, Mapping):
        structure = [structure[name] for name in sorted(structure)]
    if not isinstance(structure, (list, tuple)):
        return []
    return [leaf for one in structure for leaf in _flat(one)]


def _as_float(value: Value, dtype: str) -> Value:
    """Return a value of floats in another dtype, any other value as it is."""
    held = dtype_of(value.expr)
    if held is None or not held.is_float or str(held) == dtype or not dtype.startswith("float"):
        return value
    return Value(op.cast(value.expr, dtype), value.moved)


def _default_sizes(tensor: Any, moved: bool) -> tuple[int, ...]:
    """Return the sizes of an input, with a batch of 1 where it is not known."""
    sizes = list(tensor.shape)
    if sizes and sizes[0] is None:
        sizes[0] = 1
    if None in sizes:
        raise ShapeError(
            f"from_keras: the shape {tuple(tensor.shape)} of the input '{tensor.name}' is open",
            notes=(f"say what it is: shape={{'{tensor.name}': (...)}}",),
        )
    return (sizes[0], sizes[-1], *sizes[1:-1]) if moved else tuple(sizes)
