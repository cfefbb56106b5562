"""Transposes tiles in registers by stages of shuffles, for any number of rows and columns.

A square of ``2**k`` rows is transposed in ``k`` stages. A stage takes pairs of rows whose numbers
differ in one bit and exchanges this bit with a bit of the lanes' numbers. Within 128 bits the two
results interleave the pair's lower and upper halves (vunpck, zip); beyond that they pick every
second group of 128 bits (vshuf). Each is one instruction on the CPUs that have vectors.
"""

from __future__ import annotations

from tilesmith.ir import PrimExpr, Shuffle, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T
from tilesmith.tir import Buffer, LetStmt, PrimFunc, Stmt, TensorIntrin, stmt_seq

__all__ = ["FEW", "transpose_intrin"]

FEW = 4
"""Tiles of up to so many rows or columns are shuffled as long vectors, as they lie in memory."""
_GROUP_BITS = 128


def transpose_intrin(rows: int, columns: int, dtype: str) -> TensorIntrin:
    """Return the intrinsic ``B[j, i] = A[i, j]`` of ``rows`` × ``columns`` elements, whose buffers
    are dense.
    """
    return TensorIntrin(_description(rows, columns, dtype), _implementation(rows, columns, dtype))


def _description(rows: int, columns: int, dtype: str) -> PrimFunc:
    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (rows, columns), dtype, offset_factor=1, scope="local")
        B = T.match_buffer(b, (columns, rows), dtype, offset_factor=1, scope="local")
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(B[0:columns, 0:rows])
            for j, i in T.grid(columns, rows):
                with T.block("transpose"):
                    vj, vi = T.axis.remap("SS", [j, i])
                    B[vj, vi] = A[vi, vj]

    made: PrimFunc = desc
    return made


def _implementation(rows: int, columns: int, dtype: str) -> PrimFunc:
    made = _description(rows, columns, dtype)  # for its buffers and regions
    source, result = [made.buffer_map[one] for one in made.params]
    realize = made.body
    block = realize.block.with_fields(body=_body(source, result, rows, columns))
    return made.with_fields(body=realize.with_fields(block=block))


def _body(source: Buffer, result: Buffer, rows: int, columns: int) -> Stmt:
    values = _Values(source.dtype)
    if min(rows, columns) <= FEW and rows != columns:
        lanes, count = max(rows, columns), min(rows, columns)
        given = [values.load(source, columns, lanes * number, lanes) for number in range(count)]
        found = _spread(values, given, rows, columns)
    else:
        lanes, count = rows, columns
        given = [values.load(source, columns, columns * number, columns) for number in range(rows)]
        found = _transpose(values, given, columns)
    stores = [values.store(result, rows, lanes * number, found[number]) for number in range(count)]
    return values.around(stmt_seq(*stores))


