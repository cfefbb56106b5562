"""Imports graphs that `torch.fx` traces."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import IntImm, IRModule, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import Tuple, Var
from tilesmith.relax.frontend.torch.base_fx_graph_translator import (
    BaseFXGraphImporter,
    identifier,
    result_of,
)
from tilesmith.relax.frontend.torch.exported_program_translator import (
    decomposed,
    graph_inputs,
    mutated_inputs,
    outputs_in_order,
)
from tilesmith.relax.frontend.torch.tensors import array_of
from tilesmith.relax.frontend.torch.torch_package import register_backend, require_torch
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.ndarray import array as make_ndarray
from tilesmith.support.errors import FrontendError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["TorchFXImporter", "from_fx"]

_FIRST_EXAMPLE_SIZE = 11
"""Symbolic sizes have examples from here on: not 0 or 1, which torch takes for constants."""


def from_fx(
    model: Any,
    input_info: Sequence[tuple[Sequence[Any], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[Any, Callable[..., Any]] | None = None,
) -> IRModule:
    """Import a ``torch.fx.GraphModule`` as a module whose function ``main`` computes it.

        module = from_fx(torch.fx.symbolic_trace(model.eval()), [((1, 3, 224, 224), "float32")])

    Args:
        model: what ``torch.fx.symbolic_trace`` gives.
        input_info: shape and dtype of each input. A size is an integer, or a name or symbolic
            variable for one that is known when the function is called.
        keep_params_as_input: parameters and buffers become parameters of ``main`` after its inputs,
            their values the attribute ``params`` (see ``relax.frontend.detach_params``); else they
            are constants.
        unwrap_unit_return_tuple: a tuple with one result is returned without the tuple.
        no_bind_return_tuple: a tuple of results is the body of the function, without a variable
            bound to it.
        custom_convert_map: converters of one's own, by class of module or by name of function or
            method. One takes the node and, if it has a second argument, the importer
            (``importer.env`` has the values of nodes, ``importer.block_builder`` emits), and gives
            a variable, or a list of them for several results.

    torch itself turns the functions and modules of the graph into ATen operators, whose converters
    are those of exported programs. What the model writes to (buffers, inputs) is treated as
    ``from_exported_program`` does.
    """
    with deep_recursion():
        return TorchFXImporter().from_fx(
            model,
            input_info,
            keep_params_as_input,
            unwrap_unit_return_tuple,
            no_bind_return_tuple,
            custom_convert_map,
        )


class TorchFXImporter(BaseFXGraphImporter):
    """One import of a traced graph; see ``from_fx``.

    A class of one's own may override ``create_convert_map``: its entries (class of module, or name
    of function or method → function of the ``torch.fx.Node``) come before ATen's.
    """

    def __init__(self) -> None:
        super().__init__()
        self._custom: list[Any] = []

    def create_input_vars(self, input_info: Sequence[tuple[Sequence[Any], str]]) -> list[Var]:
        """Return a variable for each input, named ``inp_0`` and so on."""
        found = []
        for number, (shape, dtype) in enumerate(input_info):
            sizes = [SymbolicVar(s, "int64") if isinstance(s, str) else s for s in shape]
            found.append(Var(f"inp_{number}", TensorStructInfo(sizes, str(dtype))))
        return found

    def update_convert_map(self, custom_convert_map: Mapping[Any, Callable[..., Any]]) -> None:
        """Add converters to those of the importer."""
        self.convert_map.update(custom_convert_map)

    def from_fx(
        self,
        model: Any,
        input_info: Sequence[tuple[Sequence[Any], str]],
        keep_params_as_input: bool = False,
        unwrap_unit_return_tuple: bool = False,
        no_bind_return_tuple: bool = False,
        custom_convert_map: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> IRModule:
        """Import a graph; see the function of that name."""
        torch = require_torch()
        register_backend()
        if not isinstance(model, torch.fx.GraphModule):
            raise FrontendError(
                f"expected a torch.fx.GraphModule, got {type(model).__name__}",
                notes=("torch.fx.symbolic_trace(model) makes one",),
            )
        self.update_convert_map(custom_convert_map or {})
        self.add_function(
            model, input_info, "main", keep_params_as_input, unwrap_unit_return_tuple,
            no_bind_return_tuple,
        )  # fmt: skip
        return self.block_builder.get()

    def add_function(
        self,
        model: Any,
        input_info: Sequence[tuple[Sequence[Any], str]],
        name: str,
        keep_params_as_input: bool = False,
        unwrap_unit_return_tuple: bool = False,
        no_bind_return_tuple: bool = False,
    ) -> None:
        """Add a function for a graph to the module."""
        self.named_modules = dict(model.named_modules())
        module = self._with_custom_calls(model)
        program = decomposed(_exported(self, module, input_info), self.convert_map)
        self.check_operators(program.graph_module)
        mutated = mutated_inputs(program)
        inputs = graph_inputs(self, program, keep_params_as_input, mutated)
        attrs: dict[str, Any] = {"num_input": len(inputs.parameters)}
        if mutated:
            attrs["mutated"] = tuple(mutated.values())
        if keep_params_as_input:
            attrs["params"] = tuple([make_ndarray(array_of(t)) for _, t in inputs.weights])
        structure = next(node.args[0] for node in model.graph.nodes if node.op == "output")

        def finish(outputs: list[Any]) -> tuple[Any, bool]:
            ordered = outputs_in_order(program, outputs)
            own = len(ordered) - len(mutated)
            if isinstance(structure, (list, tuple)) and not mutated:
                nested = list(_nested(structure, iter(ordered)).fields)
                return result_of(nested, True, unwrap_unit_return_tuple)
            return result_of(ordered, own != 1 or bool(mutated), unwrap_unit_return_tuple)

        self.build_function(
            program.graph_module,
            [*inputs.parameters, *[variable for variable, _ in inputs.weights]],
            inputs.values,
            attrs,
            finish,
            no_bind_return_tuple,
            name,
        )

    # Converters of one's own

    def _with_custom_calls(self, model: Any) -> Any:
        """Return the graph with one opaque operator for each node that has a converter here."""
        chosen = {node: _custom_converter(self, node) for node in model.graph.nodes}
        if not any(chosen.values()):
            return model
        torch = require_torch()
        operator = _opaque_operator()
        graph = torch.fx.Graph()
        copies: dict[Any, Any] = {}
        for node in model.graph.nodes:
            convert = chosen[node]
            if convert is None:
                copies[node] = graph.node_copy(node, copies.__getitem__)
                continue
            key = len(_CALLS)
            _CALLS.append(_OpaqueCall(self.named_modules, node, convert))
            self._custom.append(_CALLS[key])
            given = [copies[item] for item in node.all_input_nodes]
            copies[node] = graph.call_function(operator, (key, *given))
        self.convert_map["tilesmith::converted"] = self._convert_custom
        return torch.fx.GraphModule(model, graph)

    def _convert_custom(self, node: Any) -> Any:
        """Call the user's converter for a node that stands for one of the traced graph."""
        inputs, key = self.retrieve_args(node)
        call = _CALLS[key]
        self.env.update(zip(call.node.all_input_nodes, inputs))
        count = len(inspect.signature(call.convert).parameters)
        found = call.convert(call.node, self) if count > 1 else call.convert(call.node)
        return list(found) if isinstance(found, (list, tuple)) else [found]


