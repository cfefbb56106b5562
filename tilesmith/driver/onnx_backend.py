"""Tilesmith as a backend of the package onnx: what `onnx.backend.base` describes.

    from tilesmith.driver import onnx_backend
    prepared = onnx_backend.prepare(model)
    outputs = prepared.run([x, y])

    onnx.backend.test.BackendTest(onnx_backend.TilesmithBackend, __name__)

Everything that runs is compiled code. A model is compiled once, by `prepare`, and serves all inputs
of its signature. Where the model itself does not say enough for that (the number of elements of a
sequence, whether an optional input is there, a shape that is not declared, axes that decide the
rank of a result), it is compiled when it first runs, for these inputs: once for each different
structure, and for each different value of the small inputs if nothing less will do. That is
recorded as a fallback, and `PreparedModel.specialised` says on what the last run depended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from tilesmith.driver.model import compile as compile_model
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.support.errors import (
    FrontendError,
    TilesmithError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import record_fallback

__all__ = [
    "PreparedModel", "TilesmithBackend", "is_compatible", "prepare", "run_model", "run_node",
    "supports_device",
]  # fmt: skip

_MOST_VALUES = 256
"""Inputs with more elements are never made constants."""


class PreparedModel:
    """A compiled model; `run` takes a list of inputs, or a mapping from names, and returns the list
    of outputs as numpy arrays (a list for a sequence, None for an empty optional value).
    """

    def __init__(self, model: Any, target: Any = "llvm") -> None:
        self.model = model
        self.target = target
        self.specialised = ""
        stored = {tensor.name for tensor in model.graph.initializer}
        stored |= {sparse.values.name for sparse in model.graph.sparse_initializer}
        self.inputs = [item for item in model.graph.input if item.name not in stored]
        self._special: dict[Any, Any] = {}
        self._general: Any = None
        self._problem: TilesmithError | None = None
        if any(_is_open(item) for item in self.inputs):
            return
        try:
            self._general = self._compile(self.model, {})
        except TilesmithError as error:
            if not self.inputs:
                raise
            self._problem = error

    def run(self, inputs: Any, **options: Any) -> list[Any]:
        """Run the model on inputs; `options` are accepted for other backends' sake."""
        values = self._given(inputs)
        if self._general is not None:
            self.specialised = ""
            return self._call(self._general, values)
        return self._run_special(values)

    def _given(self, inputs: Any) -> list[Any]:
        names = [item.name for item in self.inputs]
        if isinstance(inputs, Mapping):
            unknown = [name for name in inputs if name not in names]
            if unknown:
                raise FrontendError(f"the model has no input '{unknown[0]}'")
            inputs = [inputs.get(name) for name in names]
        elif not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if len(inputs) != len(names):
            raise FrontendError(
                f"the model has {len(names)} inputs, got {len(inputs)}",
                notes=("inputs: " + ", ".join(names),),
            )
        return [_array(value) for value in inputs]

    # Compiling for the structure or the values of inputs

    def _run_special(self, values: list[Any]) -> list[Any]:
        shapes = {item.name: _shape(value) for item, value in zip(self.inputs, values)}
        structure = repr(shapes)
        small = [index for index, value in enumerate(values) if _is_small(value)]
        key = (structure, *[(index, values[index].tobytes()) for index in small])
        found = self._special.get(structure) or self._special.get(key)
        if found is None:
            found = self._specialise(values, shapes, small, structure, key)
        executable, constant, self.specialised = found
        return self._call(
            executable, [value for index, value in enumerate(values) if index not in constant]
        )

    def _specialise(
        self, values: list[Any], shapes: dict[str, Any], small: list[int], structure: str, key: Any
    ) -> Any:
        is_wanted = any(_is_open(item) for item in self.inputs)
        if is_wanted or self._problem is None:
            try:
                executable = self._compile(self.model, shapes)
                self._special[structure] = (executable, (), "structure")
                record_fallback("specialisation", self.model.graph.name, "compiled for its inputs")
                return self._special[structure]
            except TilesmithError as error:
                record_fallback("specialisation", self.model.graph.name, error)
                self._problem = error
        if not small:
            raise self._problem
        model = _with_constants(self.model, {self.inputs[i].name: values[i] for i in small})
        rest = {
            item.name: shapes[item.name] for i, item in enumerate(self.inputs) if i not in small
        }
        try:
            executable = self._compile(model, rest)
        except TilesmithError as error:
            raise self._problem from error
        names = ", ".join([self.inputs[index].name for index in small])
        record_fallback("specialisation", self.model.graph.name, f"compiled for values of {names}")
        kept = (executable, tuple(small), "values")
        self._special[key] = kept
        return kept

    def _compile(self, model: Any, shapes: dict[str, Any]) -> Any:
        from tilesmith.relax.frontend.onnx import from_onnx

        return compile_model(from_onnx(model, shape_dict=shapes), self.target, cache=False)

    # Calling

    def _call(self, executable: Any, values: list[Any]) -> list[Any]:
        arguments: list[Any] = []
        for value in values:
            arguments += [] if value is None else value if isinstance(value, list) else [value]
        found = executable(*arguments)
        outputs = self.model.graph.output
        if len(outputs) == 1:
            found = (found,)
        return [_numpy(value) for value in found]


