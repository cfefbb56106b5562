"""Reads ONNX models and checks them before any node is converted."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tilesmith.relax.frontend.onnx.external_data import (
    external_files,
    read_external_data,
    refuse_unread_data,
)
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.other_formats import refuse_other_formats
from tilesmith.relax.frontend.onnx.registry import find_converter, supported_operators
from tilesmith.relax.frontend.onnx.stored_tensors import (
    StoredTensor,
    mentions_other_files,
    read_without_weights,
)
from tilesmith.support.errors import (
    FrontendError,
    OpNotImplemented,
    TilesmithError,
)

__all__ = ["check_nodes", "check_operators", "load_model", "opset_versions"]

NEWEST_OPSET = 27
"""Converters have been checked against operators up to this version; later ones are tried."""


_Read = TypeVar("_Read")


class LoadedModel(NamedTuple):
    """A ModelProto, and the weights of its main graph that are still in files, by name."""

    proto: Any
    stored: dict[str, StoredTensor]


def load_model(model: Any) -> LoadedModel:
    """Load a model from a ModelProto, its bytes, or a path. Large weights of files and external
    data are read when the importer comes to them, the data of other tensors at once.
    """
    onnx = require_onnx()
    if isinstance(model, onnx.ModelProto):
        _check_model(model, "the model")
        refuse_unread_data(model)
        return LoadedModel(model, {})
    if isinstance(model, (bytes, bytearray)):
        loaded = _parse(bytes(model), "the model")
        refuse_unread_data(loaded)
        return LoadedModel(loaded, {})
    if isinstance(model, (str, os.PathLike)):
        return _load_file(Path(model))
    raise FrontendError(
        f"from_onnx takes an onnx.ModelProto, its bytes, or a path, got {type(model).__name__}",
        notes=("for example from_onnx('model.onnx')",),
    )


def model_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the model file and the files of its external data, for cache keys.

    A file without external data is not parsed, and onnx is not imported for it.
    """
    path = Path(path)
    if not _read_file(path, mentions_other_files):
        return [path]
    model = _parse(_read_file(path, read_without_weights), f"'{path}'")
    own = path.resolve()  # where large weights of the model itself are
    return [path, *[place for place in external_files(model, path) if place.resolve() != own]]


