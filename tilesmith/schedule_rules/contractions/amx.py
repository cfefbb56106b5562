"""Schedules sums of products of bfloat16 for AMX: tiles of 16 rows of 64 bytes.

    for i, j, k: Y[i, j] += dot_bf16bf16(A[i, k], W[j // T, k, j % T])
  becomes
    parallel for tiles of columns, for tiles of rows:
        Y[rows, columns] = 0                                  (in memory)
        load Y; for k in steps of 16: load A, W; tdpbf16ps; store Y     (one intrinsic)
        Z[…] = relu(Y[…] + bias[…])

The weights are packed as for vectors (`topi.nn.packed_pairs`). All sizes have to be known, and
multiples of 16; what is not keeps the tiles of vector registers.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.queries import calls
from tilesmith.schedule_rules.contractions.contraction import Contraction
from tilesmith.schedule_rules.tile_parts import element_consumer, parallelise
from tilesmith.support.errors import ScheduleError
from tilesmith.target import Target
from tilesmith.target.features import target_features
from tilesmith.tir import Block, IterVar, PrimFunc, TensorIntrin
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = [
    "description", "has_amx", "implementation", "is_sum_of_pairs", "schedule_amx", "tile_product",
]  # fmt: skip

_SIDE = 16
_TILES = 8


def has_amx(target: Target) -> bool:
    """Return whether a target multiplies tiles of bfloat16."""
    return "amx-bf16" in target_features(target)


def is_sum_of_pairs(block: Block) -> bool:
    """Return whether a block adds dot products of bfloat16."""
    return next(calls(block.body, "tir.dot_bf16bf16"), None) is not None


def tile_product(rows: int, columns: int, steps: int) -> str:
    """Return the name of the intrinsic ``C += A B`` of words of pairs, for so many tiles of rows
    and of columns, and steps of 16 words; it is defined at first use.
    """
    name = f"amx_{rows}x{columns}x{steps}_pairs"
    if TensorIntrin.get(name, allow_missing=True) is None:
        from tilesmith.script import from_source  # few programs need the parser

        made: PrimFunc = from_source(implementation(rows, columns, steps))
        TensorIntrin.register(name, description(rows, columns, steps), made)
    return name


def description(rows: int, columns: int, steps: int) -> PrimFunc:
    """Return what an intrinsic computes."""
    from tilesmith.script import from_source

    text = _DESCRIPTION.format(m=rows * 16, n=columns * 16, k=steps * 16)
    made: PrimFunc = from_source(text)
    return made


_HEAD = """
@T.prim_func(private=True)
def tile_product(a: T.handle, b: T.handle, c: T.handle):
    sa, sb, sc = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, ({m}, {k}), "uint32", offset_factor=1, strides=[sa, 1])
    B = T.match_buffer(b, ({k}, {n}), "uint32", offset_factor=1, strides=[sb, 1])
    C = T.match_buffer(c, ({m}, {n}), "float32", offset_factor=1, scope="local", strides=[sc, 1])
    with T.block("root"):
        T.reads(C[0:{m}, 0:{n}], A[0:{m}, 0:{k}], B[0:{k}, 0:{n}])
        T.writes(C[0:{m}, 0:{n}])
