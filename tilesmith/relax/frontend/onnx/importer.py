"""Converts an ONNX graph to a function of the graph IR."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy

from tilesmith.ir import IRModule, OperatorSpan
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    BindingBlock,
    Constant,
    DataflowVar,
    RelaxExpr,
    Tuple,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.onnx import functions, symbolic
from tilesmith.relax.frontend.onnx.folding import fold
from tilesmith.relax.frontend.onnx.inputs import InputReader
from tilesmith.relax.frontend.onnx.model import (
    check_names,
    check_nodes,
    check_operators,
    load_model,
    node_name,
    opset_versions,
)
from tilesmith.relax.frontend.onnx.node import OnnxNode, outputs_of
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.registry import find_converter
from tilesmith.relax.frontend.onnx.schemas import check_by_schema
from tilesmith.relax.frontend.onnx.stored_tensors import StoredTensor
from tilesmith.relax.frontend.onnx.tensors import attribute_value, tensor_array
from tilesmith.relax.frontend.onnx.values import Sizes, Weight
from tilesmith.relax.frontend.options import fills_spans
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.ndarray import array as make_ndarray
from tilesmith.support.errors import (
    FrontendError,
    OpError,
    OpNotImplemented,
    OutOfMemoryError,
    TilesmithError,
)
from tilesmith.support.recursion import deep_recursion

__all__ = ["ONNXGraphImporter", "from_onnx"]

_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Any] | None = None,
    dtype_dict: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Import an ONNX model as a module whose function ``main`` computes its outputs.

    Args:
        model: a ModelProto, its bytes, or the path of a file (external data is read beside it).
        shape_dict: input name → shape; replaces what the model says. A size is an integer, or a
            text or symbolic variable for one that is known when the function is called.
        dtype_dict: input name → dtype, for inputs whose dtype the model does not tell; a single
            dtype stands for all of them.
        opset: reads the nodes by this opset version instead of the model's own.
        keep_params_in_input: weights become parameters after the inputs, their values the attribute
            ``params`` (see ``relax.frontend.detach_params``); else they become constants.
        sanitize_input_names: inputs (and weights that are parameters) get names that are Python
            identifiers.

    Sizes with a name (``dim_param``) or without a value become symbolic: any will do.

    Raises FrontendError (with the node at fault), OpNotImplemented (all operators without a
    converter at once), MissingDependencyError (without the package onnx).
    """
    loaded = load_model(model)
    for name, given in (("shape_dict", shape_dict), ("dtype_dict", dtype_dict)):
        if given is not None and not isinstance(given, (Mapping, str)) or given == "":
            raise FrontendError(
                f"{name} maps names of inputs to what they get, got {given!r}",
                notes=("for example: shape_dict={'x': (1, 3, 224, 224)}",),
            )
    importer = ONNXGraphImporter(
        dict(shape_dict or {}), dtype_dict, keep_params_in_input, sanitize_input_names
    )
    try:
        with deep_recursion():
            return importer.from_model(loaded.proto, opset, loaded.stored)
    except TilesmithError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError("there is not enough memory to import the model") from error
    except _BROKEN as error:
        # Damaged files have names that are not text, or fields of the wrong kind.
        raise FrontendError(
            f"the model is broken: {type(error).__name__}: {error}",
            notes=("export it again; onnx.checker.check_model shows details",),
        ) from error


