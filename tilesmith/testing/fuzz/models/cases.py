"""Draws cases from seeds, and makes the files that a case is about.

A case is JSON data: its kind, the model that it begins with, and the mutations, each with a seed of
its own, so that the others stay the same when one is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
from onnx import ModelProto, TensorProto

from tilesmith.testing.fuzz.models import (  # noqa: F401 (fill the tables)
    attributes,
    graph_operators,
    nodes,
    values,
)
from tilesmith.testing.fuzz.models.arrays import ODD_ARRAYS
from tilesmith.testing.fuzz.models.artifacts import ARTIFACT_BASES, ARTIFACT_MUTATIONS
from tilesmith.testing.fuzz.models.bases import BASES, load_base, names_of_others
from tilesmith.testing.fuzz.models.contents import BYTE_MUTATIONS
from tilesmith.testing.fuzz.models.graph import Graph
from tilesmith.testing.fuzz.models.pick import MUTATIONS, NotApplicable, Pick

__all__ = [
    "KINDS", "Case", "draw_case", "make_artifact", "make_array_file", "make_graph",
    "make_model", "size_of",
]  # fmt: skip

Case = dict[str, Any]

KINDS = {
    "model": 74, "artifact": 10, "arguments": 9, "tensors": 3, "file": 4, "graph": 40, "torch": 12,
}  # fmt: skip
"""Kinds of cases, with how often they are drawn: damaged models, compiled models, arguments of a
compiled model, tensors made of odd things, files of arrays, graphs of random operators, and such
graphs written in torch."""

_STEPS = (2, 14)
"""The least and most operators of a graph."""

_LEVELS = {"node": 50, "attribute": 32, "byte": 18}


def _weighted(pick: Pick, table: dict[str, int]) -> str:
    return pick.choices(list(table), list(table.values()))[0]


def draw_case(
    seed: int,
    kind: str | None = None,
    level: str | None = None,
    own_models: bool = False,
    has_command: bool = True,
    has_torch: bool = True,
) -> Case:
    """Return the case of a seed; ``kind`` and ``level`` choose among those that can be drawn. With
    ``own_models`` it begins with a model that is written here, without ``has_command`` it does not
    use the command line, without ``has_torch`` a graph stays one of ONNX unless ``kind`` says so.
    """  # fmt: skip
    pick = Pick(seed)
    chosen = kind
    kind = kind or _weighted(pick, KINDS)
    if kind == "torch" and chosen is None and not has_torch:
        kind = "graph"
    if kind == "file" and not has_command:
        kind = "arguments"
    case: Case = {"seed": seed, "kind": kind, "mutations": []}
    if kind == "model":
        is_own = pick.random() < 0.65 or own_models
        case["base"] = pick.one(sorted(BASES) if is_own else names_of_others())
        case["through"] = "command" if pick.random() < 0.06 and has_command else "python"
        wanted = level or _weighted(pick, _LEVELS)
        names = [name for name, (each, _) in MUTATIONS.items() if each == wanted]
        count = pick.choices([0, 1, 2, 3, 5], [3, 50, 27, 14, 6])[0]
    elif kind in ("graph", "torch"):
        case["base"], case["through"], names = "graph", "python", ["grow"]
        count = pick.randint(*_STEPS)
    elif kind == "artifact":
        case["base"], names = pick.one(ARTIFACT_BASES), list(ARTIFACT_MUTATIONS)
        case["through"] = "command" if pick.random() < 0.06 and has_command else "python"
        count = pick.choices([1, 2], [85, 15])[0]
    elif kind == "file":
        case["base"], names, count = pick.one(ARTIFACT_BASES), list(BYTE_MUTATIONS), 1
        case["oddity"] = pick.one(sorted(ODD_ARRAYS)) if pick.random() < 0.5 else None
    else:
        case["base"], names = pick.one(ARTIFACT_BASES), [*ODD_ARRAYS, "arguments"]
        count = pick.choices([1, 2], [75, 25])[0]
    case["mutations"] = [[pick.one(names), pick.getrandbits(32)] for _ in range(count)]
    return case


def make_model(case: Case, folder: Path) -> Path:
    """Write the ONNX file of a case, with its external data, and return its path."""
    model = load_base(case["base"])
    base = BASES.get(case["base"])
    steps = [(MUTATIONS[name], seed) for name, seed in case["mutations"]]
    external = set(base.external) if base is not None else set()
    if external:
        _move_outside(model, external, folder)
    for (level, change), seed in steps:
        if level != "byte":
            _try(change, Pick(seed), model)
    data = model.SerializeToString()
    for (level, change), seed in steps:
        if level == "byte":
            data = _try(change, Pick(seed), data) or data
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def make_graph(case: Case, folder: Path) -> Path:
    """Write the ONNX file of a drawn graph, and return its path."""
    graph = Graph(Pick(case["seed"]), size_of(case))
    for _, seed in case["mutations"]:
        graph.grow(Pick(seed))
    path = folder / "model.onnx"
    path.write_bytes(graph.model().SerializeToString())
    return path


def size_of(case: Case) -> int:
    """Return what the open sizes of a case's model are when it runs."""
    return 2 + int(case["seed"]) % 2


def _try(change: Any, pick: Pick, subject: Any) -> Any:
    try:
        return change(pick, subject)
    except NotApplicable:
        return None


def _move_outside(model: ModelProto, names: set[str], folder: Path) -> None:
    """Store weights in a file beside the model."""
    data = b""
    for tensor in model.graph.initializer:
        if tensor.name not in names:
            continue
        place = {"location": "weights.data", "offset": len(data), "length": len(tensor.raw_data)}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
    (folder / "weights.data").write_bytes(data)


def make_artifact(case: Case, saved: Path, folder: Path) -> Path:
    """Write the changed artifact of a case; ``saved`` has the compiled models."""
    suffix = Pick(case["seed"]).one([".tsm", ".tsm", ".so"])
    data = (saved / f"{case['base']}{suffix}").read_bytes()
    for name, seed in case["mutations"]:
        data = _try(ARTIFACT_MUTATIONS[name], Pick(seed), data) or data
    path = folder / f"model{suffix}"
    path.write_bytes(data)
    return path


def make_array_file(case: Case, array: Any, folder: Path) -> Path:
    """Write an array to a file and change the bytes of that."""
    path = folder / "x.npy"
    with path.open("wb") as file:
        numpy.save(file, array, allow_pickle=True)
    data = path.read_bytes()
    for name, seed in case["mutations"]:
        data = _try(BYTE_MUTATIONS[name], Pick(seed), data) or data
    path.write_bytes(data)
    return path
