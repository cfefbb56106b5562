"""Imports what `torch.export.export` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import Var
from tilesmith.relax.frontend.torch.base_fx_graph_translator import (
    BaseFXGraphImporter,
    result_of,
)
from tilesmith.relax.frontend.torch.registry import find_converter, names_of
from tilesmith.relax.frontend.torch.tensors import array_of
from tilesmith.relax.frontend.torch.torch_package import register_backend, require_torch
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
        return input_variables(self, exported_program)

    def from_exported_program(
        self,
        exported_program: Any,
        keep_params_as_input: bool = False,
        unwrap_unit_return_tuple: bool = False,
        no_bind_return_tuple: bool = False,
    ) -> IRModule:
        """Import a program; see the function of that name."""
        torch = require_torch()
        register_backend()
        if not isinstance(exported_program, torch.export.ExportedProgram):
            raise FrontendError(
                f"expected a torch.export.ExportedProgram, got {type(exported_program).__name__}",
                notes=("torch.export.export(model, (example_input,)) makes one",),
            )
        program = decomposed(exported_program, self.convert_map)
        self.check_operators(program.graph_module)
        mutated = mutated_inputs(program)
        inputs = graph_inputs(self, program, keep_params_as_input, mutated)
        attrs: dict[str, Any] = {"num_input": len(inputs.parameters), **self._bounds(program)}
        if mutated:
            attrs["mutated"] = tuple(mutated.values())
        if keep_params_as_input:
            attrs["params"] = tuple([make_ndarray(array_of(t)) for _, t in inputs.weights])
        self.build_function(
            program.graph_module,
            [*inputs.parameters, *[variable for variable, _ in inputs.weights]],
            inputs.values,
            attrs,
            lambda outputs: result_of(
                outputs_in_order(program, outputs), True, unwrap_unit_return_tuple
            ),
            no_bind_return_tuple,
        )
        return self.block_builder.get()

    def _bounds(self, program: Any) -> dict[str, Any]:
        """Return the range constraints of sizes as attributes of the function."""
        lower, upper = {}, {}
        for expr, limits in program.range_constraints.items():
            size = self.symbols.expression(expr)
            if not isinstance(size, SymbolicVar):
                continue
            if limits.lower.is_Integer and int(limits.lower) > 0:
                lower[size.name] = IntImm("int64", int(limits.lower))
            if limits.upper.is_Integer and int(limits.upper) < _HUGE:
                upper[size.name] = IntImm("int64", int(limits.upper))
        found = {"tir_var_lower_bound": lower, "tir_var_upper_bound": upper}
        return {name: bounds for name, bounds in found.items() if bounds}


class GraphInputs(NamedTuple):
    """What the placeholders of a graph are in the function."""

    parameters: list[Var]
    """The parameters of the function for the user's inputs, then for what the model writes to."""
    weights: list[tuple[Var, Any]]
    """Further parameters of the function, with the tensors that they had in torch."""
    values: list[Any]
    """The value of each placeholder."""


def graph_inputs(
    importer: BaseFXGraphImporter, program: Any, keep: bool, mutated: Mapping[str, str]
) -> GraphInputs:
    """Decide what the inputs, parameters, buffers and constants of a program become."""
    stored, inputs = input_variables(importer, program)
    parameters = [*inputs.values(), *[stored[name] for name in mutated if name in stored]]
    values: dict[str, Any] = {name: importer.input_value(var) for name, var in inputs.items()}
    weights: list[tuple[Var, Any]] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT" or not _has_node(spec):
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
        if keep and spec.kind.name != "CONSTANT_TENSOR":
            values[name] = stored[name]
            weights.append((stored[name], tensor))
        else:
            values[name] = importer.constant(tensor)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    fixed = [
        values[node.name] if node.name in values else importer.symbols.scalar(node.meta.get("val"))
        for node in nodes
    ]
    return GraphInputs(parameters, weights, fixed)


def input_variables(
    importer: BaseFXGraphImporter, program: Any
) -> tuple[dict[str, Var], dict[str, Var]]:
    """Return variables for what is stored, and for the user's inputs, by names of nodes."""
    nodes = {node.name: node for node in program.graph.nodes}
    stored: dict[str, Var] = {}
    inputs: dict[str, Var] = {}
    specs = [spec for spec in program.graph_signature.input_specs if _has_node(spec)]
    described = [nodes[spec.arg.name].meta.get("val") for spec in specs]
    importer.name_sizes([value for value in described if hasattr(value, "shape")])
    for spec, value in zip(specs, described):
        variable = importer.variable(spec.arg.name, value)
        if variable is not None:
            found = inputs if spec.kind.name == "USER_INPUT" else stored
            found[spec.arg.name] = variable
    return stored, inputs


def decomposed(program: Any, convert_map: Mapping[Any, Any]) -> Any:
    """Return a program without side effects, and with operators decomposed that have no
    converter.
    """
    return program.run_decompositions(
        without_converters(require_torch().export.default_decompositions(), convert_map)
    )


def without_converters(table: Any, convert_map: Mapping[Any, Any]) -> Any:
    """Remove the operators that have a converter from a table of decompositions."""
    for target in list(table):
        if find_converter(target) is not None or any(n in convert_map for n in names_of(target)):
            table.pop(target)
    return table


def _has_node(spec: Any) -> bool:
    return hasattr(spec.arg, "name") and spec.kind.name != "TOKEN"


def mutated_inputs(program: Any) -> dict[str, str]:
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


def outputs_in_order(program: Any, outputs: list[Any]) -> list[Any]:
    """Return the model's own outputs, then new values of buffers, then of inputs."""
    places = {"BUFFER_MUTATION": 1, "PARAMETER_MUTATION": 1, "USER_INPUT_MUTATION": 2, "TOKEN": 3}
    specs = [spec.kind.name for spec in program.graph_signature.output_specs]
    chosen = [(places.get(kind, 0), i) for i, kind in enumerate(specs) if kind != "TOKEN"]
    return [outputs[i] for _, i in sorted(chosen)]


__all__ += [
    "decomposed", "graph_inputs", "mutated_inputs", "outputs_in_order", "without_converters",
]  # fmt: skip
