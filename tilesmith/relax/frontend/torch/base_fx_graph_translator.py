"""Walks a graph of ATen operators and makes a function of the graph IR of it.

What `torch.export`, `torch.fx` and `torch.compile` give is the same kind of graph
(`torch.fx.Graph` with ATen operators), so that the importers differ in what surrounds it only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilesmith import te
from tilesmith.ir import OperatorSpan, PrimExpr, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.operators import floordiv
from tilesmith.relax import op
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Constant,
    DataflowVar,
    PrimValue,
    RelaxExpr,
    ShapeExpr,
    Tuple,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.onnx.folding import fold
from tilesmith.relax.frontend.onnx.importer import identifier
from tilesmith.relax.frontend.options import fills_spans
from tilesmith.relax.frontend.torch.control import HIGHER_ORDER
from tilesmith.relax.frontend.torch.node import AtenNode, cast
from tilesmith.relax.frontend.torch.registry import find_converter, names_of
from tilesmith.relax.frontend.torch.symbols import SymbolTable, is_symbolic_scalar
from tilesmith.relax.frontend.torch.tensors import constant_of, dtype_name
from tilesmith.relax.relations import prove_equal, sizes_of
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tilesmith.support.errors import (
    FrontendError,
    OpError,
    OpNotImplemented,
    OutOfMemoryError,
    TilesmithError,
    UnsupportedError,
)

__all__ = ["BaseFXGraphImporter"]

_IGNORED = frozenset(
    {
        "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range",
        "sym_constrain_range_for_size",
    }
)  # fmt: skip
"""Checks of torch, about which the graph needs to know nothing."""
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class BaseFXGraphImporter:
    """One import of a graph of torch.

    ``convert_map``: operator of torch (``"add.Tensor"``, or ``"add"`` for all overloads) → function
    of a ``torch.fx.Node`` that gives a variable. A class of one's own overrides
    ``create_convert_map`` and adds to what it returns; what a converter needs is in ``env`` (node →
    value in the graph), ``params`` (tensor of torch → value) and ``block_builder``.
    """

    def __init__(self) -> None:
        self.env: dict[Any, Any] = {}
        self.params: dict[Any, Any] = {}
        self.named_modules: dict[str, Any] = {}
        self.block_builder = BlockBuilder()
        self.symbols = SymbolTable()
        self.convert_map: dict[Any, Callable[[Any], Any]] = self.create_convert_map()
        self._constants: dict[Any, Constant] = {}
        self._root: Any = None

    def create_convert_map(self) -> dict[Any, Callable[[Any], Any]]:
        """Return converters that come before the table of ATen operators; none here."""
        return {}

    # What converters ask

    @staticmethod
    def shape_of(tensor: Any) -> Any:
        """Return the shape of a value of the graph, or of a tensor of torch."""
        if isinstance(tensor, RelaxExpr):
            info = known_struct_info(tensor)
            if not isinstance(info, TensorStructInfo):
                raise FrontendError(f"a value has no shape: {info}")
            return info.shape
        return tensor.shape

    def retrieve_args(self, node: Any) -> Any:
        """Return the arguments of a node with the values of the nodes in them."""
        return self._values(node.args)

    def described(self, node: Any, name: str) -> Any:
        """Return torch's description of an argument of a call (a fake tensor, or a number)."""
        value = _raw_arguments(node)[name]
        return value.meta["val"] if hasattr(value, "meta") else value

    def emit(self, expr: Any) -> Any:
        """Bind an expression to a variable; a small constant one is computed instead."""
        expr = fold(expr)
        return expr if isinstance(expr, (Constant, Var)) else self.block_builder.emit(expr)

    def tensor_of_scalar(self, value: PrimExpr) -> Any:
        """Return the value of a scalar expression as a tensor of rank 0."""
        if value.dtype == "int64":
            return op.reshape(op.shape_to_tensor(ShapeExpr([value])), ShapeExpr([]))
        return self.block_builder.call_te(
            lambda number: te.compute((), lambda: number, name="size"),
            value,
            primfunc_name_hint="size",
        )

    def constant(self, tensor: Any) -> Constant:
        """Return the constant for a tensor of torch; tensors that share memory share it."""
        key = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        if not tensor.numel():
            return constant_of(tensor)
        if key not in self._constants:
            self._constants[key] = constant_of(tensor)
            self.params[tensor] = self._constants[key]  # keeps the memory, too
        return self._constants[key]

    # Graphs

    def find_unsupported(self, module: Any) -> list[tuple[str, str]]:
        """Return (operator, node) of all calls in a graph, and in those inside of it, that have no
        converter.
        """
        found = []
        for node in module.graph.nodes:
            if node.op == "get_attr":
                inner = _attribute(module, node.target)
                if hasattr(inner, "graph"):
                    found += self.find_unsupported(inner)
            if not self._is_known(node):
                found.append((_operator_name(node.target), node.name))
        return found

    def check_operators(self, module: Any) -> None:
        """Raise OpNotImplemented with all the operators of a graph that have no converter."""
        found = self.find_unsupported(module)
        if not found:
            return
        nodes: dict[str, list[str]] = {}
        for name, node in found:
            nodes.setdefault(name, []).append(node)
        shown = "; ".join([f"{name} (nodes {', '.join(nodes[name])})" for name in sorted(nodes)])
        raise OpNotImplemented(
            f"no converter for these operators of torch: {shown}",
            notes=(
                "a converter of your own: override create_convert_map of ExportedProgramImporter,"
                " or give from_fx a custom_convert_map",
            ),
        )

    def _is_known(self, node: Any) -> bool:
        if node.op == "call_module":
            return str(node.target).endswith("_guards_fn")
        if node.op != "call_function" or node.target is operator.getitem:
            return True
        if _is_scalar(node.meta.get("val")) or _is_ignored(node.target):
            return True
        if _name(node.target) in HIGHER_ORDER:
            return True
        return self._find(node.target) is not None

    def _find(self, target: Any) -> Callable[[Any], Any] | None:
        """Return the function that converts a node with this operator."""
        if not hasattr(target, "_schema"):
            return self.convert_map.get(_name(target))
        for name in names_of(target):
            if name in self.convert_map:
                return self.convert_map[name]
        convert = find_converter(target)
        return None if convert is None else lambda node: self.convert_by_table(node, convert)

    def import_graph(self, module: Any, inputs: Iterable[Any]) -> list[Any]:
        """Convert the nodes of a graph for the values of its inputs; return its outputs."""
        given, outputs = iter(inputs), []
        outer, self._root = self._root, module
        try:
            for node in module.graph.nodes:
                if node.op == "placeholder":
                    self.env[node] = next(given)
                elif node.op == "output":
                    outputs = _flat(self._values(node.args[0]))
                elif node.op == "get_attr":
                    inner = _attribute(module, node.target)
                    self.env[node] = inner if hasattr(inner, "graph") else self.constant(inner)
                else:
                    self.env[node] = self._convert_checked(node)
        finally:
            self._root = outer
        return outputs

    def _values(self, value: Any) -> Any:
        if hasattr(value, "meta") and hasattr(value, "op"):
            return self.env[value]
        if isinstance(value, (list, tuple)):
            return [self._values(item) for item in value]
        if isinstance(value, Mapping):
            return {name: self._values(item) for name, item in value.items()}
        if isinstance(value, slice):
            return slice(*self._values([value.start, value.stop, value.step]))
        return self.symbols.scalar(value)

    # Nodes

    def _convert_checked(self, node: Any) -> Any:
        outer = self.block_builder.place
        name = _operator_name(node.target)
        self.block_builder.place = OperatorSpan(name, node.name) if fills_spans() else None
        try:
            return self.convert_node(node)
        except TilesmithError as error:
            if getattr(error, "at_node", False):
                raise
            kind = type(error) if isinstance(error, OpError) else FrontendError
            raised = kind(f"{name} node '{node.name}': {error.message}", error.span, error.notes)
            raised.at_node = True  # type: ignore[union-attr]
            raise raised from error
        except MemoryError as error:
            raise OutOfMemoryError(f"{name} node '{node.name}': out of memory at import") from error
        except _BROKEN as error:
            raise FrontendError(
                f"{name} node '{node.name}': {type(error).__name__}: {error}",
                notes=("its arguments do not fit the operator, or the converter is at fault",),
            ) from error
        finally:
            self.block_builder.place = outer

    def convert_node(self, node: Any) -> Any:
        """Convert a call and return its value (several results: a list)."""
        if node.op == "call_module" or _is_ignored(node.target):
            return None
        described = node.meta.get("val")
        if node.target is operator.getitem:
            return self._values(node.args[0])[node.args[1]]
        if _name(node.target) == "aten::_local_scalar_dense":
            return _scalar_of_tensor(self, self._values(node.args[0]), described)
        if _is_scalar(described):
            return self.symbols.scalar(described)
        if _name(node.target) in HIGHER_ORDER:
            return HIGHER_ORDER[_name(node.target)](self, node)
        convert = self._find(node.target)
        if convert is None:
            raise OpNotImplemented("the operator has no converter")
        return self.bind(convert(node), described)

    def convert_by_table(self, node: Any, convert: Callable[[Any], Any]) -> Any:
        """Convert a node by an entry of the table of ATen operators."""
        arguments = {name: self._values(value) for name, value in _raw_arguments(node).items()}
        return convert(AtenNode(self, node, arguments))

    def bind(self, value: Any, described: Any) -> Any:
        """Bind results to variables of the dtype and shape that torch describes."""
        if isinstance(described, (list, tuple)):
            fields = list(value.fields) if isinstance(value, Tuple) else list(value)
            if len(fields) < len(described):
                fields += [None] * (len(described) - len(fields))
            return [self.bind(*pair) for pair in zip(fields, described)]
        if value is None or described is None or not isinstance(value, RelaxExpr):
            return value
        value = self.emit(value)
        info = known_struct_info(value)
        if not isinstance(info, TensorStructInfo) or not hasattr(described, "dtype"):
            return value
        value = self.emit(cast(value, dtype_name(described.dtype)))
        return self._with_sizes(value, [self.symbols.size(size) for size in described.shape])

    def _with_sizes(self, value: Any, wanted: list[Any]) -> Any:
        """Return a tensor whose sizes the graph knows as torch does; other ones are checked when
        the function runs.
        """
        info: Any = known_struct_info(value)
        sizes = sizes_of(info)
        if sizes is not None and len(sizes) != len(wanted):
            raise FrontendError(f"a converter gives {info} where torch has the sizes {wanted}")
        if sizes is not None and all(_is_same(a, b) for a, b in zip(sizes, wanted)):
            return value
        return self.block_builder.match_cast(value, TensorStructInfo(wanted, info.dtype))

    # Functions

    def variable(self, name: str, described: Any) -> Any:
        """Return the parameter for an input that torch describes; None for one that is fixed."""
        if hasattr(described, "shape"):
            sizes = [self.symbols.size(size) for size in described.shape]
            return Var(identifier(name), TensorStructInfo(sizes, dtype_name(described.dtype)))
        size = self.symbols.scalar(described)
        if isinstance(size, SymbolicVar):
            return Var(identifier(name), ShapeStructInfo([size]))
        return None

    def name_sizes(self, tensors: list[Any]) -> None:
        """Give torch's symbols expressions, so that each can be found from the inputs' sizes.

        A symbol that occurs only in sizes like ``2*s`` is what follows from a variable for that
        size.
        """
        sizes = [size.node.expr for t in tensors for size in t.shape if hasattr(size, "node")]
        alone = {expr.name for expr in sizes if expr.is_Symbol}
        for expr in sizes:
            symbols = sorted(expr.free_symbols, key=str)
            if len(symbols) != 1 or symbols[0].name in alone:
                continue
            symbol = symbols[0]
            alone.add(symbol.name)
            factor = expr.diff(symbol)
            if not factor.is_Integer or int(factor) == 0:
                raise UnsupportedError(
                    f"the size `{expr}` of an input does not tell what `{symbol}` is",
                    notes=("let one input have that size alone",),
                )
            whole = self.symbols.name_size(expr, f"size_{symbol.name}")
            rest = int(expr.subs(symbol, 0))
            self.symbols.values[symbol.name] = floordiv(
                whole - const(rest, "int64"), const(int(factor), "int64")
            )

    def build_function(
        self,
        module: Any,
        parameters: list[Any],
        given: list[Any],
        attrs: dict[str, Any],
        finish: Any,
        no_bind_return_tuple: bool,
        name: str = "main",
        results: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        """Add a function that computes a graph for the values ``given``.

        ``results`` makes expressions of the graph's outputs, ``finish`` the function's result of
        them (and whether it is a tuple).
        """
        results = results or _as_expressions
        builder = self.block_builder
        with builder.function(name, parameters, attrs):
            if _has_control_flow(module):
                outputs = results(self.import_graph(module, given))
                value, is_tuple = finish([self.output(item, False) for item in outputs])
                value = builder.emit(value) if is_tuple and not no_bind_return_tuple else value
            else:
                with builder.dataflow():
                    outputs = results(self.import_graph(module, given))
                    value, is_tuple = finish(outputs)
                    if is_tuple and not no_bind_return_tuple:
                        value = builder.emit_output(value)
                    else:
                        value, _ = finish([self.output(item, True) for item in outputs])
            builder.emit_func_output(value)

    def input_value(self, value: Any) -> Any:
        """Return an input as the value of its placeholder: a dynamic number is a size."""
        info = getattr(value, "struct_info", None)
        is_size = isinstance(info, ShapeStructInfo) and info.values is not None
        return info.values[0] if is_size else value  # type: ignore[union-attr]

    # Results

    def output(self, value: Any, is_dataflow: bool) -> Any:
        """Return an output as a value that is visible outside of the block."""
        if isinstance(value, Var) and not isinstance(value, DataflowVar):
            if not is_dataflow or self.block_builder.lookup_binding(value) is None:
                return value
        emit = self.block_builder.emit_output if is_dataflow else self.block_builder.emit
        return emit(value)


def _as_expressions(values: list[Any]) -> list[Any]:
    """Return outputs as expressions: numbers, or nothing (an empty tuple), too."""
    plain = [Tuple([]) if value is None else value for value in values]
    scalars = bool | int | float | PrimExpr
    return [PrimValue(value) if isinstance(value, scalars) else value for value in plain]


def _has_control_flow(module: Any) -> bool:
    return any(
        getattr(node.target, "__name__", None) in HIGHER_ORDER
        or getattr(node.target, "_name", None) in HIGHER_ORDER
        for node in module.graph.nodes
        if node.op == "call_function"
    )


def _scalar_of_tensor(importer: BaseFXGraphImporter, tensor: Any, described: Any) -> Any:
    """Return the value of a tensor as a size, which the function knows when it runs."""
    info: Any = known_struct_info(tensor)
    known = importer.symbols.scalar(described)
    if not (info.dtype.is_int or info.dtype.is_bool or info.dtype.is_uint):
        raise FrontendError(
            "the value of a float tensor is used as a Python number",
            notes=("compute with the tensor itself instead of calling .item()",),
        )
    if not isinstance(known, PrimExpr):
        return known
    vector = importer.emit(cast(op.reshape(tensor, ShapeExpr([1])), "int64"))
    shape = importer.block_builder.emit(op.tensor_to_shape(vector))
    importer.block_builder.match_cast(shape, ShapeStructInfo([known]))
    return known


def result_of(
    outputs: list[Any], was_tuple: bool, unwrap_unit_return_tuple: bool
) -> tuple[Any, bool]:
    """Return the result of a function for its outputs, and whether it is a tuple."""
    if not was_tuple or (unwrap_unit_return_tuple and len(outputs) == 1):
        return outputs[0], False
    return Tuple(outputs), True


def _raw_arguments(node: Any) -> dict[str, Any]:
    """Return all arguments of a call by the names of the schema, defaults included."""
    found = {}
    for place, argument in enumerate(node.target._schema.arguments):
        if place < len(node.args):
            found[argument.name] = node.args[place]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value
    return found


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _name(target: Any) -> str:
    if hasattr(target, "_schema"):
        return str(target.name()).partition(".")[0]
    found = target.name if hasattr(target, "name") else getattr(target, "__name__", target)
    return str(found() if callable(found) else found)


def _operator_name(target: Any) -> str:
    return str(target) if hasattr(target, "_schema") else _name(target)


def _is_ignored(target: Any) -> bool:
    return hasattr(target, "_schema") and _name(target).removeprefix("aten::") in _IGNORED


def _is_scalar(described: Any) -> bool:
    return is_symbolic_scalar(described) or isinstance(described, int | float | bool)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or prove_equal(a, _size(b))


def _size(size: Any) -> Any:
    return const(size, "int64") if isinstance(size, int) else size


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [item for part in value for item in _flat(part)]
    if isinstance(value, Mapping):
        return [item for part in value.values() for item in _flat(part)]
    return [value]


__all__ += ["identifier", "result_of"]
