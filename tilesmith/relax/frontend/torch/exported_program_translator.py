"""Imports what `torch.export.export` gives."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, IRModule, PrimExpr, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.operators import floordiv
from tilesmith.relax.expr import PrimValue, Tuple, Var
from tilesmith.relax.frontend.torch.base_fx_graph_translator import (
    BaseFXGraphImporter,
    identifier,
    result_of,
)
from tilesmith.relax.frontend.torch.control import HIGHER_ORDER
from tilesmith.relax.frontend.torch.registry import find_converter, names_of
from tilesmith.relax.frontend.torch.tensors import array_of, dtype_name
from tilesmith.relax.frontend.torch.torch_package import require_torch
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tilesmith.runtime.ndarray import array as make_ndarray
from tilesmith.support.errors import FrontendError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["ExportedProgramImporter", "from_exported_program"]

_HUGE = 1 << 62


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Import a ``torch.export.ExportedProgram`` as a module whose function ``main`` computes it.

        program = torch.export.export(model.eval(), (torch.randn(1, 3, 224, 224),))
        module = from_exported_program(program)

    Args:
        exported_program: what ``torch.export.export`` gives. Operators outside of the table of
            converters are decomposed by torch first (``run_decompositions``).
        keep_params_as_input: parameters and buffers become parameters of ``main`` after its inputs,
            their values the attribute ``params`` (see ``relax.frontend.detach_params``); else they
            are constants.
        unwrap_unit_return_tuple: a single result is returned without a tuple around it.
        no_bind_return_tuple: the tuple of results is the body of the function, without a variable
            bound to it.

    Sizes that were exported as dynamic are symbolic, with torch's names; their range constraints
    are the attributes ``tir_var_upper_bound`` and ``tir_var_lower_bound`` (by name). Scalars among
    the inputs have the value that they were exported with, or are shapes of one size if dynamic.

    A module that writes to its own buffers (or to an input), such as a key-value cache, becomes a
    function without side effects: the buffers that it writes to are parameters of ``main``, after
    the inputs and in the order of ``graph_signature.buffers``, and their new values are further
    results, after the model's own: first of buffers, then of inputs. The caller passes them on. The
    attribute ``mutated`` names them in that order.

    Raises OpNotImplemented (all operators without a converter at once, with their nodes),
    FrontendError (with the node at fault), MissingDependencyError (without the package torch).
    """
    with deep_recursion():
        return ExportedProgramImporter().from_exported_program(
            exported_program, keep_params_as_input, unwrap_unit_return_tuple, no_bind_return_tuple
        )


