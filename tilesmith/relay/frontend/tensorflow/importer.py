"""Imports a frozen graph of TensorFlow."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Constant, Tuple, TupleWrapper, Var, const, var
from tilesmith.relay.frontend.common import infer_value, set_span
from tilesmith.relay.frontend.known_types import KnownTypes
from tilesmith.relay.frontend.missing import raise_missing
from tilesmith.relay.frontend.tensorflow import elementwise, forms, layers
from tilesmith.relay.frontend.tensorflow.reading import GraphNode, nodes_of, ordered, split_name
from tilesmith.relay.frontend.tensorflow.registry import CONVERTERS
from tilesmith.relay.function import Function
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import sizes
from tilesmith.relay.transform import ConvertLayout
from tilesmith.relay.transform.types import InferType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    ConfigError,
    OpAttributeUnImplemented,
    ShapeError,
    TilesmithError,
    UnknownNameError,
)

__all__ = ["TF_DEFAULT_CONFIGS", "from_tensorflow"]

_REGISTERED = (elementwise, forms, layers)
"""Modules whose converters have to be there."""

TF_DEFAULT_CONFIGS = {"use_dense": True, "use_nt_batch_matmul": True}
"""What ``convert_config`` may say. How matrices lie in memory is decided when a program is
compiled, so that it changes nothing here."""

_FOLDED = 256
"""Integers that depend on constants alone are computed at once up to so many: they are shapes."""

_CONTROL = {
    "Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch", "RefEnter", "RefExit",
    "RefMerge", "RefNextIteration", "RefSwitch",
}  # fmt: skip
_FUNCTIONS = {
    "Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf",
    "StatelessWhile", "While",
}  # fmt: skip
_ADVICE = (
    "python -m tf2onnx.convert --graphdef model.pb --inputs x:0 --outputs y:0 --output model.onnx, "
    "then relay.frontend.from_onnx('model.onnx')"
)
_NCHW = {
    "nn.conv2d": ["NCHW", "default"], "nn.avg_pool2d": ["NCHW"], "nn.max_pool2d": ["NCHW"],
    "nn.conv2d_transpose": ["NCHW", "default"],
}  # fmt: skip


def from_tensorflow(
    graph: Any,
    layout: str | None = "NHWC",
    shape: Mapping[str, Sequence[Any]] | None = None,
    outputs: Sequence[str] | str | None = None,
    convert_config: Mapping[str, Any] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Import a frozen graph of TensorFlow; return the module and the weights by their names. The
    parameters of ``main`` are the placeholders and then the weights.

    Args:
        graph: a GraphDef, its bytes, or the path of a file. TensorFlow need not be installed.
        layout: with "NCHW", convolutions and pools compute in that layout, between transpositions;
            inputs and outputs stay as they are.
        shape: placeholder → shape, in place of what the graph says.
        outputs: names of nodes, or of tensors ("name:1"). The last node without it.
        convert_config: see `TF_DEFAULT_CONFIGS`.

    Raises OpNotImplemented (all operators without a converter at once, control flow among them),
    FrontendError (no graph), UnknownNameError (an output or input that is not there).
    """
    for name in convert_config or {}:
        if name not in TF_DEFAULT_CONFIGS:
            near = difflib.get_close_matches(str(name), TF_DEFAULT_CONFIGS, n=1, cutoff=0)
            raise ConfigError(
                f"from_tensorflow: there is no setting '{name}' in convert_config",
                notes=(f"did you mean '{near[0]}'?",),
            )
    if layout not in ("NHWC", "NCHW", None):
        raise ConfigError(f"from_tensorflow: layout is NHWC or NCHW, not '{layout}'")
    nodes = {node.name: node for node in nodes_of(graph)}
    wanted = [outputs] if isinstance(outputs, str) else list(outputs or _last(nodes))
    needed = ordered(nodes, [split_name(name)[0] for name in wanted])
    raise_missing("TensorFlow", "operators", _missing(needed), _ADVICE)
    importer = _Importer(shape or {})
    importer.check_names(nodes)
    importer.convert(needed)
    module = importer.module(wanted)
    if layout == "NCHW":
        module = InferType()(ConvertLayout(_NCHW)(module))
    return module, importer.params


def _last(nodes: Mapping[str, GraphNode]) -> list[str]:
    return [[name for name, node in nodes.items() if node.op != "NoOp"][-1]]


def _missing(nodes: Sequence[GraphNode]) -> list[tuple[str, str]]:
    found = []
    for node in nodes:
        kind = node.op
        if kind in _CONTROL:
            found.append((node.name, f"{kind}, control flow of TensorFlow 1"))
        elif kind in _FUNCTIONS:
            found.append((node.name, f"{kind}, a call of a function: freeze with inlining"))
        elif kind in ("ReadVariableOp", "VariableV2", "VarHandleOp", "Variable"):
            found.append((node.name, f"{kind}, a variable: freeze the graph before"))
        elif kind not in CONVERTERS and kind not in ("Const", "Placeholder"):
            found.append((node.name, kind))
    return found