"""
_DESCRIPTION = """
@T.prim_func(private=True)
def tile_product(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, ({m}, {k}), "uint32", offset_factor=1)
    B = T.match_buffer(b, ({k}, {n}), "uint32", offset_factor=1)
    C = T.match_buffer(c, ({m}, {n}), "float32", offset_factor=1, scope="local")
    with T.block("root"):
        T.reads(C[0:{m}, 0:{n}], A[0:{m}, 0:{k}], B[0:{k}, 0:{n}])
        T.writes(C[0:{m}, 0:{n}])
        for i, j, k in T.grid({m}, {n}, {k}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.dot_bf16bf16(A[vi, vk], B[vk, vj])
"""


def implementation(rows: int, columns: int, steps: int) -> str:
    """Return the text of an intrinsic: the sums stay in tiles while k goes over all steps."""
    sums = rows * columns
    lines = [
        'setting = T.alloc_buffer((64,), "uint8")',
        "setting[T.ramp(0, 1, 64)] = T.broadcast(T.uint8(0), 64)",
        "setting[0] = T.uint8(1)",  # the palette
        "for tile in T.unroll(8):",
        "    setting[16 + tile * 2] = T.uint8(64)",  # bytes in a row
        "    setting[48 + tile] = T.uint8(16)",  # rows
        _call("ldtilecfg", 'setting.access_ptr("r")'),
    ]
    for row in range(rows):
        for column in range(columns):
            lines.append(_moved("tileloadd64", row * columns + column, "C", row, column * 16, "r"))
    lines.append(f"for step in range({steps}):")
    inner = [_moved("tileloadd64", sums + row, "A", row, "step * 16", "r") for row in range(rows)]
    for column in range(columns):
        pointer = f'B.access_ptr("r", offset=step * 16 * sb + {column * 16})'
        inner.append(
            _call("tileloadd64", f'T.int8({sums + rows}), {pointer}, T.cast(sb, "int64") * 4')
        )
        for row in range(rows):
            tiles = row * columns + column, sums + row, sums + rows
            inner.append(_call("tdpbf16ps", ", ".join([f"T.int8({tile})" for tile in tiles])))
    lines += [f"    {line}" for line in inner]
    for row in range(rows):
        for column in range(columns):
            lines.append(_moved("tilestored64", row * columns + column, "C", row, column * 16, "w"))
    lines.append('T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))')
    head = _HEAD.format(m=rows * 16, n=columns * 16, k=steps * 16)
    return head + "".join([f"        {line}\n" for line in lines])


def _call(name: str, arguments: str) -> str:
    return f'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.{name}", {arguments}))'


def _moved(name: str, tile: int, buffer: str, row: int, column: int | str, access: str) -> str:
    stride = f"s{buffer.lower()}"
    pointer = f'{buffer}.access_ptr("{access}", offset={row * 16} * {stride} + {column})'
    return _call(name, f'T.int8({tile}), {pointer}, T.cast({stride}, "int64") * 4')


def schedule_amx(sch: Schedule, block: BlockRV, plan: Contraction, threads: int) -> None:
    """Compute a contraction of pairs by tiles, under the tiles of its consumer; raise ScheduleError
    where its sizes do not fit.
    """
    node: Any = sch.get(block)
    sizes = [getattr(one.dom.extent, "value", 0) for one in node.iter_vars]
    kinds = [one.iter_type for one in node.iter_vars]
    spatial = [size for size, kind in zip(sizes, kinds) if kind == IterVar.DataPar]
    words = sizes[-1]
    width = plan.packed_width or 0
    row_axis = plan.row_axis
    row_size = spatial[row_axis] if row_axis is not None else 0
    if kinds[-1] != IterVar.CommReduce or not width or min(words, row_size) < _SIDE:
        raise ScheduleError("AMX multiplies matrices of at least 16 rows, with packed weights")
    if words % _SIDE or row_size % _SIDE or width % _SIDE or spatial[plan.vector_axis] % width:
        raise ScheduleError(
            f"AMX multiplies tiles of 16: {row_size} rows, {spatial[plan.vector_axis]} columns of "
            f"{width}, {words} words"
        )
    columns = width // _SIDE
    rows = 2 if row_size % 32 == 0 and 2 * columns + 3 <= _TILES else 1
    follower = element_consumer(sch, block)
    loops = sch.get_loops(follower)
    assert row_axis is not None
    row, vector = loops[row_axis], loops[-1]
    outer = [loop for loop in loops[:-1] if loop is not row]
    row_0, row_1 = sch.split(row, [None, rows * _SIDE])
    vector_0, vector_1 = sch.split(vector, [None, width])
    order = [*outer, vector_0, row_0]
    sch.reorder(*order, row_1, vector_1)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, row_0)
    inner = sch.get_loops(block)[len(order) :]
    reduction = len(kinds) - len(spatial)
    tile, sums = inner[:-reduction][-2:], inner[-reduction:]
    sch.reorder(*sums[:-1], *tile, sums[-1])
    sch.decompose_reduction(block, sch.get_loops(block)[len(order)])
    sch.tensorize(tile[0], tile_product(rows, columns, words // _SIDE))
    _, last = sch.split(vector_1, [None, 16])
    sch.vectorize(last)
    parallelise(sch, order[:-1], threads)
