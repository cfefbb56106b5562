"""Imports TorchScript models: torch writes them as ONNX, which is imported.

Weights keep their names in ``state_dict()``, inputs get those of ``input_infos``.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relay.expr import Var, const
from tilesmith.relay.frontend.onnx import from_onnx
from tilesmith.relay.frontend.torch_forms import better_forms
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import substitute
from tilesmith.relay.transform.types import InferType
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    FileError,
    FrontendError,
    MissingDependencyError,
    OpNotImplemented,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.tir.unknown import Any as UnknownSize

__all__ = ["export_c_graph", "from_pytorch", "get_all_op_names"]

OPSET = 17
"""The version of ONNX's operators that torch is asked for: the newest that it writes by itself."""


def require_torch() -> Any:
    """Return the package torch; raises MissingDependencyError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "torch", extra="torch", purpose="reading models of PyTorch"
        ) from None
    return torch


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | None = None,
    preserve_pytorch_scopes: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Import a traced or scripted model; return the module and the weights by their names in
    ``state_dict()``. The parameters of ``main`` are the inputs and then the weights.

    Args:
        script_module: what ``torch.jit.trace`` or ``torch.jit.script`` gives. It is imported as it
            computes in evaluation.
        input_infos: (name, shape) or (name, (shape, dtype)) for each input; `relay.Any()` is a size
            that is not known.
        custom_convert_map: is refused: torch itself can be told how an operator of your own is
            written in ONNX's words, by ``torch.onnx.register_custom_op_symbolic``.
        default_dtype: of inputs without one.
        use_parser_friendly_name: names have ``_`` in place of ``.``.
        keep_quantized_weight: is refused: models that torch has quantised are not imported.
        export_renamed_c_graph_path: a file to which the graph of TorchScript is written.
        preserve_pytorch_scopes: is always so: spans name the module that a call belongs to.

    Raises OpNotImplemented for an operator that has no form in ONNX or no converter here.
    """
    torch = require_torch()
    if custom_convert_map:
        raise UnsupportedError(
            "from_pytorch: converters of one's own (custom_convert_map) are not supported",
            notes=(
                "torch.onnx.register_custom_op_symbolic('domain::name', function, "
                f"{OPSET}) tells how torch writes an operator as ONNX",
            ),
        )
    if keep_quantized_weight:
        raise UnsupportedError(
            "from_pytorch: models that torch has quantised are not imported",
            notes=("import the model of floats, then quantise it: relay.quantize.quantize",),
        )
    if not isinstance(script_module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise TypeMismatchError(
            f"from_pytorch takes a model of TorchScript, got {type(script_module).__name__}",
            notes=("make one: torch.jit.trace(model.eval(), example_inputs)",),
        )
    if export_renamed_c_graph_path is not None:
        export_c_graph(export_renamed_c_graph_path, script_module.graph)
    inputs = [_InputInfo(info, default_dtype) for info in input_infos]
    with _distinct_weights(torch, script_module):
        model = _as_onnx(torch, script_module, inputs)
    shapes = {one.name: one.shape for one in inputs}
    used = {one.name for one in model.graph.input}
    module, params = from_onnx(
        model, {name: shape for name, shape in shapes.items() if name in used}, freeze_params=False
    )
    module, params = _with_own_weights(module, params, script_module)
    if use_parser_friendly_name:
        module, params = _with_plain_names(module, params)
    return module, params


class _InputInfo:
    """An input: its name, its sizes, its dtype."""

    def __init__(self, given: Any, default_dtype: str) -> None:
        try:
            self.name, described = given
            is_pair = len(described) == 2 and isinstance(described[1], str)
            self.shape, self.dtype = described if is_pair else (described, default_dtype)
            self.shape = tuple(self.shape)
        except (TypeError, ValueError):
            raise _bad_input(given) from None
        if not isinstance(self.name, str) or not all(
            isinstance(size, (int, UnknownSize)) for size in self.shape
        ):
            raise _bad_input(given)

    def example(self, torch: Any) -> Any:
        """Return a tensor like the input; sizes that are not known are some number."""
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise TypeMismatchError(f"input '{self.name}': torch has no dtype '{self.dtype}'")
        sizes = [2 if isinstance(size, UnknownSize) else size for size in self.shape]
        return torch.zeros(sizes, dtype=dtype)

    @property
    def unknown_axes(self) -> dict[int, str]:
        """Axis → name, for axes whose size is not known."""
        return {
            axis: f"{self.name}_{axis}"
            for axis, size in enumerate(self.shape)
            if isinstance(size, UnknownSize)
        }


def _bad_input(given: Any) -> TypeMismatchError:
    return TypeMismatchError(
        f"from_pytorch: an input is (name, shape) or (name, (shape, dtype)), got {given!r}",
        notes=(
            "for example [('x', (1, 3, 224, 224)), ('ids', ((1, 16), 'int64'))]; a model that takes"
            " tuples of tensors needs a wrapper that takes tensors",
        ),
    )


# Through ONNX


def _as_onnx(torch: Any, model: Any, inputs: Sequence[_InputInfo]) -> Any:
    """Return a model of TorchScript as torch writes it in ONNX's words."""
    onnx = require_onnx()
    file = io.BytesIO()
    examples = tuple([one.example(torch) for one in inputs])
    with warnings.catch_warnings(), better_forms(torch, OPSET):
        warnings.simplefilter("ignore")  # torch recommends models that are not TorchScript
        try:
            torch.onnx.export(
                model, examples, file, dynamo=False, opset_version=OPSET,
                do_constant_folding=False, input_names=[one.name for one in inputs],
                dynamic_axes={one.name: one.unknown_axes for one in inputs if one.unknown_axes},
            )  # fmt: skip
        except torch.onnx.errors.UnsupportedOperatorError as error:
            raise OpNotImplemented(
                f"from_pytorch: {_operator_in(error)} has no form in ONNX's operators",
                notes=("torch.onnx.register_custom_op_symbolic can give it one",),
            ) from error
        except (RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise FrontendError(
                f"from_pytorch: torch cannot write the model as ONNX: {reason[:400]}",
                notes=("input_infos has to have the inputs of the model, in their order",),
            ) from error
    return onnx.load_from_string(file.getvalue())


def _state(model: Any) -> dict[str, Any]:
    """Return the weights of a model of TorchScript by name; a function has none."""
    return dict(model.state_dict()) if hasattr(model, "state_dict") else {}


def _operator_in(error: Exception) -> str:
    """Return the operator that torch's error names."""
    found = re.search(r"operator '([^']+)'|namespace (\S+?)\.\s", str(error) + " ")
    return next((name for name in found.groups() if name), "") if found else str(error)


@contextmanager
def _distinct_weights(torch: Any, model: Any) -> Iterator[None]:
    """Give weights of equal values other values for a while: torch writes equal ones once, but they
    are different parameters, whose values users may change.
    """
    seen: dict[Any, int] = {}
    saved: list[tuple[Any, Any]] = []
    random = torch.Generator().manual_seed(0)
    try:
        for weight in _state(model).values():
            if not weight.is_floating_point() or not weight.numel():
                continue
            content = weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            key = (tuple(weight.shape), weight.dtype, blake2b(content.numpy().tobytes()).digest())
            if seen.setdefault(key, weight.data_ptr()) == weight.data_ptr():
                continue
            saved.append((weight, weight.detach().clone()))
            other = torch.randn(weight.shape, generator=random)
            weight.detach().copy_(other.to(weight.dtype))
        yield
    finally:
        for weight, value in saved:
            weight.detach().copy_(value)


def _with_own_weights(
    module: IRModule, params: dict[str, NDArray], model: Any
) -> tuple[IRModule, dict[str, NDArray]]:
    """Take the values of weights from the model; those that it has no name for become constants."""
    state = _state(model)
    own = {name: value for name, value in params.items() if name not in state}
    named = {name: array(state[name].detach().cpu()) for name in params if name in state}
    if not own:
        return module, named
    main: Any = module["main"]
    values = {one: const(own[one.name_hint]) for one in main.params if one.name_hint in own}
    kept = [one for one in main.params if one not in values]
    changed = main.with_fields(params=kept, body=substitute(main.body, values))
    return _typed(module, changed), named


def _with_plain_names(
    module: IRModule, params: dict[str, NDArray]
) -> tuple[IRModule, dict[str, NDArray]]:
    main: Any = module["main"]
    renamed = {
        one: Var(one.name_hint.replace(".", "_"), one.struct_info, one.span, dialect="relay")
        for one in main.params
    }
    changed = main.with_fields(
        params=[renamed[one] for one in main.params], body=substitute(main.body, renamed)
    )
    return _typed(module, changed), {
        name.replace(".", "_"): value for name, value in params.items()
    }


def _typed(module: IRModule, main: Function) -> IRModule:
    changed = module.shallow_copy()
    changed["main"] = main
    typed: IRModule = InferType()(changed)
    return typed


# Graphs of TorchScript


def get_all_op_names(graph: Any) -> set[str]:
    """Return the names of all operators in a graph of TorchScript, those in blocks, too."""
    nodes = list(graph.nodes())
    found = set()
    while nodes:
        node = nodes.pop()
        found.add(node.kind())
        for block in node.blocks():
            nodes.extend(block.nodes())
    return found


def export_c_graph(location: str, graph: Any) -> Path:
    """Write the text of a graph of TorchScript to a file, or into a folder; return its path."""
    path = Path(location)
    if path.is_dir() or not path.suffix:
        path = path / "graph.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(graph), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"the graph cannot be written to '{path}': {reason}") from None
    return path