def _exported(
    importer: TorchFXImporter, module: Any, input_info: Sequence[tuple[Sequence[Any], str]]
) -> Any:
    """Return the graph as an exported program for inputs as described."""
    torch = require_torch()
    variables: dict[Any, int] = {}
    examples, dynamic = [], []
    for shape, dtype in input_info:
        sizes, axes = [], {}
        for axis, size in enumerate(shape):
            if isinstance(size, (str, SymbolicVar)):
                variables.setdefault(size, _FIRST_EXAMPLE_SIZE + 2 * len(variables))
                sizes.append(variables[size])
                axes[axis] = torch.export.Dim(_dim_name(size, variables))
            else:
                sizes.append(_plain_size(size))
        kind = getattr(torch, str(dtype), None)
        if not isinstance(kind, torch.dtype):
            raise FrontendError(f"torch has no dtype '{dtype}'")
        examples.append(torch.zeros(sizes, dtype=kind))
        dynamic.append(axes)
    count = len([node for node in module.graph.nodes if node.op == "placeholder"])
    if len(examples) > count:
        raise FrontendError(f"the graph has {count} inputs, input_info describes {len(examples)}")
    try:
        with torch.no_grad():
            program = torch.export.export(
                module,
                tuple(examples),
                dynamic_shapes=tuple(dynamic) if variables else None,
                strict=False,
            )
    except Exception as error:  # of any class: the model's own code runs
        raise FrontendError(
            f"torch cannot compute the graph for these inputs: {error}",
            notes=("check the shapes and dtypes of input_info",),
        ) from error
    _name_symbols(importer, program, input_info)
    return program