def _read_file(path: Path, read: Callable[[Path], _Read]) -> _Read:
    try:
        return read(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FrontendError(
            f"cannot read the ONNX model '{path}': {reason}", notes=("check the path",)
        ) from None


def _load_file(path: Path) -> LoadedModel:
    model = _parse(_read_file(path, read_without_weights), f"'{path}'")
    return LoadedModel(model, read_external_data(model, path))


def _parse(data: bytes, what: str) -> Any:
    onnx = require_onnx()
    refuse_other_formats(data, what)
    try:
        model = onnx.load_model_from_string(data)
    except Exception:  # any error of the package's parser means a broken file
        raise FrontendError(
            f"{what} is not an ONNX model, or is truncated: {len(data)} bytes that do not parse",
            notes=("export or download it again; onnx.checker.check_model shows details",),
        ) from None
    _check_model(model, what)
    return model


def _check_model(model: Any, what: str) -> None:
    problem = None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        problem = "it has no graph"
    elif not model.opset_import:
        problem = "it names no opset"
    elif not model.graph.output:
        problem = "its graph has no outputs"
    elif not 0 <= model.ir_version < 1 << 31:
        problem = f"its ir_version is {model.ir_version}"
    else:
        odd = next((name for name in _names(model) if not isinstance(name, str)), None)
        problem = None if odd is None else f"the name {odd!r} is not text"
    if problem:
        raise FrontendError(
            f"{what} is not an ONNX model: {problem}",
            notes=("export or download it again; onnx.checker.check_model tells more",),
        )


def _names(model: Any) -> Iterator[Any]:
    """Return the names of operators and values; damaged files have some that are not text."""
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from [attribute.name for attribute in node.attribute]
            waiting += _subgraphs(node)
        if hasattr(graph, "initializer"):
            for item in (*graph.input, *graph.output, *graph.initializer):
                yield item.name


# Versions and operators


def opset_versions(imports: Any, opset: int | None = None) -> dict[str, int]:
    """Return domain → opset version, from the model's imports; ``opset`` replaces ONNX's own."""
    versions = _imported(imports)
    if opset is not None:
        versions[""] = int(opset)
    version = versions.get("", 1)
    newest = require_onnx().defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise FrontendError(
            f"the model has the opset version {version}; the installed package onnx knows the "
            f"versions 1 to {newest}",
            notes=("export the model with one of these, or install a newer onnx",),
        )
    return versions


def _imported(imports: Any) -> dict[str, int]:
    return {"" if item.domain == "ai.onnx" else item.domain: int(item.version) for item in imports}


def check_names(graph: Any) -> None:
    """Raise FrontendError where a graph gives one name to two inputs, weights or results of nodes,
    or lists an output twice.

    A weight may have an input's name: it is the input's default value.
    """
    inputs = [item.name for item in graph.input]
    weights = [item.name for item in graph.initializer]
    weights += [item.values.name for item in graph.sparse_initializer]
    _check_distinct(inputs, "the model has two inputs with the name")
    _check_distinct(weights, "the model has two weights with the name")
    _check_distinct([item.name for item in graph.output], "the model lists twice the output")
    made = dict.fromkeys(weights, "a weight of the model") | dict.fromkeys(
        inputs, "an input of the model"
    )
    for index, node in enumerate(graph.node):
        title = f"{node.op_type} node '{node_name(node, index)}'"
        for name in filter(None, node.output):
            if name in made:
                raise FrontendError(
                    f"{title} computes '{name}', which is {made[name]} already",
                    notes=("each value of a model needs a name of its own; export it again",),
                )
            made[name] = f"a result of the {title}"


def _check_distinct(names: list[str], problem: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FrontendError(
            f"{problem} '{twice[0]}'",
            notes=("each value of a model needs a name of its own; export it again",),
        )


def _subgraphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def check_operators(model: Any, versions: dict[str, int], is_known: Any) -> None:
    """Raise OpNotImplemented, naming all operators without a converter and their nodes."""
    missing: dict[tuple[str, str], list[str]] = {}
    functions = {(item.domain, item.name): item for item in model.functions}
    seen = set()

    def visit(nodes: Any, prefix: str, versions: dict[str, int]) -> None:
        for index, node in enumerate(nodes):
            domain = "" if node.domain == "ai.onnx" else node.domain
            if not is_known(node, versions.get(domain, 1)):
                missing.setdefault((domain, node.op_type), []).append(
                    prefix + node_name(node, index)
                )
            for graph in _subgraphs(node):
                visit(graph.node, f"{prefix}{node_name(node, index)}/", versions)
            key = (node.domain, node.op_type)
            if key in functions and key not in seen:
                seen.add(key)
                own = {**versions, **_imported(functions[key].opset_import)}
                visit(functions[key].node, f"{node.op_type}/", own)

    visit(model.graph.node, "", versions)
    if not missing:
        return
    lines = []
    for (domain, operator), names in sorted(missing.items()):
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        version = versions.get(domain, 1)
        title = f"{domain}.{operator}" if domain else operator
        lines.append(f"{title} (opset {version}): {shown}{_advice(domain, operator)}")
    count = len(missing)
    raise OpNotImplemented(
        f"the model has {count} operator{'s' if count > 1 else ''} that cannot be imported",
        notes=(
            *lines,
            "replace these nodes, or export the model with operators of ONNX that are supported "
            "(tilesmith.relax.frontend.onnx.supported_operators lists them)",
        ),
    )


_OUTSIDE = {
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "Tokenizer"),
        "it computes with texts: let your program do that, and give the model numbers",
    ),
    "ImageDecoder": "let your program decode the image, and give the model its pixels",
    "CategoryMapper": "it maps texts: let your program do that, and give the model numbers",
    "DictVectorizer": "it takes a map: give the model a tensor",
}
"""What to do instead of operators that no tensor program can have."""


def _advice(domain: str, operator: str) -> str:
    """Return what can be said about an operator without a converter, to follow its nodes."""
    if operator in _OUTSIDE:
        return f" ({_OUTSIDE[operator]})"
    known = supported_operators()
    elsewhere = [other for other, names in known.items() if operator in names]
    if elsewhere:
        return f" (known in the domain '{elsewhere[0] or 'ai.onnx'}')"
    near = difflib.get_close_matches(operator, known.get(domain, ()), 1, 0.8)
    return f" (is '{near[0]}' meant?)" if near else ""


def node_name(node: Any, index: int) -> str:
    """Return the name of a node in errors: its own name, or its first output."""
    return node.name or (f"→{node.output[0]}" if node.output else f"#{index}")


def has_converter(node: Any, version: int) -> bool:
    """Return whether there is a converter for a node."""
    return find_converter(node.domain, node.op_type, version) is not None


def check_nodes(nodes: Any, ir_version: int, versions: dict[str, int]) -> None:
    """Check nodes against the definitions of their operators; raises FrontendError."""
    onnx = require_onnx()
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = {"": 1, **versions}
    for index, node in enumerate(nodes):
        if any(_subgraphs(node)) or node.domain not in ("", "ai.onnx"):
            continue  # their nodes are checked when the subgraph is converted
        try:
            onnx.checker.check_node(node, context)
        except Exception as error:
            if isinstance(error, TilesmithError):
                raise
            reason = " ".join(str(error).split("\n==> Context")[0].split())
            raise FrontendError(
                f"{node.op_type} node '{node_name(node, index)}' is not valid ONNX: {reason}",
                notes=("the model is broken; export it again",),
            ) from None


__all__ += ["check_names", "has_converter", "node_name"]