class ExportedProgramImporter(BaseFXGraphImporter):
    """One import of an exported program; see ``from_exported_program``."""

    def create_input_vars(self, exported_program: Any) -> tuple[dict[str, Var], dict[str, Var]]:
        """Return variables for parameters, buffers and constants, and for the user's inputs; by the
        names of their nodes.
        """
        kind = require_torch().export.graph_signature.InputKind
        nodes = {node.name: node for node in exported_program.graph.nodes}
        stored: dict[str, Var] = {}
        inputs: dict[str, Var] = {}
        specs = exported_program.graph_signature.input_specs
        described = [nodes[spec.arg.name].meta.get("val") for spec in specs if _has_node(spec)]
        self.name_sizes([value for value in described if hasattr(value, "shape")])
        for spec in specs:
            if not _has_node(spec):
                continue
            variable = self.variable(spec.arg.name, nodes[spec.arg.name].meta.get("val"))
            if variable is not None:
                (inputs if spec.kind is kind.USER_INPUT else stored)[spec.arg.name] = variable
        return stored, inputs

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
            whole = SymbolicVar(f"size_{symbol.name}", "int64")
            rest = int(expr.subs(symbol, 0))
            self.symbols.values[symbol.name] = floordiv(
                whole - const(rest, "int64"), const(int(factor), "int64")
            )

    def from_exported_program(
        self,
        exported_program: Any,
        keep_params_as_input: bool = False,
        unwrap_unit_return_tuple: bool = False,
        no_bind_return_tuple: bool = False,
    ) -> IRModule:
        """Import a program; see the function of that name."""
        torch = require_torch()
        if not isinstance(exported_program, torch.export.ExportedProgram):
            raise FrontendError(
                f"expected a torch.export.ExportedProgram, got {type(exported_program).__name__}",
                notes=("torch.export.export(model, (example_input,)) makes one",),
            )
        program = self.decomposed(exported_program)
        module = program.graph_module
        self.check_operators(module)
        stored, inputs = self.create_input_vars(program)
        mutated = _mutated_inputs(program)
        values, weights = self._stored_values(program, stored, mutated, keep_params_as_input)
        parameters = [*inputs.values(), *[stored[name] for name in mutated if name in stored]]
        attrs: dict[str, Any] = {"num_input": len(parameters), **self._bounds(program)}
        if mutated:
            attrs["mutated"] = tuple(mutated.values())
        if keep_params_as_input:
            attrs["params"] = tuple([make_ndarray(array_of(tensor)) for _, tensor in weights])
        given = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                known = values.get(node.name, inputs.get(node.name))
                given.append(self._fixed(node) if known is None else self._input(known))
        self.build_function(
            module,
            [*parameters, *[variable for variable, _ in weights]],
            given,
            attrs,
            lambda outputs: result_of(_in_order(program, outputs), True, unwrap_unit_return_tuple),
            no_bind_return_tuple,
        )
        return self.block_builder.get()

    def decomposed(self, program: Any) -> Any:
        """Return the program without side effects, and with operators decomposed that have no
        converter.
        """
        table = require_torch().export.default_decompositions()
        for target in list(table):
            if find_converter(target) is not None or any(
                name in self.convert_map for name in names_of(target)
            ):
                table.pop(target)
        return program.run_decompositions(table)

    def build_function(
        self,
        module: Any,
        parameters: list[Any],
        given: list[Any],
        attrs: dict[str, Any],
        finish: Any,
        no_bind_return_tuple: bool,
    ) -> None:
        """Add the function ``main`` that computes a graph for the values ``given``."""
        builder = self.block_builder
        with builder.function("main", parameters, attrs):
            if _has_control_flow(module):
                outputs = self.import_graph(module, given)
                value, is_tuple = finish([self.output(item, False) for item in outputs])
                value = builder.emit(value) if is_tuple and not no_bind_return_tuple else value
            else:
                with builder.dataflow():
                    outputs = self.import_graph(module, given)
                    bind = not no_bind_return_tuple
                    value, is_tuple = finish(outputs)
                    if is_tuple and bind and all(item is not None for item in outputs):
                        value = builder.emit_output(_plain_tuple(self, outputs, value))
                    else:
                        value, _ = finish([self.output(item, True) for item in outputs])
            builder.emit_func_output(value)

    def _input(self, value: Any) -> Any:
        """Return an input as the value of its placeholder: a dynamic number is a size."""
        info = getattr(value, "struct_info", None)
        return info.values[0] if isinstance(info, ShapeStructInfo) else value

    def _fixed(self, node: Any) -> Any:
        return self.symbols.scalar(node.meta.get("val"))

    def _stored_values(
        self, program: Any, stored: dict[str, Var], mutated: dict[str, str], keep: bool
    ) -> tuple[dict[str, Any], list[tuple[Var, Any]]]:
        """Return the values of parameters, buffers and constants by their nodes, and those that
        become parameters of the function with their tensors.
        """
        kind = require_torch().export.graph_signature.InputKind
        values: dict[str, Any] = {}
        weights: list[tuple[Var, Any]] = []
        for spec in program.graph_signature.input_specs:
            if spec.kind is kind.USER_INPUT or not _has_node(spec):
                continue
            name = spec.arg.name
            if name not in stored:
                raise UnsupportedError(
                    f"the input '{name}' ({spec.kind.name}) is no tensor",
                    notes=("objects of torch classes have no meaning in the graph",),
                )
            if name in mutated:
                values[name] = stored[name]
                continue
            tensor = program.state_dict.get(spec.target)
            if tensor is None:
                tensor = program.constants[spec.target]
            if keep and spec.kind is not kind.CONSTANT_TENSOR:
                values[name] = stored[name]
                weights.append((stored[name], tensor))
            else:
                values[name] = self.constant(tensor)
        return values, weights

    def _bounds(self, program: Any) -> dict[str, Any]:
        """Return the range constraints of sizes as attributes of the function."""
        lower, upper = {}, {}
        for symbol, limits in program.range_constraints.items():
            if not isinstance(self.symbols.values.get(symbol.name), SymbolicVar):
                continue
            name = symbol.name
            if limits.lower.is_Integer and int(limits.lower) > 0:
                lower[name] = IntImm("int64", int(limits.lower))
            if limits.upper.is_Integer and int(limits.upper) < _HUGE:
                upper[name] = IntImm("int64", int(limits.upper))
        found = {"tir_var_lower_bound": lower, "tir_var_upper_bound": upper}
        return {name: bounds for name, bounds in found.items() if bounds}


def _plain_tuple(importer: Any, outputs: list[Any], value: Any) -> Any:

    scalars = (bool, int, float, PrimExpr)
    return Tuple([PrimValue(x) if isinstance(x, scalars) else x for x in outputs])


def _has_node(spec: Any) -> bool:
    return hasattr(spec.arg, "name") and spec.kind.name != "TOKEN"


def _mutated_inputs(program: Any) -> dict[str, str]:
    """Return node of input → name of the user, for inputs and buffers that the model writes to."""
    signature = program.graph_signature
    nodes = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target}
    found = {}
    for spec in signature.output_specs:
        if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            found[nodes[spec.target]] = spec.target
    for spec in signature.output_specs:
        if spec.kind.name == "USER_INPUT_MUTATION":
            found[spec.target] = spec.target
    return found


def _in_order(program: Any, outputs: list[Any]) -> list[Any]:
    """Return the model's own outputs, then new values of buffers, then of inputs."""
    places = {"BUFFER_MUTATION": 1, "PARAMETER_MUTATION": 1, "USER_INPUT_MUTATION": 2, "TOKEN": 3}
    specs = [spec.kind.name for spec in program.graph_signature.output_specs]
    chosen = [(places.get(kind, 0), i) for i, kind in enumerate(specs) if kind != "TOKEN"]
    return [outputs[i] for _, i in sorted(chosen)]


def _has_control_flow(module: Any) -> bool:
    return any(
        getattr(node.target, "__name__", None) in HIGHER_ORDER
        or getattr(node.target, "_name", None) in HIGHER_ORDER
        for node in module.graph.nodes
        if node.op == "call_function"
    )