class _Operands:
    """The operands of a node, as converters ask for them."""

    def __init__(self, node: GraphNode, exprs: list[Any]) -> None:
        self.node = node
        self.exprs = exprs

    def value(self, number: int, purpose: str) -> numpy.ndarray:
        """Return the values of an operand that has to be known."""
        held = self.exprs[number]
        if not isinstance(held, Constant):
            raise OpAttributeUnImplemented(
                f"{purpose} is '{self.node.inputs[number][0]}', which is only known when the model "
                "runs",
                notes=("such a model has shapes that depend on data; fix them before the export",),
            )
        return numpy.asarray(held.data.numpy())

    def ints(self, number: int, purpose: str) -> list[int]:
        """Return the values of an operand that has to be known as a list of integers."""
        return [int(one) for one in self.value(number, purpose).reshape(-1)]


class _Importer:
    """A graph while it is imported: its inputs, its weights, the results of its nodes."""

    def __init__(self, shapes: Mapping[str, Sequence[Any]]) -> None:
        self.params: dict[str, NDArray] = {}
        self._shapes = {split_name(name)[0]: tuple(given) for name, given in shapes.items()}
        self._results: dict[str, list[Any]] = {}
        self._inputs: list[Var] = []
        self._weights: list[Var] = []
        self._types = KnownTypes()

    def check_names(self, nodes: Mapping[str, GraphNode]) -> None:
        """Raise UnknownNameError for a shape of a placeholder that is not there."""
        names = [name for name, node in nodes.items() if node.op == "Placeholder"]
        for name in self._shapes:
            if name not in names:
                raise UnknownNameError(
                    f"from_tensorflow: the graph has no placeholder '{name}'",
                    notes=(f"its placeholders: {', '.join(names)}",),
                )

    def convert(self, nodes: Sequence[GraphNode]) -> None:
        """Convert nodes, whose operands come first."""
        for node in nodes:
            if node.op == "Placeholder":
                self._results[node.name] = [self._placeholder(node)]
            elif node.op == "Const":
                self._results[node.name] = [self._constant(node)]
            else:
                self._results[node.name] = self._converted(node)

    def _converted(self, node: GraphNode) -> list[Any]:
        exprs = [self._result(name, number) for name, number in node.inputs]
        try:
            found = CONVERTERS[node.op](_Operands(node, exprs))
            several = isinstance(found, (list, tuple, TupleWrapper))
            results = [set_span(one, node.name) for one in (found if several else [found])]
            for one in results:
                self._types.add(one)
            known = bool(exprs) and all(isinstance(one, Constant) for one in exprs)
            return [_folded(one) for one in results] if known else results
        except TilesmithError as error:
            error.notes += (f"while the node '{node.name}' ({node.op}) was imported",)
            raise

    def _result(self, name: str, number: int) -> Any:
        results = self._results[name]
        if number >= len(results):
            raise UnknownNameError(f"the node '{name}' has no result {number}")
        return results[number]

    def _placeholder(self, node: GraphNode) -> Var:
        given = self._shapes.get(node.name, node.get("shape"))
        if given is None:
            raise ShapeError(
                f"the shape of the placeholder '{node.name}' is not known",
                notes=(f"say what it is: shape={{'{node.name}': (1, 224, 224, 3)}}",),
            )
        whole = [1 if size == -1 and axis == 0 else size for axis, size in enumerate(given)]
        if -1 in whole:
            raise ShapeError(
                f"the shape {tuple(given)} of the placeholder '{node.name}' is open",
                notes=(f"say what it is: shape={{'{node.name}': (...)}}",),
            )
        made = var(node.name, shape=tuple(whole), dtype=node.get("dtype", "float32"))
        self._inputs.append(made)
        return made

    def _constant(self, node: GraphNode) -> Any:
        values = node.get("value")
        if values.size <= 1 or (values.dtype.kind != "f" and values.size <= _FOLDED):
            return const(values, str(values.dtype))
        made = var(node.name, shape=values.shape, dtype=str(values.dtype))
        self.params[node.name] = array(values)
        self._weights.append(made)
        return made

    def module(self, outputs: Sequence[str]) -> IRModule:
        """Return the module with these results, with types."""
        found = [self._result(*split_name(name)) for name in outputs]
        body = found[0] if len(found) == 1 else Tuple(found)
        main = Function([*self._inputs, *self._weights], body)
        typed: IRModule = InferType()(IRModule.from_expr(main))
        return typed


def _folded(expr: Any) -> Any:
    """Return the value of an expression of constants, if it is a small one."""
    if isinstance(expr, Constant):
        return expr
    whole = sizes(expr)
    if not all(isinstance(one, int) for one in whole) or numpy.prod(whole) > _FOLDED:
        return expr
    return const(infer_value(expr, {}).numpy(), str(dtype_of(expr)))