class _Values:
    """Binds vectors to variables in the order in which they are made."""

    def __init__(self, dtype: DataType) -> None:
        self.stored = dtype
        self.dtype = DataType("uint8") if dtype.is_bool else dtype
        self.bound: list[tuple[Var, PrimExpr]] = []

    def bind(self, value: PrimExpr) -> Var:
        variable = Var(f"v{len(self.bound)}", value.dtype)
        self.bound.append((variable, value))
        return variable

    def load(self, buffer: Buffer, width: int, offset: int, lanes: int) -> Var:
        """Load lanes from a dense buffer whose rows are ``width`` long.

        Booleans are bytes: masks are slow to shuffle.
        """
        loaded = buffer.vload([offset // width, offset % width], str(self.stored.with_lanes(lanes)))
        return self.bind(loaded.astype(str(self.dtype.with_lanes(lanes))))

    def store(self, buffer: Buffer, width: int, offset: int, value: PrimExpr) -> Stmt:
        """Store lanes into a dense buffer."""
        value = value.astype(str(self.stored.with_lanes(value.dtype.lanes)))
        stored: Stmt = buffer.vstore([offset // width, offset % width], value)
        return stored

    def shuffle(self, vectors: list[Var], lanes: list[int]) -> Var:
        """Pick lanes of one or two vectors; all lanes in order are the vector itself."""
        if len(vectors) == 1 and lanes == list(range(vectors[0].dtype.lanes)):
            return vectors[0]
        return self.bind(Shuffle(vectors, lanes))

    def around(self, body: Stmt) -> Stmt:
        """Return a statement with all variables bound around it."""
        for variable, value in reversed(self.bound):
            body = LetStmt(variable, value, body)
        return body


def _spread(values: _Values, given: list[Var], rows: int, columns: int) -> list[Var]:
    """Transpose a dense tile of few rows or columns that is given as few long vectors: each result
    picks from one vector after the other.
    """
    lanes, found = given[0].dtype.lanes, []
    for number in range(len(given)):
        places = []
        for place in range(number * lanes, (number + 1) * lanes):
            column, row = divmod(place, rows)
            places.append(row * columns + column)
        result = given[0]
        if len(given) == 1:
            result = values.shuffle(given, places)
        for other in range(1, len(given)):
            picked = []
            for lane, place in enumerate(places):
                vector, inner = divmod(place, lanes)
                if vector == other:
                    picked.append(lanes + inner)
                else:
                    picked.append(inner if other == 1 and vector == 0 else lane)
            result = values.shuffle([result, given[other]], picked)
        found.append(result)
    return found


def _transpose(values: _Values, given: list[Var], columns: int) -> list[Var]:
    """Transpose rows by squares as large as the shorter side."""
    rows = len(given)
    size = min(_power_of_two(rows), _power_of_two(columns))
    found: list[list[Var]] = [[] for _ in range(columns)]
    for top in range(0, rows, size):
        for left in range(0, columns, size):
            lanes = [min(left + lane, columns - 1) for lane in range(size)]
            part = [given[min(top + row, rows - 1)] for row in range(size)]
            square = _square(values, [values.shuffle([one], lanes) for one in part])
            for lane in range(min(size, columns - left)):
                found[left + lane].append(square[lane])
    return [values.shuffle([_join(values, parts)], list(range(rows))) for parts in found]


def _join(values: _Values, parts: list[Var]) -> Var:
    """Concatenate vectors of one length; their number is filled up to a power of two."""
    while len(parts) > 1:
        parts = parts if len(parts) % 2 == 0 else [*parts, parts[-1]]
        both = list(range(2 * parts[0].dtype.lanes))
        parts = [values.shuffle(list(pair), both) for pair in zip(parts[::2], parts[1::2])]
    return parts[0]


def _square(values: _Values, rows: list[Var]) -> list[Var]:
    """Transpose as many rows as they have lanes, a power of two."""
    size = len(rows)
    group = min(size, _GROUP_BITS // values.dtype.bits)
    low, high = _interleaved(size, group), _every_second(size, group)
    bit = group // 2
    while bit:
        rows = _stage(values, rows, bit, low)
        bit //= 2
    bit = group
    while bit < size:
        rows = _stage(values, rows, bit, high)
        bit *= 2
    return rows


def _stage(values: _Values, rows: list[Var], bit: int, picked: list[list[int]]) -> list[Var]:
    found = list(rows)
    for number in range(len(rows)):
        if not number & bit:
            pair = [rows[number], rows[number | bit]]
            found[number], found[number | bit] = [values.shuffle(pair, one) for one in picked]
    return found


def _interleaved(size: int, group: int) -> list[list[int]]:
    """Return the lanes that interleave the lower, and the upper, halves of each group of a pair."""
    half = group // 2
    return [
        [
            start + first + lane + other * size
            for start in range(0, size, group)
            for lane in range(half)
            for other in range(2)
        ]
        for first in (0, half)
    ]


def _every_second(size: int, group: int) -> list[list[int]]:
    """Return the lanes of the even, and of the odd, groups of a pair."""
    return [
        [start + lane for start in range(first, 2 * size, 2 * group) for lane in range(group)]
        for first in (0, group)
    ]


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