def _name_symbols(importer: TorchFXImporter, program: Any, input_info: Any) -> None:
    """Let torch's symbols be the variables of ``input_info``."""
    named: dict[str, Any] = {}
    described = [
        node.meta["val"]
        for node, spec in zip(program.graph.nodes, program.graph_signature.input_specs)
        if spec.kind.name == "USER_INPUT" and hasattr(node.meta.get("val"), "shape")
    ]
    for value, (shape, _) in zip(described, input_info):
        for size, wanted in zip(value.shape, shape):
            if isinstance(wanted, str):
                wanted = named.setdefault(wanted, SymbolicVar(wanted, "int64"))
            if isinstance(wanted, SymbolicVar) and hasattr(size, "node"):
                importer.symbols.values[str(size.node.expr)] = wanted


def _custom_converter(importer: TorchFXImporter, node: Any) -> Any:
    """Return the user's converter for a node of the traced graph, or None."""
    if node.op == "call_module":
        return importer.convert_map.get(type(importer.named_modules[node.target]))
    if node.op == "call_method":
        return importer.convert_map.get(node.target)
    if node.op == "call_function":
        name = getattr(node.target, "__name__", None)
        return importer.convert_map.get(node.target) or importer.convert_map.get(name)
    return None


class _OpaqueCall:
    """A call that torch need not look into: it only computes what the result looks like."""

    def __init__(self, modules: dict[str, Any], node: Any, convert: Any) -> None:
        self.modules = modules
        self.node = node
        self.convert = convert
        self.is_single = True

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        torch = require_torch()
        from torch._guards import detect_fake_mode

        values = dict(zip(self.node.all_input_nodes, inputs))
        args = torch.fx.map_arg(self.node.args, values.__getitem__)
        kwargs = torch.fx.map_arg(self.node.kwargs, values.__getitem__)
        if self.node.op == "call_module":
            target = self.modules[self.node.target]
            mode = detect_fake_mode(inputs)
            stored = {**dict(target.named_parameters()), **dict(target.named_buffers())}
            if mode is not None:
                stored = {n: mode.from_tensor(t, static_shapes=True) for n, t in stored.items()}
            found = torch.func.functional_call(target, stored, args, kwargs)
        elif self.node.op == "call_method":
            found = getattr(args[0], self.node.target)(*args[1:], **kwargs)
        else:
            found = self.node.target(*args, **kwargs)
        self.is_single = not isinstance(found, (list, tuple))
        return [found.clone()] if self.is_single else [item.clone() for item in found]


_CALLS: list[_OpaqueCall] = []
_LIBRARY: list[Any] = []


def _opaque_operator() -> Callable[..., Any]:
    """Return a function that calls the opaque operator, which is made at first use."""
    torch = require_torch()
    if not _LIBRARY:
        library = torch.library.Library("tilesmith", "FRAGMENT")
        library.define("converted(Tensor[] inputs, int call) -> Tensor[]")
        library.impl(
            "converted", lambda inputs, call: _CALLS[call](inputs), "CompositeExplicitAutograd"
        )
        torch.library.register_fake(
            "tilesmith::converted", lambda inputs, call: _CALLS[call](inputs), lib=library
        )
        _LIBRARY.append(library)
    return _call_opaque


def _call_opaque(call: int, *inputs: Any) -> Any:
    found = require_torch().ops.tilesmith.converted(list(inputs), call)
    return found[0] if _CALLS[call].is_single else tuple(found)


def _nested(structure: Any, outputs: Any) -> Any:
    """Return results as tuples in the way in which the traced graph nests them."""
    if isinstance(structure, (list, tuple)):
        return Tuple([_nested(item, outputs) for item in structure])
    return next(outputs)


def _dim_name(size: Any, variables: Mapping[Any, int]) -> str:
    name = identifier(size if isinstance(size, str) else size.name)
    return f"{name}_{list(variables).index(size)}"


def _plain_size(size: Any) -> int:
    if isinstance(size, IntImm):
        return int(size.value)
    if isinstance(size, PrimExpr):
        raise UnsupportedError(
            f"the size `{size}` of an input is an expression",
            notes=("give a symbolic variable, or a number",),
        )
    return int(size)
