"""Small tensor programs built by hand, for tests below the script parser."""

from tilesmith.ir import IRModule, Var
from tilesmith.tir import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    decl_buffer,
)


def elementwise(
    rows=16, columns=12, names=("i", "j"), shift=1.0, kind=ForKind.SERIAL, symbol="main"
):
    """``B[i, j] = A[i, j] + shift``; ``rows`` None: a symbolic size."""
    rows = Var("m", "int32") if rows is None else rows
    a, b = decl_buffer((rows, columns), name="A"), decl_buffer((rows, columns), name="B")
    i, j = Var(names[0], "int32"), Var(names[1], "int32")
    vi, vj = IterVar((0, rows), "v" + names[0], 0), IterVar((0, columns), "v" + names[1], 0)
    place = [vi.var, vj.var]
    block = Block(
        [vi, vj],
        [BufferRegion.from_point(a, place)],
        [BufferRegion.from_point(b, place)],
        "B",
        BufferStore(b, a[vi, vj] + shift, place),
    )
    body = For(
        i, 0, rows, ForKind.SERIAL, For(j, 0, columns, kind, BlockRealize([i, j], True, block))
    )
    return PrimFunc([a, b], body, attrs={"global_symbol": symbol})


def matmul(n=8, m=6, k=10, dtype="float32"):
    """``C = A @ B`` with a reduction block."""
    a, b = decl_buffer((n, k), dtype, "A"), decl_buffer((k, m), dtype, "B")
    c = decl_buffer((n, m), dtype, "C")
    loops = [Var(name, "int32") for name in "ijk"]
    vi, vj = IterVar((0, n), "vi", 0), IterVar((0, m), "vj", 0)
    vk = IterVar((0, k), "vk", IterVar.CommReduce)
    place = [vi.var, vj.var]
    block = Block(
        [vi, vj, vk],
        [
            BufferRegion.from_point(a, [vi.var, vk.var]),
            BufferRegion.from_point(b, [vk.var, vj.var]),
        ],
        [BufferRegion.from_point(c, place)],
        "C",
        BufferStore(c, c[vi, vj] + a[vi, vk] * b[vk, vj], place),
        BufferStore(c, 0 if "int" in dtype else 0.0, place),
    )
    body = BlockRealize(loops, True, block)
    for loop, extent in reversed(list(zip(loops, (n, m, k)))):
        body = For(loop, 0, extent, ForKind.SERIAL, body)
    return PrimFunc([a, b, c], body, attrs={"global_symbol": "matmul"})


def module(*functions):
    """A module of functions under their symbols."""
    return IRModule({function.attrs["global_symbol"]: function for function in functions})