def _is_open(item: Any) -> bool:
    """Return whether an input's declaration leaves open what it consists of."""
    kind = item.type.WhichOneof("value")
    return kind != "tensor_type" or not item.type.tensor_type.HasField("shape")


def _array(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_array(item) for item in value]
    found = numpy.asarray(value)
    if found.dtype.kind in "OUS":
        raise UnsupportedError("texts cannot be inputs: a compiled model computes with numbers")
    return found


def _shape(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return tuple(value.shape)


def _is_small(value: Any) -> bool:
    """Return whether an input may be a parameter, as axes and sizes are."""
    return isinstance(value, numpy.ndarray) and value.ndim <= 1 and value.size <= _MOST_VALUES


def _with_constants(model: Any, values: dict[str, Any]) -> Any:
    """Return the model with values of some inputs as constants."""
    onnx = require_onnx()
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [item for item in model.graph.input if item.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    for name, value in values.items():
        copy.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return copy


def _numpy(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_numpy(item) for item in value]
    return value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)


class TilesmithBackend:
    """The backend for `onnx.backend.test.BackendTest`; the functions of this module are the
    same.
    """

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **options: Any) -> bool:
        """Return whether the backend tries the model: on a CPU it tries all, and says what it
        cannot compile.
        """
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> PreparedModel:
        """Compile a model (ModelProto, bytes, or path) and return it ready to run.

        The option `target` is any target of Tilesmith; tolerances of tests are ignored.
        """
        from tilesmith.relax.frontend.onnx.model import load_model

        if not cls.supports_device(device):
            raise UnsupportedError(f"there is no device '{device}'", notes=("use 'CPU'",))
        proto = model
        if not hasattr(model, "graph"):
            loaded = load_model(model)
            if loaded.stored:
                raise UnsupportedError(
                    "the backend takes models whose weights are in the file itself",
                    notes=("use tilesmith.compile(path) for models with external data",),
                )
            proto = loaded.proto
        return PreparedModel(proto, options.get("target", "llvm"))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **options: Any) -> list[Any]:
        """Compile a model, run it once and return its outputs."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[Any] | None = None,
        **options: Any,
    ) -> list[Any]:
        """Compile a single node for these inputs, run it and return its outputs.

        The option `opset_version` is that of the node's domain (the newest if not given).
        """
        return cls.prepare(_model_of(node, inputs, options), device).run(_present(node, inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models can run on a device: "CPU", or "CPU:0"."""
        name, _, number = str(device).partition(":")
        return name.upper() == "CPU" and number in ("", "0")


def _present(node: Any, inputs: Any) -> list[Any]:
    names = [name for name in node.input if name]
    if isinstance(inputs, Mapping):
        return [inputs[name] for name in dict.fromkeys(names)]
    return list(inputs)


def _model_of(node: Any, inputs: Any, options: Mapping[str, Any]) -> Any:
    """Return a model of one node."""
    onnx = require_onnx()
    names = list(dict.fromkeys([name for name in node.input if name]))
    values = [_array(value) for value in _present(node, inputs)]
    if len(values) != len(names):
        raise TypeMismatchError(f"the node has {len(names)} inputs, got {len(values)}")
    declared = []
    for name, value in zip(names, values):
        if not isinstance(value, numpy.ndarray):
            raise UnsupportedError(f"the input '{name}' of a single node has to be a tensor")
        element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        declared.append(onnx.helper.make_tensor_value_info(name, element, value.shape))
    version = options.get("opset_version") or onnx.defs.onnx_opset_version()
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], node.op_type, declared, results)
    domain = node.domain
    imports = [onnx.helper.make_opsetid(domain, int(version) if not domain else 1)]
    if domain:
        imports.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    return onnx.helper.make_model(graph, opset_imports=imports)


is_compatible = TilesmithBackend.is_compatible
prepare = TilesmithBackend.prepare
run_model = TilesmithBackend.run_model
run_node = TilesmithBackend.run_node
supports_device = TilesmithBackend.supports_device
