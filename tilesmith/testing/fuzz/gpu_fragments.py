"""Products on the matrix units of GPUs: programs whose sizes are multiples of their tiles, and the
schedule that brings tiles to shared memory and fragments, for ``wmma`` and for ``mma``.
"""

from __future__ import annotations

import random
from typing import Any

from tilesmith.schedule_rules.intrinsics.cuda import get_wmma_intrin_group
from tilesmith.schedule_rules.intrinsics.cuda_mma import get_mma_intrin_group
from tilesmith.testing.fuzz.gpu_schedules import Threads, ahead, copied_by_threads
from tilesmith.testing.fuzz.steps import IndexMapText, Nothing, Pick

__all__ = ["draw_product", "fragments"]

_TILE, _WARP = 16, 32
_RESULTS = {"float16": ("float32", "float32", "float16"), "int8": ("int32",)}


def draw_product(rng: random.Random) -> dict[str, Any]:
    """Return the recipe of a product of small matrices, the right one turned at times, with work
    behind it at times.
    """
    dtype = rng.choice(["float16", "float16", "int8"])
    out = rng.choice(_RESULTS[dtype])
    turned = rng.random() < 0.4
    sizes = {name: _TILE * rng.choice([1, 1, 2, 3]) for name in "abc"}
    shapes = [["a", "c"], ["b", "c"] if turned else ["c", "b"]]
    right = [["axis", 1], ["axis", 2]] if turned else [["axis", 2], ["axis", 1]]
    inputs = [
        {"name": f"A{k}", "shape": shape, "dtype": dtype, "low": -4, "high": 5, "ulp": None}
        for k, shape in enumerate(shapes)
    ]
    factors: list[Any] = [["load", "A0", ["axis", 0], ["axis", 2]], ["load", "A1", *right]]
    if out != dtype:
        factors = [["cast", out, one] for one in factors]
    stage = {
        "kind": "reduce", "combiner": "sum", "value": ["mul", *factors], "binding": "plain",
        "axes": [{"size": size, "type": kind} for size, kind in zip("abc", "SSR")],
        "indices": [["axis", 0], ["axis", 1]], "name": "B0", "out": True, "factor": 2,
        "tensors": [
            {"name": "T0", "shape": ["a", "b"], "dtype": out, "low": -1200, "high": 1200,
             "ulp": None}
        ],
    }  # fmt: skip
    return {
        "index": rng.choice(["int32", "int64"]), "dims": {**sizes, "d": 4}, "symbolic": [],
        "inputs": inputs, "stages": [stage],
    }  # fmt: skip


def fragments(pick: Pick) -> None:
    """Multiply on matrix units: the tiles of a warp come from memory that its block shares."""
    block = pick.call("get_block", "B0", func_name="main")
    statement = pick.statement(block)
    dtype, out = str(statement.reads[0].buffer.dtype), str(statement.writes[0].buffer.dtype)
    loops = list(pick.loops(block))
    if len(loops) != 3 or any((pick.extent(loop) or 1) % _TILE for loop in loops):
        raise Nothing
    # a right matrix whose rows are those of the result's columns
    turned = str(statement.reads[1].region[0].min) == str(statement.iter_vars[1].var)
    scope = pick.among(["shared", "shared.dyn"])
    is_mma = dtype == "float16" and not turned and pick.chance(0.5)
    if is_mma:
        names = get_mma_intrin_group(
            scope, "global", dtype, out, not_use_mma_store_intrinic=False
        )  # fmt: skip
        places = ("warp", "warp", "warp")
    else:
        names = get_wmma_intrin_group(scope, "global", dtype, out, turned)
        places = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
    pairs = [pick.call("split", loop, [None, _TILE]) for loop in loops]
    pick.call("reorder", *[one for one, _ in pairs], *[one for _, one in pairs])
    product = pick.call("blockize", pairs[0][1])
    by, warp_y = _parts(pick, pairs[0][0])
    bx, columns = _parts(pick, pairs[1][0])
    steps, step = _parts(pick, pairs[2][0])
    pick.call("reorder", by, bx, warp_y, steps, step, columns)
    for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (warp_y, "threadIdx.y")):
        pick.call("bind", loop, tag)
    warps = pick.extent(warp_y) or 1
    results = pick.call("cache_write", product, 0, places[2])
    pick.call("reverse_compute_at", results, warp_y)
    copies = [
        _brought(pick, product, operand, (steps, step), (scope, places[operand]), warps)
        for operand in (0, 1)
    ]
    zero = pick.call("decompose_reduction", product, steps)
    for copy, kind in ((copies[0], "load_a"), (copies[1], "load_b"), (results, "store")):
        _made_of_tiles(pick, copy, kind, names[kind], is_mma)
    pick.call("tensorize", product, names["compute"])
    pick.call("tensorize", zero, names["init"])
    if pick.chance(0.4):
        ahead(pick, steps)


def _parts(pick: Pick, loop: Any) -> Any:
    """Divide a loop over tiles evenly: a part of a tile has no instruction."""
    count = pick.extent(loop) or 1
    return pick.call("split", loop, [None, pick.among([n for n in (1, 2, 3) if count % n == 0])])


def _brought(
    pick: Pick, product: Any, operand: int, places: tuple[Any, Any], scopes: tuple[str, str],
    warps: int,
) -> Any:  # fmt: skip
    """Bring an operand to shared memory, by all threads, and from there to fragments."""
    shared = pick.call("cache_read", product, operand, scopes[0])
    fragment = pick.call("cache_read", product, operand, scopes[1])
    pick.call("compute_at", fragment, places[1])
    pick.call("compute_at", shared, places[0])
    if pick.chance(0.5):
        pick.call("storage_align", shared, 0, 0, 16, 8)
    threads = Threads(("threadIdx.y", "threadIdx.x"), (warps, _WARP))
    copied_by_threads(pick, shared, places[0], threads, pick.among([1, 4, 8]))
    return fragment


def _made_of_tiles(pick: Pick, copy: Any, kind: str, name: str, is_mma: bool) -> None:
    """Replace the copy of a tile by the instruction of a warp."""
    i, j = list(pick.loops(copy))[-2:]
    i0, i1 = pick.call("split", i, [None, _TILE])
    j0, j1 = pick.call("split", j, [None, _TILE])
    pick.call("reorder", i0, j0, i1, j1)
    if is_mma:
        side = "read" if kind == "store" else "write"
        rows, columns = ("i1", "i0") if kind == "load_b" else ("i0", "i1")
        layout = IndexMapText(2, [
            f"i0 // {_TILE}", f"i1 // {_TILE}",
            f"4 * ({rows} % 16 % 8) + {columns} % 16 % 8 // 2",
            _place(rows, columns, kind),
        ])  # fmt: skip
        pick.call("transform_layout", copy, (side, 0), layout)
    pick.call("tensorize", i1, name)


def _place(rows: str, columns: str, kind: str) -> str:
    """Return where an element lies in its thread, as ``cuda_layouts`` says."""
    if kind == "load_b":
        return f"4 * ({rows} % 16 // 8) + 2 * ({columns} % 16 // 8) + {columns} % 16 % 2"
    return f"4 * ({columns} % 16 // 8) + 2 * ({rows} % 16 // 8) + {columns} % 16 % 2"