class ONNXGraphImporter:
    """One import of a model; see ``from_onnx``."""

    def __init__(
        self,
        shape_dict: Mapping[str, Any] | None,
        dtype_dict: str | Mapping[str, str] = "float32",
        keep_params_in_input: bool = False,
        sanitize: bool = True,
    ) -> None:
        self.builder = BlockBuilder()
        self.shapes = dict(shape_dict or {})
        self.dtypes = dtype_dict
        self.keep_params = keep_params_in_input
        self.sanitize = sanitize
        self.versions: dict[str, int] = {}
        self.functions: dict[tuple[str, str], Any] = {}
        self.weights: list[Weight] = []
        self.stored: Mapping[str, StoredTensor] = {}
        self.output_names: set[str] = set()
        self._inlined: list[tuple[str, str]] = []
        self._arguments: Mapping[str, Any] | None = None  # attributes of the function around
        self._tensors_of: dict[int, tuple[Any, Any]] = {}

    def from_onnx(self, graph: Any, opset: int) -> IRModule:
        """Import a GraphProto whose nodes are of an opset version of ONNX's own domain."""
        onnx = require_onnx()
        imports = [onnx.helper.make_opsetid("", int(opset))]
        return self.from_model(onnx.helper.make_model(graph, opset_imports=imports), None)

    def from_model(
        self, model: Any, opset: int | None, stored: Mapping[str, StoredTensor] | None = None
    ) -> IRModule:
        """Import a ModelProto, whose weights ``stored`` are still in files."""
        self.stored = stored or {}
        self.versions = opset_versions(model.opset_import, opset)
        self.functions = {(item.domain, item.name): item for item in model.functions}
        check_operators(model, self.versions, self._is_known)
        known = [node for node in model.graph.node if self._is_standard(node)]
        check_nodes(known, model.ir_version, self.versions)
        check_names(model.graph)
        self.output_names = {item.name for item in model.graph.output}
        reader = InputReader(self.shapes, self.dtypes, self.sanitize)
        inputs = reader.read(model.graph)
        values: dict[str, Any] = dict(inputs)
        self._add_initializers(model.graph, values)
        attrs = {"num_input": len(reader.variables)}
        scope = self.builder.function("main", list(reader.variables), attrs)
        with scope:
            if _has_branches(model.graph):
                results = self._import_graph(model.graph, values)
                output = self._result([self.emit_output(value) for value in results])
            else:
                with self.builder.dataflow():
                    results = self._import_graph(model.graph, values)
                    output = self._result([self.emit_output(value, True) for value in results])
            scope.params = [*reader.variables, *self._weight_variables(scope)]
            self.builder.emit_func_output(output)
        return self.builder.get()

    def _is_known(self, node: Any, version: int) -> bool:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if find_converter(domain, node.op_type, version) is not None:
            return True
        if (node.domain, node.op_type) in self.functions:
            return True
        return functions.has_definition(domain, node.op_type, version)

    def _is_standard(self, node: Any) -> bool:
        return (node.domain, node.op_type) not in self.functions

    # Weights

    def _add_initializers(self, graph: Any, values: dict[str, Any]) -> None:
        for sparse in graph.sparse_initializer:
            values[sparse.values.name] = Constant(tensor_array(sparse))
        for tensor in graph.initializer:
            place = self.stored.get(tensor.name)
            array = tensor_array(tensor) if place is None else _read(tensor.name, place)
            if self.keep_params:
                weight = Weight(tensor.name, numpy.asarray(array))
                self.weights.append(weight)
                values[tensor.name] = weight
            else:
                values[tensor.name] = Constant(array)

    def _weight_variables(self, scope: Any) -> list[Any]:
        used = [weight for weight in self.weights if weight.variable is not None]
        if self.keep_params:
            scope.attrs["params"] = tuple([make_ndarray(weight.array) for weight in used])
        return [weight.variable for weight in used]

    # Values

    def tensor(self, value: Any) -> RelaxExpr:
        """Return a value of the ONNX graph as a tensor of the function."""
        if isinstance(value, RelaxExpr):
            return value
        if isinstance(value, Weight):
            if value.variable is None:
                name = value.name
                if self.sanitize:
                    name = self.builder.get_unique_name(identifier(name))
                info = TensorStructInfo(value.array.shape, str(value.array.dtype))
                value.variable = Var(name, info)
            return value.variable
        if isinstance(value, Sizes):
            found = self._tensors_of.get(id(value))
            if found is None:
                found = self._tensors_of[id(value)] = (self.emit(value.tensor()), value)
            return found[0]
        if isinstance(value, list):
            raise FrontendError("a sequence is used where a tensor is expected")
        raise FrontendError("an absent value is used where a tensor is expected")

    def emit(self, expr: Any, name: str = "", is_output: bool = False) -> Any:
        """Bind an expression to a variable; a small constant one is computed instead.

        With ``is_output`` the variable is seen outside of the dataflow block.
        """
        expr = fold(expr)
        if isinstance(expr, (Constant, Var)):
            return expr
        if isinstance(expr, Tuple):
            return Tuple([self.emit(field, name) for field in expr.fields])
        if is_output and self.builder.current_block_is_dataflow():
            variable = self.builder.emit_output(expr, name)
        else:
            variable = self.builder.emit(expr, name)
        info = known_struct_info(variable)
        if isinstance(info, TensorStructInfo) and info.shape is None and info.ndim >= 0:
            return self._bind_sizes(variable, info, name)
        return variable

    def _bind_sizes(self, variable: Any, info: Any, name: str) -> Any:
        """Bind a tensor whose sizes depend on data to a variable with new symbolic sizes."""
        sizes = [SymbolicVar(f"{name or 'size'}_{i}", "int64") for i in range(info.ndim)]
        return self.builder.match_cast(variable, TensorStructInfo(sizes, info.dtype), name)

    def emit_output(self, value: Any, is_dataflow: bool = False) -> Any:
        """Bind an output of the graph to a variable that is visible outside the block."""
        if isinstance(value, list):
            return Tuple([self.emit_output(item, is_dataflow) for item in value])
        if value is None:
            raise FrontendError("an output of the model is an empty optional value")
        value = self.tensor(value)
        if isinstance(value, Var) and self.builder.lookup_binding(value) is not None:
            if not (is_dataflow and isinstance(value, DataflowVar)):
                return value
        return self.builder.emit_output(value) if is_dataflow else self.builder.emit(value)

    def _result(self, outputs: list[Any]) -> Any:
        return outputs[0] if len(outputs) == 1 else Tuple(outputs)

    # Graphs

    def _import_graph(self, graph: Any, values: dict[str, Any]) -> list[Any]:
        self.import_nodes(graph.node, values)
        missing = [item.name for item in graph.output if item.name not in values]
        if missing:
            raise FrontendError(
                f"no node computes the output '{missing[0]}' of the graph",
                notes=("the model is broken; export it again",),
            )
        return [values[item.name] for item in graph.output]

    def import_subgraph(self, graph: Any, values: dict[str, Any], inputs: list[Any]) -> list[Any]:
        """Return the outputs of a subgraph (branch, body of a loop) for values of its inputs."""
        inner = dict(values)
        if len(graph.input) != len(inputs):
            raise FrontendError(
                f"its subgraph '{graph.name}' has {len(graph.input)} inputs, it gets {len(inputs)}"
            )
        for item, value in zip(graph.input, inputs):
            inner[item.name] = value
        for tensor in graph.initializer:
            inner[tensor.name] = Constant(tensor_array(tensor))
        return self._import_graph(graph, inner)

    @contextmanager
    def separate_block(self) -> Iterator[Callable[[], BindingBlock]]:
        """Collect what is emitted inside in a block, which the given function returns afterwards.

        Sizes that became tensors inside are not known outside.
        """
        known = dict(self._tensors_of)
        blocks: list[BindingBlock] = []
        self.builder.begin_binding_block()
        try:
            yield lambda: blocks[0]
        finally:
            blocks.append(self.builder.end_block())
            self._tensors_of = known

    def import_nodes(self, nodes: Any, values: dict[str, Any]) -> None:
        """Convert nodes in order; their outputs are added to ``values``."""
        for index, proto in enumerate(nodes):
            inputs = []
            for name in proto.input:
                if name and name not in values:
                    raise FrontendError(
                        f"{proto.op_type} node '{node_name(proto, index)}' uses '{name}' before "
                        "any node computes it",
                        notes=("the nodes of a model must be in topological order",),
                    )
                inputs.append(values[name] if name else None)
            while inputs and inputs[-1] is None and not proto.input[len(inputs) - 1]:
                inputs.pop()
            found = {item.name: self._attribute(item, proto, index) for item in proto.attribute}
            found = {name: value for name, value in found.items() if value is not None}
            node = OnnxNode(self, proto, inputs, found, self.versions)
            node.scope, node.around = values, nodes
            results = self._convert_checked(node, index)
            for name, result in zip(proto.output, results):
                if name:
                    values[name] = result

    def _attribute(self, item: Any, proto: Any, index: int) -> Any:
        """Return the value of an attribute; one that refers to an attribute of the function around
        has the value of that, None where that is not given.
        """
        if item.ref_attr_name and self._arguments is None:
            raise FrontendError(
                f"{proto.op_type} node '{node_name(proto, index)}': its attribute '{item.name}' "
                f"refers to '{item.ref_attr_name}' of a function, but the node is in none",
                notes=("the model is broken; export it again",),
            )
        return attribute_value(item, self._arguments)

    def _convert_checked(self, node: OnnxNode, index: int) -> list[Any]:
        outer = self.builder.place
        if not fills_spans():
            self.builder.place = None
        elif outer is None or node.proto.name:  # else the name of the function around says more
            self.builder.place = OperatorSpan(node.operator, node_name(node.proto, index))
        try:
            return self.convert(node)
        except TilesmithError as error:
            raise _at_node(error, node, index) from error
        except MemoryError as error:
            reason = "a tensor that is computed at import needs more memory than there is"
            raise _at_node(OutOfMemoryError(reason), node, index) from error
        except _BROKEN as error:
            if _is_too_big(error):
                reason = "a tensor that is computed at import has more elements than can be counted"
                raise _at_node(OutOfMemoryError(reason), node, index) from error
            # Errors of broken models inside a converter; the cause stays attached.
            reason = f"{type(error).__name__}: {error}"
            note = "its inputs or attributes do not fit the operator; export the model again"
            raise _at_node(FrontendError(reason, notes=(note,)), node, index) from error
        finally:
            self.builder.place = outer

    def convert(self, node: OnnxNode) -> list[Any]:
        """Convert a node and return its outputs."""
        if (node.proto.domain, node.operator) not in self.functions:
            check_by_schema(node)
        known = symbolic.evaluate(node)
        if known is not None:
            return [known]
        domain = node.domain
        if (node.proto.domain, node.operator) in self.functions:
            return self.inline(node, self.functions[node.proto.domain, node.operator])
        found = find_converter(domain, node.operator, node.version)
        if found is None:
            definition = functions.definition_of(node)
            if definition is None:
                raise OpNotImplemented("the operator has no converter")
            return self.inline(node, definition, functions.default_attributes(node))
        results = outputs_of(found.convert(node))
        return [self._bind(value, name) for value, name in zip(results, node.proto.output)]

    def _bind(self, value: Any, name: str) -> Any:
        if value is None or isinstance(value, (Sizes, Weight)):
            return value
        if isinstance(value, list):
            return [self._bind(item, name) for item in value]
        return self.emit(value, identifier(name), name in self.output_names)

    def inline(
        self, node: OnnxNode, function: Any, defaults: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Convert a node by its operator's definition in ONNX and return its outputs."""
        versions = {**self.versions, **opset_versions(function.opset_import)}
        key = (function.domain, function.name)
        if key in self._inlined:
            raise FrontendError(f"the function '{function.name}' calls itself")
        if len(node.inputs) > len(function.input):
            raise FrontendError(
                f"it has {len(node.inputs)} inputs, the function takes {len(function.input)}"
            )
        inner = dict.fromkeys(function.input)
        inner.update(zip(function.input, node.inputs))
        attributes = dict(defaults or {})
        attributes.update(
            {item.name: attribute_value(item, None) for item in function.attribute_proto}
        )
        attributes.update(node.attributes)
        self._inlined.append(key)
        around = self.versions, self._arguments
        self.versions, self._arguments = versions, attributes
        try:
            self.import_nodes(function.node, inner)
        finally:
            self._inlined.pop()
            self.versions, self._arguments = around
        count = max(node.outputs, 1)
        return [inner.get(name) for name in function.output[:count]]


def identifier(name: str) -> str:
    """Turn a name into a Python identifier."""
    found = re.sub(r"\W+", "_", name).strip("_")
    return found if found and not found[0].isdigit() else f"v_{found}" if found else "v"


def _is_too_big(error: Exception) -> bool:
    """Return whether numpy refuses to make an array for its size."""
    text = str(error)
    return isinstance(error, ValueError) and ("is too big" in text or "Maximum allowed" in text)


def _at_node(error: TilesmithError, node: OnnxNode, index: int) -> TilesmithError:
    """Return the error with the node that caused it: a FrontendError, or its own kind of
    OpError.
    """
    title = f"{node.domain}.{node.operator}" if node.domain else node.operator
    place = f"{title} node '{node_name(node.proto, index)}'"
    inputs = f"inputs: {node.describe_inputs()}"
    kind = type(error) if isinstance(error, OpError) else FrontendError
    if getattr(error, "at_node", False):
        raised = kind(error.message, error.span, (*error.notes, f"inside of {place}"))
    else:
        raised = kind(f"{place}: {error.message}", error.span, (inputs, *error.notes))
    raised.at_node = True  # type: ignore[attr-defined]
    return raised


def _read(name: str, place: StoredTensor) -> Any:
    """Return the contents of a weight that is still in a file."""
    try:
        return place.read()
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FrontendError(
            f"the tensor '{name}' cannot be read from '{place.path}': {reason}",
            notes=("the file has changed while it was read, or the disk fails; try again",),
        ) from None


def _has_branches(graph: Any) -> bool:
    return any(node.op_type in ("If", "Loop", "Scan") for node in _all_nodes(graph))


def _all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


__all__ += ["identifier"]
