"""Imports ONNX models as programs of the functional door."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.frontend.common import detach_params
from tilesmith.relax.frontend.onnx import from_onnx as relax_from_onnx
from tilesmith.relax.frontend.onnx.model import load_model
from tilesmith.relax.frontend.onnx.onnx_frontend import get_numpy, get_type
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relay.transform.types import InferType
from tilesmith.relay.translate_bindings import to_relay
from tilesmith.runtime.ndarray import NDArray
from tilesmith.support.errors import ConfigError, FileError
from tilesmith.tir.unknown import Any as UnknownSize

__all__ = [
    "ONNX_DEFAULT_CONFIGS", "export_model", "from_onnx", "get_info", "get_numpy", "get_type",
]  # fmt: skip

ONNX_DEFAULT_CONFIGS = {"use_nt_batch_matmul": True}
"""What ``convert_config`` may say. How matrices lie in memory is decided when a program is
compiled, so that it changes nothing here."""


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | os.PathLike[str] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Import an ONNX model; return the module and the weights by their names in the model.

    Args:
        model: a ModelProto, its bytes, or the path of a file.
        shape: input → shape, in place of what the model says; `relay.Any()` is an unknown size.
        dtype: input → dtype for inputs whose dtype the model does not tell, or one for all.
        opset: reads the nodes by this version instead of the model's own.
        freeze_params: weights become constants and the second result is empty; otherwise they are
            parameters of ``main`` after the inputs.
        convert_config: see `ONNX_DEFAULT_CONFIGS`.
        export_node_renamed_model_path: a folder or file to which the model is written with a name
            for each node, for spans to refer to.

    Raises FrontendError (with the node at fault), OpNotImplemented (all operators without a
    converter at once), MissingDependencyError (without the package onnx).
    """
    _check_config(convert_config)
    if export_node_renamed_model_path is not None:
        model = _with_node_names(load_model(model).proto if _is_plain(model) else _whole(model))
        export_model(export_node_renamed_model_path, model)
    imported = relax_from_onnx(
        model, _sizes(shape), dtype, opset,
        keep_params_in_input=not freeze_params, sanitize_input_names=False,
    )  # fmt: skip
    module, values = detach_params(imported)
    main: Any = module["main"]
    count = int(main.attrs["num_input"])
    names = [param.name_hint for param in main.params[count:]]
    params = dict(zip(names, values.get("main", [])))
    module["main"] = main.without_attr("num_input")
    typed: IRModule = InferType()(to_relay(module))
    return typed, params


def _check_config(given: Mapping[str, Any] | None) -> None:
    for name in given or {}:
        if name not in ONNX_DEFAULT_CONFIGS:
            near = difflib.get_close_matches(str(name), ONNX_DEFAULT_CONFIGS, n=1)
            known = near or list(ONNX_DEFAULT_CONFIGS)
            raise ConfigError(
                f"from_onnx: there is no setting '{name}' in convert_config",
                notes=(f"did you mean '{known[0]}'?",),
            )


def _sizes(shapes: Mapping[str, Sequence[Any]] | None) -> dict[str, Any] | None:
    """Return shapes as relax's importer takes them: an unknown size has a name."""
    if not isinstance(shapes, Mapping):
        return shapes
    return {
        name: tuple(
            [
                f"{name}_{axis}" if isinstance(size, UnknownSize) else size
                for axis, size in enumerate(sizes)
            ]
        )
        for name, sizes in shapes.items()
    }


# Models with names


def _is_plain(model: Any) -> bool:
    return not isinstance(model, (str, os.PathLike))


def _whole(path: Any) -> Any:
    """Return the model of a file with all its weights."""
    load_model(path)  # says what is wrong with a broken file
    return require_onnx().load(os.fspath(path))


def _with_node_names(model: Any) -> Any:
    """Return a copy of a model in which each node has a name: its operator and a number."""
    copied = type(model)()
    copied.CopyFrom(model)
    taken = {node.name for node in copied.graph.node}
    counts: dict[str, int] = {}
    for node in copied.graph.node:
        while not node.name:
            number = counts.get(node.op_type, 0)
            counts[node.op_type] = number + 1
            name = f"{node.op_type}_{number}"
            if name not in taken:
                node.name = name
    return copied


def export_model(location: str | os.PathLike[str], graph: Any) -> Path:
    """Write a model (or a graph) to a file with the ending ``.onnx``, or into a folder, under the
    name of its graph; return the file's path.
    """
    onnx = require_onnx()
    model = graph if isinstance(graph, onnx.ModelProto) else onnx.helper.make_model(graph)
    path = Path(location)
    if path.suffix != ".onnx":
        path = path / f"{model.graph.name or 'model'}.onnx"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, os.fspath(path))
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"the model cannot be written to '{path}': {reason}") from None
    return path


def get_info(info_proto: Any) -> tuple[str, list[Any], str | None, list[str]]:
    """Return the name of an input or output, its sizes (`relay.Any` where they are not known), its
    dtype, and the sizes that have a name.
    """
    tensor = info_proto.type.tensor_type
    sizes: list[Any] = []
    names: list[str] = []
    for size in tensor.shape.dim:
        if size.dim_param:
            names.append(size.dim_param)
        sizes.append(size.dim_value if size.HasField("dim_value") else UnknownSize())
    dtype = get_type(tensor.elem_type) if tensor.elem_type else None
    return info_proto.name, sizes, dtype, names
